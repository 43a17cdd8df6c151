"""Speed and memory of reading binaries, against NVIDIA's cuobjdump and cuxray on the same files, in one run.

    python -m tests.benchmarks.binary_bench [--cache DIR] [--rounds N] [--instructions N] [--cuxray SECONDS] [LIBRARY…]

Without a library, those of bitsandbytes, xgboost and faiss are taken from PyPI. Each candidate is a whole process,
start-up included; candidates take turns, and medians are shown: seconds on the clock, and of processors (user and
system, children included), which other work on the machine changes less.

    scan         spillscan scan LIBRARY --top 10, on one processor and on two, and -f json:FILE; the net rate is that of
                 the processor time beyond what a file of one small kernel takes
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
import multiprocessing
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, TypeVar

from spillscan.model.code import SassFunction
from spillscan.reading import workers
from spillscan.reading.binary import containers, records
from spillscan.reading.binary.found import Image
from spillscan.reading.binary.window import DEFAULT, Budget, Window
from tests.oracle.binary_oracle import number, tool_folder
from tests.oracle.binary_sources import ROOT, libraries, wheel
from tests.reading.binary.support import extract as cubin_of

WHEELS = {
    "bitsandbytes==0.48.1": "*libbitsandbytes_cuda130.so",
    "xgboost==3.2.0": "*libxgboost.so",
    "faiss-gpu-cu12==1.14.1.post1": "*libfaiss*.so",
}
SMALL = ROOT / "fixtures" / "binary" / "tiny-sm_80-13.5.cubin"
FIRST_WITH_NEW_TOOLS = 75
REPORTS = ("text", "json")

T = TypeVar("T")


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
        with os.fdopen(os.pidfd_open(process.pid)) as ended:  # nobody looks at a clock beside what is measured
            late = not select.select([ended], [], [], most_seconds)[0]
        if late:
            os.killpg(process.pid, signal.SIGKILL)
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
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


class Kernel(NamedTuple):
    """What is compared, and where its code is."""

    arch: str
    symbol: str
    registers: int | None
    stack_bytes: int | None
    shared_bytes: int | None
    member: int
    instructions: int


class Library(NamedTuple):
    """What a library holds."""

    path: Path
    kernels: list[Kernel]
    largest: int
    """Bytes of its largest member."""

    @property
    def instructions(self) -> int:
        """Of all architectures."""
        return sum(kernel.instructions for kernel in self.kernels)

    @property
    def archs(self) -> Counter[str]:
        """Instructions by architecture."""
        found: Counter[str] = Counter()
        for kernel in self.kernels:
            found[kernel.arch] += kernel.instructions
        return found

    def members(self, least: int) -> tuple[str, dict[int, int]]:
        """(architecture, instructions by member) of its largest cubins that hold ``least`` instructions together."""
        archs = {arch: count for arch, count in self.archs.items() if number(arch) >= FIRST_WITH_NEW_TOOLS}
        arch = max(archs, key=lambda name: (archs[name], name))
        sizes: Counter[int] = Counter()
        for kernel in self.kernels:
            if kernel.arch == arch:
                sizes[kernel.member] += kernel.instructions
        chosen: dict[int, int] = {}
        for member, size in sizes.most_common():
            if sum(chosen.values()) < least:
                chosen[member] = size
        return arch, chosen


def contents(path: Path) -> Library:
    """Read a library."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
        found = containers.images(Window(buffer), Budget(DEFAULT, len(buffer)))
        largest = max(image.plain_bytes for image in found if isinstance(image, Image))
        kernels = [
            Kernel(
                item.arch or "",
                item.symbol,
                item.usage.registers,
                item.usage.stack_bytes,
                item.usage.shared_bytes,
                item.member,
                item.stats.instructions,
            )
            for item in records.items(buffer, path.name)
            if isinstance(item, SassFunction) and item.usage
        ]
    return Library(path, kernels, largest)


