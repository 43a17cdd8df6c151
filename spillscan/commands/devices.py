"""The device table: what an SM of each compute capability has, with the source of every figure.

Without a name, one line a compute capability; with one (sm_90, 9.0, H100), all its figures, sources,
conflicts, and the register and shared-memory cliffs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from spillscan.commands import _answers, _options
from spillscan.occupancy import data
from spillscan.occupancy import text as listing
from spillscan.occupancy.devices import Device, device, devices, sources
from spillscan.occupancy.text import DEVICE_HEADS, device_row
from spillscan.output.terminal import PLAIN_WIDTH, Style, table

EPILOG = ""
_SPARE = ("a block", "barriers")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("device", nargs="?", help="target, compute capability or GPU name: sm_90, 9.0, H100")
    _options.add_formats(parser, "text", "json")


def run(arguments: argparse.Namespace) -> int:
    """Print the table, or one device."""
    chosen = [device(arguments.device)] if arguments.device else list(devices())
    _answers.answer(
        _answers.forms_of(arguments),
        text=lambda style: listing.device_lines(chosen[0]) if arguments.device else _table(chosen, style),
        json=lambda: {"devices": [data.device_data(one) for one in chosen], "sources": dict(sources())},
    )
    return 0


def _table(chosen: Sequence[Device], style: Style) -> Iterator[str]:
    """One line a device; a narrow terminal gets one GPU of each, and goes without what seldom differs."""
    rows = [(device_row(device, 2 if style.width >= PLAIN_WIDTH else 1), "") for device in chosen]
    yield from table(DEVICE_HEADS, rows, style, ("target", "architecture", "GPUs"), _SPARE)
