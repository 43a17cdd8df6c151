"""Kernels with incomplete records, and the ptxas runs that print them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from spillscan.model import Kernel, Role, Usage
from spillscan.reading.logs.messages import Note, Stack
from spillscan.reading.logs.steps import Step

_ARCH = re.compile(r"sm_(\d+)[af]?")
_CALLEES_FIRST = re.compile(r"sm_[12]\d|sm_30")
_OLD_BANKS = frozenset({1, 14, 16})
"""Constant banks used only by code for these old archs."""


@lru_cache(maxsize=1 << 10)
def prints_constant_banks(arch: str | None) -> bool | None:
    """Whether ptxas prints ``cmem`` for ``arch``: up to sm_89 always, from sm_90 on never (measured, 11.7 to 13.5)."""
    match = _ARCH.fullmatch(arch or "")
    return int(match[1]) < 90 if match else None


def callees_first(arch: str | None, banks: Iterable[tuple[int, int]] | None = ()) -> bool:
    """Whether releases for ``arch``, or that print ``banks``, print callees' properties before the kernel's registers.

    If so, a registers line after a callee's properties may belong to any earlier kernel.
    """
    old = _of_old_arch(arch)
    return old if not banks else old or not _OLD_BANKS.isdisjoint(bank for bank, _ in banks)


@lru_cache(maxsize=1 << 10)
def _of_old_arch(arch: str | None) -> bool:
    return _CALLEES_FIRST.fullmatch(arch or "") is not None


def without_stack_lines(arch: str | None) -> bool:
    """Whether ptxas prints no stack lines for ``arch``."""
    return re.fullmatch(r"sm_1\d", arch or "") is not None


Feature = Literal["arch", "indent", "name", "stack"]
"""Parts of a kernel's lines that some releases, and people who paste a log, leave out for all kernels.

``arch``: the line that begins the kernel names it; ``stack``: there is a stack line; ``name``: properties that name the
kernel precede that line; ``indent``: that line is indented.
"""


class Section(Struct, eq=False):
    """Output of one ptxas run for one arch, as far as the order of lines shows."""

    arch: str | None = None
    """Arch of its kernels; ``None`` before the first one, or if none is printed."""
    headed: bool = False
    """Whether its first line (``N bytes gmem``) was seen."""
    apart: bool = False
    """Whether device functions precede kernels or have their own compile times, as in relocatable code and debug
    builds: their callers are unknown."""
    linked: bool = False
    """Whether a kernel's stack includes its callees: not relocatable code, whose callees ptxas does not know."""
    barriers: int = 0
    """1 if a registers line counts barriers, plus 2 if one does not; a release does only one of both."""
    entries: int = 0
    """Number of kernels begun in it."""
    last_kernel_line: int = 0
    """First line of the last kernel; 0: none."""
    notes: list[tuple[Note, int]] = field(default_factory=list)
    """(advisory that names no kernel, line), printed before the section's first line."""


class Run(Struct, eq=False):
    """Consecutive kernels of one ptxas run, with finished records."""

    section: Section
    step: Step
    """Build step that printed them."""
    kernels: list[Kernel]

    @property
    def line(self) -> int:
        """First line of the first kernel."""
        return first_line(self.kernels[0])


NO_USAGE = Usage()


class PendingKernel(Struct, eq=False):
    """A kernel or device function with an incomplete record."""

    symbol: str
    """Name as printed."""
    arch: str | None
    """Arch from its entry line; ``None`` for a device function, which takes its section's."""
    role: Role
    """Kernel entry, device function, or unknown if no line begins it as either."""
    line: int
    """First line of its record."""
    step: Step
    """Build step that printed it."""
    section: Section
    """ptxas run that printed it, by the order of lines."""
    stack: Stack | None = None
    """Its stack line; ``None`` until read."""
    first_use: int = 0
    """Number of registers lines unassigned before its stack line, none of which it owns."""
    caller_line: int = 0
    """Device functions only: first line of the previous kernel in the section; 0: none."""
    stack_in_doubt: bool = False
    """Whether its stack line may belong to a same-named kernel open at the same time."""
    usage: Usage = NO_USAGE
    """Values of its registers line."""
    compile_ms: float | None = None
    """Compile time in milliseconds."""
    reasons: tuple[str, ...] = ()
    """Why it is ambiguous; empty if it is not."""
    lacks: frozenset[Feature] = frozenset()
    """Features without which it is in doubt, if other kernels of the log have them."""
    crossed: bool = False
    """Whether properties of a function stand between the stack and registers lines of another kernel: its own or, if it
    is a function, these."""

    @property
    def identity(self) -> tuple[object, ...]:
        """Key under which kernels are interchangeable."""
        return self.symbol, self.arch, self.step.unit, self.stack

    def took(self, milliseconds: float) -> None:
        """Record its compile time."""
        self.compile_ms = milliseconds
        self.section.apart |= self.role == "function"

    @property
    def all_values(self) -> Usage:
        """Values of its registers and stack lines; a stack in doubt is left out."""
        if self.stack is None or self.stack_in_doubt:
            return self.usage
        return _of_stack(self.stack) if self.usage is NO_USAGE else _with_stack(self.usage, self.stack)

    @property
    def spills(self) -> tuple[int, int] | None:
        """Bytes of (spill stores, spill loads); ``None`` unless certain."""
        if self.reasons:
            return None
        return self.usage.spills if self.stack is None or self.stack_in_doubt else self.stack.spills


class Report(Struct):
    """One writer's report so far: its kernels and device functions, and facts about its lines."""

    runs: list[Run] = field(default_factory=list)
    """Kernels with consecutive lines."""
    pending: list[PendingKernel] = field(default_factory=list)
    """All other kernels and functions with all their lines."""
    messages: int = 0
    """Number of compiler and linker messages."""
    entries: int = 0
    """Number of lines that begin a kernel."""
    features: set[Feature] = field(default_factory=set)
    """Features of any kernel."""
    registers_lines: int = 0
    """Number of ``Used N registers`` lines."""
    compile_times: int = 0
    """Number of ``Compile time = N ms`` lines."""
    stray_times: list[int] = field(default_factory=list)
    """Lines of compile times that follow no kernel."""
    interleaved: bool = False
    """Whether several compilers wrote at once."""
    crossed: bool = False
    """Whether output is interleaved by evidence other than compile times that follow no kernel."""
    overlapped: bool = False
    """Whether a kernel began while another was open."""

    @property
    def every(self) -> Iterator[Run | PendingKernel]:
        """All parts of the report."""
        return chain[Run | PendingKernel](self.runs, self.pending)


def first_line(kernel: Kernel) -> int:
    """First line of the kernel's record."""
    return kernel.origins[0].line or 0


@lru_cache(maxsize=4096)
def _with_stack(usage: Usage, stack: Stack) -> Usage:
    """``usage`` with the values of ``stack``; equal values share one record."""
    return replace(
        usage,
        stack_bytes=stack.frame_bytes,
        spill_store_bytes=stack.spill_store_bytes,
        spill_load_bytes=stack.spill_load_bytes,
    )


@lru_cache(maxsize=4096)
def _of_stack(stack: Stack) -> Usage:
    """Usage of a device function, which has no registers line."""
    return _with_stack(NO_USAGE, stack)
