"""All that was gathered of one writer's log, and the records that come of it once it has ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from operator import attrgetter

from spillscan.model import Kernel
from spillscan.reading.logs.callees import CalleeSums
from spillscan.reading.logs.finish import Context, finished, record
from spillscan.reading.logs.issue_log import IssueLog
from spillscan.reading.logs.pending import PendingKernel, Run
from spillscan.reading.logs.suspicions import Seen


class Gathered:
    """Kernels and device functions with all their lines."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        """Those whose lines stood together."""
        self.pending: list[PendingKernel] = []
        """All others."""

    def whole(self) -> Iterator[Kernel]:
        """The kernels whose lines stood together."""
        return chain.from_iterable(run.kernels for run in self.runs)

    def records(
        self,
        input_name: str,
        seen: Seen,
        issues: IssueLog,
        linked: frozenset[str],
        *,
        device_link: bool,
        units_in_doubt: bool,
        unended: bool,
    ) -> list[Kernel]:
        """Of all, by their lines. ``linked``: symbols of relocatable code; ``device_link``: the log shows that device
        code is linked; ``units_in_doubt``: steps overlap, and their output may be another's; ``unended``: callees of
        the last kernel may be missing."""
        namesakes = self._namesakes() if seen.interleaved else None
        apart = self._may_be_relocatable(seen)
        context = Context(
            input=input_name,
            interleaved=seen.interleaved,
            relocatable=device_link and apart,
            units_in_doubt=units_in_doubt,
            arch_in_doubt=namesakes is not None,
            doubts=issues.doubts(interleaved=seen.interleaved),
            namesakes=namesakes or frozenset(),
            linked=linked,
        )
        plain = not (seen.interleaved or units_in_doubt or context.relocatable or context.doubts)
        in_order = issues.complete and not (unended or seen.interleaved or apart)
        callees = CalleeSums(self.pending if in_order else ())
        found: list[Kernel] = []
        every: list[Run | PendingKernel] = [*self.runs, *self.pending]
        for each in sorted(every, key=attrgetter("line")):
            kernels = each.kernels if isinstance(each, Run) else [record(each, context)]
            kernels[-1] = callees.added(kernels[-1])  # another's would stand before the next one
            if not plain or each.section.notes or each.step.relocatable:
                kernels = [finished(kernel, each.section, each.step, context) for kernel in kernels]
            found += kernels
        return found

    def _namesakes(self) -> frozenset[str] | None:
        """Symbols of several archs; ``None`` where all are for one."""
        arches: dict[str, set[str | None]] = defaultdict(set)
        for kernel in self.whole():
            arches[kernel.key.symbol].add(kernel.key.arch)
        for each in self.pending:
            arches[each.symbol].add(each.arch)
        if len(set().union(*arches.values()) - {None}) <= 1:
            return None
        return frozenset(symbol for symbol, found in arches.items() if len(found) > 1)

    def _may_be_relocatable(self, seen: Seen) -> bool:
        """Whether what is linked may be code of this log whose commands are not in it.

        The device functions of relocatable code (-rdc, -dc) come first and have a compile time each, as in debug builds
        (-G) and with -Ofc max (measured, 11.8 to 13.5); those of other whole programs have none. Their number decides
        where the order of lines proves nothing. Only where ptxas knows the callees does it sum up a kernel's stack over
        them (measured, 9.1 to 13.5).
        """
        if seen.interleaved and seen.compile_times:
            return seen.compile_times > seen.registers_lines
        sections = chain((run.section for run in self.runs), (each.section for each in self.pending))
        return any(section.apart and not section.linked for section in sections)
