"""Runs both kernels of each pair that ``diff --code`` calls the same work, on random inputs, and compares the results.

    PYTHONPATH=REPOSITORY python3 code_answers.py FOLDER    # of ``code_oracle --keep``; compute capability 9.0

Of the pairs in which something was changed, too, as far as their code differs: how many of them the inputs tell apart.
"""

from __future__ import annotations

import ctypes
import json
import random
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.oracle.code_sources import RESULTS, THREADS, VALUES

BLOCKS, ROUNDS = 2, 4
SUMS = 64


class Gpu:
    """The driver's interface, and memory for arguments."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self._call("cuCtxSetCurrent", context)
        threads = BLOCKS * THREADS * RESULTS
        self._sizes = [VALUES * 4, VALUES * 4, VALUES, threads * 4, threads * 4, threads * 8, SUMS * 4]
        self._memory = [ctypes.c_uint64() for _ in self._sizes]
        for pointer, size in zip(self._memory, self._sizes, strict=True):
            self._call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        self._kernels: dict[tuple[Path, str], ctypes.c_void_p] = {}

    def _call(self, name: str, *arguments: object) -> None:
        if error := getattr(self._cuda, name)(*arguments):
            raise RuntimeError(f"{name}: error {error}")

    def run(self, cubin: Path, kernel: str, seed: int) -> bytes:
        """All that it writes."""
        if (function := self._kernels.get((cubin, kernel))) is None:
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            self._call("cuModuleLoad", ctypes.byref(module), str(cubin).encode())
            self._call("cuModuleGetFunction", ctypes.byref(function), module, kernel.encode())
            self._kernels[cubin, kernel] = function
        values = random.Random(seed)
        floats = struct.pack(f"{VALUES}f", *(values.uniform(-50, 50) for _ in range(VALUES)))
        whole = [values.randrange(-(1 << 31), 1 << 31) >> values.randrange(31) for _ in range(VALUES)]
        integers = struct.pack(f"{VALUES}i", *whole)
        for pointer, contents in zip(self._memory, (floats, integers, values.randbytes(VALUES)), strict=False):
            self._call("cuMemcpyHtoD_v2", pointer, contents, ctypes.c_size_t(len(contents)))
        for pointer, size in [*zip(self._memory, self._sizes, strict=True)][3:]:
            self._call("cuMemsetD8_v2", pointer, ctypes.c_ubyte(0), ctypes.c_size_t(size))
        held = [*self._memory, ctypes.c_int(seed % 7)]
        arguments = (ctypes.c_void_p * len(held))(*(ctypes.cast(ctypes.byref(each), ctypes.c_void_p) for each in held))
        self._call("cuLaunchKernel", function, BLOCKS, 1, 1, THREADS, 1, 1, 0, None, arguments, None)
        self._call("cuCtxSynchronize")
        found = b""
        for pointer, size in [*zip(self._memory, self._sizes, strict=True)][3:]:
            out = ctypes.create_string_buffer(size)
            self._call("cuMemcpyDtoH_v2", out, pointer, ctypes.c_size_t(size))
            found += out.raw
        return found


def answer(folder: Path, first: int) -> None:
    """Print of each pair from one on how its runs compare."""
    gpu = Gpu()
    for arch, old, new, kernel, kind in json.loads((folder / "proven.json").read_text())[first:]:
        said = "other architecture"
        if arch == "sm_90":
            sides = [[gpu.run(folder / name, kernel, seed) for seed in range(ROUNDS)] for name in (old, new)]
            again = gpu.run(folder / old, kernel, 0)
            said = "differ" if sides[0] != sides[1] else "agree"
            said = said if again == sides[0][0] else "gives other results the second time"
        print(json.dumps([said, kind, old, new, kernel]), flush=True)


def main(folder: Path) -> int:
    """Run all pairs; a kernel that the GPU refuses ends the process that ran it."""
    pairs, tally, failed, done = json.loads((folder / "proven.json").read_text()), Counter[str](), False, 0
    while done < len(pairs):
        command = [sys.executable, __file__, str(folder), str(done)]
        lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
        found = [json.loads(line) for line in lines]
        if done + len(found) < len(pairs):
            found.append(["refused", *[pairs[done + len(found)][at] for at in (4, 1, 2, 3)]])
        for said, kind, old, new, kernel in found:
            tally[f"{said}: {'changed' if kind == 'changed' else 'said the same'}"] += 1
            if said == "refused" or (said == "differ" and kind != "changed"):
                failed = True
                print(f"{old} and {new}: {kernel} ({kind}): {said}", flush=True)
        done += len(found)
    print(json.dumps(tally))
    return int(failed)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        answer(Path(sys.argv[1]), int(sys.argv[2]))
    else:
        sys.exit(main(Path(sys.argv[1])))
