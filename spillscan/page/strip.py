"""The spill map of one kernel for a strip of its code: marks for accesses to local memory, bands for loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, get_args

from spillscan.machine import spillmap
from spillscan.model import Kernel
from spillscan.model.code import AccessClass, LocalAccess, LocalTraffic, SassStats

MARKS = 1000
"""Places along the strip; where a kernel has more instructions, a mark stands for all accesses of its place."""
LISTED = 60
"""Slots and sentences that are listed; the rest is counted."""
_LETTERS: dict[AccessClass, str] = {"spill": "s", "array": "a", "frame": "f", "unknown": "u"}
_DEEPEST = 9


def spill_map(kernel: Kernel, marks: int = MARKS) -> dict[str, Any] | None:
    """What the strip shows; ``None`` where no machine code was read or it uses no local memory.

    ``marks`` is ``None`` where a snapshot was read: it keeps how many accesses there are, not where. Else its columns
    are: ``at`` (place, as the difference to the mark before), ``what`` (a letter a mark: spill, array, frame, unknown;
    a capital stores), ``depth`` (a digit a mark, ``?`` unknown), ``count``, ``slot`` and ``line`` (numbers in ``slots``
    and ``lines``, -1 where there is none, or not one). ``shares``: what each line has of the weight of all spills.
    """
    stats = kernel.sass
    if stats is None or not stats.local.total.accesses:
        return None
    local = stats.local
    kinds: tuple[AccessClass, ...] = get_args(AccessClass)
    sentences = list(spillmap.sentences(local))
    slots = spillmap.slots(local)
    return {
        "bytes": stats.code_bytes,
        "instructions": stats.instructions,
        "evidence": local.evidence,
        "flow": local.flow,
        "totals": {
            kind: [found.stores, found.loads, found.store_bytes, found.load_bytes]
            for kind in kinds
            if (found := local.of(kind)).accesses
        },
        "depths": [[depth, *(counts[kind] for kind in kinds)] for depth, counts in local.by_loop_depth.items()],
        **_marks(stats, slots, marks),
        **_lines(local),
        "bands": list(_bands(local.accesses, _instruction_bytes(stats))),
        "sentences": sentences[:LISTED],
        "more_sentences": max(len(sentences) - LISTED, 0),
        "slots": [[slot.name, slot.kind, len(slot.stores), len(slot.loads), slot.depth] for slot in slots[:LISTED]],
        "more_slots": max(len(slots) - LISTED, 0),
    }


@dataclass(slots=True)
class _Mark:
    """All accesses of one class, direction and depth at one place."""

    count: int
    slot: int
    line: int


def _instruction_bytes(stats: SassStats) -> int:
    return max(stats.code_bytes // max(stats.instructions, 1), 1)


def _marks(stats: SassStats, slots: Sequence[spillmap.Slot], most: int) -> dict[str, Any]:
    accesses = stats.local.accesses
    if not accesses:
        return {"marks": None}
    unit = max(_instruction_bytes(stats), -(-stats.code_bytes // most))
    slot_of = {
        (access.address, access.store): number
        for number, slot in enumerate(islice(slots, LISTED))
        for access in (*slot.stores, *slot.loads)
    }
    lines = {place: number for number, place in enumerate(_lines(stats.local)["lines"])}
    found: dict[tuple[int, str, str], _Mark] = {}
    for access in accesses:
        letter = _LETTERS[access.kind].upper() if access.store else _LETTERS[access.kind]
        depth = "?" if access.depth is None else str(min(access.depth, _DEEPEST))
        line = lines.get(spillmap.where(access.source), -1)
        slot_number = slot_of.get((access.address, access.store), -1)
        key = (access.address // unit, letter, depth)
        mark = found.get(key)
        if mark is None:
            found[key] = _Mark(1, slot_number, line)
        else:
            mark.count += 1
            mark.slot = mark.slot if mark.slot == slot_number else -1
            mark.line = mark.line if mark.line == line else -1
    keys = sorted(found)
    chosen = [found[key] for key in keys]
    before = [0, *(key[0] for key in keys)]
    return {
        "marks": {
            "unit": unit,
            "at": [key[0] - last for key, last in zip(keys, before, strict=False)],
            "what": "".join(key[1] for key in keys),
            "depth": "".join(key[2] for key in keys),
            "count": [mark.count for mark in chosen],
            "slot": [mark.slot for mark in chosen],
            "line": [mark.line for mark in chosen],
        },
    }


def _lines(local: LocalTraffic) -> dict[str, Any]:
    """Every line as the code comes to it, of a snapshot the heaviest first, and its share of the spills."""
    shares = dict.fromkeys((spillmap.where(access.source) for access in local.accesses if access.source), 0.0)
    for line in local.lines:
        place = spillmap.where(line.source)
        shares[place] = shares.get(place, 0.0) + (line.share if line.kind == "spill" else 0.0)
    return {"lines": list(shares), "shares": [round(share, 4) for share in shares.values()]}


def _bands(accesses: Sequence[LocalAccess], instruction: int) -> Iterator[list[int]]:
    """``[depth, first byte, byte behind the last]`` of each stretch whose accesses are all that deep, outermost first.

    Accesses say how many loops are around them, not where these begin and end: a loop reaches at least so far.
    """
    deepest = max((access.depth or 0 for access in accesses), default=0)
    for depth in range(1, min(deepest, _DEEPEST) + 1):
        begin = end = -1
        for access in accesses:
            if (access.depth or 0) >= depth:
                begin = access.address if begin < 0 else begin
                end = access.address + instruction
            elif begin >= 0:
                yield [depth, begin, end]
                begin = -1
        if begin >= 0:
            yield [depth, begin, end]
