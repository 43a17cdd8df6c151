"""Speed and memory of reading binaries, against NVIDIA's cuobjdump and cuxray on the same files, in one run.

    python -m tests.benchmarks.binary_bench [--cache DIR] [--rounds N] [--instructions N] [--cuxray SECONDS] [LIBRARY…]

Without a library, those of bitsandbytes, xgboost and faiss are taken from PyPI. Each candidate is a whole process,
start-up included; candidates take turns, and medians are shown: seconds on the clock, and of processors (user and
system, children included), which other work on the machine changes less.

    scan         spillscan scan LIBRARY -f json:FILE, on one processor and on two; the net rate is that of the time
                 beyond what a file of one small kernel takes
    -res-usage   cuobjdump -res-usage LIBRARY, which counts no instruction
    -sass        cuobjdump -sass CUBIN | grep -cE 'STL|LDL', on the largest cubins of one architecture that hold a
                 million instructions together, as a whole library takes minutes an architecture; set against by
                 instructions per second of processors
    cuxray       cuxray ls (no disassembly) and cuxray survey, stopped after some seconds; registers, stack and shared
                 memory of ls are compared with ours, kernel by kernel
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from spillscan import binary, cores
from spillscan.binary import containers
from spillscan.binary.limits import DEFAULT, Budget
from spillscan.binary.window import Window
from spillscan.sass.model import SassFunction
from tests.oracle.binary_oracle import ROOT, libraries, number, tool_folder, wheel

WHEELS = {
    "bitsandbytes==0.48.1": "*libbitsandbytes_cuda130.so",
    "xgboost==3.2.0": "*libxgboost.so",
    "faiss-gpu-cu12==1.14.1.post1": "*libfaiss*.so",
}
SMALL = ROOT / "fixtures" / "binary" / "tiny-sm_80-13.5.cubin"
FIRST_WITH_NEW_TOOLS = 75


class Run(NamedTuple):
    """What one command took."""

    seconds: float
    """On the clock."""
    cpu: float
    """Of processors."""
    peak: int
    """Bytes of memory of its largest process."""
    done: bool
    """It ended by itself, and well."""
    printed: bytes


def timed(
    command: Sequence[str | Path], *, tools: Path | None = None, processors: int = 1, most_seconds: float = 3600
) -> Run:
    """Run a command on some processors, with ``tools`` found first; it is ended after ``most_seconds``."""
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"} if tools else None
    chosen = sorted(os.sched_getaffinity(0))[:processors]
    with tempfile.TemporaryFile() as output:
        begin = time.perf_counter()
        process = subprocess.Popen(
            list(map(str, command)),
            stdout=output,
            stderr=subprocess.DEVNULL,
            env=environment,
            process_group=0,
            preexec_fn=lambda: os.sched_setaffinity(0, chosen),  # noqa: PLW1509 - no thread runs here
        )
        late = False
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.perf_counter() - begin > most_seconds and not late:
                late = True
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.002)
        seconds = time.perf_counter() - begin
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        return Run(
            seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, not status and not late, output.read()
        )


def median(runs: Sequence[Run]) -> Run:
    """Medians of the figures."""
    figures = (statistics.median(column) for column in zip(*(run[:2] for run in runs), strict=True))
    return Run(*figures, max(run.peak for run in runs), all(run.done for run in runs), b"")


class Library:
    """One library, read once to know what it holds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.functions: list[SassFunction] = []
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
            self.functions += (item for item in binary.read(buffer, path.name) if isinstance(item, SassFunction))
            found = containers.images(Window(buffer), Budget(DEFAULT, len(buffer)))
            self.largest = max(image.window.size for image in found if isinstance(image, containers.Image))
        self.instructions = sum(function.stats.instructions for function in self.functions)
        self.archs = Counter[str]()
        for function in self.functions:
            self.archs[function.arch or ""] += function.stats.instructions

    def cubins(self, least: int, folder: Path) -> tuple[str, int, list[Path]]:
        """(architecture, instructions, files) of the largest cubins that hold ``least`` instructions together."""
        arch = max(
            (arch for arch in self.archs if number(arch) >= FIRST_WITH_NEW_TOOLS), key=lambda a: (self.archs[a], a)
        )
        sizes = Counter[int]()
        for function in self.functions:
            if function.arch == arch:
                sizes[function.member] += function.stats.instructions
        total, files = 0, []
        for member, size in sizes.most_common():
            if total >= least:
                break
            total += size
            files.append(folder / f"{member}.cubin")
            with self.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
                files[-1].write_bytes(binary.extract(buffer, member))
        return arch, total, files


