// One step of the wave equation in single precision: a star of radius 4 (25 points) over an n x n x n grid, marching
// along z with the column in registers, four points in x a thread. It is limited by memory. Prints its time by events;
// exit status 1: a wrong result.
#include "timed.cuh"

constexpr int RADIUS = 4, WIDE = 32, HIGH = 8, THREADS = WIDE * HIGH, LANES = 4 * WIDE;

__host__ __device__ constexpr float weight(int far) {  // of the eighth-order second difference
    return far == 0 ? -2.847222f : far == 1 ? 1.6f : far == 2 ? -0.2f : far == 3 ? 0.025397f : -0.001786f;
}

__device__ inline float4 scaled(float by, float4 x, float4 y) {
    return make_float4(by * (x.x + y.x), by * (x.y + y.y), by * (x.z + y.z), by * (x.w + y.w));
}
__device__ inline void add(float4 &sum, float4 x) {
    sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
}

__global__ void stencil(const float *__restrict__ now, float *__restrict__ then, const float *__restrict__ speed, int n) {
    __shared__ __align__(16) float plane[HIGH + 2 * RADIUS][LANES + 2 * RADIUS];
    const int x = (blockIdx.x * WIDE + threadIdx.x) * 4, y = blockIdx.y * HIGH + threadIdx.y;
    const int wide = n + 2 * RADIUS, deep = 32, first = blockIdx.z * deep;
    const size_t layer = static_cast<size_t>(wide) * wide;
    size_t at = (first + RADIUS) * layer + static_cast<size_t>(y + RADIUS) * wide + x + RADIUS;
    auto take = [&](const float *from, size_t place) { return *reinterpret_cast<const float4 *>(from + place); };
    float4 column[2 * RADIUS + 1];
#pragma unroll
    for (int k = 0; k < 2 * RADIUS; ++k) column[k + 1] = take(now, at + k * layer - RADIUS * layer);
    for (int z = 0; z < deep; ++z, at += layer) {
#pragma unroll
        for (int k = 0; k < 2 * RADIUS; ++k) column[k] = column[k + 1];
        column[2 * RADIUS] = take(now, at + RADIUS * layer);
        __syncthreads();
        const int row = threadIdx.y + RADIUS, lane = threadIdx.x * 4 + RADIUS;
        *reinterpret_cast<float4 *>(&plane[row][lane]) = column[RADIUS];
        if (threadIdx.y < RADIUS) {
            *reinterpret_cast<float4 *>(&plane[threadIdx.y][lane]) = take(now, at - static_cast<size_t>(RADIUS) * wide);
            *reinterpret_cast<float4 *>(&plane[row + HIGH][lane]) = take(now, at + static_cast<size_t>(HIGH) * wide);
        }
        if (threadIdx.x == 0) *reinterpret_cast<float4 *>(&plane[row][0]) = take(now, at - RADIUS);
        if (threadIdx.x == WIDE - 1) *reinterpret_cast<float4 *>(&plane[row][LANES + RADIUS]) = take(now, at + 4);
        __syncthreads();
        float line[3 * RADIUS];
#pragma unroll
        for (int k = 0; k < 3; ++k)
            *reinterpret_cast<float4 *>(&line[4 * k]) = *reinterpret_cast<float4 *>(&plane[row][lane - RADIUS + 4 * k]);
        float4 sum = scaled(3 * weight(0), column[RADIUS], make_float4(0, 0, 0, 0));
#pragma unroll
        for (int k = 1; k <= RADIUS; ++k) {
            add(sum, scaled(weight(k), column[RADIUS - k], column[RADIUS + k]));
            add(sum, scaled(weight(k), *reinterpret_cast<float4 *>(&plane[row - k][lane]),
                            *reinterpret_cast<float4 *>(&plane[row + k][lane])));
            sum.x += weight(k) * (line[RADIUS - k] + line[RADIUS + k]);
            sum.y += weight(k) * (line[RADIUS + 1 - k] + line[RADIUS + 1 + k]);
            sum.z += weight(k) * (line[RADIUS + 2 - k] + line[RADIUS + 2 + k]);
            sum.w += weight(k) * (line[RADIUS + 3 - k] + line[RADIUS + 3 + k]);
        }
        const float4 old = take(then, at), fast = take(speed, at), here = column[RADIUS];
        *reinterpret_cast<float4 *>(then + at) =
            make_float4(2 * here.x - old.x + fast.x * sum.x, 2 * here.y - old.y + fast.y * sum.y,
                        2 * here.z - old.z + fast.z * sum.z, 2 * here.w - old.w + fast.w * sum.w);
    }
}

int main(int count, char **words) {
    const int n = count > 1 ? std::atoi(words[1]) : 384, runs = count > 2 ? std::atoi(words[2]) : 10;
    if (n < LANES || n % LANES || runs < 1) return std::fputs("n must be a multiple of 128, and runs 1 or more\n", stderr), 2;
    const size_t wide = n + 2 * RADIUS, cells = wide * wide * wide;
    std::vector<float> now(cells), before(cells), speed(cells), after(cells);
    for (size_t i = 0; i < cells; ++i) now[i] = pseudo(3 * i), before[i] = pseudo(3 * i + 1), speed[i] = pseudo(3 * i + 2);
    float *on_now, *on_then, *on_speed;
    MUST(cudaMalloc(&on_now, 4 * cells));
    MUST(cudaMalloc(&on_then, 4 * cells));
    MUST(cudaMalloc(&on_speed, 4 * cells));
    MUST(cudaMemcpy(on_now, now.data(), 4 * cells, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(on_speed, speed.data(), 4 * cells, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(on_then, before.data(), 4 * cells, cudaMemcpyHostToDevice));
    const dim3 grid(n / LANES, n / HIGH, n / 32), block(WIDE, HIGH);
    stencil<<<grid, block>>>(on_now, on_then, on_speed, n);  // the step that is checked
    MUST(cudaGetLastError());
    MUST(cudaMemcpy(after.data(), on_then, 4 * cells, cudaMemcpyDeviceToHost));
    report("stencil", stencil, THREADS, [&] { stencil<<<grid, block>>>(on_now, on_then, on_speed, n); }, runs);
    double worst = 0;
    for (unsigned sample = 0; sample < 1u << 20; ++sample) {
        const size_t x = spread(3 * sample, n), y = spread(3 * sample + 1, n), z = spread(3 * sample + 2, n);
        const size_t at = (z + RADIUS) * wide * wide + (y + RADIUS) * wide + x + RADIUS;
        double sum = 3.0 * weight(0) * now[at];
        for (size_t k = 1; k <= RADIUS; ++k)
            for (size_t step : {size_t{1}, wide, wide * wide})
                sum += static_cast<double>(weight(static_cast<int>(k))) * (now[at - k * step] + now[at + k * step]);
        const double off = after[at] - (2.0 * now[at] - before[at] + speed[at] * sum);
        worst = off == off ? std::max(worst, off < 0 ? -off : off) : 1e30;
    }
    std::printf("gbytes_per_launch: %.3f\nworst_error: %.3g\n", 16e-9 * n * n * n, worst);
    const bool right = worst < 1e-4;
    std::puts(right ? "result: correct" : "result: WRONG");
    return right ? 0 : 1;
}
