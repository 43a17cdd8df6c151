// Kernels that differ in registers, static and dynamic shared memory and launch bounds, for launch_questions.py.
extern __shared__ float dynamic[];

template <int FIXED, int VALUES, bool DYNAMIC>
__device__ void body(float *p, int n) {
    __shared__ float fixed[FIXED ? FIXED / 4 : 1];
    float value[VALUES];
#pragma unroll
    for (int i = 0; i < VALUES; ++i) value[i] = p[i * n + threadIdx.x];
    if (FIXED) fixed[threadIdx.x % (FIXED / 4 + 1)] = value[0];
    if (DYNAMIC) dynamic[threadIdx.x] = value[VALUES - 1];
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < n; ++k)
#pragma unroll
        for (int i = 0; i < VALUES; ++i) sum = sum * value[i] + value[VALUES - 1 - i];
    if (FIXED) sum += fixed[(threadIdx.x * 7 + n) % (FIXED / 4)];
    if (DYNAMIC) sum += dynamic[threadIdx.x ^ n];
    p[threadIdx.x] = sum;
}

#define KERNEL(NAME, BOUNDS, FIXED, VALUES, DYNAMIC) \
    extern "C" __global__ void BOUNDS NAME(float *p, int n) { body<FIXED, VALUES, DYNAMIC>(p, n); }

