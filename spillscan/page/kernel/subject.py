"""One kernel as the page's occupancy pictures need it: its resources, its launch as far as known, and words."""

from __future__ import annotations

from typing import Any

from spillscan.errors import UsageError
from spillscan.model import Kernel
from spillscan.residency.advice import LABELS, verdict
from spillscan.residency.devices import Device, resolve
from spillscan.residency.model import Configuration, Launch, Occupancy
from spillscan.residency.summary import Summary, summarise


def subject(kernel: Kernel, launch: Launch | None = None) -> dict[str, Any]:
    """What the page says of one kernel's residency on its own device.

    ``setting`` is where the what-if controls stand at first, ``None`` where nothing can be drawn; ``unknown`` then says
    why. ``assumed``: nobody said how the kernel is launched; the setting has the block size that fills an SM best, and
    its occupancy is a bound, not a fact. Raises :class:`~spillscan.errors.UsageError` for an impossible launch.
    """
    summary = summarise(kernel.usage, kernel.key.arch, launch)
    found = summary.occupancy
    return {
        "unknown": summary.unknown,
        "assumed": summary.assumed,
        "source": None if summary.launch is None else summary.launch.source,
        "setting": None if found is None else setting(found.configuration),
        "notes": list(_notes(kernel, summary)),
        "words": _words(summary),
    }


def setting(configuration: Configuration) -> dict[str, Any]:
    """A configuration as the page's script holds it."""
    return {
        "device": configuration.device.target,
        "threads": configuration.threads_per_block,
        "registers": configuration.registers,
        "fixed": configuration.static_shared_bytes,
        "dynamic": configuration.dynamic_shared_bytes,
        "optin": configuration.max_dynamic_shared_bytes,
        "carveout": configuration.carveout_percent,
        "barriers": configuration.barriers,
    }


def devices_of(kernels: list[Kernel]) -> list[Device]:
    """The devices whose tables these kernels need; archs that the device table does not have are left out."""
    found: dict[str, Device] = {}
    for arch in sorted({kernel.key.arch for kernel in kernels if kernel.key.arch}):
        try:
            device = resolve(arch)[0]
        except UsageError:
            continue
        found[device.target] = device
    return list(found.values())


def advice_words(occupancy: Occupancy, summary: Summary | None = None) -> list[dict[str, str]]:
    """What binds, how to press less on it, and what that costs: a heading and three sentences a limit."""
    from spillscan.residency.advice import advice

    entries = advice(occupancy) if summary is None else summary.advice
    return [
        {"limit": LABELS[entry.limiter], "finding": entry.finding, "remedy": entry.remedy, "trade_off": entry.trade_off}
        for entry in entries
    ]


def _words(summary: Summary) -> dict[str, Any]:
    if summary.occupancy is None or summary.assumed or not summary.occupancy.can_launch:
        return {"advice": [], "verdict": ""}
    return {"advice": advice_words(summary.occupancy, summary), "verdict": verdict(summary.occupancy)}


def _notes(kernel: Kernel, summary: Summary) -> list[str]:
    """What a reader must know of the figures above."""
    notes = []
    if kernel.confidence == "ambiguous":
        notes.append("The figures may be another kernel's: " + "; ".join(kernel.reasons) + ".")
    if kernel.final is False:
        notes.append("Relocatable code: the registers are not final before the link.")
    if summary.occupancy is not None and summary.barriers_assumed and summary.occupancy.configuration.device.clusters:
        notes.append("The input gives no barriers: 1 is taken.")
    if summary.launch is not None and summary.launch.source == "maxntid":
        notes.append("The block size is that of its launch bounds.")
    local = summary.local_memory
    if local is not None and local.matters:
        notes.append(_reserved(local.stack_bytes, local.total_bytes or 0, local.gpu or "", local.multiprocessors or 0))
    return notes


def _reserved(stack: int, total: int, gpu: str, multiprocessors: int) -> str:
    from spillscan.residency.text import size

    return f"Its stack of {stack:,} B a thread reserves {size(total)} on one {gpu} ({multiprocessors} SMs)."
