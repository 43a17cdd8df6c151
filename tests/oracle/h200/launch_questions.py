"""Kernels of Triton, nvcc and cuTile with static, dynamic and opt-in shared memory, and what we say of their launches.

    PYTHONPATH=REPOSITORY python3 launch_questions.py FOLDER CUBINS_OR_CACHES…

Compiles ``launch_kernels.cu`` with the nvcc on the path, takes the given cubins and cache folders besides, and writes
FOLDER with all cubins and ``questions.json``. ``launch_answers.py`` asks the driver of a GPU of compute capability 9.0
the same, with no more than Python and that folder.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spillscan import scan
from spillscan.model import Kernel
from spillscan.occupancy.launches import launch, settled
from spillscan.occupancy.summary import summarise

HERE = Path(__file__).resolve().parent
DEVICE = "H200"
THREADS = (32, 96, 128, 256, 512, 1024)
DYNAMIC = (0, 1024, 8192, 40_000, 49_152, 65_536, 100_000, 200_000)


def questions(kernel: Kernel, file: str) -> Iterator[dict[str, Any]]:
    """One launch each, with our blocks; ``bound``: what we call no more than a bound."""
    known = settled(kernel, None)
    summary = None if known is None else summarise(kernel.usage, DEVICE, known)
    asked = {"file": file, "symbol": kernel.key.symbol}
    if known is not None and summary is not None and summary.occupancy is not None:
        sizes = DYNAMIC if known.dynamic_shared_bytes is None else (known.dynamic_shared_bytes,)
        for size in sizes:
            yield asked | {
                "threads": known.threads_per_block,
                "dynamic": size,
                "blocks": summary.occupancy.resident_blocks,
                "bound": summary.at_most,
                "source": known.source,
            }
    bounds = kernel.launch_bounds
    most = (bounds and bounds.threads) or 1024
    for threads in THREADS:
        if threads > most or (bounds and bounds.required_threads and threads != bounds.required_threads):
            continue
        for size in DYNAMIC if kernel.dynamic_shared is not False else (0,):
            found = summarise(
                kernel.usage, DEVICE, launch("given", threads_per_block=threads, dynamic_shared_bytes=size)
            )
            if found.occupancy is not None:
                blocks = found.occupancy.resident_blocks
                yield asked | {"threads": threads, "dynamic": size, "blocks": blocks, "bound": False, "source": "given"}


def main() -> int:
    """0; writes the folder."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    own = folder / "launch_kernels.cubin"
    subprocess.run(["nvcc", "-cubin", "-arch=sm_90", str(HERE / "launch_kernels.cu"), "-o", str(own)], check=True)
    kernels = [(kernel, own.name) for kernel in scan(own).kernels]
    for given in sys.argv[2:]:
        found = sorted(Path(given).rglob("*.cubin")) if Path(given).is_dir() else [Path(given)]
        for path in found:
            name = f"{len(list(folder.iterdir()))}-{path.name}"
            shutil.copy(path, folder / name)
            kernels += [(kernel, name) for kernel in scan(path).kernels]
    entries = [(kernel, name) for kernel, name in kernels if kernel.role == "entry" and kernel.key.arch in ARCHS]
    asked = [each for kernel, name in entries for each in questions(kernel, name)]
    (folder / "questions.json").write_text(json.dumps(asked))
    print(f"{len(entries)} kernels, {len(asked)} questions, {sum(each['bound'] for each in asked)} of them of bounds")
    return 0


ARCHS = ("sm_90", "sm_90a")

if __name__ == "__main__":
    sys.exit(main())
