"""CUDA sources whose kernels spill in many ways: random, but the same for the same seed.

Each kernel holds more live values than it may have registers, and mixes them with what else makes ptxas use local
memory: arrays with a computed index, arguments on the stack, saved registers, slow paths of the mathematical library.
"""

from __future__ import annotations

from random import Random

_TYPES = ("float", "float", "double", "int", "unsigned", "long long")

_HELPERS = """
__device__ __noinline__ float small(float a, float b) { return a / (b + 3.f); }
__device__ __noinline__ float wide(float a, float b, float c, float d, float e, float f, float g, float h, float i,
    float j, float k, float l, float m, float n, float o, float p, float q, float r) {
  return a * b + c * d - e * f + g / h + i * j - k * l + m * n - o * p + q * r;
}
__device__ __noinline__ float pressed(const float* p, int n) {
  float r[48];
#pragma unroll
  for (int i = 0; i < 48; i++) r[i] = p[i * 3];
#pragma unroll 1
  for (int k = 0; k < n; k++)
#pragma unroll
    for (int i = 0; i < 48; i++) r[i] += r[(i * 7 + 3) % 48];
  float s = 0;
#pragma unroll
  for (int i = 0; i < 48; i++) s += r[i] * p[i];
  return s;
}
__device__ __noinline__ float nested(const float* p, int n, float x) {
  float y = small(x, p[n]), z = small(y, p[n + 1]), w = small(z, x);
  return small(x * y, z * w) + y + z + w + x;
}
__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__device__ __noinline__ void fill(float* a, int n, int k) { for (int i = 0; i < n; i++) a[(i * k) % n] += i; }
__device__ __noinline__ void both(float x, float* s, float* c) { *s = x * x + *c; *c = x - 2.f; }
typedef float (*Function)(float, float);
__device__ __noinline__ float first(float a, float b) { return a * b + 1.f; }
__device__ __noinline__ float second(float a, float b) { return a - b * 2.f; }
__device__ Function table[2] = {first, second};
__device__ void assertion(const char* s, int n) { printf(s, n, n + 1, 2.5 * n); }
"""

_EVERYWHERE = ("branch", "choice", "leave", "barrier", "flags", "shuffle")
_LOCAL = ("array", "array", "fixed", "whole", "bytes", "sine", "divide")
_CALLS = ("small", "wide", "pressed", "nested", "fib", "fill", "both", "pointer", "print")


def source(seed: int, kernels: int = 8) -> str:
    """A translation unit."""
    random = Random(seed)
    return _HELPERS + "".join(_kernel(random, f"kernel_{seed}_{number}") for number in range(kernels))


def _kernel(random: Random, name: str) -> str:
    kind = random.choice(_TYPES)
    live = random.randint(24, 90) // (2 if kind in ("double", "long long") else 1)
    step = random.choice([3, 5, 7, 11])
    pieces = random.sample(_EVERYWHERE, random.randint(0, 3))
    if random.random() < 0.4:
        pieces += random.sample(_LOCAL, random.randint(1, 2))
    if random.random() < 0.35:
        pieces += random.sample(_CALLS, random.randint(1, 2))
    random.shuffle(pieces)
    bounds = random.choice(
        ["", "", "__launch_bounds__(512, 2) ", "__launch_bounds__(256, 4) ", "__launch_bounds__(1024) "]
    )
    array = random.randint(4, 30)
    loops = random.randint(1, 3)
    lines = [
        f'extern "C" __global__ {bounds}void {name}(const {kind}* __restrict__ in, {kind}* out, int n, int m) {{',
        f"  {kind} r[{live}];",
        "#pragma unroll",
        f"  for (int i = 0; i < {live}; i++) r[i] = in[i * 32 + threadIdx.x];",
    ]
    if {"array", "fixed", "whole", "fill"} & set(pieces):
        lines += [f"  float a[{array}];", f"  for (int k = 0; k < {array}; k++) a[(k * m) % {array}] = in[k * 5];"]
    if "bytes" in pieces:
        lines += ["  unsigned char b[24];", "  for (int k = 0; k < 24; k++) b[(k * n) % 24] = (unsigned char)(k + m);"]
    for depth in range(loops):
        lines += ["#pragma unroll 1", f"  for (int k{depth} = 0; k{depth} < n + {depth}; k{depth}++) {{"]
        if depth < loops - 1 and random.random() < 0.5:
            lines += _mix(random, live, step)
    lines += _mix(random, live, step)
    for piece in pieces:
        lines += _piece(random, piece, live, array)
    for _ in range(loops):
        lines.append("  }")
        if random.random() < 0.3:
            lines += _mix(random, live, step)
    lines += ["#pragma unroll", f"  for (int i = 0; i < {live}; i++) out[i * 32 + threadIdx.x] = r[i];", "}", ""]
    return "\n".join(lines)


