"""The details of all kernels of a page: each distinct residency once, spill maps as far as there is room."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from spillscan.model import Kernel
from spillscan.page.kernel.strip import MARKS, spill_map
from spillscan.page.kernel.subject import subject
from spillscan.page.kernel.tables import tables
from spillscan.residency.devices import devices
from spillscan.residency.summary import Summary

MAP_BYTES = 400_000
"""Bytes of a page that spill maps may take; the worst kernels get theirs."""
FINE = 12
"""Maps with all their places; the others have a quarter."""


def details(kernels: Sequence[Kernel], summary_of: Callable[[Kernel], Summary | None]) -> dict[str, Any]:
    """``devices``: the tables; ``subjects``: the distinct residencies; ``details``: for each kernel the number of its
    subject (-1: never launched) and, where there is one, its spill map.

    ``kernels`` come worst first. A map is ``False`` where the kernel uses local memory but the page has no more room.
    """
    subjects: list[dict[str, Any]] = []
    numbers: dict[str, int] = {}
    asked: dict[int, tuple[Summary, int]] = {}
    found: list[list[Any]] = []
    room, drawn = MAP_BYTES, 0
    for kernel in kernels:
        summary = summary_of(kernel)
        number = -1
        if summary is not None:
            if id(summary) not in asked:
                told = subject(summary)
                number = numbers.setdefault(json.dumps(told), len(subjects))
                if number == len(subjects):
                    subjects.append(told)
                asked[id(summary)] = summary, number
            number = asked[id(summary)][1]
        row: list[Any] = [number]
        if kernel.sass is not None and kernel.sass.local.total.accesses:
            shown = spill_map(kernel, MARKS if drawn < FINE else MARKS // 4) if room > 0 else None
            room -= len(json.dumps(shown, separators=(",", ":"))) if shown else 0
            drawn += 1
            row.append(shown or False)
        found.append(row)
    return {"devices": tables(devices()), "subjects": subjects, "details": found}
