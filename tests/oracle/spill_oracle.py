"""Spills by the text of a dump against what ptxas itself says of the same cubin, on kernels made for it.

    python tests/oracle/spill_oracle.py [SOURCES] [SEED] [--keep FOLDER]

Every source (``spill_sources.py``) is compiled by several releases of ptxas, for several architectures and register
limits, whole and relocatable. Compared are, for every function that the log and the dump name:

* the bytes of the spill class, by the text of ``cuobjdump -sass`` alone, with the log's spill stores and loads;
* each access's class with the annotation that ptxas 12.6.20 and later write and nvdisasm 13.4 and later print;
* the highest register that the code names with the registers that the log counts;
* log and dump joined: every kernel gets its code, and no contradiction is seen.

The tools come from PyPI (``fixtures/maker/toolchains.py``). Exit status 1 if the bytes of a kernel differ though none
of its accesses is ``unknown``, an access is called a spill that is none, or one is called something else in a kernel
without ``unknown`` accesses, a register is named that was not allocated, or a join fails.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[2] / "fixtures"))

from maker.toolchains import Toolchains

from spillscan import scan
from spillscan.model.code import SassFunction
from spillscan.reading import dumps as sass
from tests.oracle.spill_sources import source

ROOT = Path(__file__).parents[2]
_OLD = "sm_52 sm_61 sm_70 sm_75 sm_80 sm_86"
COMPILERS = {
    "11.8": f"{_OLD} sm_89 sm_90",
    "12.4": f"{_OLD} sm_89 sm_90a",
    "12.6": f"{_OLD} sm_89 sm_90a",
    "12.9": f"{_OLD} sm_89 sm_90a sm_100a sm_120",
    "13.0": "sm_75 sm_80 sm_86 sm_89 sm_90a sm_100a sm_110 sm_120 sm_121",
    "13.5": "sm_75 sm_80 sm_86 sm_89 sm_90a sm_100a sm_103a sm_110 sm_120a sm_121",
}
"""Architectures by release of ptxas."""
ANNOTATING = ("12.6", "12.9", "13.0", "13.5")
NVRTC = "nvrtc-11.7"
LIMITS = (24, 32, 32, 40, 48, 64)
EXPECTED = frozenset({"not-in-log", "unattached-advisory"})
"""Issues of a join that are right here: helpers of ptxas's own, which no log names; messages that name no kernel."""
BUILDS = 12
"""Compilations of each source."""


class Job(NamedTuple):
    """One compilation."""

    release: str
    arch: str
    limit: int
    relocatable: bool


def jobs(random: Random) -> Iterator[Job]:
    """Some compilations of one source."""
    for _ in range(BUILDS):
        release = random.choice(list(COMPILERS))
        arch = random.choice(COMPILERS[release].split())
        yield Job(release, arch, random.choice(LIMITS), random.random() < 0.3)


def disassemblers(job: Job) -> list[str]:
    """The releases of cuobjdump that read its cubin."""
    number = int(re.sub(r"\D", "", job.arch))
    found = ["sass-13.5"] if number >= 75 else []
    if job.release < "13" and number <= 90:
        found.append("sass-12.3")
    if job.release < "13" and number <= 120 and number != 103:
        found.append("sass-12.8")
    return found


def reported(log: str) -> dict[str, tuple[int, int]]:
    """Spill stores and loads of each function that the log names."""
    found = {}
    pattern = r"Function properties for (\S+)\n +\d+ bytes stack frame, (\d+) bytes spill stores, (\d+) bytes"
    for name, stores, loads in re.findall(pattern, log):
        found[name] = (int(stores), int(loads))
    return found


def registers(log: str) -> dict[str, int]:
    """Registers of each kernel of a log that one compilation wrote."""
    pattern = (
        r"Compiling entry function '(\S+)' for[^\n]*\n(?:(?!ptxas info    : Compiling)[^\n]*\n)*?[^\n]*Used (\d+) reg"
    )
    return {name: int(count) for name, count in re.findall(pattern, log)}


