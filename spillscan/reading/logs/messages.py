"""What one line of a log says: the messages of ptxas and nvlink, as plain records.

A line that holds pieces of a report and is no whole message is :class:`Torn`: cut, damaged, or two lines in one.
"""

from __future__ import annotations

import re
from functools import cache

from msgspec import Struct

from spillscan.model import Advisory, Usage
from spillscan.reading import grammar
from spillscan.reading.logs import fragments


@cache
def head(tool: str) -> re.Pattern[str]:
    """What ``tool`` puts before a message; groups ``severity``, ``location``, ``code``."""
    return re.compile(grammar.line_expression("_head", tool))


class EntryLine(Struct, frozen=True):
    """``Compiling entry function``: a kernel's block begins."""

    symbol: str
    """Empty where a person left the name out."""
    arch: str | None
    """Before release 3.0 it was not printed."""


class Properties(Struct, frozen=True):
    """``Function properties for``: the stack line that follows belongs to this kernel or device function."""

    symbol: str


class Stack(Struct, frozen=True):
    """The stack line; bytes per thread."""

    frame_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    indented: bool = True
    """Tools indent it; a paste may not, and a cut number stands at the beginning of its line, too."""

    @property
    def spills(self) -> tuple[int, int]:
        """(spill store bytes, spill load bytes)."""
        return self.spill_store_bytes, self.spill_load_bytes


class Used(Struct, frozen=True):
    """``Used N registers``: names no kernel. The usage has no stack figures."""

    usage: Usage
    cut: bool = False
    """Clauses at its end are missing, or are another line's."""


class FunctionUsage(Struct, frozen=True):
    """``Function f, N bytes lmem``: figures and a name in one line, as people retell them."""

    symbol: str
    usage: Usage


class CompileTime(Struct, frozen=True):
    """``Compile time``: names no kernel."""

    milliseconds: float


class Module(Struct, frozen=True):
    """``N bytes gmem``: the first line of one arch of one translation unit."""

    usage: Usage
    """Global constant banks; unknown clauses."""


class Note(Struct, frozen=True):
    """An advisory, warning or error."""

    advisory: Advisory
    symbol: str | None = None
    """The kernel or device function that it names."""
    spills: tuple[int, int] | None = None
    """(spill store bytes, spill load bytes) that it repeats."""
    frame_bytes: int | None = None
    """The stack frame that it repeats, bytes per thread."""

    @property
    def is_error(self) -> bool:
        """Whether the compilation failed by it."""
        return self.advisory.severity in ("error", "fatal")


class Ignored(Struct, frozen=True):
    """Understood, and of no use to a record."""


class Unknown(Struct, frozen=True):
    """A message of a known tool that no rule describes."""

    text: str
    of_report: bool = False
    """It stands among the figures, and is no warning or advice: it may be one of them."""


class Torn(Struct, frozen=True):
    """A line with pieces of a report that is no whole message: cut, damaged, or of two writers."""

    text: str
    """The line."""

    @property
    def spilled(self) -> bool:
        """It is the compiler's warning of spills."""
        return "Registers are spilled" in self.text

    @property
    def of_tool(self) -> bool:
        """It names the tool whose line it was."""
        return any(tool in self.text for tool in ("ptxas", "nvlink"))

    @property
    def elided(self) -> bool:
        """Its end was left out."""
        return fragments.elided(self.text) is not None

    @property
    def glued(self) -> bool:
        """Another message begins in it."""
        return len(head("ptxas").findall(self.text)) > 1


class LinkProperties(Struct, frozen=True):
    """nvlink's ``Function properties for``."""

    symbol: str
    arch: str | None
    """nvcc 13 adds the target; without it nvlink names no arch."""


class LinkUsed(Struct, frozen=True):
    """nvlink's ``used N registers``: final figures of the kernel named on the line before."""

    usage: Usage
    cut: bool = False
    """Clauses at its end are missing: nvlink always prints local memory."""


Message = (
    EntryLine
    | Properties
    | Stack
    | Used
    | FunctionUsage
    | CompileTime
    | Module
    | Note
    | Ignored
    | Unknown
    | Torn
    | LinkProperties
    | LinkUsed
)
