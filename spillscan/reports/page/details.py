"""The details of all kernels of a page: each distinct residency once; spill maps, a strip of a kernel's code with marks
for accesses to local memory and bands for loops, as far as there is room. And the stand-alone calculator, which shows
the same without a kernel: one page for every device, in place of a spreadsheet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, get_args

from spillscan import __version__
from spillscan.model import Kernel
from spillscan.model.code import MOST_REGISTERS, AccessClass, LocalAccess, LocalTraffic, SassStats
from spillscan.occupancy import text as words
from spillscan.occupancy.binding import LABELS, verdict
from spillscan.occupancy.devices import devices
from spillscan.occupancy.formula import resident
from spillscan.occupancy.model import Configuration
from spillscan.occupancy.summary import Summary
from spillscan.output.errors import UsageError
from spillscan.output.nouns import size
from spillscan.output.safe import clip
from spillscan.reading.machine import spillmap
from spillscan.reports.page.document import document
from spillscan.reports.page.lookup import tables

MARKS = 1000
"""Places along the strip; where a kernel has more instructions, a mark stands for all accesses of its place."""
LISTED = 60
"""Slots and sentences that are listed; the rest is counted."""
_LETTERS: dict[AccessClass, str] = {"spill": "s", "array": "a", "frame": "f", "helper": "h", "unknown": "u"}
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
        "bytes": _strip_bytes(stats),
        "instructions": stats.instructions,
        "evidence": local.evidence,
        "flow": local.flow,
        "totals": {
            kind: [found.stores, found.loads, found.store_bytes, found.load_bytes]
            for kind in kinds
            if (found := local.of(kind)).accesses
        },
        "depths": [[depth, *(counts[kind] for kind in kinds)] for depth, counts in local.by_loop_depth.items()],
        **(lines := _lines(local)),
        "marks": _marks(stats, slots, lines["lines"], marks) if local.accesses else None,
        "bands": list(_bands(local.accesses, _instruction_bytes(stats))),
        "sentences": sentences[:LISTED],
        "more_sentences": max(len(sentences) - LISTED, 0),
        "slots": [[slot.name, slot.kind, len(slot.stores), len(slot.loads), slot.depth] for slot in slots[:LISTED]],
        "more_slots": max(len(slots) - LISTED, 0),
    }


def _strip_bytes(stats: SassStats) -> int:
    """How far the code reaches: a function in the code of a kernel has the addresses of that."""
    return max(stats.code_bytes, *(each.address + _instruction_bytes(stats) for each in stats.local.accesses), 0)


def _instruction_bytes(stats: SassStats) -> int:
    return max(stats.code_bytes // max(stats.instructions, 1), 1)


def _marks(stats: SassStats, slots: Sequence[spillmap.Slot], places: Sequence[str], most: int) -> dict[str, Any]:
    """All accesses of one class, direction and depth at one place are one mark."""
    unit = max(_instruction_bytes(stats), -(-_strip_bytes(stats) // most))
    slot_of = {
        (access.address, access.store): number
        for number, slot in enumerate(islice(slots, LISTED))
        for access in (*slot.stores, *slot.loads)
    }
    lines = {place: number for number, place in enumerate(places)}
    found: dict[tuple[int, str, str], list[tuple[int, int]]] = {}
    for access in stats.local.accesses:
        letter = _LETTERS[access.kind].upper() if access.store else _LETTERS[access.kind]
        depth = "?" if access.depth is None else str(min(access.depth, _DEEPEST))
        about = slot_of.get((access.address, access.store), -1), lines.get(spillmap.where(access.source), -1)
        found.setdefault((access.address // unit, letter, depth), []).append(about)
    keys = sorted(found)
    slot_and_line = [
        [of.pop() if len(of := set(each)) == 1 else -1 for each in zip(*found[key], strict=True)] for key in keys
    ]
    return {
        "unit": unit,
        "at": [key[0] - before for key, before in zip(keys, [0, *(key[0] for key in keys)], strict=False)],
        "what": "".join(key[1] for key in keys),
        "depth": "".join(key[2] for key in keys),
        "count": [len(found[key]) for key in keys],
        "slot": [slot for slot, _ in slot_and_line],
        "line": [line for _, line in slot_and_line],
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


CALCULATOR = ("lookup", "budget", "curves", "calculator")
"""Scripts and style sheets that draw a residency, in the order of loading."""
ASSETS = (*CALCULATOR, "source", "spillmap", "kernel")
"""Those that draw the details of a kernel."""
MAP_BYTES = 400_000
"""Bytes of a page that spill maps may take; the worst kernels get theirs."""
FINE = 12
"""Maps with all their places; the others have a quarter."""


def details(
    kernels: Sequence[Kernel],
    summary_of: Callable[[Kernel], Summary | None],
    before: Mapping[int, Kernel] | None = None,
    first: Sequence[int] = (),
) -> dict[str, Any]:
    """``devices``: the tables; ``subjects``: the distinct residencies; ``details``: for each kernel the number of its
    subject (-1: never launched) and, where there is one, its spill map.

    ``kernels`` come worst first; those of some numbers ``first`` have their maps before the others. A map is ``False``
    where the kernel uses local memory but the page has no more room. ``before`` are the kernels of an older build, by
    the number of their successors; of them the page's ``before`` holds the subjects that can be drawn and that differ,
    by the same number.
    """
    numbered = _Subjects(summary_of)
    found: list[list[Any]] = [[numbered.number(kernel)] for kernel in kernels]
    room, drawn = MAP_BYTES, 0
    for number in dict.fromkeys((*first, *range(len(kernels)))):
        kernel = kernels[number]
        if kernel.sass is not None and kernel.sass.local.total.accesses:
            shown = spill_map(kernel, MARKS if drawn < FINE else MARKS // 4) if room > 0 else None
            room -= len(json.dumps(shown, separators=(",", ":"))) if shown else 0
            drawn += 1
            found[number].append(shown or False)
    made: dict[str, Any] = {
        "devices": tables(tuple(each.target for each in devices())),
        "subjects": numbered.subjects,
        "details": found,
    }
    if before is not None:
        earlier = {number: numbered.number(kernel) for number, kernel in before.items()}
        made["before"] = {
            number: old
            for number, old in earlier.items()
            if old not in {-1, found[number][0]} and "setting" in numbered.subjects[old]
        }
    return made


class _Subjects:
    """Residencies by number, each distinct one once."""

    def __init__(self, summary_of: Callable[[Kernel], Summary | None]) -> None:
        self.subjects: list[dict[str, Any]] = []
        self._summary_of = summary_of
        self._numbers: dict[str, int] = {}
        self._asked: dict[int, tuple[Summary, int]] = {}

    def number(self, kernel: Kernel) -> int:
        """Of the kernel's residency; -1 where it is never launched."""
        summary = self._summary_of(kernel)
        if summary is None:
            return -1
        if id(summary) not in self._asked:
            said = subject(summary)
            number = self._numbers.setdefault(json.dumps(said), len(self.subjects))
            if number == len(self.subjects):
                self.subjects.append(said)
            self._asked[id(summary)] = summary, number
        return self._asked[id(summary)][1]


