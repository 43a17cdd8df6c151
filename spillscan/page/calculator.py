"""The stand-alone calculator: one page for every device, in place of a spreadsheet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spillscan import __version__
from spillscan.errors import UsageError
from spillscan.occupancy import text as words
from spillscan.occupancy.devices import devices
from spillscan.occupancy.formula import resident
from spillscan.occupancy.model import Configuration
from spillscan.page.details import ASSETS, setting
from spillscan.page.document import document, text
from spillscan.page.lookup import MOST_REGISTERS, tables

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

    Raises :class:`~spillscan.errors.UsageError` for what the page has no control for.
    """
    if start.registers > MOST_REGISTERS:
        raise UsageError(f"--registers must be at most {MOST_REGISTERS} with --html, not {start.registers}")
    if start.cache_preference != "none" or start.global_caching != "off":
        raise UsageError("--cache and --partitioned-caching have no control on the page", "leave them out")
    payload: dict[str, Any] = {
        "title": "occupancy",
        "tool": f"spillscan {__version__}",
        "views": [{"name": "calculator", "label": "Occupancy"}],
        "devices": tables(tuple(each.target for each in devices())),
        "start": setting(start),
        "about": list(ABOUT),
    }
    yield from document("Occupancy · spillscan", payload, ASSETS, _static(start))


def _static(start: Configuration) -> Iterator[str]:
    """The start as text, for readers without JavaScript."""
    lines = words.report(resident(start))
    yield "<h1>Occupancy of one SM</h1>\n<p>The sliders need JavaScript; this is the setting at the start.</p>\n"
    yield f"<pre>{chr(10).join(text(line) for line in lines)}</pre>\n"
