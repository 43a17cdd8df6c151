"""Kernels with incomplete records, the ptxas runs that print them, and kernels that wait for their registers lines.

``Used N registers`` names no kernel. If several compilers report at once, each kernel may own any line that follows its
stack line and whose fields fit; only values on which all of these agree are certain.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from spillscan.model import Advisory, Kernel, Role, Usage, agreement
from spillscan.reading.logs.messages import Note, Stack, Used
from spillscan.reading.logs.steps import Step

_ARCH = re.compile(r"sm_(\d+)[af]?")
_OLD_BANKS = frozenset({1, 14, 16})
"""Constant banks used only by code for these old archs."""


@lru_cache(maxsize=1 << 10)
def _number(arch: str | None) -> int | None:
    """90 of ``sm_90a``; ``None`` if unknown."""
    match = _ARCH.fullmatch(arch or "")
    return int(match[1]) if match else None


def prints_constant_banks(arch: str | None) -> bool | None:
    """Whether ptxas prints ``cmem`` for ``arch``: up to sm_89 always, from sm_90 on never (measured, 11.7 to 13.5)."""
    number = _number(arch)
    return None if number is None else number < 90


def callees_first(arch: str | None, banks: Iterable[tuple[int, int]] | None = ()) -> bool:
    """Whether releases for ``arch``, or that print ``banks``, print callees' properties before the kernel's registers.

    If so, a registers line after a callee's properties may belong to any earlier kernel.
    """
    number = _number(arch)
    return (number is not None and number <= 30) or not _OLD_BANKS.isdisjoint(bank for bank, _ in banks or ())


def without_stack_lines(arch: str | None) -> bool:
    """Whether ptxas prints no stack lines for ``arch``."""
    number = _number(arch)
    return number is not None and number < 20


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
    noted: bool = False
    """Whether advisories name one of them."""

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
    noted: bool = False
    """Whether advisories name it."""
    crossed: bool = False
    """Whether properties of a function are between the stack and registers lines of another kernel: its own or, if it
    is a function, these."""

    @property
    def identity(self) -> tuple[object, ...]:
        """Key under which kernels are interchangeable."""
        return self.symbol, self.arch, self.step.unit, self.stack

    @property
    def all_values(self) -> Usage:
        """Values of its registers and stack lines; a stack in doubt is left out."""
        if self.stack is None or self.stack_in_doubt:
            return self.usage
        return with_stack(self.usage, self.stack)

    @property
    def spills(self) -> tuple[int, int] | None:
        """Bytes of (spill stores, spill loads); ``None`` unless certain."""
        if self.reasons:
            return None
        return self.usage.spills if self.stack is None or self.stack_in_doubt else self.stack.spills


class Nameless(Struct):
    """One record without a kernel's name."""

    kernel: PendingKernel
    text: str
    """First line of the record."""
    message: int
    """Position among the writer's messages."""


class Report(Struct):
    """One writer's report so far: its kernels and device functions, and facts about its lines."""

    input: str
    """Name of the input, as given by the user."""
    runs: list[Run] = field(default_factory=list)
    """Kernels with consecutive lines."""
    pending: list[PendingKernel] = field(default_factory=list)
    """All other kernels and functions with all their lines."""
    nameless: list[Nameless] = field(default_factory=list)
    """Values that no line assigns to a kernel."""
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

    unended: bool = False
    """The last line has no end, so callees of the last kernel may be missing."""
    units_in_doubt: bool = False
    """Unbuffered steps overlap: the objects of their kernels are in doubt."""
    device_link: bool = False
    """Device code is linked; at the end, also that the report has code that may be part of that link."""
    archs_in_doubt: bool = False
    """Kernels of several archs interleave: the arch of a device function is unknown."""
    linked: frozenset[str] = frozenset()
    """Symbols that the linker reports, if output is interleaved: their code is relocatable."""
    doubts: Sequence[int] = ()
    """Lines around which nothing is certain."""
    advisories: Mapping[int, tuple[Advisory, ...]] = {}
    """Advisories that name a kernel, by its first line."""

    @property
    def every(self) -> Iterator[Run | PendingKernel]:
        """All parts of the report."""
        return chain[Run | PendingKernel](self.runs, self.pending)


def first_line(kernel: Kernel) -> int:
    """First line of the kernel's record."""
    return kernel.origins[0].line or 0


@lru_cache(maxsize=1 << 16)
def with_stack(usage: Usage, stack: Stack) -> Usage:
    """``usage`` with the values of ``stack``; equal values share one record."""
    return replace(
        usage,
        stack_bytes=stack.frame_bytes,
        spill_store_bytes=stack.spill_store_bytes,
        spill_load_bytes=stack.spill_load_bytes,
    )