SETTING = ("device", "threads", "registers", "fixed", "dynamic", "optin", "carveout", "barriers")
"""Order of the figures of a setting. ``fixed`` is static shared memory, ``optin`` the kernel's attribute."""

LONGEST_REASON = 200
"""Characters: a reason may quote what a log calls the arch."""


def subject(summary: Summary) -> dict[str, Any]:
    """What the page says of one kernel's residency on its own device; keys without anything to say are left out.

    Without ``setting`` nothing can be drawn, and ``unknown`` says why. ``assumed``: it is not known how the kernel is
    launched; the setting has the block size that fills an SM best. ``at_most``: how much dynamic shared memory it
    takes is not. Its occupancy is a bound then, not a fact.
    """
    found = summary.occupancy
    launched = found is not None and not summary.at_most
    said = {
        "setting": None if found is None else setting(found.configuration),
        "unknown": clip(summary.unknown, LONGEST_REASON),
        "assumed": summary.assumed,
        "at_most": summary.at_most and not summary.assumed,
        "notes": list(_notes(summary)),
        "advice": [
            [LABELS[entry.limiter], entry.finding, entry.fix, entry.trade_off]
            for entry in summary.advice
            if found is not None and found.can_launch
        ],
        "verdict": verdict(found) if found is not None and launched else "",
    }
    return {key: value for key, value in said.items() if value}


def setting(configuration: Configuration) -> list[Any]:
    """A configuration in the order of :data:`SETTING`."""
    return [
        configuration.device.target,
        configuration.threads_per_block,
        configuration.registers,
        configuration.static_shared_bytes,
        configuration.dynamic_shared_bytes,
        configuration.max_dynamic_shared_bytes,
        configuration.carveout_percent,
        configuration.barriers,
    ]


def _notes(summary: Summary) -> list[str]:
    """What a reader must know of the figures."""
    notes = []
    found, local = summary.occupancy, summary.local_memory
    if found is not None and found.limit_barriers is not None and summary.barriers_assumed:
        notes.append("The input gives no barriers: 1 is taken.")
    if summary.by_bounds:
        notes.append("The block size is that of its launch bounds.")
    if summary.at_most and not summary.assumed:
        notes.append("Its dynamic shared memory is not known: drawn is the most that fits, without any.")
    if local is not None and local.matters and local.total_bytes is not None:
        notes.append(
            f"Its stack of {local.stack_bytes:,} B a thread reserves {size(local.total_bytes)} on one {local.gpu}"
            f" ({local.multiprocessors} SMs)."
        )
    return notes


START = {"arch": "sm_90", "threads": "256", "registers": "64"}
"""Where the controls stand unless the options say otherwise, as options of the command."""
ABOUT = (
    "Theoretical occupancy: warps that are resident on one SM if enough blocks are launched, over its warp slots. The "
    "figures are looked up in tables that spillscan's model computed for this page; the model equals NVIDIA's "
    "cuda_occupancy.h 13.5 on every configuration tested.",
    "A block is resident with all its warps or not at all. Registers are given to warps in steps of 8 a thread, each "
    "warp in one of the SM's partitions; shared memory in steps of 128 B (256 B before sm_80), with the driver's own "
    "1,024 B a block from sm_80 on; named barriers limit from sm_90 on.",
    "The address of this page holds the setting: copy it to share what you see.",
    "Occupancy is a means: more resident warps help only where the present ones leave latency uncovered.",
)


def calculator(start: Configuration) -> Iterator[str]:
    """The page's text, piece by piece; ``start`` is where the controls stand at first.

    Raises :class:`~spillscan.UsageError` for what the page has no control for.
    """
    if start.registers > MOST_REGISTERS:
        raise UsageError(f"--registers must be at most {MOST_REGISTERS} with -f html, not {start.registers}")
    if start.cache_preference != "none" or start.global_caching != "off":
        raise UsageError("cache_preference and global_caching have no control on the page", "leave them out")
    payload: dict[str, Any] = {
        "title": "occupancy",
        "tool": f"spillscan {__version__}",
        "views": [{"name": "calculator", "label": "Occupancy"}],
        "devices": tables(tuple(each.target for each in devices())),
        "start": setting(start),
        "about": list(ABOUT),
    }
    yield from document("Occupancy · spillscan", payload, CALCULATOR, words.report(resident(start)))
