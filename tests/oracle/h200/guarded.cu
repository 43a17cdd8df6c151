// Values that a guarded instruction may replace, with marks (pmevent) where another instruction can be put in. Each
// thread sees another mix of conditions; nothing is an address, a bound or a condition that depends on such a value.

#define MARK asm volatile("pmevent 1;")
#define KERNEL(name, type) extern "C" __global__ void name(const type* in, type* out, int rounds)

template <typename T>
struct Thread {
    const T* in;
    int at, rounds;
    T* held;

    __device__ Thread(const T* in, int rounds, T* held) : in(in), rounds(rounds), held(held) {
        at = blockIdx.x * blockDim.x + threadIdx.x;
        held[threadIdx.x] = in[at + 3];
        held[threadIdx.x + 64] = in[at + 5];
        __syncthreads();
        MARK;
    }
    __device__ T other(int number) const { return held[threadIdx.x * (2 * number + 1) + number & 127]; }
    __device__ bool when(int number, int least) const { return in[at + 64 + number] > T(least); }
    // Blocks of their own, so that what is live is handed on from one to the next.
    __device__ __forceinline__ T mixed(T sum, int shift) const {
        MARK;
#pragma unroll 1
        for (int round = 0; round < rounds; ++round) {
            MARK;
            sum = sum * T(3) + in[round + shift];
            MARK;
        }
        MARK;
        return sum;
    }
};

// A value in a block, replaced under a guard in the next, read behind another.
template <typename T>
__device__ __forceinline__ void replaced(const T* in, T* out, int rounds) {
    __shared__ T held[128];
    Thread<T> thread(in, rounds, held);
    T value = in[thread.at + 1];
    T sum = thread.mixed(T(thread.at & 7), 0);
    if (thread.when(0, 50)) value = thread.other(1);
    sum = thread.mixed(sum, 7);
    out[2 * thread.at] = value;
    out[2 * thread.at + 1] = sum;
}
KERNEL(replaced_int, int) { replaced(in, out, rounds); }
KERNEL(replaced_float, float) { replaced(in, out, rounds); }
KERNEL(replaced_double, double) { replaced(in, out, rounds); }

// The same in a loop, around which the value is carried.
KERNEL(carried, int) {
    __shared__ int held[128];
    Thread<int> thread(in, rounds, held);
    int value = in[thread.at + 1], sum = 0;
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        sum = thread.mixed(sum, round);
        if (thread.when(round, 70)) value = thread.other(round);
    }
    out[2 * thread.at] = value;
    out[2 * thread.at + 1] = sum;
}

// A block of four, and a local choice between them.
KERNEL(four, int) {
    __shared__ int held[128];
    Thread<int> thread(in, rounds, held);
    int4 value = reinterpret_cast<const int4*>(in)[thread.at];
    int sum = thread.mixed(thread.at, 0);
    if (thread.when(0, 50)) value = reinterpret_cast<const int4*>(held)[threadIdx.x & 31];
    sum = thread.mixed(sum, 7);
    out[2 * thread.at] = value.x + 3 * value.y + 5 * value.z + 7 * value.w;
    out[2 * thread.at + 1] = sum;
}

// Replaced twice, in blocks of their own.
KERNEL(twice, int) {
    __shared__ int held[128];
    Thread<int> thread(in, rounds, held);
    int value = in[thread.at + 1];
    int sum = thread.mixed(thread.at, 0);
    if (thread.when(0, 40)) value = thread.other(1);
    sum = thread.mixed(sum, 7);
    if (thread.when(1, 40)) value = thread.other(2) ^ sum;
    sum = thread.mixed(sum, 9);
    out[2 * thread.at] = value;
    out[2 * thread.at + 1] = sum;
}

// Several values, each under a condition of its own.
KERNEL(several, int) {
    __shared__ int held[128];
    Thread<int> thread(in, rounds, held);
    int values[4];
#pragma unroll
    for (int each = 0; each < 4; ++each) values[each] = in[thread.at + 10 + each];
    int sum = thread.mixed(thread.at, 0);
#pragma unroll
    for (int each = 0; each < 4; ++each)
        if (thread.when(each, 20 + 15 * each)) values[each] = thread.other(each);
    sum = thread.mixed(sum, 7);
    out[2 * thread.at] = values[0] + 5 * values[1] + 7 * values[2] + 11 * values[3];
    out[2 * thread.at + 1] = sum;
}

// Read under the condition under which it is written, and under no other: the older value is of no use to anyone.
KERNEL(same_condition, int) {
    __shared__ int held[128];
    Thread<int> thread(in, rounds, held);
    bool chosen = thread.when(0, 50);
    int value, sum = thread.mixed(thread.at, 0);
    if (chosen) value = thread.other(1);
    sum = thread.mixed(sum, 7);
    out[2 * thread.at + 1] = sum;
    if (chosen) out[2 * thread.at] = value;
}
