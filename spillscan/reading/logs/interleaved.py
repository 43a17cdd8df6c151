"""Registers lines of kernels that several compilers report at once.

``Used N registers`` names no kernel. Each kernel may own any line that follows its stack line and whose fields fit;
only values on which all of these agree are certain.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from spillscan.model import Usage, agreement
from spillscan.reading.logs.archs import prints_constant_banks
from spillscan.reading.logs.pending import NO_USAGE, PendingKernel


def may_own(kernel: PendingKernel, usage: Usage, *, without_abi: bool) -> bool:
    """Whether ``kernel`` may own a registers line, judged by its fields.

    ``without_abi``: some modules of the log print no stack lines.
    """
    if kernel.stack is None:
        return without_abi or kernel.stack_in_doubt
    return _fits(kernel, usage)


def contradicts(kernel: PendingKernel, usage: Usage) -> bool:
    """Whether a registers line's fields rule out ``kernel``, whose stack line may be missing."""
    banks = prints_constant_banks(kernel.arch)
    if banks and usage.constant_bytes is None:
        return False  # the clause may be cut off
    return not _fits(kernel, usage)


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


def assign(kernels: Sequence[PendingKernel], uses: Sequence[Usage], *, complete: bool) -> None:
    """Give each kernel the values on which all its possible registers lines agree, and a reason if any differ.

    ``complete``: every kernel's line is among ``uses``.
    """
    if len(uses) == len(kernels) and len({each.identity for each in kernels}) == 1:  # indistinguishable
        for kernel, usage in zip(kernels, uses, strict=True):
            kernel.usage = usage
        return
    candidates = [list(dict.fromkeys(_candidates(each, uses))) for each in kernels]
    sure = Counter(options[0] for options in candidates if len(options) == 1)
    if complete and (not all(candidates) or sure - Counter(uses)):
        for kernel in kernels:  # a contradiction, so nothing derived from these lines is reliable
            kernel.reasons += ("interleaved output that fits no order of its lines",)
        return
    for kernel, options in zip(kernels, candidates, strict=True):
        kernel.usage = agreement(options) if complete else NO_USAGE
        if not complete or len(options) > 1:
            kernel.reasons += (_reason(options),)


def _candidates(kernel: PendingKernel, uses: Sequence[Usage]) -> list[Usage]:
    """Registers lines that ``kernel`` may own."""
    return [usage for usage in uses[kernel.first_use :] if kernel.stack is None or _fits(kernel, usage)]


def _reason(options: Sequence[Usage]) -> str:
    registers = sorted({usage.registers for usage in options if usage.registers is not None})
    if not registers:
        return "no registers line follows it"
    shown = ", ".join(map(str, registers[:4])) + (", …" if len(registers) > 4 else "")
    return f"interleaved output: its registers line is one of {len(options)} ({shown} registers)"


def settle_stacks(kernels: Iterable[PendingKernel]) -> None:
    """Decide stack lines in doubt of same-named kernels that differ in arch or unit.

    They are certain only if all stack lines of the name are equal.
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
