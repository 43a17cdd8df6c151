"""Live registers held against ``nvdisasm -plr``: what each instruction reads and writes, what is live, the peaks.

    python -m tests.oracle.registers_oracle LIBRARY --arch 90 [--instructions N] [--skip CUBINS]
    python -m tests.oracle.registers_oracle --public

LIBRARY is one from which no table of registers was derived; `--public` takes such from PyPI, and all their archs.
Functions that call, or branch where registers say, or whose live registers are "at least", are compared in what
instructions read and write only: nvdisasm marks at a call whatever the callee writes.

Of registers that are live here and not there some are looked into (``older_is_read``): whether a way through the code
reads the value before it is replaced. ``h200/guarded.py`` asks a GPU the same.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spillscan.reading.binary import containers
from spillscan.reading.binary.cubin import Cubin, Function
from spillscan.reading.binary.images import Image
from spillscan.reading.binary.pressure import Pressure, pressures
from spillscan.reading.binary.tables import registers
from spillscan.reading.binary.window import DEFAULT, Budget, Window
from spillscan.reading.machine.liveness import INSTRUCTION, Effects, Graph, Live
from tests.oracle.toolchain import default_cache, download, tool

from maker.live import FIRST_BIT, Row, listing  # isort: skip

CALLS = {0x343, 0x344, 0x943, 0x944, 0x949, 0x94A, 0x94F, 0x950, 0x957, 0x959}
"""Opcodes of calls, returns and indirect branches."""
PUBLIC = {
    "transformer_engine_cu13==2.16.0": (75, 80, 89, 90, 100, 103, 120),
    "xgboost==3.2.0": (80, 90, 100, 120),
    "faiss-gpu-cu12==1.14.1.post1": (80,),
    "nvidia-cusparse==12.9.4.2": (86, 89, 107, 110),
}
"""Wheels that no table was derived from, and archs whose code they hold."""
_GENERAL = (1 << 255) - 1
_BRANCH, _EXIT, _ALWAYS = 0x947, 0x94D, 7
_LOOKED_INTO, _STEP = 4000, 10
"""Instructions of a function in which registers that only we show are looked into, and one of how many."""
_BATCH, _LARGEST = 100, 60_000
"""Functions that nvdisasm is asked about at once; instructions of a function, more of which it needs minutes for."""


def functions(path: Path, number: int, skip: int) -> Iterator[tuple[Function, Pressure]]:
    """Functions of one architecture, without those of the first cubins."""
    data = path.read_bytes()
    images = (each for each in containers.images(Window(data), Budget(DEFAULT, len(data))))
    cubins = (Cubin(each.plain()) for each in images if isinstance(each, Image))
    for cubin in islice((cubin for cubin in cubins if cubin.number == number), skip, None):
        yield from pressures(cubin)


def older_is_read(graph: Graph, rows: Sequence[Row], words: NDArray[np.int64], row: int, register: int) -> bool:
    """Whether some way from an instruction on reads what a register holds there. What a guard says of its predicate
    is kept in mind until that is written: where a guarded instruction does not replace the value, another one under the
    same guard does not read it."""
    bit = 1 << register
    start = {begin: number for number, begin in enumerate(graph.begins) if begin < graph.ends[number]}
    block = np.maximum.accumulate([start.get(at, 0) for at in range(len(rows))]).tolist()
    seen: set[tuple[int, tuple[bool | None, ...]]] = set()
    work: list[tuple[int, tuple[bool | None, ...]]] = [(row, (None,) * _ALWAYS)]
    while work:
        at, known = work.pop()
        if at >= len(rows) or (at, known) in seen:
            continue
        seen.add((at, known))
        low, high, marks = int(words[2 * at]), int(words[2 * at + 1]), rows[at].marks
        guard, negated = low >> 12 & 7, bool(low >> 15 & 1)
        outcomes = (not negated,) if guard == _ALWAYS else (True, False)
        for executed in outcomes:
            facts = list(known)
            if guard != _ALWAYS:
                if known[guard] is (executed == negated):
                    continue
                facts[guard] = executed != negated
            if executed and marks.read & bit:
                return True
            if executed and marks.written & bit:
                continue
            if executed:
                facts = [None if marks.written >> FIRST_BIT["P"] + p & 1 else fact for p, fact in enumerate(facts)]
            if at + 1 < graph.ends[block[at]]:
                successors = [at + 1]
            elif low & 0xFFF == _EXIT and executed:
                successors = []
            else:
                successors = [graph.begins[successor] for successor in graph.successors[block[at]]]
                if (
                    low & 0xFFF == _BRANCH
                    and high >> 23 & 15 == _ALWAYS
                    and len(successors) == 2
                    and at + 1 in successors
                ):
                    successors = [successor for successor in successors if (successor != at + 1) == executed]
            work += [(successor, tuple(facts)) for successor in successors]
    return False


def look_into(pressure: Pressure, rows: list[Row], words: NDArray[np.int64], tally: Counter[str]) -> None:
    """Count the registers that only we show, by whether their values are read."""
    sets, graph = pressure.live.sets, pressure.graph
    if graph is None or len(sets) > _LOOKED_INTO or pressure.live.at_least:
        return
    rows = rows[: len(sets)]
    more = [(at, sets[at] & ~row.marks.every & _GENERAL) for at, row in enumerate(rows)]
    places = [(at, register) for at, each in more if each for register in range(255) if each >> register & 1]
    theirs = max((row.marks.every & _GENERAL).bit_count() for row in rows)
    tally["peaks higher"] += max(pressure.live.counts) > theirs
    for at in (at for at, count in enumerate(pressure.live.counts) if count > theirs):
        theirs_here = rows[at].marks.every & _GENERAL
        mine = [register for place, register in places if place == at]
        if theirs_here.bit_count() + sum(older_is_read(graph, rows, words, at, each) for each in mine) > theirs:
            tally["peaks higher, right"] += 1
            break
    for at, register in places[::_STEP]:
        tally["only here"] += 1
        tally["only here, read"] += older_is_read(graph, rows, words, at, register)


def compare(found: Live, effects: Effects, rows: list[Row], codes: list[int], tally: Counter[str]) -> Iterator[str]:
    """Count, and print differences."""
    calling = found.at_least or not CALLS.isdisjoint(codes)
    peak = 0
    for at, (code, row) in enumerate(zip(codes, rows, strict=False)):
        written, read, every = (each & _GENERAL for each in row.marks)
        peak = max(peak, every.bit_count())
        tally["instructions"] += 1
        tally["unknown"] += effects.unknown[at]
        if code not in CALLS and not effects.unknown[at]:
            own = effects.written[at], effects.read[at]
            tally["wrong"] += own != (written, read)
            if own != (written, read):
                yield f"{row.text}: {own} and not {(written, read)}"
        if not calling:
            mine = found.sets[at]
            tally["live compared"] += 1
            tally["live equal"] += mine == every
            tally["live missing"] += bool(every & ~mine)
            if every & ~mine:
                yield f"{row.address:#x} {row.text}: not live here, live there: {every & ~mine:#x}"
    if not calling:
        tally["functions"] += 1
        tally["peaks equal"] += max(found.counts) == peak
        tally["peaks lower"] += max(found.counts) < peak


def main() -> int:
    """Compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("library", type=Path, nargs="?", help="a library, or a wheel")
    parser.add_argument("--arch", type=int, default=90)
    parser.add_argument("--public", action="store_true", help="take wheels from PyPI")
    parser.add_argument("--instructions", type=int, default=100_000)
    parser.add_argument("--skip", type=int, default=0, help="cubins that are left out")
    arguments = parser.parse_args()
    nvdisasm = tool("sass-13.5", "nvdisasm")
    if not arguments.public:
        return one(arguments.library, arguments.arch, nvdisasm, arguments.instructions, arguments.skip)
    wheels = [(download(name, default_cache() / "wheels"), archs) for name, archs in PUBLIC.items()]
    return max(one(path, arch, nvdisasm, arguments.instructions, 0) for path, archs in wheels for arch in archs)


