"""The fix that ``advise --try`` proves, written into the source of a public project and compiled by hand.

    python -m tests.oracle.fix_oracle FOLDER… [--cap N] [--arch A,…] [--most N] [--seconds N] [--seed N]

Each folder is a checkout of a project. Each of its CUDA sources that nvcc compiles within so many seconds is compiled
as it is, and with ``-maxrregcount``, which gives a log with its command; ``advise --try`` reads that, and nothing else.
Of each kernel of which it says that bounds end its spills, these are written at its ``__global__``, and the source is
compiled again: it must not spill; as many registers as it says are counted, and whether one step less spills, so that
it was the smallest. Where a template makes several kernels, all of them have the bounds, and the one is looked at.

What ``advise`` says of the log and of the cubin without ``--try`` is compiled, too, with ``__maxnreg__`` of so many
registers: where it says that none end the spills, 255 must leave some; of each estimate it is counted how far it is
beside the fewest that end them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

from spillscan.model.code import MOST_REGISTERS
from spillscan.occupancy.bounds import REGISTER_STEP
from tests.conftest import ROOT

_FOUND = re.compile(
    r"Compiling entry function '(\S+)' for.*?\n.*?\n\s+\d+ bytes stack frame, (\d+) bytes spill stores, (\d+) bytes"
    r" spill loads\n.*?Used (\d+) registers"
)
_OWN_BOUNDS = r"(?:\s*__(?:launch_bounds|maxnreg)__\s*\([^()]*(?:\([^()]*\)[^()]*)*\))?"


def compiled(words: list[str], folder: Path, seconds: float) -> tuple[str, dict[str, tuple[int, int]]] | None:
    """(what it printed, (registers, bytes of spills) of each kernel); ``None`` where it fails or takes too long."""
    try:
        done = subprocess.run(
            words, cwd=folder, capture_output=True, text=True, timeout=seconds, errors="replace", check=False
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        return None
    figures = {
        symbol: (int(used), int(stores) + int(loads)) for symbol, stores, loads, used in _FOUND.findall(done.stderr)
    }
    return done.stderr, figures


def written(text: str, name: str, bounds: str) -> str:
    """A source with bounds in the place of a kernel's own; the same where it defines none of that name."""
    head = re.compile(rf"(\b__global__\b){_OWN_BOUNDS}(\s+(?:static\s+|inline\s+)*void){_OWN_BOUNDS}(\s+{name}\s*\()")
    return head.sub(lambda match: f"{match[1]}{match[2]} {bounds} {match[3]}", text)


def advice(folder: Path, cache: str, *words: str) -> list[dict[str, Any]]:
    """What is said of the families that spill."""
    command = [sys.executable, "-m", "spillscan", "advise", *words, "--all", "-f", "json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": cache}
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)
    return [each for each in json.loads(said.stdout)["first"] if each["about"] == "spills"]


def plain_name(name: str) -> str:
    """A kernel's name in its source."""
    return re.split(r"[<(]", re.sub(r"\(anonymous namespace\)|<unnamed>", "", name))[0].split("::")[-1]


_FAR = 32
"""No further is looked for what an estimate should have been."""


