// One access of one warp a launch: loads and stores of shared memory, loads of global memory, of 4, 8 and 16 bytes a lane.
// lanes lanes.txt: so many patterns, each the bytes a lane moves and where its 32 lanes go.
#include <cstdio>
#include <cstdlib>
#include <vector>

struct __align__(8) f2 {
    float x, y;
    __device__ f2() {}
    __device__ f2(volatile f2& o) {
        unsigned at = (unsigned)__cvta_generic_to_shared((void*)&o);
        asm volatile("ld.shared.v2.f32 {%0,%1},[%2];" : "=f"(x), "=f"(y) : "r"(at));
    }
};

struct __align__(16) f4 {
    float x, y, z, w;
    __device__ f4() {}
    __device__ f4(volatile f4& o) {
        unsigned at = (unsigned)__cvta_generic_to_shared((void*)&o);
        asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3},[%4];" : "=f"(x), "=f"(y), "=f"(z), "=f"(w) : "r"(at));
    }
};

template <typename T> __global__ void lds(const int* off, float* out) {
    __shared__ __align__(16) char s[32768];
    for (int i = threadIdx.x; i < 8192; i += 32) ((float*)s)[i] = 0;
    __syncwarp();
    T v = *(volatile T*)(s + off[threadIdx.x]);
    out[threadIdx.x] = *(float*)&v + sizeof(T);
}

template <int N> __global__ void gld(const char* a, const int* off, float* out) {
    const char* p = a + off[threadIdx.x];
    float x = 0, y = 0, z = 0, w = 0;
    if (N == 4) asm volatile("ld.global.f32 %0,[%1];" : "=f"(x) : "l"(p));
    if (N == 8) asm volatile("ld.global.v2.f32 {%0,%1},[%2];" : "=f"(x), "=f"(y) : "l"(p));
    if (N == 16)
        asm volatile("ld.global.v4.f32 {%0,%1,%2,%3},[%4];" : "=f"(x), "=f"(y), "=f"(z), "=f"(w) : "l"(p));
    out[threadIdx.x] = x + y + z + w;
}

template <int N> __global__ void sts(const int* off, float* out) {
    __shared__ __align__(16) char s[32768];
    unsigned p = (unsigned)__cvta_generic_to_shared(s + off[threadIdx.x]);
    float x = threadIdx.x;
    if (N == 4) asm volatile("st.shared.f32 [%1],%0;" ::"f"(x), "r"(p));
    if (N == 8) asm volatile("st.shared.v2.f32 [%1],{%0,%0};" ::"f"(x), "r"(p));
    if (N == 16) asm volatile("st.shared.v4.f32 [%1],{%0,%0,%0,%0};" ::"f"(x), "r"(p));
    if (out) out[threadIdx.x] = s[threadIdx.x];
}

int main(int argc, char** argv) {
    FILE* f = fopen(argv[1], "r");
    int n;
    fscanf(f, "%d", &n);
    int* off;
    float* out;
    char* big;
    cudaMalloc(&off, 128);
    cudaMalloc(&out, 256);
    cudaMalloc(&big, 1 << 20);
    for (int k = 0; k < n; ++k) {
        int w, h[32];
        fscanf(f, "%d", &w);
        for (int i = 0; i < 32; ++i) fscanf(f, "%d", h + i);
        cudaMemcpy(off, h, 128, cudaMemcpyHostToDevice);
        if (w == 4) { lds<float><<<1, 32>>>(off, out); sts<4><<<1, 32>>>(off, nullptr); gld<4><<<1, 32>>>(big, off, out); }
        if (w == 8) { lds<f2><<<1, 32>>>(off, out); sts<8><<<1, 32>>>(off, nullptr); gld<8><<<1, 32>>>(big, off, out); }
        if (w == 16) { lds<f4><<<1, 32>>>(off, out); sts<16><<<1, 32>>>(off, nullptr); gld<16><<<1, 32>>>(big, off, out); }
    }
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