def one(library: Path, arch: int, nvdisasm: Path, instructions: int, skip: int) -> int:
    """Compare the code of one architecture."""
    table = registers(arch)
    assert table is not None
    tally: Counter[str] = Counter()
    said = 0
    all_of_them = functions(library, arch, skip)
    while tally["instructions"] < instructions and (batch := list(islice(all_of_them, _BATCH))):
        batch = [(function, found) for function, found in batch if len(found.live.sets) <= _LARGEST]
        codes = [function.code.copy(0, len(found.live.sets) * INSTRUCTION, "code") for function, found in batch]
        shown = listing(nvdisasm, [(f"f{at}", code) for at, code in enumerate(codes)], arch)
        tally["refused"] += len(batch) - len(shown)
        for at, ((_, found), code) in enumerate(zip(batch, codes, strict=True)):
            if f"f{at}" not in shown:
                continue
            words = np.frombuffer(code, "<i8")
            effects = table.effects(int.from_bytes(code[at : at + 16], "little") for at in range(0, len(code), 16))
            opcodes = (words[0::2] & 0xFFF).tolist()
            if CALLS.isdisjoint(opcodes):
                look_into(found, shown[f"f{at}"], words, tally)
            for difference in compare(found.live, effects, shown[f"f{at}"], opcodes, tally):
                if (said := said + 1) <= 20:
                    print(difference, file=sys.stderr)
    print(json.dumps({"library": library.name, "arch": arch, **tally}), flush=True)
    return 1 if tally["wrong"] or tally["live missing"] or not tally["instructions"] else 0


if __name__ == "__main__":
    sys.exit(main())
