"""Source beside machine code, as pages show it, against ``nvdisasm -gi``: kernels of public projects.

    python -m tests.oracle.view_oracle FOLDER… --nvdisasm FILE [--arch ARCH]… [--kernels N] [--seed N] [--cache FOLDER]

Each folder is a checkout of a project, each folder of sources in it is a program; nvcc is on the PATH, nvdisasm is
13.5. Of each program one kernel of 300 to 30,000 instructions, compiled with and without ``-lineinfo``. Of each
instruction the page's lines, with those that it was inlined through, must be those that nvdisasm prints above it; where
it prints none, as the innermost line is that of the instruction before, that one must be. The text must be nvdisasm's,
with addresses for labels and without remarks; text that is said to be unknown is counted. Exit status 1 where one is
another.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from spillscan import scan
from spillscan.model import Kernel
from spillscan.output.errors import InputError
from spillscan.reading.binary.fetch import shown_of
from spillscan.reports.page.code import code_of
from tests.oracle.spill_causes_oracle import LARGEST, Compiler, sources

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120")
LEAST, MOST = 300, 30_000
"""Instructions of a kernel."""
BUILDS = (("-lineinfo",), ())
_SECTION = re.compile(r"//-+ \.text\.(\S+)")
_PLACE = re.compile(r'\t//## File "(.*?)", line (\d+)')
_LABEL = re.compile(r"(\S+):$")
_ROW = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;?$")
_REMARK = re.compile(r" ?\(\*.*?\*\)")
_UNKNOWN = re.compile(r"[?←]")
"""An operand that no table has, or registers alone, as there is no table of the opcode."""
_NAMED = re.compile(r"`\(([^()]+)\)")

Line = tuple[str, int]


class Row(NamedTuple):
    """An instruction, and where it comes from, outwards."""

    lines: tuple[Line, ...]
    text: str
    fresh: bool = True
    """Whether nvdisasm prints its place: only where the innermost line is another than before."""


def printed(nvdisasm: Path, cubin: Path) -> dict[str, list[Row]]:
    """What nvdisasm prints of each function."""
    text = subprocess.run([nvdisasm, "-gi", "-c", cubin], capture_output=True, text=True, check=True).stdout
    labels: dict[str, dict[str, int]] = {}
    found: dict[str, list[Row]] = {}
    symbol, lines, frames, waiting = "", tuple[Line, ...](), list[Line](), list[str]()
    for line in text.splitlines():
        if match := _SECTION.match(line):
            symbol, lines, frames, waiting = match[1], (), [], []
            found[symbol], labels[symbol] = [], {}
        elif match := _PLACE.match(line):
            frames.append((match[1].rpartition("/")[2], int(match[2])))
        elif match := _LABEL.match(line):
            waiting.append(match[1])
        elif symbol and (match := _ROW.match(line)):
            fresh, lines, frames = bool(frames), tuple(frames) or lines, []
            labels[symbol].update(dict.fromkeys(waiting, int(match[1], 16)))
            waiting = []
            found[symbol].append(Row(lines, match[2], fresh))
    return {
        name: [each._replace(text=_plain(each.text, labels[name])) for each in rows] for name, rows in found.items()
    }


def _plain(text: str, labels: dict[str, int]) -> str:
    text = _REMARK.sub("", re.sub(r"\s+,", ",", re.sub(r"\s+", " ", text)))
    return _NAMED.sub(lambda match: f"{labels[match[1]]:#x}" if match[1] in labels else match[0], text)


def shown(kernel: Kernel) -> list[Row] | None:
    """What the page shows of a kernel; ``None``: nothing."""
    code, texts = shown_of([kernel])
    found = code_of([kernel], code, texts, {}).get(0, {}).get("code")
    if found is None:
        return None
    places = [tuple((found["files"][file][0], line) for file, line in place) for place in found["places"]]
    return [Row(places[place], found["text"][op]) for op, place in zip(found["op"], found["place"], strict=True)]


class Oracle:
    """Counts, and what differs."""

    def __init__(self, compiler: Compiler, nvdisasm: Path) -> None:
        self._compiler, self._nvdisasm = compiler, nvdisasm
        self.tally: Counter[str] = Counter()
        self.opcodes: Counter[str] = Counter()

    def source(self, source: Path, arch: str) -> bool:
        """One kernel of a source, in both builds; whether there is one."""
        text = source.read_text(errors="surrogateescape")
        if "__global__" not in text or len(text) > LARGEST:
            return False
        chosen = ""
        for options in BUILDS:
            cubin = self._compiler.cubin(source, text, arch, *options)
            try:
                kernels = scan(str(cubin)).kernels if cubin else ()
            except InputError:  # a source without a kernel
                kernels = ()
            fit = {
                each.key.symbol: each
                for each in kernels
                if each.role == "entry" and each.sass and LEAST <= each.sass.instructions <= MOST
            }
            if not fit:
                return False
            chosen = chosen or random.choice(sorted(fit))
            if cubin and chosen in fit:
                self._compare(f"{source} {arch} {' '.join(options)}", cubin, fit[chosen])
        return bool(chosen)

    def _compare(self, where: str, cubin: Path, kernel: Kernel) -> None:
        theirs, mine = printed(self._nvdisasm, cubin)[kernel.key.symbol], shown(kernel)
        self.tally["kernels"] += 1
        if mine is None or len(mine) != len(theirs):
            self.tally["kernels of which not every instruction is shown"] += 1
            print(f"{where} {kernel.key.symbol}: {len(mine or ())} instructions of {len(theirs)}")
            return
        for at, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            self.tally["instructions"] += 1
            self.tally["with lines"] += bool(other.lines)
            self.tally["lines"] += len(other.lines)
            known = None if other.fresh else 1
            self.tally["unknown text"] += _UNKNOWN.search(one.text) is not None
            for what, said, true in (("lines", one.lines[:known], other.lines[:known]), ("text", one.text, other.text)):
                if said != true and (what == "lines" or not _UNKNOWN.search(one.text)):
                    self.tally[f"other {what}"] += 1
                    name = re.sub(r"^@!?\S+ ", "", other.text).partition(" ")[0] if what == "text" else "lines"
                    if not self.opcodes[f"{where.split()[1]} {name}"]:
                        print(f"{where} {kernel.key.symbol} {at * 16:#x}: {said} is not {true}", flush=True)
                    self.opcodes[f"{where.split()[1]} {name}"] += 1


def _programs(folders: list[Path], every: int) -> Iterator[Path]:
    """Sources, each of another program as long as there are such."""
    seen: Counter[Path] = Counter()
    for source in sources(folders):
        seen[source.parent] += 1
        if seen[source.parent] <= every:
            yield source


def main() -> int:
    """Compile and compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--nvdisasm", type=Path, required=True)
    parser.add_argument("--arch", action="append", help=f"default: {', '.join(ARCHS)}")
    parser.add_argument("--kernels", type=int, default=40, help="sources of which one is compared")
    parser.add_argument("--seconds", type=float, default=20, help="of one compilation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "spillscan-view")
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    oracle = Oracle(Compiler(arguments.cache, arguments.seconds), arguments.nvdisasm)
    archs = arguments.arch or ARCHS
    done = 0
    programs = set[Path]()
    for number, source in enumerate(_programs(arguments.folders, 4)):
        if done >= arguments.kernels:
            break
        random.seed(f"{arguments.seed} {source}")
        if source.parent not in programs and oracle.source(source, archs[number % len(archs)]):
            programs.add(source.parent)
            done += 1
    print(f"{done} sources of {len({str(each) for each in programs})} programs: {dict(oracle.tally)}")
    print(f"printed otherwise, by arch and opcode: {dict(oracle.opcodes.most_common())}")
    return int(not done or any(name.startswith(("other", "kernels of")) for name in oracle.tally))


if __name__ == "__main__":
    sys.exit(main())
