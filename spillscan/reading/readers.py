"""Who reads what: one reader a format, listed once, the most particular first.

A reader is a module, and one that is none is refused by mypy.
"""

from __future__ import annotations

from functools import cache
from typing import Protocol

from spillscan.model import Reading
from spillscan.reading.inputs.options import Options
from spillscan.reading.inputs.source import Stream


class Reader(Protocol):
    """What a reader module offers."""

    FORMAT: str
    """Its name."""

    def sniff(self, head: bytes) -> bool:
        """Whether an input that begins with ``head``, its first 64 KiB, is of this format."""

    def read(self, stream: Stream, name: str, options: Options = ...) -> Reading:
        """Read it all. ``name`` is what the user calls the input."""


@cache
def of_text() -> tuple[Reader, ...]:
    """Those that are asked about text; the last takes any."""
    from spillscan.reading import dumps, logs
    from spillscan.reading.inputs import build_file, ptx, sidecars, snapshot, times

    return build_file, ptx, snapshot, times, sidecars, dumps, logs


@cache
def of_binaries() -> tuple[Reader, ...]:
    """Those that are asked about what is no text."""
    from spillscan.reading import binary

    return (binary,)


def reader_for(head: bytes, *, binary: bool = False) -> Reader | None:
    """The reader whose format ``head`` begins; ``None`` where no reader takes it."""
    return next((reader for reader in (of_binaries() if binary else of_text()) if reader.sniff(head)), None)
