"""Kernels of one writer that wait for their registers lines.

``Used N registers`` names no kernel. If several compilers report at once, each kernel may own any line that follows its
stack line and whose fields fit; only values on which all of these agree are certain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice

from spillscan.model import Usage, agreement
from spillscan.reading.logs.kernels import PendingKernel, prints_constant_banks
from spillscan.reading.logs.messages import Stack, Used

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
        namesakes = [each for each in self.kernels if each.symbol == symbol]
        unread = [each for each in namesakes if each.stack is None]
        if not unread:
            return None
        if len(namesakes) > 1 and (
            any(each.stack_in_doubt for each in namesakes) or len({each.identity for each in unread}) > 1
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
            kernel.reasons += ("interleaved output: no order of its lines fits",)
        return
    for kernel, options in zip(kernels, candidates, strict=True):
        kernel.usage = agreement(options)
        if len(options) > 1:
            kernel.reasons += (_several(options),)


def _several(options: Sequence[Usage]) -> str:
    registers = sorted({usage.registers for usage in options if usage.registers is not None})
    shown = ", ".join(map(str, registers[:4])) + (", …" if len(registers) > 4 else "")
    return f"interleaved output: the register count is one of {shown}"
