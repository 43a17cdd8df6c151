"""Kernels whose records are being gathered, and the compiler's runs that they stand in."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from spillscan.model import Advisory, Kernel, Role, Usage
from spillscan.reading.logs.messages import Note, Stack
from spillscan.reading.logs.steps import Step

Suspicion = Literal["foreign", "misplaced", "bare", "nameless", "unindented"]
"""Another's properties stand between its stack and its registers; they are those of another; it has no stack line; its
stack line has no properties before it; its stack line is not indented."""


class Section(Struct, eq=False):
    """What one ptxas run printed for one arch, as far as the order of the lines shows."""

    arch: str | None = None
    """The arch of its kernels; ``None`` before the first one, and where it has none."""
    headed: bool = False
    """Its first line (``N bytes gmem``) was seen."""
    apart: bool = False
    """Its device functions stand before kernels, or have compile times of their own, as in relocatable code and in
    debug builds: nothing shows which kernel calls them."""
    linked: bool = False
    """A kernel's stack was summed up over its callees: no relocatable code, of which ptxas does not know them."""
    barriers: int = 0
    """1: a registers line counted barriers, 2: one did not; a release does either."""
    times: int = 0
    """1: a kernel has a compile time, 2: one has none; a release does either."""
    entries: int = 0
    """Kernels begun in it."""
    last_kernel_line: int = 0
    """Where the last of them begins; 0: none has."""
    notes: list[tuple[Note, int]] = field(default_factory=list)
    """(advisory that names no kernel, line), printed before the section's first line."""

    def begin(self, arch: str | None, line: int, kernels: int) -> bool:
        """So many kernels of one arch begin, the last of them on ``line``. Whether that can be: one ptxas run compiles
        for one arch."""
        one_arch = not self.headed or self.arch in (None, arch)
        self.arch, self.last_kernel_line = arch, line
        self.entries += kernels
        return one_arch


class Run(Struct, eq=False):
    """Kernels that one ptxas run printed one behind the other, whose records are made."""

    section: Section
    step: Step
    """The build step whose output they stand in."""
    kernels: list[Kernel]

    @property
    def line(self) -> int:
        """Where the first of them begins."""
        return first_line(self.kernels[0])


NO_USAGE = Usage()


class PendingKernel(Struct, eq=False):
    """A kernel or device function whose record is being gathered."""

    symbol: str
    """As printed."""
    arch: str | None
    """From its entry line; ``None`` for a device function, whose section knows."""
    role: Role
    """EntryLine, device function, or unknown where only a warning names it."""
    line: int
    """Where its record begins."""
    step: Step
    """The build step whose output it stands in."""
    section: Section
    """The ptxas run that it stands in, by the order of the lines."""
    stack: Stack | None = None
    """Its stack line; ``None`` until it comes."""
    first_use: int = 0
    """Registers lines that were unassigned before its stack line: none of them is its own."""
    caller_line: int = 0
    """Of a device function: where the last kernel before it in its section begins; 0: there is none."""
    stack_in_doubt: bool = False
    """Namesakes were open when it came: it may be one of theirs."""
    usage: Usage = NO_USAGE
    """Its registers line's figures."""
    compile_ms: float | None = None
    """Its compile time."""
    reasons: tuple[str, ...] = ()
    """Why it is ambiguous; empty while it is not."""
    suspicions: frozenset[Suspicion] = frozenset()
    """What may be wrong with it; the whole log decides."""
    advisories: tuple[Advisory, ...] = ()
    """Compiler messages that name it."""

    @property
    def identity(self) -> tuple[object, ...]:
        """Kernels that are equal in this are interchangeable."""
        return self.symbol, self.arch, self.step.unit, self.stack

    def took(self, milliseconds: float) -> None:
        """Its compile time."""
        self.compile_ms = milliseconds
        self.section.apart |= self.role == "function"

    @property
    def figures(self) -> Usage:
        """Its registers and stack lines together; a stack in doubt is left out."""
        if self.stack is None or self.stack_in_doubt:
            return self.usage
        return _of_stack(self.stack) if self.usage is NO_USAGE else _with_stack(self.usage, self.stack)

    @property
    def spills(self) -> tuple[int, int] | None:
        """Bytes of (spill stores, spill loads); ``None`` where they are not known for sure."""
        if self.reasons:
            return None
        return self.usage.spills if self.stack is None or self.stack_in_doubt else self.stack.spills


def shown_by(usage: Usage) -> tuple[int, bool]:
    """What a kernel's figures show of its ptxas run: (barriers, linked) of :class:`Section`."""
    return 2 if usage.barriers is None else 1, usage.cumulative_stack_bytes is not None


def first_line(kernel: Kernel) -> int:
    """Where its record begins."""
    return kernel.origins[0].line or 0


@lru_cache(maxsize=4096)
def _with_stack(usage: Usage, stack: Stack) -> Usage:
    """Equal figures share one record."""
    return replace(
        usage,
        stack_bytes=stack.frame_bytes,
        spill_store_bytes=stack.spill_store_bytes,
        spill_load_bytes=stack.spill_load_bytes,
    )


@lru_cache(maxsize=4096)
def _of_stack(stack: Stack) -> Usage:
    """Of a device function, which has no registers line."""
    return _with_stack(NO_USAGE, stack)
