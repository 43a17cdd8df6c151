"""Which registers line belongs to which kernel, where several compilers wrote into one log.

ptxas writes the lines of one kernel in order, but ``Used N registers`` names no kernel; when several kernels wait for
theirs, only what every possible assignment agrees on is certain. Three kinds of evidence narrow the assignments: the
order of the lines, figures that one kernel cannot have (frames, constant banks), and constant bank 0, which holds the
kernel's parameters and so distinguishes signatures.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from spillscan.model import Usage, agreement
from spillscan.output.nouns import count
from spillscan.reading.logs.constant_banks import Reserves, bank_zero, prints_constant_banks
from spillscan.reading.logs.gathered import Gathered
from spillscan.reading.logs.issue_log import IssueLog
from spillscan.reading.logs.matching import possible_partners
from spillscan.reading.logs.pending import PendingKernel, PendingUse


def may_own(kernel: PendingKernel, usage: Usage, *, without_abi: bool) -> bool:
    """Whether a registers line can be ``kernel``'s; its fields may rule that out.

    Measured on all fixtures: a cumulative stack is never below the kernel's own frame, and whether constant banks are
    printed depends on the arch alone. ``without_abi``: some modules of the log print no stack lines.
    """
    if kernel.stack is None:
        return without_abi or kernel.stack_in_doubt
    prints_banks = prints_constant_banks(kernel.arch)
    if prints_banks is not None and prints_banks != (usage.constant_bytes is not None):
        return False
    cumulative = usage.cumulative_stack_bytes
    return cumulative is None or kernel.stack_in_doubt or kernel.stack.frame_bytes <= cumulative


def contradicts(kernel: PendingKernel, usage: Usage) -> bool:
    """Whether a registers line's fields show that it cannot be ``kernel``'s, whose stack line may be missing."""
    banks = prints_constant_banks(kernel.arch)
    if banks is not None and banks != (usage.constant_bytes is not None):
        return not banks
    cumulative = usage.cumulative_stack_bytes
    return kernel.stack is not None and cumulative is not None and kernel.stack.frame_bytes > cumulative


def assign(kernels: list[PendingKernel], uses: list[PendingUse], reserves: Reserves) -> None:
    """Give each kernel what every possible assignment of the registers lines agrees on, and a reason where that is
    not all.
    """
    candidates = _candidates(kernels, uses, reserves)
    possible = possible_partners(candidates, len(kernels))
    if possible is None:  # a contradiction: nothing that it would prove can be believed
        for kernel in kernels:
            kernel.reasons += ("interleaved output that fits no order of its lines",)
        return
    settled = _closed_groups(kernels, possible, len(uses))
    for index, kernel in enumerate(kernels):
        options = [uses[item].usage for item in possible[index] if item < len(uses)]
        complete = len(options) == len(possible[index]) > 0
        if index in settled:
            kernel.usage = uses[settled[index]].usage
        elif complete and len(set(options)) == 1:
            kernel.usage = options[0]
        else:
            kernel.usage = agreement(options) if complete else Usage()
            kernel.reasons += (_why(options),)


def settle_stacks(kernels: Iterable[PendingKernel]) -> None:
    """Kernels of one name and different arch or unit whose stack lines came in an order that proves nothing: sure only
    where all the lines say the same.
    """
    doubtful: dict[str, list[PendingKernel]] = defaultdict(list)
    for kernel in kernels:
        if kernel.stack_in_doubt:
            doubtful[kernel.symbol].append(kernel)
    for namesakes in doubtful.values():
        alike = len({kernel.stack for kernel in namesakes}) == 1
        for kernel in namesakes:
            kernel.stack_in_doubt = not alike
            if not alike:
                kernel.reasons += ("kernels of its name were compiled at the same time",)


def _candidates(kernels: list[PendingKernel], uses: list[PendingUse], reserves: Reserves) -> list[list[int]]:
    """For each registers line the kernels, by index, that may own it."""
    place = {id(kernel): index for index, kernel in enumerate(kernels)}
    expected = [reserves.expected(kernel.symbol, kernel.arch) for kernel in kernels]
    candidates = []
    for use in uses:
        bank = bank_zero(use.usage)
        owners = [place[id(owner)] for owner in use.owners]
        candidates.append([owner for owner in owners if bank is None or expected[owner] in (None, bank)])
    lacking = len(kernels) - len(uses)  # lines that a cut-off log does not hold: any kernel's
    return candidates + [list(range(len(kernels)))] * lacking


def _closed_groups(kernels: list[PendingKernel], possible: list[list[int]], uses: int) -> dict[int, int]:
    """PendingKernel -> registers line, for kernels that nothing distinguishes and whose lines can be no other's."""
    groups: dict[object, list[int]] = defaultdict(list)
    for index, kernel in enumerate(kernels):
        groups[kernel.identity].append(index)
    settled: dict[int, int] = {}
    for members in groups.values():
        lines = sorted({item for index in members for item in possible[index]})
        if len(lines) == len(members) and lines[-1] < uses:
            settled.update(zip(members, lines, strict=True))
    return settled


def _why(options: list[Usage]) -> str:
    registers = sorted({usage.registers for usage in options if usage.registers is not None})
    if not registers:
        return "no registers line follows it"
    shown = ", ".join(map(str, registers[:4])) + (", …" if len(registers) > 4 else "")
    return f"interleaved output: its registers line is one of {len(options)} ({shown} registers)"


class UnassignedGroups:
    """Kernels and registers lines that belong together, one way or another: the whole log decides."""

    def __init__(self) -> None:
        self._groups: list[tuple[list[PendingKernel], list[PendingUse]]] = []
        self.without_stacks: set[str] = set()
        """Symbols of kernels that were set aside without their stack lines."""

    def add(self, kernels: list[PendingKernel], uses: list[PendingUse]) -> None:
        """One more group."""
        self._groups.append((kernels, uses))
        self.without_stacks |= {each.symbol for each in kernels if each.stack is None and each.stack_in_doubt}

    def settle(self, gathered: Gathered, issues: IssueLog, *, untimed: bool) -> Iterator[PendingKernel]:
        """The kernels of all groups in turn, with what those prove that are ``gathered``.
        ``untimed``: some registers lines of the log have a compile time, and not all."""
        reserves = Reserves()
        if not self._groups:
            return
        for sure in gathered.whole():
            reserves.note(sure.key.symbol, sure.key.arch, sure.usage)
        for each in gathered.pending:
            if each.role == "entry":
                reserves.note(each.symbol, each.arch, each.usage)
        for kernels, uses in self._groups:
            assign(kernels, uses, reserves)
            if untimed:  # as many of these may be lost as of the lines that begin a kernel
                issues.add_missing("registers lines lack their compile times", kernels[0].line)
            if len(uses) < len(kernels):
                names = ", ".join(each.symbol for each in kernels[:2])
                issues.add_missing(
                    f"{count(len(kernels), 'kernel')} ({names} …) have {len(uses)} registers lines", kernels[0].line
                )
            yield from kernels