# ---- kernels that wait ----------------------------------------------------------------------------------------

MOST_WAITING = 64
"""Kernels that may wait at once."""


class Waiting:
    """Kernels that wait, in log order, and registers lines that may belong to several of them."""

    def __init__(self) -> None:
        self.kernels: list[PendingKernel] = []
        self.uses: list[Usage] = []
        self.without_abi = False
        """Whether a module has no ABI, hence no stack lines."""

    def begin(self, kernel: PendingKernel) -> None:
        """Add a kernel whose first line was read."""
        kernel.first_use = len(self.uses)
        self.kernels.append(kernel)

    def of_stack(self, symbol: str, stack: Stack) -> PendingKernel | None:
        """The kernel of that name to which the stack line is given; ``None`` if none waits for one."""
        same_named = [each for each in self.kernels if each.symbol == symbol]
        unread = [each for each in same_named if each.stack is None]
        if not unread:
            return None
        if len(same_named) > 1 and (
            any(each.stack_in_doubt for each in same_named) or len({each.identity for each in unread}) > 1
        ):
            for each in unread:
                each.stack_in_doubt = True
        kernel = unread[0]
        kernel.stack = stack
        if not kernel.stack_in_doubt:
            kernel.first_use = len(self.uses)
        return kernel

    def owners(self, used: Used) -> list[PendingKernel]:
        """At most two of the kernels that may own a registers line."""
        if len(self.kernels) == 1 and not self.uses:
            (kernel,) = self.kernels  # even if its stack line or constant banks are missing
            banks_cut = used.usage.constant_bytes is None and prints_constant_banks(kernel.arch)
            return self.kernels[:] if used.cut or banks_cut or _fits(kernel, used.usage) else []
        return list(islice((each for each in self.kernels if self._may_own(each, used.usage)), 2))

    def _may_own(self, kernel: PendingKernel, usage: Usage) -> bool:
        if kernel.stack is None:
            return self.without_abi or kernel.stack_in_doubt
        return _fits(kernel, usage)

    def ready(self) -> list[PendingKernel]:
        """Kernels whose registers lines may have been printed."""
        return [each for each in self.kernels if each.stack or each.stack_in_doubt or self.without_abi]

    def end(self, kernels: list[PendingKernel]) -> None:
        """End the wait of ``kernels``, to which all registers lines so far belong."""
        ended = set(map(id, kernels))
        self.kernels, self.uses = [each for each in self.kernels if id(each) not in ended], []
        for each in self.kernels:
            each.first_use = 0


def _fits(kernel: PendingKernel, usage: Usage) -> bool:
    """Whether stack size and constant banks of ``usage`` fit the kernel.

    Measured on all fixtures: a cumulative stack is never below the kernel's own frame, and only the arch decides
    whether constant banks are printed.
    """
    prints_banks = prints_constant_banks(kernel.arch)
    if prints_banks is not None and prints_banks != (usage.constant_bytes is not None):
        return False
    cumulative = usage.cumulative_stack_bytes
    if cumulative is None or kernel.stack is None or kernel.stack_in_doubt:
        return True
    return kernel.stack.frame_bytes <= cumulative


def assign(kernels: Sequence[PendingKernel], uses: Sequence[Usage]) -> None:
    """Give each kernel the values on which all its possible registers lines agree, and a reason if any differ."""
    if len({each.identity for each in kernels}) == 1:  # indistinguishable
        for kernel, usage in zip(kernels, uses, strict=True):
            kernel.usage = usage
        return
    known = {usage: usage for usage in uses}  # equal lines share one record, so that they are compared by identity
    alike = [known[usage] for usage in uses]
    candidates = [
        list({id(usage): usage for usage in alike[each.first_use :] if _fits(each, usage)}.values()) for each in kernels
    ]
    sure = Counter(options[0] for options in candidates if len(options) == 1)
    if not all(candidates) or sure - Counter(uses):
        for kernel in kernels:  # a contradiction, so nothing derived from these lines is reliable
            kernel.reasons += ("interleaved output: its lines contradict each other in every order",)
        return
    for kernel, options in zip(kernels, candidates, strict=True):
        kernel.usage = agreement(options)
        if len(options) > 1:
            kernel.reasons += (_several(options),)


def _several(options: Sequence[Usage]) -> str:
    registers = sorted({usage.registers for usage in options if usage.registers is not None})
    shown = ", ".join(map(str, registers[:4])) + (", …" if len(registers) > 4 else "")
    return f"interleaved output: the register count is one of {shown}"
