"""Machine code on a page: live registers by address, and source next to instructions.

Only the worst kernels are shown, as far as there is room.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spillscan.model import Kernel, symbols
from spillscan.model.code import MOST_REGISTERS, CodeText
from spillscan.model.local import NO_TRAFFIC, SourceLine
from spillscan.output.safe import printable
from spillscan.reading.binary.instructions import Code
from spillscan.reading.binary.pressure import Pressure
from spillscan.reading.machine import spillmap
from spillscan.reading.machine.liveness import INSTRUCTION
from spillscan.reports.page.columns import Texts, letter

POINTS = 400
"""Most points of a curve; in longer kernels, a point is the maximum of several instructions."""
CODE_BYTES = 2_500_000
"""Bytes of source and machine code in a page before compression, given to the worst kernels first."""
AROUND = 6
"""Source lines shown around each line that has code."""
INSTRUCTIONS = 40_000
"""Instructions listed per kernel; the rest is counted."""
_LONGEST_LINE, _LONGEST_PLACE = 160, 200

Sources = Mapping[str, Sequence[str]]
"""Lines of source files, by the file's name in the debug information."""


def code_of(
    kernels: Sequence[Kernel],
    code: Mapping[int, Pressure],
    texts: Mapping[int, CodeText],
    sources: Sources,
    first: Sequence[int] = (),
) -> dict[int, dict[str, Any]]:
    """Code of kernels by their index in ``kernels``, which are sorted worst first; indices in ``first`` come before.

    Instructions are omitted once there is no room.
    """
    result: dict[int, dict[str, Any]] = {}
    room = CODE_BYTES
    for number in dict.fromkeys((*first, *range(len(kernels)))):
        kernel = kernels[number]
        pressure = code.get(id(kernel))
        if pressure is None:
            continue
        result[number] = _curve(kernel, pressure)
        if room > 0:
            shown = _code(kernel, pressure, texts.get(id(kernel)), sources)
            room -= len(json.dumps(shown, separators=(",", ":")))
            if room >= 0:
                result[number]["code"] = shown
    return result


def _curve(kernel: Kernel, pressure: Pressure) -> dict[str, Any]:
    """Live registers by address; ``unit`` is the number of bytes per point."""
    counts, peak = pressure.live.counts, pressure.peak
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
        "allocation": spillmap.registers_of(kernel.usage.registers, kernel.sass) if kernel.sass else "",
        "limit": kernel.sass.register_limit if kernel.sass and kernel.sass.register_limit != MOST_REGISTERS else None,
        "demand": None if kernel.caller else pressure.demand(local),
        **({"within": symbols.demangle(kernel.caller)} if kernel.caller else {}),
    }


def _code(kernel: Kernel, pressure: Pressure, text: CodeText | None, sources: Sources) -> dict[str, Any]:
    """Source next to machine code.

    Per instruction: text, live registers, loop depth, source line with the calls it was inlined through, and the class
    and slot of a local-memory access. Per file: lines, with their text if known.
    """
    code = _readable(text)
    shown = pressure.live.counts[:INSTRUCTIONS]
    instructions = code.texts if code else [name or "?" for name in pressure.mnemonics]
    depths = pressure.graph.depths()
    local = kernel.sass.local if kernel.sass else NO_TRAFFIC
    slots = spillmap.slots(local)
    slot_of = spillmap.slot_numbers(slots)
    accesses = {each.address: each for each in local.accesses}
    texts, places = Texts(), Texts()
    lines: dict[str, dict[int, float]] = {}
    rows = []
    for row, live in enumerate(shown):
        chain = list(_chain(pressure.sources[row]))
        for file, line in chain:
            lines.setdefault(file, {}).setdefault(line, 0.0)
        access = accesses.get(row * INSTRUCTION)
        rows.append(
            (
                texts.number(printable(instructions[row], _LONGEST_PLACE)),
                live,
                depths[row],
                places.number(json.dumps([[file, line] for file, line in chain])),
                letter(access) if access else "",
                slot_of[access.address, access.store] if access else -1,
            )
        )
    for heavy in local.lines:
        if heavy.kind == "spill" and heavy.source.line in lines.get(heavy.source.file, {}):
            lines[heavy.source.file][heavy.source.line] += heavy.share
    files = {file: number for number, file in enumerate(lines)}
    numbered = [[[files[file], line] for file, line in json.loads(place)] for place in places.texts]
    columns = [list(column) for column in zip(*rows, strict=True)] or [[]] * 6
    return {
        "text": texts.texts,
        "places": numbered,
        **dict(zip(("op", "live", "depth", "place", "kind", "slot"), columns, strict=True)),
        "slots": [printable(slot.name, _LONGEST_PLACE) for slot in slots],
        "more": len(pressure.sources) - len(shown),
        "files": [
            [printable(spillmap.base(file) or file, _LONGEST_PLACE), list(_file(shares, sources.get(file)))]
            for file, shares in lines.items()
        ],
    }


def _readable(text: CodeText | None) -> Code | None:
    try:
        return None if text is None else Code(text)
    except ValueError:
        return None


def _chain(source: SourceLine | None) -> Iterator[tuple[str, int]]:
    """A source line, then the calls it was inlined through, innermost first."""
    while source is not None:
        yield source.file, source.line
        source = source.inlined_at


def _file(shares: Mapping[int, float], text: Sequence[str] | None) -> Iterator[list[Any]]:
    """``[line, share of the spills, text]`` of lines with code, and of lines around them if the source is known."""
    wanted = set(shares)
    if text is not None:
        wanted |= {near for line in shares for near in range(line - AROUND, line + AROUND + 1) if 0 < near <= len(text)}
    for line in sorted(wanted):
        known = text[line - 1].expandtabs(4).rstrip() if text is not None and 0 < line <= len(text) else None
        yield [line, round(shares.get(line, 0.0), 4), None if known is None else printable(known, _LONGEST_LINE)]


def files_of(pressure: Pressure) -> set[str]:
    """Files that a kernel's code comes from, as named in its debug information."""
    return {file for source in set(pressure.sources) for file, _ in _chain(source)}
