"""The details of all kernels of a page: each distinct residency once, spill maps as far as there is room."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spillscan.model import Kernel
from spillscan.occupancy.devices import devices
from spillscan.occupancy.model import Configuration
from spillscan.occupancy.summary import LABELS, Summary, verdict
from spillscan.occupancy.text import size
from spillscan.output.safe import clip
from spillscan.page.lookup import tables
from spillscan.page.strip import MARKS, spill_map

ASSETS = ("lookup", "budget", "curves", "spillmap", "kernel")
"""Scripts and style sheets that draw these details, in the order of loading."""
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
            [LABELS[entry.limiter], entry.finding, entry.remedy, entry.trade_off]
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
