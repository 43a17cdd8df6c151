# ruff: noqa: E501 - statements of CUDA stand one a line
"""CUDA sources whose kernels do a bit of everything, and the same sources with one thing changed: random, but the same for
the same seed.

Each kernel takes the same arguments, writes only what belongs to its thread, and adds to what is shared in ways whose
order does not matter: run twice, it gives the same results, so that two builds of it can be run against each other.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from random import Random

PLANTS = ("constant", "operator", "width", "index", "compare", "unroll")
"""What one change of a kernel may be."""
THREADS = 128
"""Of a block; kernels are made for two blocks."""
RESULTS = 16
"""Values that each thread writes, of each kind."""
VALUES = 1024
"""Inputs of each kind; a power of two."""
ARGUMENTS = (
    "const float* __restrict__ a, const int* c, const unsigned char* u, float* b, int* d, double* e, int* sums, int n"
)

_HELPERS = """
#include <cuda_fp16.h>
__constant__ float weights[16] = {1.5f, -2.f, .25f, 3.f, 7.f, -1.f, .5f, 9.f, 4.f, 6.f, -8.f, 2.5f, 1.f, 3.5f, 11.f, 5.f};
__device__ __noinline__ float called(float x, int k) { return k & 1 ? x * 3.f + k : x - 7.f * k; }
__device__ __noinline__ int stepped(int x, int k) { while (k-- > 0) x = x * 5 + (x >> 3); return x; }
"""


def source(seed: int, kernels: int, *, reordered: bool = False, plant: str = "") -> str:
    """One translation unit. ``reordered``: locals are declared in another order, and what does not depend on each other
    stands in another; ``plant``: one thing of this kind is changed in each kernel, where it has it."""
    return _HELPERS + "".join(_Kernel(seed, number, reordered, plant).text() for number in range(kernels))


class _Kernel:
    """One kernel in the making."""

    def __init__(self, seed: int, number: int, reordered: bool, plant: str) -> None:
        self.name = f"k{number}"
        self._random = Random(f"{seed} {number}")
        self._order = Random(f"{seed} {number} order") if reordered else None
        self._plant = plant
        self._places = 0
        """Of what may be changed: how many were met."""
        self._at = Random(f"{seed} {number} {plant}").randrange(3)
        """Which of them is."""
        self._names = 0

    def _may(self, kind: str) -> bool:
        """Whether this place is the one that is changed."""
        if kind != self._plant:
            return False
        self._places += 1
        return self._places - 1 == self._at

    def _number(self) -> str:
        value = self._random.choice((1, 2, 3, 5, 7, 11, 13, 29, 100))
        return str(value + 1 if self._may("constant") else value)

    def _float(self) -> str:
        value = self._random.choice((0.5, 1.25, 3.0, 7.5, 0.125, 10.0))
        return f"{value + 1 if self._may('constant') else value}f"

    def _operator(self, operators: str) -> str:
        one, other = self._random.sample(operators.split(), 2)
        return other if self._may("operator") else one

    def _index(self) -> str:
        step = self._random.choice((1, 3, 8, 17))
        added = self._number()
        return (
            f"(t * {step} + {added} + {self._any('i')}) & {VALUES - 1 if not self._may('index') else VALUES // 2 - 1}"
        )

    def _any(self, kind: str) -> str:
        return f"{kind}{self._random.randrange(6)}"

    def _compare(self) -> str:
        one = self._random.choice(("<", ">", "<=", ">="))
        return {"<": "<=", ">": ">=", "<=": "<", ">=": ">"}[one] if self._may("compare") else one

    def text(self) -> str:
        """Its source."""
        declared = [f"float f{k} = a[(t + {k * 37}) & {VALUES - 1}];" for k in range(6)]
        declared += [f"int i{k} = c[(t + {k * 53}) & {VALUES - 1}];" for k in range(6)]
        declared += [f"double g{k} = a[(t + {k * 11}) & {VALUES - 1}];" for k in range(2)]
        body = [self._statement(2) for _ in range(self._random.randint(4, 9))]
        written = [[f"b[at + {k}] = f{k};" for k in range(6)], [f"d[at + {k}] = i{k};" for k in range(6)]]
        written += [[f"e[at + {k}] = g{k};" for k in range(2)]]
        if self._order is not None:
            for some in (declared, *written):  # arrays may overlap: theirs keep their order
                self._order.shuffle(some)
        lines = ["int t = threadIdx.x, at = (blockIdx.x * blockDim.x + t) * 16;", *declared, *body, *chain(*written)]
        return "\n".join(
            [f'extern "C" __global__ void {self.name}({ARGUMENTS}) {{', "  __shared__ float s[128];", *lines, "}\n"]
        )

    def _several(self, depth: int, most: int) -> str:
        return " ".join(self._statement(depth) for _ in range(self._random.randint(1, most)))

    def _statement(self, depth: int) -> str:
        """``depth``: blocks that may stand in it; 2: all threads of a warp come here together."""
        plain: list[Callable[[], str]] = [
            lambda: (
                f"{self._any('f')} = {self._any('f')} {self._operator('+ - *')} {self._any('f')} * {self._float()};"
            ),
            lambda: f"{self._any('f')} += {self._float()} * {self._any('f')} - {self._any('f')};",
            lambda: f"{self._any('i')} = {self._any('i')} {self._operator('+ - * & | ^')} {self._any('i')};",
            lambda: (
                f"{self._any('i')} = ({self._any('i')} {self._operator('<< >>')} ({self._number()} & 31)) ^ {self._any('i')};"
            ),
            lambda: f"{self._any('f')} += a[{self._index()}];",
            lambda: f"{self._any('i')} ^= c[{self._index()}];",
            self._narrow,
            self._vector,
            lambda: (
                f"{self._any('f')} = {self._random.choice(('sqrtf(fabsf', '__expf(-fabsf', 'floorf(fabsf'))}({self._any('f')}));"
            ),
            lambda: (
                f"{self._any('f')} = f{'min' if self._operator('a b') == 'a' else 'max'}f({self._any('f')}, {self._any('f')});"
            ),
            lambda: (
                f"{self._any('i')} = {self._random.choice(('__popc', '__clz', '__brev', '-', '~', 'abs'))}({self._any('i')});"
            ),
            lambda: f"{self._any('i')} = m{self._operator('in ax')}({self._any('i')}, {self._number()});",
            lambda: f"{self._any('i')} = __mulhi({self._any('i')}, {self._any('i')}) + {self._number()};",
            lambda: (
                f"{self._any('i')} = __byte_perm({self._any('i')}, {self._any('i')}, 0x{self._random.randrange(1 << 16):04x});"
            ),
            lambda: f"{self._any('i')} = __funnelshift_l({self._any('i')}, {self._any('i')}, {self._number()});",
            lambda: (
                f"{self._any('g')} = {self._any('g')} {self._operator('+ - *')} {self._any('g')} * {self._number()}.5;"
            ),
            lambda: (
                f"{self._any('i')} = (int)(((long long){self._any('i')} * {self._any('i')}) >> ({self._number()} & 31));"
            ),
            lambda: f"{self._any('f')} = (float){self._any('i')} * {self._float()};",
            lambda: f"{self._any('i')} += (int)fminf(fabsf({self._any('f')}), 1e6f);",
            lambda: f"{self._any('f')} += weights[{self._any('i')} & {7 if self._may('index') else 15}];",
            lambda: (
                f"{self._any('f')} = {self._any('i')} {self._compare()} {self._any('i')} ? {self._any('f')} : {self._any('f')};"
            ),
            lambda: (
                f"b[at + {self._random.randrange(8, 12)}] = {self._any('f')}; {self._any('f')} += b[at + {self._random.randrange(8, 12)}];"
            ),
            self._half,
            lambda: f"atomicAdd(&sums[{self._any('i')} & 63], {self._number()});",
        ]
        together: list[Callable[[], str]] = [
            self._shared,
            lambda: (
                f"{self._any('f')} += __shfl_{self._random.choice(('xor', 'down', 'up'))}_sync(~0u, {self._any('f')}, {self._random.choice((1, 2, 4, 8))});"
            ),
            lambda: f"{self._any('i')} ^= __ballot_sync(~0u, {self._any('i')} {self._compare()} {self._any('i')});",
        ]
        blocks: list[Callable[[int], str]] = [
            self._branch,
            self._loop,
            self._loop,
            self._array,
            self._call,
            self._choice,
        ]
        made = self._random.random()
        if depth and made < 0.35:
            return self._random.choice(blocks)(depth)
        if depth == 2 and made < 0.5:
            return self._random.choice(together)()
        return (
            self._random.choice(plain)().replace("g2", "g0").replace("g3", "g1").replace("g4", "g0").replace("g5", "g1")
        )

    def _narrow(self) -> str:
        """A load of bytes, words or halves."""
        kinds = ["unsigned char", "unsigned short", "signed char", "unsigned", "unsigned char"]
        at = self._random.randrange(4)
        kind = kinds[at + 1] if self._may("width") else kinds[at]
        return f"{self._any('i')} += ((const {kind}*)u)[({self._any('i')} + t) & {VALUES // 4 - 1}];"

    def _vector(self) -> str:
        """A load of several values, and what is used of them."""
        wide = "float2" if self._may("width") else "float4"
        one, other = self._any("f"), self._any("f")
        return f"{{ {wide} v = ((const {wide}*)a)[(t + {self._number()}) & {VALUES // 4 - 1}]; {one} += v.x; {other} -= v.y; }}"

    def _half(self) -> str:
        return (
            f"{{ half2 h = __floats2half2_rn({self._any('f')}, 1.f); h = __h{self._operator('add2 mul2 sub2')}"
            f"(h, __float2half2_rn({self._float()})); {self._any('f')} = __low2float(h); }}"
        )

    def _shared(self) -> str:
        held, got = self._any("f"), self._any("f")
        return f"s[t] = {held}; __syncthreads(); {got} += s[(t + {self._number()}) & 127]; __syncthreads();"

    def _branch(self, depth: int) -> str:
        test = f"{self._any('i')} {self._compare()} {self._any('i')}"
        rest = f" else {{ {self._several(depth - 1 and 1, 3)} }}" if self._random.random() < 0.5 else ""
        return f"if ({test}) {{ {self._several(depth - 1 and 1, 3)} }}{rest}"

    def _loop(self, depth: int) -> str:
        self._names += 1
        name = f"j{self._names}"
        times = "n" if self._random.random() < 0.6 else str(self._random.randint(3, 9))
        factor = self._random.choice((1, 1, 2, 4))
        if self._may("unroll"):
            factor = 3 if factor == 1 else 1
        inner = self._several(depth - 1 and 1, 4)
        return (
            f"\n#pragma unroll {factor}\nfor (int {name} = 0; {name} < {times}; ++{name}) {{ i0 += {name}; {inner} }}"
        )

    def _array(self, _: int) -> str:
        self._names += 1
        name, size = f"v{self._names}", self._random.choice((4, 8, 12))
        return (
            f"int {name}[{size}]; for (int q = 0; q < {size}; ++q) {name}[q] = {self._any('i')} + q * {self._number()}; "
            f"{name}[(unsigned){self._any('i')} % {size}] = {self._any('i')}; "
            f"{self._any('i')} = {name}[(unsigned)({self._any('i')} + {self._number()}) % {size}];"
        )

    def _call(self, _: int) -> str:
        if self._random.random() < 0.5:
            return f"{self._any('f')} = called({self._any('f')}, {self._any('i')} & {self._number()});"
        return f"{self._any('i')} = stepped({self._any('i')}, t & {self._number()});"

    def _choice(self, _: int) -> str:
        cases = " ".join(
            f"case {k}: {self._any('i')} += {self._number()}; {self._statement(0)} break;" for k in range(5)
        )
        return f"switch ({self._any('i')} & 7) {{ {cases} default: {self._any('f')} += 1.f; }}"
