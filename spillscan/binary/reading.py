"""Binaries: libraries, executables, objects, fat binaries, cubins, and archives of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillscan.model import Issue, Reading, Stats

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spillscan.inputs.source import Stream

FORMAT = "binary"
PRIORITY = 0
BINARY = True


def sniff(head: bytes) -> bool:
    """Whether ``head`` begins a container of machine code."""
    from spillscan import binary

    return binary.holds_code(head)


def read(stream: Stream, name: str) -> Reading:
    """The functions of all cubins in one file."""
    return read_within(stream, name, {})


def read_within(stream: Stream, name: str, unpacking: Mapping[str, int]) -> Reading:
    """The same; ``unpacking``: the limits that are not to be the default."""
    from spillscan import binary
    from spillscan.binary.limits import Limits

    buffer = stream.buffer()
    reading = Reading(stats=Stats(inputs=1, bytes=len(buffer)))
    for item in binary.read(buffer, name, Limits(**unpacking)):
        if isinstance(item, Issue):
            reading.issues.append(item)
        else:
            reading.functions.append(item)
    return reading
