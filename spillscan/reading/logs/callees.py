"""What kernels of whole programs and their callees spill together."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from spillscan.model import Kernel, Usage
from spillscan.reading.logs.pending import PendingKernel, first_line


class CalleeSums:
    """The sums of one log, by the lines where kernels begin."""

    def __init__(self, pending: Iterable[PendingKernel]) -> None:
        self._sums = _sums(pending)
        self._summed: dict[tuple[int, tuple[int, int]], Usage] = {}  # equal figures share one record

    def added(self, kernel: Kernel) -> Kernel:
        """The kernel with what its callees spill added to its own spills; itself where that is not known."""
        callees, own = self._sums.get(first_line(kernel)), kernel.usage.spills
        if callees is None or own is None:
            return kernel
        figures = id(kernel.usage), callees
        usage = self._summed.get(figures)
        if usage is None:
            usage = self._summed[figures] = replace(
                kernel.usage,
                cumulative_spill_store_bytes=own[0] + callees[0],
                cumulative_spill_load_bytes=own[1] + callees[1],
            )
        return replace(kernel, usage=usage)


def _sums(pending: Iterable[PendingKernel]) -> dict[int, tuple[int, int]]:
    """What the callees of each kernel spill, where that is known of all of them: whole programs list them behind it,
    relocatable code and debug builds before all kernels of a module."""
    found: dict[int, tuple[int, int] | None] = {}
    for each in pending:
        caller = each.caller_line
        if not caller or each.role != "function" or each.section.apart or each.step.relocatable:
            continue
        spills, before = each.spills, found.get(caller, (0, 0))
        found[caller] = None if spills is None or before is None else (before[0] + spills[0], before[1] + spills[1])
    return {caller: spills for caller, spills in found.items() if spills is not None}
