"""What a page shows of machine code: live registers by address, the lines that matter with their source text, and each
instruction on demand. Only of the worst kernels, as far as there is room."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spillscan.model import Kernel
from spillscan.model.code import NO_TRAFFIC, SourceLine
from spillscan.output.safe import printable
from spillscan.reading.binary.pressure import Pressure
from spillscan.reading.machine import spillmap
from spillscan.reading.machine.liveness import INSTRUCTION

POINTS = 400
"""Of a curve; where a kernel has more instructions, a point is the most of its place."""
CODE_BYTES = 600_000
"""Bytes of a page that lists of instructions may take; the worst kernels get theirs."""
LINES, AROUND = 8, 3
"""Source lines of a kernel, and how many stand around each."""
INSTRUCTIONS = 4_000
"""That are listed of a kernel; the rest is counted."""
_LONGEST_LINE, _LONGEST_PLACE = 160, 200

Sources = Mapping[str, Sequence[str]]
"""The lines of source files, by the name that debug information gives the file."""


def code_of(
    kernels: Sequence[Kernel], code: Mapping[int, Pressure], sources: Sources, first: Sequence[int] = ()
) -> dict[int, dict[str, Any]]:
    """By the number of a kernel in ``kernels``, which come worst first; those of some numbers ``first``. Without their
    instructions where these have no room."""
    found: dict[int, dict[str, Any]] = {}
    room = CODE_BYTES
    for number in dict.fromkeys((*first, *range(len(kernels)))):
        kernel = kernels[number]
        held = code.get(id(kernel))
        if held is None:
            continue
        found[number] = _curve(kernel, held) | {"lines": list(_lines(kernel, held, sources))}
        if room > 0:
            instructions = _instructions(kernel, held)
            room -= len(json.dumps(instructions, separators=(",", ":")))
            if room >= 0:
                found[number]["code"] = instructions
    return found


def _curve(kernel: Kernel, held: Pressure) -> dict[str, Any]:
    """Live registers by place; ``unit``: bytes of one."""
    counts, peak = held.live.counts.tolist(), held.peak
    step = -(-len(counts) // POINTS)
    local = kernel.sass.local if kernel.sass else NO_TRAFFIC
    return {
        "curve": [max(counts[at : at + step]) for at in range(0, len(counts), step)],
        "unit": step * INSTRUCTION,
        "bytes": len(counts) * INSTRUCTION,
        "peak": peak.registers,
        "at": peak.address,
        "at_least": peak.at_least,
        "allocated": kernel.usage.registers,
        "held": spillmap.registers_of(kernel.usage.registers, kernel.sass) if kernel.sass else "",
        "cap": held.register_cap,
        "demand": held.demand(local),
    }


def _lines(kernel: Kernel, held: Pressure, sources: Sources) -> Iterator[list[Any]]:
    """``[place, most live, share of the spills, its number, number of the first line that is shown, these lines]``:
    those that weigh most, then those at which most is live."""
    live: dict[tuple[str, int], int] = {}
    chains: dict[tuple[str, int], SourceLine] = {}
    for line, count in held.lines:
        key = line.file, line.line
        live[key] = max(live.get(key, 0), count)
        chains.setdefault(key, line)
    shares: dict[tuple[str, int], float] = {}
    for heavy in kernel.sass.local.lines if kernel.sass else ():
        if heavy.kind == "spill":
            key = heavy.source.file, heavy.source.line
            shares[key] = shares.get(key, 0) + heavy.share
            chains.setdefault(key, heavy.source)
    worth = [key for key in chains if shares.get(key) or 2 * live.get(key, 0) >= held.peak.registers]
    for key in sorted(worth, key=lambda key: (-shares.get(key, 0), -live.get(key, 0), key))[:LINES]:
        text = sources.get(key[0])
        first = max(key[1] - AROUND, 1)
        shown = [] if text is None or key[1] > len(text) else text[first - 1 : key[1] + AROUND]
        place = printable(spillmap.where(chains[key]), _LONGEST_PLACE)
        lines = [printable(each.expandtabs(4).rstrip(), _LONGEST_LINE) for each in shown]
        yield [place, live.get(key), round(shares.get(key, 0), 4), key[1], first, lines]


def _instructions(kernel: Kernel, held: Pressure) -> dict[str, Any]:
    """Columns, an instruction each: what it is, live registers, loops around it where it accesses local memory, and its
    line; names and lines stand once."""
    names, ranks = held.opcodes
    shown = held.live.counts.tolist()[:INSTRUCTIONS]
    accesses = {each.address: each for each in (kernel.sass.local.accesses if kernel.sass else ())}
    opcodes: dict[str, int] = {}
    places: dict[str, int] = {}
    rows = []
    for row, live in enumerate(shown):
        name = names[ranks[row]] if ranks[row] < len(names) else "?"
        access = accesses.get(row * INSTRUCTION)
        if access is not None:
            name += f" ({access.kind})"
        place = printable(spillmap.where(held.sources[row]), _LONGEST_PLACE)
        rows.append((opcodes.setdefault(name, len(opcodes)), live, places.setdefault(place, len(places))))
    columns = [list(column) for column in zip(*rows, strict=True)]
    return {
        "opcodes": list(opcodes),
        "places": list(places),
        "opcode": columns[0],
        "live": columns[1],
        "place": columns[2],
        "more": len(held.sources) - len(shown),
    }


def files_of(kernel: Kernel, held: Pressure) -> set[str]:
    """The files that the lines shown of a kernel stand in, as its debug information names them."""
    named = {line.source.file for line in (kernel.sass.local.lines[:LINES] if kernel.sass else ())}
    return named | {line.file for line, _ in held.lines[:LINES]}