def run(*command: object, streams: str = "stdout") -> str:
    """What a tool prints; it must succeed."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout if streams == "stdout" else done.stdout + done.stderr


def functions(path: Path) -> list[SassFunction]:
    """What the reader makes of a dump."""
    with path.open("rb", buffering=0) as stream:
        found = sass.reader(iter(lambda: stream.read(1 << 20), b""), str(path))
        return [item for item in found if isinstance(item, SassFunction)]


class Oracle:
    """Compiles, compares and counts."""

    def __init__(self, folder: Path) -> None:
        self.tools = Toolchains(ROOT / "fixtures" / "cases.yaml", None)
        self.folder = folder
        self.tally: Counter[str] = Counter()
        self.wrong = 0

    def source(self, seed: int) -> None:
        """Everything about one source."""
        text, ptx = self.folder / f"s{seed}.cu", self.folder / f"s{seed}.ptx"
        text.write_text(source(seed))
        os.environ["LD_LIBRARY_PATH"] = str(self.tools.root(NVRTC) / "lib")
        options = ["--gpu-architecture=compute_52", "--std=c++14", "-default-device"]
        run(sys.executable, ROOT / "fixtures" / "maker" / "libraries.py", "nvrtc", *options, text, "-o", ptx)
        for number, job in enumerate(jobs(Random(seed))):
            self.job(job, ptx, self.folder / f"s{seed}-{number}")

    def job(self, job: Job, ptx: Path, stem: Path) -> None:
        """One compilation, by every disassembler."""
        cubin, log = stem.with_suffix(".cubin"), stem.with_suffix(".log")
        whole = ["-c"] if job.relocatable else []
        command = (self.tools.root(job.release) / "bin" / "ptxas", "-v", *whole, f"-maxrregcount={job.limit}")
        log.write_text(run(*command, f"-arch={job.arch}", ptx, "-o", cubin, streams="both"))
        for number, release in enumerate(disassemblers(job)):
            dump = stem.with_suffix(f".{release}.sass")
            dump.write_text(run(self.tools.root(release) / "bin" / "cuobjdump", "-sass", cubin))
            self.compare(job, log, dump, first=not number)
        if job.release in ANNOTATING and "sass-13.5" in disassemblers(job):
            annotated = stem.with_suffix(".nvd")
            annotated.write_text(run(self.tools.root("sass-13.5") / "bin" / "nvdisasm", "-c", cubin))
            self.classes(job, functions(annotated), functions(stem.with_suffix(".sass-13.5.sass")))

    def compare(self, job: Job, log: Path, dump: Path, *, first: bool) -> None:
        """Bytes, registers and the join."""
        text = log.read_text()
        bytes_of, registers_of = reported(text), registers(text)
        for function in functions(dump):
            symbol, local = function.symbol, function.stats.local
            if symbol not in bytes_of:
                continue
            kernel = symbol in registers_of
            counted = local.own_spill if kernel or local.frame is None else local.frame
            same = (counted.store_bytes, counted.load_bytes) == bytes_of[symbol]
            kind = "kernels" if kernel else "device functions"
            kind += ", -c" if job.relocatable else ""
            kind += (
                ", spilling" if any(bytes_of[symbol]) else ", with other local memory" if local.accesses else ", none"
            )
            self.tally[f"{kind}: {'exact' if same else 'differs'}"] += 1
            if first and any(bytes_of[symbol]):
                self.tally[f"spilling functions by ptxas {job.release}"] += 1
            if not same:
                sure = kernel and not local.of("unknown").accesses
                self.complain(dump, f"{symbol} {job}: ptxas {bytes_of[symbol]}, text {counted}", fatal=sure)
        build = scan([log, dump])
        for issue in build.issues:
            self.tally[f"issues of the join: {issue.code}"] += 1
            if issue.code not in EXPECTED:
                self.complain(dump, f"join: {issue.message}", fatal=True)
        for joined in build.kernels:
            if joined.role == "entry":
                self.tally[f"joined kernels: {'with code' if joined.sass else 'without code'}"] += 1
                if not joined.sass:
                    self.complain(dump, f"{joined.key.symbol}: no code", fatal=True)
                elif joined.spills and any(joined.spills):
                    self.tally[f"evidence of spilling kernels: {joined.sass.local.evidence}"] += 1

    def classes(self, job: Job, marked: list[SassFunction], found: list[SassFunction]) -> None:
        """Access by access."""
        truth = {
            (function.symbol, access.address): access.kind == "spill"
            for function in marked
            if function.stats.local.evidence == "annotation"
            for access in function.stats.local.accesses
        }
        judged = {symbol for symbol, _ in truth}
        for function in found:
            for access in function.stats.local.accesses:
                if function.symbol in judged:
                    real = truth[function.symbol, access.address]
                    kind = "callee" if access.part else "kernel" if function.role == "entry" else "device function"
                    self.tally[f"{kind}: {'spill' if real else 'other'} said {access.kind}"] += 1
                    if kind == "kernel" and access.kind != "unknown" and real != (access.kind == "spill"):
                        sure = access.kind == "spill" or not function.stats.local.of("unknown").accesses
                        self.complain(Path(function.symbol), f"{job}: {access}: truly {real}", fatal=sure)

    def complain(self, where: Path, message: str, *, fatal: bool) -> None:
        """Something differs."""
        self.wrong += fatal
        print(f"{'WRONG' if fatal else 'note'}: {where.name}: {message}", flush=True)

    def report(self) -> int:
        """Print the figures; the exit status."""
        print("\n".join(f"{name}: {count}" for name, count in sorted(self.tally.items())))
        for kind in ("kernel", "callee", "device function"):
            hit = self.tally[f"{kind}: spill said spill"]
            said = sum(self.tally[f"{kind}: {real} said spill"] for real in ("spill", "other"))
            real = sum(count for name, count in self.tally.items() if name.startswith(f"{kind}: spill said"))
            if said and real:
                print(f"{kind}: precision {hit / said:.5f}, recall {hit / real:.5f} of {real} annotated accesses")
        print(f"{self.wrong} wrong")
        return int(self.wrong > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sources", type=int, nargs="?", default=25)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="where logs and dumps stay")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        oracle = Oracle(folder)
        for number in range(options.sources):
            oracle.source(options.seed + number)
        return oracle.report()


if __name__ == "__main__":
    sys.exit(main())
