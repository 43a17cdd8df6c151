"""Who reads what: one reader a format, listed once.

A reader has ``FORMAT`` (its name), ``sniff(head) -> bool`` (is this input mine? ``head`` is its first 64 KiB),
``PRIORITY`` (who is asked first) and ``read(stream, name) -> Reading``. One of binaries has ``BINARY = True``: it is
asked about what is no text, the others about what is. One of machine code may have
``read_operands(stream, name) -> Reading`` as well: the same, with what the operands of each instruction name; slower.
One that decompresses may have ``read_within(stream, name, unpacking) -> Reading``: the same within other limits.
One of text that may hold nothing may have ``silent(text) -> bool``: whether reading this whole input gives nothing.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Protocol, cast

from spillscan.model import Reading
from spillscan.reading.inputs.source import Stream

READERS = (
    "inputs.build_file",
    "inputs.snapshot",
    "inputs.sidecars",
    "inputs.ptx",
    "inputs.times",
    "dumps",
    "logs",
    "binary",
)
"""The modules of all readers below ``spillscan.reading``."""


class Reader(Protocol):
    """What a reader module offers."""

    FORMAT: str
    PRIORITY: int

    def sniff(self, head: bytes) -> bool:
        """Whether an input that begins with ``head`` is of this format."""

    def read(self, stream: Stream, name: str) -> Reading:
        """Read it all. ``name`` is what the user calls the input."""


@cache
def all_readers() -> tuple[Reader, ...]:
    """Every reader, most particular first."""
    found = [cast(Reader, import_module(f"spillscan.reading.{name}")) for name in READERS]
    return tuple(sorted(found, key=lambda reader: (-reader.PRIORITY, reader.FORMAT)))


def reader_for(head: bytes, *, binary: bool = False) -> Reader | None:
    """The reader whose format ``head`` begins; ``None`` where no reader takes it."""
    asked = (reader for reader in all_readers() if getattr(reader, "BINARY", False) == binary)
    return next((reader for reader in asked if reader.sniff(head)), None)
