// Calls NVIDIA's cuda_occupancy.h over rows of whole numbers, for tests. The header itself is not part of this project.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include "cuda_occupancy.h"

// Columns of `in`; the order is that of occupancy_header.py.
enum In { MAJOR, MINOR, THREADS_PER_SM, REGS_PER_BLOCK, REGS_PER_SM, SMEM_BLOCK, SMEM_SM, SMEM_OPTIN, RESERVE,
          REGS, BLOCK, STATIC, DYNAMIC, MAX_DYNAMIC, CARVEOUT, CACHE, BARRIERS, CACHING, VIRTUAL, WANTED, IN };
enum Out { STATUS, ACTIVE, MASK, L_REGS, L_SMEM, L_WARPS, L_BLOCKS, L_BARRIERS, L_VIRTUAL, A_REGS, A_SMEM, GC,
           DYN_STATUS, DYN, BEST_GRID, BEST_BLOCK, OUT };

extern "C" void run(const int64_t *in, int64_t *out, int64_t rows, int with_best, int only_resident) {
    for (int64_t row = 0; row < rows; ++row, in += IN, out += OUT) {
        cudaOccDeviceProp p;
        p.computeMajor = in[MAJOR]; p.computeMinor = in[MINOR];
        p.maxThreadsPerBlock = 1024; p.maxThreadsPerMultiprocessor = in[THREADS_PER_SM];
        p.regsPerBlock = in[REGS_PER_BLOCK]; p.regsPerMultiprocessor = in[REGS_PER_SM];
        p.warpSize = 32; p.sharedMemPerBlock = in[SMEM_BLOCK]; p.sharedMemPerMultiprocessor = in[SMEM_SM];
        p.numSms = 1; p.sharedMemPerBlockOptin = in[SMEM_OPTIN]; p.reservedSharedMemPerBlock = in[RESERVE];
        cudaOccFuncAttributes a;
        a.maxThreadsPerBlock = 1024; a.numRegs = in[REGS]; a.sharedSizeBytes = in[STATIC];
        a.partitionedGCConfig = (cudaOccPartitionedGCConfig)in[CACHING];
        // Not opted in: the driver's attribute is then 48 KB less static, which only the dynamic-size question reads.
        bool opted = in[MAX_DYNAMIC] >= 0;
        int64_t rest = in[SMEM_BLOCK] - in[STATIC];
        a.shmemLimitConfig = opted ? FUNC_SHMEM_LIMIT_OPTIN : FUNC_SHMEM_LIMIT_DEFAULT;
        a.maxDynamicSharedSizeBytes = opted ? in[MAX_DYNAMIC] : (rest > 0 ? rest : 0);
        a.numBlockBarriers = in[BARRIERS];
#ifdef HAS_VIRTUAL  // since 13.0
        a.virtualResourceCount = in[VIRTUAL];
#endif
        cudaOccDeviceState s;
        s.cacheConfig = (cudaOccCacheConfig)in[CACHE]; s.carveoutConfig = in[CARVEOUT];
        cudaOccResult r; memset(&r, 0, sizeof r);
        out[STATUS] = cudaOccMaxActiveBlocksPerMultiprocessor(&r, &p, &a, &s, in[BLOCK], in[DYNAMIC]);
        out[ACTIVE] = r.activeBlocksPerMultiprocessor; out[MASK] = r.limitingFactors;
        out[L_REGS] = r.blockLimitRegs; out[L_SMEM] = r.blockLimitSharedMem; out[L_WARPS] = r.blockLimitWarps;
        out[L_BLOCKS] = r.blockLimitBlocks; out[L_BARRIERS] = r.blockLimitBarriers;
#ifdef HAS_VIRTUAL
        out[L_VIRTUAL] = r.blockLimitVirtual;
#endif
        out[A_REGS] = r.allocatedRegistersPerBlock; out[A_SMEM] = (int64_t)r.allocatedSharedMemPerBlock;
        out[GC] = r.partitionedGCConfig;
        if (only_resident) continue;
        size_t bytes = 0;
        out[DYN_STATUS] = cudaOccAvailableDynamicSMemPerBlock(&bytes, &p, &a, &s, in[WANTED], in[BLOCK]);
        out[DYN] = (int64_t)bytes;
        out[BEST_GRID] = out[BEST_BLOCK] = 0;
        if (with_best) {
            int grid = 0, block = 0;
            cudaOccMaxPotentialOccupancyBlockSize(&grid, &block, &p, &a, &s, (size_t)in[DYNAMIC]);
            out[BEST_GRID] = grid; out[BEST_BLOCK] = block;
        }
    }
}