KERNEL(k_free_0_2_s, , 0, 2, false)
KERNEL(k_b256_0_2_s, __launch_bounds__(256), 0, 2, false)
KERNEL(k_b128x4_0_2_s, __launch_bounds__(128, 4), 0, 2, false)
KERNEL(k_free_0_2_d, , 0, 2, true)
KERNEL(k_b256_0_2_d, __launch_bounds__(256), 0, 2, true)
KERNEL(k_b128x4_0_2_d, __launch_bounds__(128, 4), 0, 2, true)
KERNEL(k_free_0_40_s, , 0, 40, false)
KERNEL(k_b256_0_40_s, __launch_bounds__(256), 0, 40, false)
KERNEL(k_b128x4_0_40_s, __launch_bounds__(128, 4), 0, 40, false)
KERNEL(k_free_0_40_d, , 0, 40, true)
KERNEL(k_b256_0_40_d, __launch_bounds__(256), 0, 40, true)
KERNEL(k_b128x4_0_40_d, __launch_bounds__(128, 4), 0, 40, true)
KERNEL(k_free_0_90_s, , 0, 90, false)
KERNEL(k_b256_0_90_s, __launch_bounds__(256), 0, 90, false)
KERNEL(k_b128x4_0_90_s, __launch_bounds__(128, 4), 0, 90, false)
KERNEL(k_free_0_90_d, , 0, 90, true)
KERNEL(k_b256_0_90_d, __launch_bounds__(256), 0, 90, true)
KERNEL(k_b128x4_0_90_d, __launch_bounds__(128, 4), 0, 90, true)
KERNEL(k_free_0_180_s, , 0, 180, false)
KERNEL(k_b256_0_180_s, __launch_bounds__(256), 0, 180, false)
KERNEL(k_b128x4_0_180_s, __launch_bounds__(128, 4), 0, 180, false)
KERNEL(k_free_0_180_d, , 0, 180, true)
KERNEL(k_b256_0_180_d, __launch_bounds__(256), 0, 180, true)
KERNEL(k_b128x4_0_180_d, __launch_bounds__(128, 4), 0, 180, true)
KERNEL(k_free_4096_2_s, , 4096, 2, false)
KERNEL(k_b256_4096_2_s, __launch_bounds__(256), 4096, 2, false)
KERNEL(k_b128x4_4096_2_s, __launch_bounds__(128, 4), 4096, 2, false)
KERNEL(k_free_4096_2_d, , 4096, 2, true)
KERNEL(k_b256_4096_2_d, __launch_bounds__(256), 4096, 2, true)
KERNEL(k_b128x4_4096_2_d, __launch_bounds__(128, 4), 4096, 2, true)
KERNEL(k_free_4096_40_s, , 4096, 40, false)
KERNEL(k_b256_4096_40_s, __launch_bounds__(256), 4096, 40, false)
KERNEL(k_b128x4_4096_40_s, __launch_bounds__(128, 4), 4096, 40, false)
KERNEL(k_free_4096_40_d, , 4096, 40, true)
KERNEL(k_b256_4096_40_d, __launch_bounds__(256), 4096, 40, true)
KERNEL(k_b128x4_4096_40_d, __launch_bounds__(128, 4), 4096, 40, true)
KERNEL(k_free_4096_90_s, , 4096, 90, false)
KERNEL(k_b256_4096_90_s, __launch_bounds__(256), 4096, 90, false)
KERNEL(k_b128x4_4096_90_s, __launch_bounds__(128, 4), 4096, 90, false)
KERNEL(k_free_4096_90_d, , 4096, 90, true)
KERNEL(k_b256_4096_90_d, __launch_bounds__(256), 4096, 90, true)
KERNEL(k_b128x4_4096_90_d, __launch_bounds__(128, 4), 4096, 90, true)
KERNEL(k_free_4096_180_s, , 4096, 180, false)
KERNEL(k_b256_4096_180_s, __launch_bounds__(256), 4096, 180, false)
KERNEL(k_b128x4_4096_180_s, __launch_bounds__(128, 4), 4096, 180, false)
KERNEL(k_free_4096_180_d, , 4096, 180, true)
KERNEL(k_b256_4096_180_d, __launch_bounds__(256), 4096, 180, true)
KERNEL(k_b128x4_4096_180_d, __launch_bounds__(128, 4), 4096, 180, true)
KERNEL(k_free_20480_2_s, , 20480, 2, false)
KERNEL(k_b256_20480_2_s, __launch_bounds__(256), 20480, 2, false)
KERNEL(k_b128x4_20480_2_s, __launch_bounds__(128, 4), 20480, 2, false)
KERNEL(k_free_20480_2_d, , 20480, 2, true)
KERNEL(k_b256_20480_2_d, __launch_bounds__(256), 20480, 2, true)
KERNEL(k_b128x4_20480_2_d, __launch_bounds__(128, 4), 20480, 2, true)
KERNEL(k_free_20480_40_s, , 20480, 40, false)
KERNEL(k_b256_20480_40_s, __launch_bounds__(256), 20480, 40, false)
KERNEL(k_b128x4_20480_40_s, __launch_bounds__(128, 4), 20480, 40, false)
KERNEL(k_free_20480_40_d, , 20480, 40, true)
KERNEL(k_b256_20480_40_d, __launch_bounds__(256), 20480, 40, true)
KERNEL(k_b128x4_20480_40_d, __launch_bounds__(128, 4), 20480, 40, true)
KERNEL(k_free_20480_90_s, , 20480, 90, false)
KERNEL(k_b256_20480_90_s, __launch_bounds__(256), 20480, 90, false)
KERNEL(k_b128x4_20480_90_s, __launch_bounds__(128, 4), 20480, 90, false)
KERNEL(k_free_20480_90_d, , 20480, 90, true)
KERNEL(k_b256_20480_90_d, __launch_bounds__(256), 20480, 90, true)
KERNEL(k_b128x4_20480_90_d, __launch_bounds__(128, 4), 20480, 90, true)
KERNEL(k_free_20480_180_s, , 20480, 180, false)
KERNEL(k_b256_20480_180_s, __launch_bounds__(256), 20480, 180, false)
KERNEL(k_b128x4_20480_180_s, __launch_bounds__(128, 4), 20480, 180, false)
KERNEL(k_free_20480_180_d, , 20480, 180, true)
KERNEL(k_b256_20480_180_d, __launch_bounds__(256), 20480, 180, true)
KERNEL(k_b128x4_20480_180_d, __launch_bounds__(128, 4), 20480, 180, true)
KERNEL(k_free_49152_2_s, , 49152, 2, false)
KERNEL(k_b256_49152_2_s, __launch_bounds__(256), 49152, 2, false)
KERNEL(k_free_49152_2_d, , 49152, 2, true)
KERNEL(k_b256_49152_2_d, __launch_bounds__(256), 49152, 2, true)
KERNEL(k_free_49152_40_s, , 49152, 40, false)
KERNEL(k_b256_49152_40_s, __launch_bounds__(256), 49152, 40, false)
KERNEL(k_free_49152_40_d, , 49152, 40, true)
KERNEL(k_b256_49152_40_d, __launch_bounds__(256), 49152, 40, true)
KERNEL(k_free_49152_90_s, , 49152, 90, false)
KERNEL(k_b256_49152_90_s, __launch_bounds__(256), 49152, 90, false)
KERNEL(k_free_49152_90_d, , 49152, 90, true)
KERNEL(k_b256_49152_90_d, __launch_bounds__(256), 49152, 90, true)
KERNEL(k_free_49152_180_s, , 49152, 180, false)
KERNEL(k_b256_49152_180_s, __launch_bounds__(256), 49152, 180, false)
KERNEL(k_free_49152_180_d, , 49152, 180, true)
KERNEL(k_b256_49152_180_d, __launch_bounds__(256), 49152, 180, true)