def measure(library: Library, tools: Path, rounds: int, least: int, cuxray: float) -> None:
    """All candidates on one library."""
    path, total = library.path, library.instructions
    print(f"{path.name}: {path.stat().st_size >> 20} MiB, {len(library.functions):,} functions, {total:,} instructions")
    print(f"  of {len(library.archs)} architectures; the largest member has {library.largest / (1 << 20):.1f} MiB")
    counts = [1, 2] if cores.available() > 1 else [1]
    runs: defaultdict[object, list[Run]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        out = Path(folder) / "build.json"
        scan = [sys.executable, "-m", "spillscan", "scan", "-f", f"json:{out}"]
        timed([*scan, path])  # what was never read comes from the disk
        for _ in range(rounds):
            runs["start"].append(timed([*scan, SMALL]))
            for count in counts:
                runs[count].append(timed([*scan, path], processors=count))
            runs["listing"].append(timed([tools / "cuobjdump", "-res-usage", path], tools=tools))
        told = {name: median(of) for name, of in runs.items()}
        start, listing = told["start"], told["listing"]
        _show("start-up", start)
        for count in counts:
            mine = told[count]
            _show(f"scan, {count} processor{'s'[: count - 1]}", mine, _rate(mine.seconds - start.seconds, total))
        if len(counts) > 1:
            print(f"    two processors: {told[1].seconds / told[2].seconds:.2f} times as fast as one")
        _show("cuobjdump -res-usage", listing, "" if listing.done else "it fails")
        if listing.done:
            ratios = ", ".join(f"{told[count].seconds / listing.seconds:.2f} on {count}" for count in counts)
            print(f"    ours takes {ratios} times as long ({told[1].cpu / listing.cpu:.2f} by CPU seconds)")
        beyond = (told[1].peak - start.peak) / (1 << 20)
        print(f"    memory: {told[1].peak / library.largest:.1f} times the largest member, ", end="")
        print(f"{beyond:.0f} MiB beyond start-up")
        arch, some, files = library.cubins(least, Path(folder))
        seconds = 0.0
        for file in files:
            command = ["sh", "-c", f"'{tools / 'cuobjdump'}' -sass '{file}' | grep -cE 'STL|LDL'"]
            seconds += timed(command, tools=tools).cpu
        print(f"  cuobjdump -sass|grep    {seconds:8.2f} CPU s for {some:,} instructions of {arch}; ", end="")
        print(f"ours {total / told[1].cpu / (some / seconds):.0f} times as fast, start-up included")
    if cuxray and find_spec("cuxray"):
        _against_cuxray(library, tools, cuxray)


def _rate(seconds: float, instructions: int) -> str:
    return f"{instructions / seconds / 1e6:.1f} M instructions/s net"


def _show(what: str, run: Run, more: str = "") -> None:
    print(f"  {what:22s} {run.seconds:8.2f} s, {run.cpu:8.2f} CPU s, {run.peak >> 20:5d} MiB  {more}")


def _against_cuxray(library: Library, tools: Path, most_seconds: float) -> None:
    program = Path(sys.executable).with_name("cuxray")
    survey = timed([program, "survey", "--no-cache", library.path], tools=tools, most_seconds=most_seconds)
    _show("cuxray survey", survey, "" if survey.done else f"it fails, or was stopped after {most_seconds:.0f} s")
    listing = timed([program, "ls", "--no-cache", "--json", library.path], tools=tools, most_seconds=most_seconds)
    _show("cuxray ls", listing, "" if listing.done else f"it fails, or was stopped after {most_seconds:.0f} s")
    if not listing.done:
        return
    theirs: Counter[tuple[object, ...]] = Counter()
    for unit in json.loads(listing.printed)["units"]:
        for kernel in unit["kernels"]:
            told = kernel["resources"]
            theirs[unit["arch"], kernel["name"], told["regs"], told["stack_frame"], told["smem_static"]] += 1
    ours = Counter(
        (function.arch, function.symbol, usage.registers, usage.stack_bytes, usage.shared_bytes)
        for function in library.functions
        if (usage := function.usage)
    )
    print(
        f"    registers, stack and shared memory: {(ours & theirs).total():,} of its {theirs.total():,} kernels as ours"
    )


def main() -> int:
    """Measure every library."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("libraries", nargs="*", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--instructions", type=int, default=1_000_000, help="that cuobjdump -sass is given (%(default)s)"
    )
    parser.add_argument("--cuxray", type=float, default=0, metavar="SECONDS", help="run cuxray, too, for so long")
    arguments = parser.parse_args()
    given = [(path, "*") for path in arguments.libraries]
    given = given or [(wheel(name, arguments.cache), pattern) for name, pattern in WHEELS.items()]
    tools = tool_folder("sass-13.5", arguments.cache)
    for file, pattern in given:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            for path in libraries(file, pattern, Path(folder)):
                library = Library(path)
                measure(library, tools, arguments.rounds, arguments.instructions, arguments.cuxray)
    return 0


if __name__ == "__main__":
    sys.exit(main())
