"""Identity on a whole code base, compiled by the real nvcc: 24 sources, some 2,000 kernels, in two checkouts.

    python -m tests.oracle.identity_oracle [--jobs N]

Expects: no difference between the checkouts, with and without -rdc; of one source changed exactly the kernels whose
lines in its log differ; of one kernel renamed and worsened one rename. Takes the toolkit of the fixtures
(fixtures/maker/toolchains.py). Exits with 1 where anything else is found.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from spillscan import diff, scan
from spillscan.model import Build, Change
from tests.oracle.toolchain import FIXTURES, tool

SOURCES = 24
RDC = 4
"""Number of sources that are also compiled with -rdc."""

SOURCE = """\
#include "pressure.cuh"
namespace {{
struct Step {{ float by; __device__ float operator()(float x) const {{ return x + by * {n}; }} }};
template <typename T, int N> __global__ void hidden(T* x, T f) {{
  for (int i = 0; i < N; i++) x[i * blockDim.x + threadIdx.x] *= f + T({grow});
}}
template <typename F> __global__ void each(F f, float* x) {{ x[threadIdx.x] = f(x[threadIdx.x]); }}
}}
template <typename T, int N> static __global__ void local(const T* a, T* b) {{
  T s = 0;
  for (int i = 0; i < N; i++) s += a[i] * T({n});
  b[threadIdx.x] = s;
}}
namespace lib_{n} {{
template <typename T, int N> __global__ void scale(T* x, T f) {{
  for (int i = 0; i < N; i++) x[i + threadIdx.x] *= f;
}}
__global__ void __launch_bounds__(1024, 1) {name}(const float* a, float* b, int n) {{
  pressure<float, {held}>(a, b, n);
}}
}}
template <typename T, int N> void instance(T* x, float* y) {{
  hidden<T, N><<<1, 1>>>(x, T(1));
  local<T, N><<<1, 1>>>(x, x);
  lib_{n}::scale<T, N><<<1, 1>>>(x, T(1));
  each<<<1, 1>>>([=] __device__(float v) {{ return v * N + {n}; }}, y);
}}
template <typename T> void instances(T* x, float* y) {{
  instance<T, 2>(x, y); instance<T, 3>(x, y); instance<T, 5>(x, y); instance<T, 8>(x, y); instance<T, 9>(x, y);
  instance<T, 12>(x, y);
}}
void launch_{n}(float* y) {{
  instances<float>(y, y); instances<double>((double*)y, y); instances<int>((int*)y, y);
  instances<short>((short*)y, y);
  each<<<1, 1>>>(Step{{2}}, y);
  each<<<1, 1>>>([=] __device__(float v) {{ return v + 1; }}, y);
  each<<<1, 1>>>([=] __device__(float v) {{ return sqrtf(v); }}, y);
  lib_{n}::{name}<<<1, 1>>>(y, y, 3);
}}
"""


def source(number: int, *, grow: str = "0", name: str = "press", held: int = 12) -> str:
    """A source of the code base; the arguments are the words that the oracle changes."""
    return SOURCE.format(n=number, grow=grow, name=name, held=held)


class Checkout:
    """A folder with the code base, and how to build it."""

    def __init__(self, folder: Path, nvcc: Path, jobs: int) -> None:
        folder.mkdir(parents=True)
        self.folder, self.nvcc, self.jobs = folder, nvcc, jobs
        (folder / "pressure.cuh").write_text((FIXTURES / "sources" / "pressure.cuh").read_text())
        for number in range(SOURCES):
            self.write(number, source(number))

    def write(self, number: int, text: str) -> None:
        """Change a source; the next build writes its log again."""
        (self.folder / f"part_{number:02}.cu").write_text(text)
        for log in self.folder.glob(f"*_{number:02}.log"):
            log.unlink()

    def build(self, *, rdc: bool = False) -> Build:
        """Compiles what has no log yet; reads all logs."""
        numbers = range(RDC if rdc else SOURCES)
        logs = [self.folder / f"{'rdc' if rdc else 'plain'}_{number:02}.log" for number in numbers]
        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(lambda number: self._compile(number, logs[number], rdc), numbers))
        return scan([str(log) for log in logs])

    def _compile(self, number: int, log: Path, rdc: bool) -> None:
        if log.exists():
            return
        stem = f"part_{number:02}"
        options = ["-arch=sm_90", "-extended-lambda", f"-rdc={str(rdc).lower()}", "-Xptxas", "-v"]
        command = [str(self.nvcc), *options, "-c", f"{stem}.cu", "-o", f"{log.stem}.o"]
        environment = os.environ | {"PATH": f"{self.nvcc.parent}:{os.environ['PATH']}"}
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, check=False)
        if done.returncode:
            raise SystemExit(f"{stem}.cu does not compile: {done.stderr.decode()[-2000:]}")
        log.write_bytes(done.stdout + done.stderr)


_CHECKOUT = re.compile(r"[0-9a-f]{8}(?=_\d+_part_)|(?<=_cu_)[0-9a-f]{8}")


def naive(log: Path) -> dict[str, list[str]]:
    """The lines of each kernel of a log, without compile times; its name without the hashes of its checkout."""
    kernels: dict[str, list[str]] = {}
    name = ""
    for line in _CHECKOUT.sub("", log.read_text()).splitlines():
        if found := re.search("Compiling entry function '(.*)' for", line):
            name = found[1]
        elif name and "Compile time" not in line:
            kernels.setdefault(name, []).append(line)
    return kernels


def states(changes: list[Change]) -> dict[str, int]:
    """Number of changes per state."""
    return {state: sum(change.state == state for change in changes) for state in sorted({c.state for c in changes})}


def main() -> int:
    """Build, compare, and check."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    jobs = parser.parse_args().jobs
    nvcc = tool("13.0", "nvcc")
    wrong = 0

    def expect(what: str, changes: list[Change], wanted: dict[str, int]) -> None:
        nonlocal wrong
        found = states(changes)
        wrong += found != wanted
        print(f"{'as expected' if found == wanted else 'WRONG':11}  {what}: {found or 'no difference'}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        here = Checkout(Path(folder, "here"), nvcc, jobs)
        there = Checkout(Path(folder, "some", "where", "else"), nvcc, jobs)
        base, other = here.build(), there.build()
        shared = {kernel.key.symbol for kernel in base.kernels} & {kernel.key.symbol for kernel in other.kernels}
        print(f"{len(base.kernels):,} kernels in {SOURCES} sources; {len(shared):,} have one name in both checkouts")
        expect("two checkouts", diff(base, other), {})
        expect("two checkouts, -rdc", diff(here.build(rdc=True), there.build(rdc=True)), {})

        there.write(7, source(7, grow="threadIdx.x / (i + 1)"))
        changes = diff(base, there.build())
        before, after = naive(here.folder / "plain_07.log"), naive(there.folder / "plain_07.log")
        differing = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        expect("one source changed, its kernels only", changes, {"changed": len(differing)})
        wrong += differing != {_CHECKOUT.sub("", c.after.key.symbol) for c in changes if c.after}

        there.write(7, source(7, name="press_fused", held=96))
        changes = diff(base, there.build())
        expect("one kernel renamed and worsened", changes, {"added": 1, "removed": 1})
        worse = [{name: after for name, _, after in c.metrics}.get("spill_store_bytes") for c in changes]
        print(f"             spill stores of it: 0 -> {worse[0] if worse else None} B")
        wrong += not any(worse)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