def _mix(random: Random, live: int, step: int) -> list[str]:
    operation = random.choice(["r[i] + r[{j}]", "r[i] * r[{j}] + r[{k}]", "r[i] - r[{j}] * r[{k}]", "r[{j}] + r[{k}]"])
    text = operation.format(j=f"(i * {step} + 1) % {live}", k=f"(i + {random.randint(2, live - 1)}) % {live}")
    return ["#pragma unroll", f"  for (int i = 0; i < {live}; i++) r[i] = {text};"]


def _piece(random: Random, piece: str, live: int, array: int) -> list[str]:
    one, two, three = (f"r[{random.randrange(live)}]" for _ in range(3))
    some = ", ".join(f"r[{random.randrange(live)}]" for _ in range(18))
    return {
        "branch": [
            f"  if ({one} > {two}) {{ {one} = {two} * {three}; }} else {{ {two} = {one} + {three}; {three} = 2; }}"
        ],
        "choice": [
            "  switch (m & 15) {",
            *(
                f"    case {n}: r[{random.randrange(live)}] += r[{random.randrange(live)}] * {n + 2}; break;"
                for n in range(9)
            ),
            "  }",
        ],
        "leave": [f"  if ({one} == {two}) break;", f"  if ({two} == 0) return;"],
        "barrier": ["  __syncthreads();", f"  out[threadIdx.x + m] = {one};"],
        "flags": [
            *(f"  bool f{n} = r[{random.randrange(live)}] > r[{random.randrange(live)}];" for n in range(12)),
            *_mix(random, live, 5),
            *(f"  if (f{n}) r[{random.randrange(live)}] += {n};" for n in range(12)),
        ],
        "shuffle": [f"  {one} += __shfl_xor_sync(0xffffffffu, {two}, 3);"],
        "array": [f"  {one} += a[((unsigned)m * k0) % {array}]; a[(unsigned)(m + k0) % {array}] = {two};"],
        "fixed": [
            f"  a[{array - 1}] = {one}; a[{array // 2}] += {two};",
            f"  a[(unsigned)(m + k0) % {array}] += {three}; {two} += a[{array - 1}] + a[{array - 2}];",
        ],
        "whole": [
            "#pragma unroll",
            f"  for (int j = 0; j < {array}; j++) a[j] = a[j] * 3 + r[j % {live}];",
            f"  a[(unsigned)m % {array}] = {one};",
            "#pragma unroll",
            f"  for (int j = 0; j < {array}; j++) r[j % {live}] += a[j];",
        ],
        "bytes": [f"  {one} += b[(unsigned)(m * k0) % 24]; b[(unsigned)k0 % 24] = (unsigned char){two};"],
        "sine": [f"  {one} = sinf((float){two} * 1e6f) + cosf((float){three});"],
        "divide": [f"  {one} = (double){two} / (double)({three} + 2) + sqrt((double){one});"],
        "small": [f"  {one} = small({two}, {three});"],
        "wide": [f"  {one} += wide({some});"],
        "pressed": [f"  {one} += pressed((const float*)in, m);"],
        "nested": [f"  {one} += nested((const float*)in, m, {two});"],
        "fib": [f"  {one} += fib(m & 7);"],
        "fill": [f"  fill(a, {array}, m); {one} += a[(unsigned)n % {array}];"],
        "both": [f"  float s = {one}, c = {two}; both({three}, &s, &c); {one} = s; {two} = c;"],
        "pointer": [f"  {one} += table[m & 1]({two}, {three});"],
        "print": [f'  if ({one} == 12) assertion("%d %d %f\\n", m);'],
    }[piece]