class Oracle:
    """Counts, and what was stated wrongly."""

    def __init__(self, most: int, seconds: float, include: list[Path]) -> None:
        self.tally: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.projects: Counter[str] = Counter()
        self.most, self.seconds = most, seconds
        self.include = [f"-I{each.resolve()}" for each in include]

    def source(self, project: Path, source: Path, arch: str, cap: int | None) -> None:
        """All kernels of one source."""
        include = [
            f"-I{project}",
            *(f"-I{project / each}" for each in ("Common", "include", "cuda") if (project / each).is_dir()),
        ]
        capped = [] if cap is None else [f"-maxrregcount={cap}"]
        words = ["nvcc", "-O3", "-std=c++17", f"-arch={arch}", *capped, "-Xptxas", "-v", *include]
        words += [*self.include, "-I.", "-cubin", source.name, "-o", os.devnull]
        with tempfile.TemporaryDirectory() as name:
            words[-1] = f"{name}/k.cubin"
            first = compiled(words, source.parent, self.seconds)
            if first is None:
                self.tally["sources that do not compile alone"] += 1
                return
            log, figures = first
            if not any(spilled for _, spilled in figures.values()):
                return
            (source.parent / ".build.log").write_text(f"{shlex.join(words)}\n{log}")
            where = f"{source} {arch} cap {cap}"
            try:
                said = advice(source.parent, name, ".build.log", "--try")
                estimates = [advice(source.parent, name, each) for each in (".build.log", words[-1])]
            finally:
                (source.parent / ".build.log").unlink()
            for each in said:
                if self.projects[project.name] < self.most:
                    self.kernel(project, source, words, figures, each, where)
                    for made in (one for first in estimates for one in first if one["symbol"] == each["symbol"]):
                        self.estimate(project, source, words, made, where)

    def kernel(
        self, project: Path, source: Path, words: list[str], before: dict[str, tuple[int, int]], said: dict[str, Any],
        where: str,
    ) -> None:  # fmt: skip
        """What is said of one kernel, done."""
        tried, symbol = said["tried"], said["symbol"]
        self.tally["families that spill"] += 1
        if tried is None or tried["missing"]:
            self.tally[f"not tried: {(tried or {}).get('missing', '')[:60]}"] += 1
            return
        if not tried["ends_spills"]:
            self.tally["no bounds end its spills, as it says"] += 1
            return
        name = plain_name(said["name"])
        steps = [each for each in tried["points"] if each["kind"] in ("bounds", "maxnreg")]
        made = [self._by_hand(project, source, words, name, step, symbol) for step in steps[-2:]]
        if made[-1] is None:
            self.tally["its text is not found"] += 1
            return
        self.projects[project.name] += 1
        self.tally["kernels"] += 1
        registers, spilled = made[-1]
        if spilled:
            self.wrong.append(f"{where}: {said['name']}: {tried['ends_spills']} leaves {spilled} B")
            return
        self.tally["end their spills, as stated"] += 1
        self.tally["with as many registers as stated"] += registers == steps[-1]["registers"]
        smaller = made[-2] if len(made) > 1 else (0, before[symbol][1])
        self.tally["at the smallest step"] += bool(smaller and smaller[1])

    def estimate(self, project: Path, source: Path, words: list[str], said: dict[str, Any], where: str) -> None:
        """Registers that are said to end the spills of a kernel, compiled."""
        need, basis = said["registers_needed"], f"{said['registers_needed_by']}s"

        def spills(registers: int) -> bool | None:
            asked = {"kind": "maxnreg", "registers_asked": min(registers, MOST_REGISTERS)}
            made = self._by_hand(project, source, words, plain_name(said["name"]), asked, said["symbol"])
            return made and bool(made[1])

        if need is None or (first := spills(at := min(need, MOST_REGISTERS))) is None:
            self.tally["no estimate"] += 1
            return
        self.tally[basis] += 1
        if need > MOST_REGISTERS and not first:
            self.wrong.append(f"{where}: {said['name']}: no registers end its spills, it says; {MOST_REGISTERS} do")
        beside = 0
        step = REGISTER_STEP if first else -REGISTER_STEP
        while beside < _FAR and at + step > 0 and (at < MOST_REGISTERS or not first) and spills(at + step) == first:
            beside, at = beside + REGISTER_STEP, at + step
        few = "not even 255 end them" if first and at >= MOST_REGISTERS else f"{beside + REGISTER_STEP} too few"
        self.tally[f"{basis}: {few if first else f'{beside} too many'}"] += 1

    def _by_hand(
        self, project: Path, source: Path, words: list[str], name: str, step: dict[str, Any], symbol: str
    ) -> tuple[int, int] | None:
        bounds = f"__maxnreg__({step['registers_asked']})"
        if step["kind"] == "bounds":
            bounds = f"__launch_bounds__({step['threads_asked']}, {step['blocks_asked']})"
        for file in [source, *(each for each in source.parent.rglob("*") if each.suffix in (".cuh", ".h", ".cu"))]:
            text = file.read_text(errors="surrogateescape")
            changed = written(text, name, bounds)
            if changed != text:
                file.write_text(changed, errors="surrogateescape")
                try:
                    made = compiled(words, source.parent, 4 * self.seconds)
                finally:
                    file.write_text(text, errors="surrogateescape")
                return made and made[1].get(symbol)
        return None


def main() -> int:
    """Try, write, compile."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--cap", type=int, default=32, help="-maxrregcount of the second compilation (default: 32)")
    parser.add_argument("--arch", default="sm_80,sm_90,sm_120")
    parser.add_argument("--most", type=int, default=10, help="kernels of a project (default: 10)")
    parser.add_argument("--seconds", type=float, default=20, help="for each source (default: 20)")
    parser.add_argument("--include", action="append", type=Path, default=[], help="what nvcc includes from, besides")
    parser.add_argument("--seed", type=int, default=0, help="of the order of sources (default: 0)")
    arguments = parser.parse_args()
    order = random.Random(arguments.seed)
    oracle = Oracle(arguments.most, arguments.seconds, arguments.include)
    for folder in arguments.folders:
        sources = [folder] if folder.is_file() else sorted(folder.rglob("*.cu"))
        order.shuffle(sources)
        project = folder.parent if folder.is_file() else folder
        for source in (each.resolve() for each in sources):
            for arch, cap in product(arguments.arch.split(","), (None, arguments.cap)):
                if oracle.projects[project.name] < arguments.most:
                    oracle.source(project.resolve(), source, arch, cap)
        print(folder, dict(oracle.tally), flush=True)
    print("\n".join(f"{name}: {number}" for name, number in sorted(oracle.tally.items())))
    print(*oracle.wrong, f"{len(oracle.wrong)} wrong", sep="\n")
    return int(bool(oracle.wrong))


if __name__ == "__main__":
    sys.exit(main())
