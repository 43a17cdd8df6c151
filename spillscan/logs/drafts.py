"""Records in the making: what is known of a kernel before its log has ended."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

from spillscan.logs.messages import Note, Stack
from spillscan.logs.steps import Step
from spillscan.model import Advisory, Role, Usage


@dataclass(slots=True, eq=False)
class Section:
    """What one ptxas run printed for one arch, as far as the order of the lines tells."""

    arch: str | None = None
    """The arch of its kernels; ``None`` before the first one, and where it has none."""
    headed: bool = False
    """Its first line (``N bytes gmem``) was seen."""
    relocatable: bool = False
    """Its device functions stand as only those of relocatable code do."""
    entries: int = 0
    """Kernels begun in it."""
    notes: list[tuple[Note, int]] = field(default_factory=list)
    """(advisory that names no kernel, line), printed before the section's first line."""


@dataclass(slots=True, eq=False)
class Draft:
    """A kernel or device function whose record is being gathered."""

    symbol: str
    """As printed."""
    arch: str | None
    """From its entry line; ``None`` for a device function, whose section knows."""
    role: Role
    """Entry, device function, or unknown where only a warning names it."""
    line: int
    """Where its record begins."""
    step: Step
    """The build step whose output it stands in."""
    section: Section
    """The ptxas run that it stands in, by the order of the lines."""
    stack: Stack | None = None
    """Its stack line; ``None`` until it comes."""
    stack_in_doubt: bool = False
    """Namesakes were open when it came: it may be one of theirs."""
    usage: Usage = Usage()  # noqa: RUF009 - frozen
    """Its registers line's figures."""
    compile_ms: float | None = None
    """Its compile time."""
    reasons: tuple[str, ...] = ()
    """Why it is ambiguous; empty while it is not."""
    advisories: tuple[Advisory, ...] = ()
    """Compiler messages that name it."""

    @property
    def identity(self) -> tuple[object, ...]:
        """Drafts that are equal in this are interchangeable."""
        return self.symbol, self.arch, self.step.unit, self.stack

    @property
    def figures(self) -> Usage:
        """Its registers and stack lines together; a stack in doubt is left out."""
        return self.usage if self.stack is None or self.stack_in_doubt else _with_stack(self.usage, self.stack)


@dataclass(slots=True)
class PendingUse:
    """A registers line that several kernels may own."""

    usage: Usage
    """Its figures."""
    owners: list[Draft]
    """Kernels that were waiting for one."""


@lru_cache(maxsize=4096)
def _with_stack(usage: Usage, stack: Stack) -> Usage:
    """Equal figures share one record."""
    return replace(
        usage,
        stack_bytes=stack.frame_bytes,
        spill_store_bytes=stack.spill_store_bytes,
        spill_load_bytes=stack.spill_load_bytes,
    )
