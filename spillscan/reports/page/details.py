"""Details of all kernels of a page: each distinct residency once, and spill maps, as far as there is room.

A spill map is a strip of a kernel's code with marks for local-memory accesses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, get_args

from spillscan.model import Kernel, Launch, Usage
from spillscan.model.code import SassStats
from spillscan.model.local import AccessClass, LocalTraffic
from spillscan.occupancy import text as words
from spillscan.occupancy.launches import Launches
from spillscan.occupancy.model import LABELS
from spillscan.occupancy.summary import Summary, summarise, whole
from spillscan.output.safe import clip
from spillscan.reading.machine import spillmap
from spillscan.reports.page.columns import Texts, letter

MARKS = 1000
"""Positions along the strip; in longer kernels, a mark covers all accesses at its position."""
LISTED = 60
"""Slots listed; the rest is counted."""
_DEEPEST = 9


def spill_map(kernel: Kernel, marks: int = MARKS) -> dict[str, Any] | None:
    """Spill map of a kernel; ``None`` if no machine code was read or it does not use local memory.
    Its ``marks`` are ``None`` if the kernel is from a snapshot, which has the number of accesses but not their
    addresses. Else their columns are: ``at`` (position, relative to the previous mark), ``what`` (a letter per mark:
    spill, array, frame, helper, unknown; uppercase for stores), ``depth`` (a digit per mark, ``?`` unknown), ``count``,
    ``slot`` and ``line`` (indices in ``slots`` and ``lines``, -1 if none or not unique). ``shares``: each line's share
    of the spill cost.
    """
    stats = kernel.sass
    if stats is None or not stats.local.total.accesses:
        return None
    local = stats.local
    kinds: tuple[AccessClass, ...] = get_args(AccessClass)
    slots = spillmap.slots(local)
    return {
        "bytes": _strip_bytes(stats),
        "instructions": stats.instructions,
        "evidence": local.evidence,
        "flow": local.flow,
        "totals": {
            kind: [accesses.stores, accesses.loads, accesses.store_bytes, accesses.load_bytes]
            for kind in kinds
            if (accesses := local.of(kind)).accesses
        },
        "depths": [[depth, *(counts[kind] for kind in kinds)] for depth, counts in local.by_loop_depth.items()],
        **(lines := _lines(local)),
        "marks": _marks(stats, slots, lines["lines"], marks) if local.accesses else None,
        "slots": [[slot.name, slot.kind, len(slot.stores), len(slot.loads), slot.depth] for slot in slots[:LISTED]],
        "more_slots": max(len(slots) - LISTED, 0),
    }


def _strip_bytes(stats: SassStats) -> int:
    """Length of the strip in bytes; a function inside a kernel's code has addresses of that kernel."""
    return max(stats.code_bytes, *(each.address + _instruction_bytes(stats) for each in stats.local.accesses), 0)


