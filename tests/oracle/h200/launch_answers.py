"""Ask the driver what ``launch_questions.py`` asked us: nothing but Python and libcuda.

    python3 launch_answers.py FOLDER

For each launch the kernel is opted in for its dynamic shared memory, and asked for its blocks per multiprocessor. Where
we are exact, the driver must say the same; where we give a bound, no more. Exit status 0 where that is so.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

MAX_DYNAMIC = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"""
STATIC = 1
"""CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES"""


class Driver:
    """What is needed of libcuda."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._modules: dict[str, ctypes.c_void_p] = {}
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._must(self._cuda.cuInit(0))
        self._must(self._cuda.cuDeviceGet(ctypes.byref(device), 0))
        self._must(self._cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        self._must(self._cuda.cuCtxSetCurrent(context))
        version = ctypes.c_int()
        self._must(self._cuda.cuDriverGetVersion(ctypes.byref(version)))
        self.version = version.value

    @staticmethod
    def _must(status: int) -> None:
        if status:
            raise RuntimeError(f"CUDA error {status}")

    def function(self, path: Path, symbol: str) -> ctypes.c_void_p:
        """A kernel of a cubin."""
        key = str(path)
        if key not in self._modules:
            self._modules[key] = ctypes.c_void_p()
            self._must(self._cuda.cuModuleLoadData(ctypes.byref(self._modules[key]), path.read_bytes()))
        found = ctypes.c_void_p()
        self._must(self._cuda.cuModuleGetFunction(ctypes.byref(found), self._modules[key], symbol.encode()))
        return found

    def blocks(self, function: ctypes.c_void_p, threads: int, dynamic: int) -> tuple[int, int]:
        """(blocks per multiprocessor, error of opting in)."""
        static = ctypes.c_int()
        self._must(self._cuda.cuFuncGetAttribute(ctypes.byref(static), STATIC, function))
        refused = 0
        if dynamic:
            refused = self._cuda.cuFuncSetAttribute(function, MAX_DYNAMIC, dynamic)
        found = ctypes.c_int()
        self._must(
            self._cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                ctypes.byref(found), function, threads, ctypes.c_size_t(dynamic)
            )
        )
        return found.value, refused


def wrong(each: dict[str, Any], blocks: int, refused: int) -> str:
    """What contradicts us; empty where nothing does."""
    if each["bound"]:
        return "above our bound" if blocks > each["blocks"] else ""
    if refused:  # more than the device has: no launch
        return "" if each["blocks"] == 0 else f"opting in fails with {refused}"
    return "" if blocks == each["blocks"] else "not equal"


def main() -> int:
    """0 where nothing contradicts us."""
    folder = Path(sys.argv[1])
    driver = Driver()
    seen: Counter[str] = Counter()
    answers = []
    for each in json.loads((folder / "questions.json").read_text()):
        function = driver.function(folder / each["file"], each["symbol"])
        blocks, refused = driver.blocks(function, each["threads"], each["dynamic"])
        found = wrong(each, blocks, refused)
        seen[f"{'bound' if each['bound'] else 'exact'}, {each['source']}: {found or 'agrees'}"] += 1
        answers.append(each | {"driver": blocks, "refused": refused})
        if found:
            print(found, blocks, refused, each)
    (folder / "answers.json").write_text(json.dumps(answers))
    print(f"driver {driver.version}, {len({(each['file'], each['symbol']) for each in answers})} kernels")
    for name, count in sorted(seen.items()):
        print(f"{count:6} {name}")
    return int(any(not name.endswith("agrees") for name in seen))


if __name__ == "__main__":
    sys.exit(main())
