"""``why`` on planted regressions: loops unrolled, calls inlined, bounds, limits, options, toolkit.

Each must be named.

python -m tests.oracle.why_oracle [--arch sm_90]…
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from spillscan import scan
from spillscan.judging.compare.causes import Growth, Kind
from spillscan.model import Kernel
from spillscan.reading.binary.pressure import Pressure, pressures
from spillscan.reading.binary.records import cubins
from tests.oracle.toolchain import root, said

ENOUGH = 0.95
NEW, OLD = "13.5", "13.0"


class Side(NamedTuple):
    """A build of a kernel."""

    source: str
    flags: tuple[str, ...] = ()
    old: bool = False
    """With the older toolkit."""


class Plant(NamedTuple):
    """Two builds, and what was done between them."""

    kind: Kind
    before: Side
    after: Side


BODIES = (
    "s[0] += a[i * 128 + t] * a[i * 64 + t + 7];",
    "float x = a[i * 32 + t]; s[1] = fmaf(x, x, s[1]); s[2] += sqrtf(x);",
    "float4 v = reinterpret_cast<const float4*>(a)[i * 32 + t]; s[0] += v.x * v.y; s[1] += v.z * v.w;",
)
CALLEES = ("z = z * y + 3.f;", "for (int j = 0; j < 4; ++j) z += a[i + j * 16] * y;", "z += __expf(y) * a[i + 9];")


def unrolled(times: int, body: str) -> str:
    """A loop."""
    return f"""extern "C" __global__ void k(const float* __restrict__ a, float* b, int n) {{
  float s[8] = {{}};
  int t = threadIdx.x;
#pragma unroll {times}
  for (int i = 0; i < n; ++i) {{
    {body}
  }}
  float r = 0;
  for (int j = 0; j < 8; ++j) r += s[j];
  b[t] = r;
}}
"""


def called(qualifier: str, body: str) -> str:
    """A function that is called twice."""
    return f"""__device__ {qualifier} float f(const float* a, int i, float x) {{
  float y = a[i] * x;
  float z = a[i + 1] + y;
  {body}
  return y * z + a[i + 3];
}}
extern "C" __global__ void k(const float* a, float* b, int n) {{
  float r = 0;
#pragma unroll 1
  for (int i = 0; i < n; ++i) r += f(a, i * 32 + threadIdx.x, r) * f(a, i + 7, r + 1);
  b[threadIdx.x] = r;
}}
"""


def bounded(bounds: str, size: int) -> str:
    """Kernel with an array in registers."""
    return f"""extern "C" __global__ void {bounds} k(const float* __restrict__ a, float* b, int n) {{
  float s[{size}];
  int t = threadIdx.x;
  for (int j = 0; j < {size}; ++j) s[j] = a[j * 128 + t];
#pragma unroll 1
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < {size}; ++j) s[j] = fmaf(s[j], s[(j + 3) % {size}], s[(j + 7) % {size}]);
  for (int j = 0; j < {size}; ++j) b[j * 128 + t] = s[j];
}}
"""


def plants() -> Iterator[Plant]:
    """Each once."""
    for body in BODIES:
        for before, after in ((2, 8), (1, 4), (1, 2)):
            yield Plant("lines", Side(unrolled(before, body)), Side(unrolled(after, body)))
    for body in CALLEES:
        sides = Side(called("__noinline__", body)), Side(called("__forceinline__", body))
        yield Plant("calls", *sides)
        yield Plant("calls", *reversed(sides))
    for size in (24, 48, 96):
        plain = bounded("", size)
        yield Plant("bounds", Side(plain), Side(bounded("__launch_bounds__(1024)", size)))
        yield Plant("register-limit", Side(plain), Side(plain, ("-maxrregcount", "32")))
        yield Plant(
            "bounds", Side(bounded("__launch_bounds__(128, 2)", size)), Side(bounded("__launch_bounds__(512, 2)", size))
        )
        yield Plant("toolkit", Side(plain, old=True), Side(plain))
    for body in BODIES:
        yield Plant("options", Side(unrolled(2, body)), Side(unrolled(2, body), ("-Xptxas", "-O1")))


def read(path: Path) -> tuple[Kernel, Pressure]:
    """The kernel, and its code."""
    (kernel,) = (each for each in scan(str(path)).kernels if each.key.symbol == "k")
    ((cubin, _),) = cubins(path.read_bytes(), ["k"])
    ((_, code),) = pressures(cubin, lambda function: function.symbol == "k")
    return kernel, code


def main() -> int:
    """Compile, and ask."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--arch", action="append", help="default: sm_80, sm_90, sm_120")
    arguments = parser.parse_args()
    right = total = more = 0
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "k.cu", Path(folder) / "k.cubin"
        for arch in arguments.arch or ("sm_80", "sm_90", "sm_120"):
            for plant in plants():
                found = []
                for side in plant[1:]:
                    toolkit = root(OLD if side.old else NEW)
                    source.write_text(side.source)
                    options = ("-cubin", f"-arch={arch}", "-lineinfo", f"-I{toolkit / 'include'}", *side.flags)
                    said(toolkit / "bin" / "nvcc", *options, "-o", target, source)
                    found.append(read(target))
                (before, old), (after, new) = found
                causes = Growth(before, after, {id(before): old, id(after): new}).causes
                kinds = [each.kind for each in causes]
                named = plant.kind in kinds
                total, right, more = total + 1, right + named, more + len(kinds) - named
                if not named:
                    print(f"{arch}: {plant.kind} was planted, {kinds} named", file=sys.stderr)
    print(f"{right} of {total} planted causes named; {more} others")
    return 0 if right >= ENOUGH * total else 1


if __name__ == "__main__":
    sys.exit(main())