def _instruction_bytes(stats: SassStats) -> int:
    return max(stats.code_bytes // max(stats.instructions, 1), 1)


def _marks(stats: SassStats, slots: Sequence[spillmap.Slot], places: Sequence[str], most: int) -> dict[str, Any]:
    """Marks of a spill map, one for all accesses of the same class, direction, depth and position."""
    unit = max(_instruction_bytes(stats), -(-_strip_bytes(stats) // most))
    slot_of = spillmap.slot_numbers(slots[:LISTED])
    lines = {place: number for number, place in enumerate(places)}
    marks: dict[tuple[int, str, str], list[tuple[int, int]]] = {}
    for access in stats.local.accesses:
        depth = "?" if access.depth is None else str(min(access.depth, _DEEPEST))
        about = slot_of.get((access.address, access.store), -1), lines.get(spillmap.where(access.source), -1)
        marks.setdefault((access.address // unit, letter(access), depth), []).append(about)
    keys = sorted(marks)
    slot_and_line = [
        [of.pop() if len(of := set(each)) == 1 else -1 for each in zip(*marks[key], strict=True)] for key in keys
    ]
    return {
        "unit": unit,
        "at": [key[0] - before for key, before in zip(keys, [0, *(key[0] for key in keys)], strict=False)],
        "what": "".join(key[1] for key in keys),
        "depth": "".join(key[2] for key in keys),
        "count": [len(marks[key]) for key in keys],
        "slot": [slot for slot, _ in slot_and_line],
        "line": [line for _, line in slot_and_line],
    }


def _lines(local: LocalTraffic) -> dict[str, Any]:
    """Source lines in code order (of a snapshot, the costliest first), and their shares of the spills."""
    shares = dict.fromkeys((spillmap.where(access.source) for access in local.accesses if access.source), 0.0)
    for line in local.lines:
        place = spillmap.where(line.source)
        shares[place] = shares.get(place, 0.0) + (line.share if line.kind == "spill" else 0.0)
    return {"lines": list(shares), "shares": [round(share, 4) for share in shares.values()]}


ASSETS = ("source", "spillmap", "kernel")
"""Scripts and style sheets for the details of a kernel, in loading order."""
MAP_BYTES = 400_000
"""Bytes of a page for spill maps, given to the worst kernels first."""
FINE = 12
"""Maps at full resolution; the others have a quarter of it."""


def details(
    kernels: Sequence[Kernel],
    launches: Launches,
    before: Mapping[int, Kernel] | None = None,
    first: Sequence[int] = (),
) -> dict[str, Any]:
    """Details of kernels, which are sorted worst first.

    ``subjects``: the distinct residencies. ``details``: for each kernel the index of its subject (-1: never launched)
    and, if it uses local memory, its spill map; ``False`` if the page has no more room. Kernels whose indices are in
    ``first`` get their maps before the others. ``before``: kernels of the older build by the index of their successor;
    the result's ``before`` has their subjects by the same index, if these differ.
    """
    texts = Texts()

    @cache
    def known(usage: Usage, arch: str | None, launch: Launch | None) -> int:
        return texts.number(json.dumps(subject(summarise(usage, arch, launch))))

    def number_of(kernel: Kernel) -> int:
        if kernel.role == "function":
            return -1
        return known(kernel.usage, kernel.key.arch, launches.launch_of(kernel))

    entries: list[list[Any]] = [[number_of(kernel)] for kernel in kernels]
    room, drawn = MAP_BYTES, 0
    for number in dict.fromkeys((*first, *range(len(kernels)))):
        kernel = kernels[number]
        if kernel.sass is not None and kernel.sass.local.total.accesses:
            shown = spill_map(kernel, MARKS if drawn < FINE else MARKS // 4) if room > 0 else None
            room -= len(json.dumps(shown, separators=(",", ":"))) if shown else 0
            drawn += 1
            entries[number].append(shown or False)
    earlier = {number: number_of(kernel) for number, kernel in (before or {}).items()}
    subjects = list(map(json.loads, texts.texts))
    other = {at: old for at, old in earlier.items() if old not in {-1, entries[at][0]} and "result" in subjects[old]}
    return {"subjects": subjects, "details": entries, "before": other}


LONGEST_REASON = 200
"""Characters of a reason, which may quote an arch from a log."""


def subject(summary: Summary) -> dict[str, Any]:
    """Residency of one kernel on its own device, as display texts; empty ones are omitted.

    ``share``: occupancy in thousandths, and ``occupancy`` its text. ``limits``: for each resource its name, the blocks
    per SM that it allows, and whether it is a limiter. Without ``result`` the residency is unknown, and ``unknown``
    says why. ``assumed``: the launch is unknown, and the values are those of the block size that fills an SM best.
    """
    result = summary.occupancy
    facts: dict[str, Any] = {"unknown": clip(summary.unknown, LONGEST_REASON), "notes": list(_notes(summary))}
    facts |= {name: summary.cells[name] for name in ("occupancy", "limiter")}
    if result is not None:
        facts |= {
            "title": words.title(result.configuration.device),
            "launch": words.inputs(result.configuration),
            "result": words.result(result),
            "share": whole(1000 * result.fraction, summary.at_most),
            "assumed": summary.assumed,
            "mark": _mark(summary),
            "limits": [
                [LABELS[name], "no limit" if blocks is None else f"{blocks:,}", name in result.limiters]
                for name, blocks in result.limits.items()
            ],
        }
    return {key: value for key, value in facts.items() if value}


def _mark(summary: Summary) -> str:
    """Meaning of the sign before the values; empty without one."""
    if summary.at_most:
        return f"≤ {'block size' if summary.assumed else 'dynamic shared memory'} unknown"
    return "~ at the block size of the launch bounds" if summary.by_bounds else ""


def _notes(summary: Summary) -> list[str]:
    """Caveats about the values."""
    notes = []
    result, local = summary.occupancy, summary.local_memory
    if result is not None and result.limit_barriers is not None and summary.barriers_assumed:
        notes.append("Barriers not reported: 1 assumed.")
    if local is not None and local.matters and local.total_bytes is not None:
        notes.append(words.footprint_line(local))
    return notes
