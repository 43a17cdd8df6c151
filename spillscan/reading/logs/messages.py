"""Messages of ptxas and nvlink, one per log line, as plain records.

A line that contains pieces of a report but is not a whole message is :class:`Torn`: cut, damaged, or two lines in one.
"""

from __future__ import annotations

from msgspec import Struct

from spillscan.model import Advisory, Usage


class EntryLine(Struct, frozen=True):
    """``Compiling entry function``, which begins a kernel's block."""

    symbol: str
    """Name of the kernel; empty if a person left it out."""
    arch: str | None
    """Target; not printed before CUDA 3.0."""


class Properties(Struct, frozen=True):
    """``Function properties for``, which names the kernel or device function of the next stack line."""

    symbol: str


class Stack(Struct, frozen=True):
    """A stack line, in bytes per thread."""

    frame_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    indented: bool = True
    """Whether the line is indented. Tools do so; a pasted line or a cut number may not be."""

    @property
    def spills(self) -> tuple[int, int]:
        """(spill store bytes, spill load bytes)."""
        return self.spill_store_bytes, self.spill_load_bytes


class Used(Struct, frozen=True):
    """``Used N registers``, which names no kernel. The usage has no stack values."""

    usage: Usage
    cut: bool = False
    """Whether clauses at the end are missing or belong to another line."""


class FunctionUsage(Struct, frozen=True):
    """``Function f, N bytes lmem``: values and a name in one line, as people paraphrase them."""

    symbol: str
    usage: Usage


class CompileTime(Struct, frozen=True):
    """``Compile time``, which names no kernel."""

    milliseconds: float


class Module(Struct, frozen=True):
    """``N bytes gmem``, the first line per arch of a translation unit."""

    usage: Usage
    """Global constant banks and unknown clauses."""


class Note(Struct, frozen=True):
    """An advisory, warning or error."""

    advisory: Advisory
    symbol: str | None = None
    """Kernel or device function that the message names."""
    spills: tuple[int, int] | None = None
    """(spill store bytes, spill load bytes) that it repeats."""
    frame_bytes: int | None = None
    """Stack frame that it repeats, in bytes per thread."""

    @property
    def is_error(self) -> bool:
        """Whether this message fails the compilation."""
        return self.advisory.severity in ("error", "fatal")


class Ignored(Struct, frozen=True):
    """A known message that contributes nothing to a record."""


class Unknown(Struct, frozen=True):
    """A message of a known tool that no rule describes."""

    text: str
    of_report: bool = False
    """Whether it is printed as ``info``, without advice code: it may contain values."""


class Torn(Struct, frozen=True):
    """A line with pieces of a report that is no whole message: cut, damaged, or of two writers."""

    text: str
    """The whole line."""


class LinkProperties(Struct, frozen=True):
    """nvlink's ``Function properties for``, which names the kernel of the next registers line."""

    symbol: str
    arch: str | None
    """Target, printed since nvcc 13; ``None`` if not printed."""


class LinkUsed(Struct, frozen=True):
    """nvlink's ``used N registers``: final values of the kernel named on the previous line."""

    usage: Usage
    cut: bool = False
    """Whether clauses at the end are missing; nvlink always prints local memory."""


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
