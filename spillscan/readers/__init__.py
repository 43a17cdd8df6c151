"""One module or package a format, found by being there.

A reader has ``FORMAT`` (its name), ``sniff(head) -> bool`` (is this input mine? ``head`` is its first 64 KiB),
``PRIORITY`` (who is asked first) and ``read(stream, name) -> Reading``. One of binaries has ``BINARY = True``: it is
asked about what is no text, the others about what is. One of machine code may have
``read_operands(stream, name) -> Reading`` as well: the same, with what the operands of each instruction name; slower.
One that decompresses may have ``read_within(stream, name, unpacking) -> Reading``: the same within other limits.
One of text that may hold nothing may have ``silent(text) -> bool``: whether reading this whole input gives nothing.
"""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from spillscan.model import Issue, Kernel, Origin, Stats, Usage
from spillscan.source import Stream

if TYPE_CHECKING:
    from spillscan.sass.model import SassFunction
    from spillscan.sass.resusage import FunctionUsage


@dataclass(frozen=True, slots=True)
class LinkRecord:
    """The linker's final figures for one kernel of relocatable code."""

    symbol: str
    arch: str | None
    """``None`` where the linker does not name it."""
    usage: Usage
    origin: Origin


@dataclass(slots=True)
class Reading:
    """What one input held."""

    kernels: list[Kernel] = field(default_factory=list)
    links: list[LinkRecord] = field(default_factory=list)
    functions: list[SassFunction | FunctionUsage] = field(default_factory=list)
    """What dumps hold, to be joined with the kernels of logs."""
    issues: list[Issue] = field(default_factory=list)
    stats: Stats = field(default_factory=Stats)

    @property
    def understood(self) -> bool:
        """Whether anything in the input was."""
        return bool(self.stats.recognised_lines or self.functions)


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
    """Every reader of this folder, most particular first."""
    found = [cast(Reader, import_module(f"{__name__}.{module.name}")) for module in pkgutil.iter_modules(__path__)]
    return tuple(sorted(found, key=lambda reader: (-reader.PRIORITY, reader.FORMAT)))


def reader_for(head: bytes, *, binary: bool = False) -> Reader | None:
    """The reader whose format ``head`` begins; ``None`` where no reader takes it."""
    asked = (reader for reader in all_readers() if getattr(reader, "BINARY", False) == binary)
    return next((reader for reader in asked if reader.sniff(head)), None)
