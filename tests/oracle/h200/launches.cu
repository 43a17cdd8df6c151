// Kernels whose names and launches a profile must tell apart: templates, a namespace without a name, one kernel launched
// in several ways, a lambda, one that spills, one that uses a local array that is no spill.
#include "timed.cuh"

namespace outer {
template <typename T, int STEPS>
__global__ void scale(T *to, const T *from, int count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        T value = from[i];
        for (int step = 0; step < STEPS; ++step) value = value * value + from[i];
        to[i] = value;
    }
}
namespace {
__global__ void hidden(float *to, int count) {
    extern __shared__ float words[];
    for (int i = threadIdx.x; i < count; i += blockDim.x) words[i] = i * 0.5f;
    __syncthreads();
    to[blockIdx.x * blockDim.x + threadIdx.x] = words[threadIdx.x * 7 % count];
}
}  // namespace
}  // namespace outer

template <typename Function>
__global__ void each(float *to, int count, Function function) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) to[i] = function(to[i]);
}

__global__ void __launch_bounds__(1024, 2) spills(float *to, const float *from, int rounds) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    float held[64];
#pragma unroll
    for (int i = 0; i < 64; ++i) held[i] = from[thread + i];
    for (int round = 0; round < rounds; ++round)
#pragma unroll
        for (int i = 0; i < 64; ++i) held[i] = held[i] * held[(i + 7) % 64] + held[(i + 31) % 64];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 64; ++i) sum += held[i];
    to[thread] = sum;
}

__global__ void indexed(float *to, const int *at, int count) {
    float table[32];
    for (int i = 0; i < 32; ++i) table[i] = to[(threadIdx.x + i) % count];
    for (int i = 0; i < count; ++i) table[at[i] & 31] += 1.0f;
    to[blockIdx.x * blockDim.x + threadIdx.x] = table[at[threadIdx.x] & 31];
}

int main() {
    const int count = 1 << 22;
    float *a, *b;
    MUST(cudaMalloc(&a, 8 * count));
    MUST(cudaMalloc(&b, 8 * count));
    MUST(cudaMemset(a, 0, 8 * count));
    MUST(cudaMemset(b, 0, 8 * count));
    outer::scale<float, 4><<<count / 256, 256>>>(a, b, count);
    outer::scale<float, 4><<<132 * 4, 1000>>>(a, b, count);
    outer::scale<float, 4><<<count / 256, 256>>>(a, b, count);
    outer::scale<double, 64><<<count / 128, 128>>>(reinterpret_cast<double *>(a), reinterpret_cast<double *>(b), count);
    std::puts("a line of the program's own, \"quoted\", with, commas");
    MUST(cudaFuncSetAttribute(outer::hidden, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 * 1024));
    outer::hidden<<<1024, 128, 16 * 1024>>>(a, 4096);
    outer::hidden<<<1024, 128, 100 * 1024>>>(a, 25600);
    outer::hidden<<<1024, dim3(16, 4, 2), 4096>>>(a, 1024);
    each<<<count / 512, 512>>>(a, count, [] __device__(float x) { return x * 2.0f; });
    each<<<count / 512, 512>>>(a, count, [] __device__(float x) { return x + 1.0f; });
    spills<<<264, 1024>>>(a, b, 50);
    indexed<<<1024, 256>>>(a, reinterpret_cast<int *>(b), 256);
    MUST(cudaGetLastError());
    MUST(cudaDeviceSynchronize());
    std::puts("result: correct");
}
