// What both programs share: errors end them, a kernel's own figures as the driver has them, times by events.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define MUST(call)                                                                                 \
    do {                                                                                           \
        cudaError_t failed = (call);                                                               \
        if (failed != cudaSuccess) {                                                               \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(failed));                   \
            std::exit(3);                                                                          \
        }                                                                                          \
    } while (0)

// A number below `most` that depends on its index alone: the same on every machine.
inline unsigned spread(unsigned index, unsigned most) {
    index ^= index >> 16;
    index *= 0x7feb352dU;
    index ^= index >> 15;
    index *= 0x846ca68bU;
    index ^= index >> 16;
    return index % most;
}

// A value from -1 to 1, likewise.
inline float pseudo(unsigned index) { return static_cast<float>(spread(index, 2001)) * 1e-3f - 1.0f; }

// Prints what the driver says of the kernel, and the median of the times of `runs` launches.
template <typename Kernel, typename Launch>
void report(const char *name, Kernel kernel, int threads, Launch launch, int runs) {
    cudaFuncAttributes attributes;
    MUST(cudaFuncGetAttributes(&attributes, kernel));
    int blocks = 0;
    MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 0));
    cudaEvent_t begin, end;
    MUST(cudaEventCreate(&begin));
    MUST(cudaEventCreate(&end));
    std::vector<float> times;
    for (int run = 0; run < runs + 2; ++run) {
        MUST(cudaEventRecord(begin));
        launch();
        MUST(cudaGetLastError());
        MUST(cudaEventRecord(end));
        MUST(cudaEventSynchronize(end));
        float milliseconds = 0;
        MUST(cudaEventElapsedTime(&milliseconds, begin, end));
        if (run >= 2) times.push_back(milliseconds);
    }
    std::sort(times.begin(), times.end());
    std::printf("kernel: %s\nregisters: %d\nlocal_bytes: %zu\nblocks_per_sm: %d\nwarps_per_sm: %d\n", name,
                attributes.numRegs, attributes.localSizeBytes, blocks, blocks * (threads / 32));
    std::printf("time_ms: %.4f\n", times[times.size() / 2]);
}
