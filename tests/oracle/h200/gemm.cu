// C = A * B in single precision, row-major, n x n: 128 x 128 tiles, 8 x 8 results a thread, both tiles prefetched into
// registers and both fragments double-buffered. It is limited by arithmetic, and wants more registers than two blocks
// per SM leave: what -maxrregcount trades is seen on it. Prints its time by events; exit status 1: a wrong result.
#include "timed.cuh"

constexpr int TILE = 128, DEPTH = 16, EACH = 8, THREADS = 256;

__global__ void gemm(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n) {
    __shared__ __align__(16) float tile_a[2][DEPTH][TILE + 4], tile_b[2][DEPTH][TILE];
    const int thread = threadIdx.x, row = thread / 16 * 4, column = thread % 16 * 4;
    const int a_row = thread / 4, a_column = thread % 4 * 4, b_row = thread / 32, b_column = thread % 32 * 4;
    const float *from_a = a + static_cast<size_t>(blockIdx.y * TILE + a_row) * n + a_column;
    const float *from_b = b + static_cast<size_t>(b_row) * n + blockIdx.x * TILE + b_column;
    float sums[EACH][EACH] = {}, left[2][EACH], right[2][EACH];
    float4 next_a[2], next_b[2];

    auto fetch = [&] {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            next_a[half] = *reinterpret_cast<const float4 *>(from_a + static_cast<size_t>(64 * half) * n);
            next_b[half] = *reinterpret_cast<const float4 *>(from_b + static_cast<size_t>(8 * half) * n);
        }
        from_a += DEPTH;
        from_b += static_cast<size_t>(DEPTH) * n;
    };
    auto store = [&](int into) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            tile_a[into][a_column + 0][a_row + 64 * half] = next_a[half].x;
            tile_a[into][a_column + 1][a_row + 64 * half] = next_a[half].y;
            tile_a[into][a_column + 2][a_row + 64 * half] = next_a[half].z;
            tile_a[into][a_column + 3][a_row + 64 * half] = next_a[half].w;
            *reinterpret_cast<float4 *>(&tile_b[into][b_row + 8 * half][b_column]) = next_b[half];
        }
    };
    auto load = [&](int from, int k, int into) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            *reinterpret_cast<float4 *>(&left[into][4 * half]) =
                *reinterpret_cast<const float4 *>(&tile_a[from][k][row + 64 * half]);
            *reinterpret_cast<float4 *>(&right[into][4 * half]) =
                *reinterpret_cast<const float4 *>(&tile_b[from][k][column + 64 * half]);
        }
    };

    fetch();
    store(0);
    __syncthreads();
    load(0, 0, 0);
    for (int at = 0, steps = n / DEPTH; at < steps; ++at) {
        const int now = at & 1;
        if (at + 1 < steps) fetch();
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            if (k + 1 < DEPTH) load(now, k + 1, (k + 1) & 1);
#pragma unroll
            for (int i = 0; i < EACH; ++i)
#pragma unroll
                for (int j = 0; j < EACH; ++j) sums[i][j] += left[k & 1][i] * right[k & 1][j];
        }
        if (at + 1 < steps) {
            store(now ^ 1);
            __syncthreads();
            load(now ^ 1, 0, 0);
        }
    }
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        float *to = c + static_cast<size_t>(blockIdx.y * TILE + row + i % 4 + i / 4 * 64) * n + blockIdx.x * TILE + column;
        *reinterpret_cast<float4 *>(to) = make_float4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
        *reinterpret_cast<float4 *>(to + 64) = make_float4(sums[i][4], sums[i][5], sums[i][6], sums[i][7]);
    }
}

int main(int count, char **words) {
    const int n = count > 1 ? std::atoi(words[1]) : 4096, runs = count > 2 ? std::atoi(words[2]) : 10;
    const size_t cells = static_cast<size_t>(n) * n;
    if (n < TILE || n % TILE || runs < 1) return std::fputs("n must be a multiple of 128, and runs 1 or more\n", stderr), 2;
    std::vector<float> a(cells), b(cells), c(cells);
    for (size_t i = 0; i < cells; ++i) a[i] = pseudo(2 * i), b[i] = pseudo(2 * i + 1);
    float *on_a, *on_b, *on_c;
    MUST(cudaMalloc(&on_a, 4 * cells));
    MUST(cudaMalloc(&on_b, 4 * cells));
    MUST(cudaMalloc(&on_c, 4 * cells));
    MUST(cudaMemcpy(on_a, a.data(), 4 * cells, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(on_b, b.data(), 4 * cells, cudaMemcpyHostToDevice));
    MUST(cudaMemset(on_c, 0xff, 4 * cells));
    const dim3 grid(n / TILE, n / TILE);
    report("gemm", gemm, THREADS, [&] { gemm<<<grid, THREADS>>>(on_a, on_b, on_c, n); }, runs);
    MUST(cudaMemcpy(c.data(), on_c, 4 * cells, cudaMemcpyDeviceToHost));
    double worst = 0;
    for (unsigned sample = 0; sample < 2048; ++sample) {
        const size_t i = spread(2 * sample, n), j = spread(2 * sample + 1, n);
        double sum = 0;
        for (int k = 0; k < n; ++k) sum += static_cast<double>(a[i * n + k]) * b[static_cast<size_t>(k) * n + j];
        const double off = c[i * n + j] - sum;
        worst = off == off ? std::max(worst, off < 0 ? -off : off) : 1e30;
    }
    std::printf("gflops_per_launch: %.3f\nworst_error: %.3g\n", 2e-9 * n * n * n, worst);
    const bool right = worst < 1e-5 * n;
    std::puts(right ? "result: correct" : "result: WRONG");
    return right ? 0 : 1;
}
