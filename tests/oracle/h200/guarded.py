"""Asks a GPU which registers are live: overwrites one where something can be put in, and looks whether results change.

    PYTHONPATH=REPOSITORY python3 guarded.py questions FOLDER NVDISASM NVCC…    # no GPU
    python3 guarded.py answers FOLDER                       # compute capability 9.0, nothing else

``questions`` compiles ``guarded.cu`` with each nvcc (with its options: "nvcc -Xptxas -O2"). In its kernels guarded
instructions replace values. At each mark in the code it takes each register that nvdisasm does not show there: the
instruction of the mark is replaced by one that writes into the register. ``answers`` executes all of them. A register
that holds something changes the result; ``read`` is what the code says (``older_is_read`` in ``registers_oracle.py``).
"""

from __future__ import annotations

import ctypes
import json
import random
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
KERNELS = {"replaced_float": "f", "replaced_double": "d"}
"""Those whose values are no 32-bit integers."""
MARK, MOVE = 0x801, 0x802
"""Opcodes of PMTRIG and of MOV with a constant."""
THREADS, BLOCKS, ROUNDS, VALUES = 64, 4, 5, 4096
PATTERN = 0x5A5A3C3C


def instead(register: int) -> bytes:
    """``MOV R, constant``, after everything in flight, followed by the longest wait."""
    low = 0x7000 | MOVE | register << 16 | PATTERN << 32
    scheduling = 15 | 7 << 5 | 7 << 8 | 0x3F << 11
    return struct.pack("<QQ", low, 0xF << 8 | scheduling << 41)


def questions(file: Path, nvcc: str, nvdisasm: Path) -> Iterator[dict[str, Any]]:
    """One register at one mark each."""
    import numpy as np

    sys.path.insert(0, str(HERE.parents[2] / "fixtures"))
    from maker.live import listing

    from spillscan.reading.binary.cubin import Cubin
    from spillscan.reading.binary.pressure import pressures
    from spillscan.reading.binary.window import Window
    from spillscan.reading.machine.liveness import INSTRUCTION
    from tests.oracle.registers_oracle import older_is_read

    subprocess.run([*nvcc.split(), "-arch=sm_90", "-cubin", "-o", file, HERE / "guarded.cu"], check=True)
    contents = file.read_bytes()
    for function, found in pressures(Cubin(Window(contents))):
        assert found.graph is not None
        sets = found.live.sets
        code = function.code.copy(0, len(sets) * INSTRUCTION, "code")
        rows = listing(nvdisasm, [("f", code)], 90)["f"]
        words = np.frombuffer(code, "<i8")
        highest = max(row.marks.every & (1 << 255) - 1 for row in rows).bit_length()
        for at in np.flatnonzero((words[0::2] & 0xFFF) == MARK).tolist():
            for register in range(highest):
                ours, theirs = sets[at] >> register & 1, rows[at].marks.every >> register & 1
                underway = rows[at - 1].marks.written >> register & 1  # a load in front would still write over it
                if not theirs and not underway:
                    read = older_is_read(found.graph, rows, words, at, register)
                    place = contents.index(code) + at * INSTRUCTION
                    said = {"live": ours, "read": read}
                    yield {"file": file.name, "kernel": function.symbol, "place": place, "register": register, **said}


class Gpu:
    """The first one, by the driver's own interface."""

    def __init__(self) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)
        self._call("cuCtxCreate_v2", ctypes.byref(ctypes.c_void_p()), 0, 0)
        self._places = [ctypes.c_uint64() for _ in range(2)]
        for place in self._places:
            self._call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(8 * VALUES))

    def _call(self, name: str, *arguments: object) -> None:
        if code := getattr(self._driver, name)(*arguments):
            raise RuntimeError(f"{name}: error {code} of the driver")

    def run(self, image: bytes, kernel: str, values: bytes) -> bytes:
        """Output of a kernel."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), image)
        self._call("cuModuleGetFunction", ctypes.byref(function), module, kernel.encode())
        source, target = self._places
        self._call("cuMemcpyHtoD_v2", source, values, ctypes.c_size_t(len(values)))
        self._call("cuMemsetD8_v2", target, ctypes.c_ubyte(0), ctypes.c_size_t(8 * VALUES))
        parts = [source, target, ctypes.c_int(ROUNDS)]
        pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(each) for each in parts))
        self._call("cuLaunchKernel", function, BLOCKS, 1, 1, THREADS, 1, 1, 0, None, pointers, None)
        self._call("cuCtxSynchronize")
        found = ctypes.create_string_buffer(8 * VALUES)
        self._call("cuMemcpyDtoH_v2", found, target, ctypes.c_size_t(8 * VALUES))
        self._call("cuModuleUnload", module)
        return found.raw


def answers(folder: Path) -> Counter[str]:
    """Number of changed results, by who reports the register as live."""
    gpu, tally, chance = Gpu(), Counter[str](), random.Random(1)
    right: dict[tuple[str, str], bytes] = {}
    numbers = [chance.randrange(100) for _ in range(VALUES)]
    for asked in json.loads((folder / "questions.json").read_text()):
        kernel, place = asked["kernel"], asked["place"]
        contents, key = (folder / asked["file"]).read_bytes(), (asked["file"], kernel)
        values = struct.pack(f"<{VALUES}{KERNELS.get(kernel, 'i')}", *numbers)
        if key not in right:
            right[key] = gpu.run(contents, kernel, values)
            assert right[key] == gpu.run(contents, kernel, values), f"{kernel}: results differ by themselves"
        image = contents[:place] + instead(asked["register"]) + contents[place + 16 :]
        changed = gpu.run(image, kernel, values) != right[key]
        said = "live here" if asked["live"] else "live nowhere"
        read = ", read later" if asked["read"] else ", not read"
        tally[f"{said}{read}: {'changed' if changed else 'the same'}"] += 1
        if changed != asked["read"]:
            print(f"{asked['file']} {kernel} {place:#x} R{asked['register']}: {said}{read}, but changed: {changed}")
    return tally


def main() -> int:
    """Return 0 if each result is as the code shows."""
    folder = Path(sys.argv[2])
    if sys.argv[1] == "questions":
        folder.mkdir(parents=True, exist_ok=True)
        files = {folder / f"guarded-{number}.cubin": nvcc for number, nvcc in enumerate(sys.argv[4:])}
        asked = [each for file, nvcc in files.items() for each in questions(file, nvcc, Path(sys.argv[3]))]
        (folder / "questions.json").write_text(json.dumps(asked))
        print(Counter((each["live"], each["read"]) for each in asked))
        return 0
    tally = answers(folder)
    print(json.dumps(dict(sorted(tally.items())), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
