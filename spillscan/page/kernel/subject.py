"""A kernel's residency as the page's pictures need it: where the what-if controls stand at first, and words."""

from __future__ import annotations

from typing import Any

from spillscan.occupancy.advice import LABELS, verdict
from spillscan.occupancy.model import Configuration
from spillscan.occupancy.summary import Summary
from spillscan.occupancy.text import size
from spillscan.output.safe import printable

SETTING = ("device", "threads", "registers", "fixed", "dynamic", "optin", "carveout", "barriers")
"""Order of the figures of a setting. ``fixed`` is static shared memory, ``optin`` the kernel's attribute."""

LONGEST_REASON = 200
"""Characters: a reason may quote what a log calls the arch."""


def subject(summary: Summary) -> dict[str, Any]:
    """What the page says of one kernel's residency on its own device; keys without anything to say are left out.

    Without ``setting`` nothing can be drawn, and ``unknown`` says why. ``assumed``: nobody said how the kernel is
    launched; the setting has the block size that fills an SM best, and its occupancy is a bound, not a fact.
    """
    found = summary.occupancy
    launched = found is not None and not summary.assumed
    said = {
        "setting": None if found is None else setting(found.configuration),
        "unknown": printable(summary.unknown, LONGEST_REASON),
        "assumed": summary.assumed,
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
    if summary.launch is not None and summary.launch.source == "maxntid":
        notes.append("The block size is that of its launch bounds.")
    if local is not None and local.matters and local.total_bytes is not None:
        notes.append(
            f"Its stack of {local.stack_bytes:,} B a thread reserves {size(local.total_bytes)} on one {local.gpu}"
            f" ({local.multiprocessors} SMs)."
        )
    return notes
