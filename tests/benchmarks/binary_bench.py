"""Speed and memory of reading binaries, against NVIDIA's cuobjdump and cuxray on the same files, in one run.

    python -m tests.benchmarks.binary_bench [--cache DIR] [--rounds N] [--cuxray] [LIBRARY…]

Without a library, one of bitsandbytes and that of xgboost are taken from PyPI. `spillscan scan` is timed as a whole
process, start-up and table included; `cuobjdump -res-usage` counts no instruction; `cuobjdump -sass -arch A | grep -cE
'STL|LDL'` is run for one architecture and set against by instructions per second, as all of them take minutes.
Seconds are CPU seconds, user and system, of a process and its children: every candidate uses one core.
"""

from __future__ import annotations

import argparse
import mmap
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from spillscan import binary
from spillscan.binary import containers
from spillscan.binary.limits import DEFAULT, Budget
from spillscan.binary.window import Window
from spillscan.sass.model import SassFunction
from tests.oracle.binary_oracle import libraries, number, run, tool_folder, wheel

WHEELS = {"bitsandbytes==0.48.1": "*libbitsandbytes_cuda130.so", "xgboost==3.2.0": "*libxgboost.so"}


def timed(command: list[str], environment: dict[str, str] | None = None) -> tuple[float, int, bool]:
    """CPU seconds, peak memory in bytes and success of one command."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    return ended(process)


def ended(process: subprocess.Popen[bytes]) -> tuple[float, int, bool]:
    """CPU seconds (those of its children, too), peak memory in bytes and success of a process."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, status == 0


def contents(path: Path) -> tuple[Counter[str], int]:
    """Instructions by arch, and the size of the largest member."""
    instructions: Counter[str] = Counter()
    with path.open("rb") as file:
        buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        for item in binary.read(buffer, path.name):
            if isinstance(item, SassFunction):
                instructions[item.arch or ""] += item.stats.instructions
        images = containers.images(Window(buffer), Budget(DEFAULT, len(buffer)))
        largest = max(image.window.size for image in images if isinstance(image, containers.Image))
    return instructions, largest


def measure(path: Path, old: Path, new: Path, rounds: int, cuxray: bool) -> None:
    """All candidates on one library."""
    instructions, largest = contents(path)
    total = sum(instructions.values())
    print(f"{path.name}: {path.stat().st_size >> 20} MiB, {total:,} instructions of {len(instructions)} architectures")
    scan = [sys.executable, "-m", "spillscan", "scan", str(path), "--top", "10"]
    environment = {**os.environ, "PATH": f"{new}:{os.environ['PATH']}"}
    listing = [str(new / "cuobjdump"), "-res-usage", str(path)]
    ours, theirs, memory = [], [], 0
    for _ in range(rounds):
        seconds, memory, done = timed(scan)
        assert done
        ours.append(seconds)
        seconds, _, done = timed(listing, environment)
        theirs.append(seconds)
    mine = statistics.median(ours)
    print(
        f"  spillscan scan        {mine:8.2f} s  {total / mine / 1e6:6.1f} M instructions/s, {memory >> 20} MiB", end=""
    )
    print(f" ({memory / largest:.1f} times its largest member of {largest >> 20} MiB)")
    told = f"ours {mine / statistics.median(theirs):.2f} times that" if done else "it fails"
    print(f"  cuobjdump -res-usage  {statistics.median(theirs):8.2f} s  {told}")
    arch = max((arch for arch in instructions if number(arch) >= 75), key=lambda name: (instructions[name], name))
    process = run(new if number(arch) >= 75 else old, "-sass", "-arch", arch, path)
    found = subprocess.run(["grep", "-cE", "STL|LDL"], stdin=process.stdout, capture_output=True, check=False)
    seconds = ended(process)[0]
    rate = instructions[arch] / seconds
    print(f"  cuobjdump -sass|grep  {seconds:8.2f} s  of {arch} alone, {int(found.stdout)} lines; ", end="")
    print(f"ours {total / mine / rate:.0f} times as fast by instructions")
    if cuxray and find_spec("cuxray"):
        seconds, memory, done = timed([str(Path(sys.executable).with_name("cuxray")), "survey", str(path)])
        print(f"  cuxray survey         {seconds:8.2f} s  {memory >> 20} MiB{'' if done else ', it fails'}")


def main() -> int:
    """Measure every library."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("libraries", nargs="*", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cuxray", action="store_true", help="time cuxray, too, which may take minutes")
    arguments = parser.parse_args()
    given = [(path, "*") for path in arguments.libraries]
    given = given or [(wheel(name, arguments.cache), pattern) for name, pattern in WHEELS.items()]
    old, new = (tool_folder(name, arguments.cache) for name in ("sass-12.8", "sass-13.5"))
    for file, pattern in given:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            for path in libraries(file, pattern, Path(folder)):
                measure(path, old, new, arguments.rounds, arguments.cuxray)
    return 0


if __name__ == "__main__":
    sys.exit(main())