def extract(path: Path, member: int, target: Path) -> None:
    """Write one cubin of a library to a file."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
        target.write_bytes(cubin_of(buffer, member))


def apart(function: Callable[..., T], *arguments: object) -> T:
    """A call in a process of its own: what this one has taken counts as taken by each that it starts."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def measure(library: Library, tools: Path, rounds: int, least: int, cuxray: float) -> None:
    """All candidates on one library."""
    path, total = library.path, library.instructions
    print(f"{path.name}: {path.stat().st_size >> 20} MiB, {len(library.kernels):,} functions, {total:,} instructions")
    print(f"  of {len(library.archs)} architectures; the largest member has {library.largest / (1 << 20):.1f} MiB")
    runs: defaultdict[str, list[Run]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        out = Path(folder) / "build.json"
        scan = [sys.executable, "-m", "spillscan", "scan"]
        timed([*scan, path])  # what was never read comes from the disk
        for _ in range(rounds):
            runs["start"].append(timed([*scan, SMALL]))
            for count in (1, 2)[: workers.processors()]:
                runs[f"text {count}"].append(timed([*scan, path, "--top", "10"], processors=count))
                runs[f"json {count}"].append(timed([*scan, path, "-f", f"json:{out}"], processors=count))
            runs["listing"].append(timed([tools / "cuobjdump", "-res-usage", path], tools=tools))
        reported = {name: median(of) for name, of in runs.items()}
        start, listing = reported.pop("start"), reported.pop("listing")
        _show("start-up", start)
        for name, mine in reported.items():
            rate = total / (mine.cpu - start.cpu) / 1e6
            more = f"{rate:5.1f} M instructions/s net, {mine.peak / library.largest:4.1f} times the largest member"
            if listing.done:
                more += f", {mine.seconds / listing.seconds:4.2f} times -res-usage ({mine.cpu / listing.cpu:4.2f} CPU)"
            _show(f"scan, {name}", mine, more)
        _show("cuobjdump -res-usage", listing, "" if listing.done else "it fails")
        if "text 2" in reported:
            gains = (
                f"{reported[f'{name} 1'].seconds / reported[f'{name} 2'].seconds:.2f} ({name})" for name in REPORTS
            )
            print(f"    two processors are {', '.join(gains)} times as fast as one")
        arch, members = library.members(least)
        some, seconds = sum(members.values()), 0.0
        for member in members:
            file = Path(folder) / f"{member}.cubin"
            apart(extract, path, member, file)
            command = ["sh", "-c", f"'{tools / 'cuobjdump'}' -sass '{file}' | grep -cE 'STL|LDL'"]
            seconds += timed(command, tools=tools).cpu
        print(f"  cuobjdump -sass|grep    {seconds:8.2f} CPU s for {some:,} instructions of {arch}; ", end="")
        rates = ", ".join(
            f"{total / reported[f'{name} 1'].cpu / (some / seconds):.0f} ({name})" for name in ("text", "json")
        )
        print(f"ours is {rates} times as fast, start-up included")
    if cuxray and find_spec("cuxray"):
        _against_cuxray(library, tools, cuxray)


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
    theirs: defaultdict[tuple[str, str], list[dict[str, int]]] = defaultdict(list)
    for unit in json.loads(listing.printed)["units"]:
        for kernel in unit["kernels"]:
            theirs[unit["arch"], kernel["name"]].append(kernel["resources"])
    same: Counter[str] = Counter()
    for ours in library.kernels:
        if of_name := theirs[ours.arch, ours.symbol]:
            reported = of_name.pop(0)
            figures = (ours.registers, ours.stack_bytes, ours.shared_bytes)
            names = ("regs", "stack_frame", "smem_static")
            same.update(name for name, figure in zip(names, figures, strict=True) if reported[name] == figure)
            same["kernels"] += 1
    print(f"    as ours: {', '.join(f'{count:,} {name}' for name, count in same.items())} of {len(library.kernels):,}")


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
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are compiled once, as an installation's are
    for file, pattern in given:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "compiled")
            for path in libraries(file, pattern, Path(folder)):
                measure(apart(contents, path), tools, arguments.rounds, arguments.instructions, arguments.cuxray)
    return 0


if __name__ == "__main__":
    sys.exit(main())
