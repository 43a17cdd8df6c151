"""All that was gathered of one writer's log, and the records that come of it once it has ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from spillscan.model import Kernel, KernelKey, Origin, Usage
from spillscan.reading.logs.issue_log import Doubts, IssueLog
from spillscan.reading.logs.pending import PendingKernel, Run, Section, first_line
from spillscan.reading.logs.steps import Step
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
        callees = _CalleeSums(self.pending if in_order else ())
        found: list[Kernel] = []
        every: list[Run | PendingKernel] = [*self.runs, *self.pending]
        for each in sorted(every, key=attrgetter("line")):
            kernels = each.kernels if isinstance(each, Run) else [_record(each, context)]
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


class Context(Struct, frozen=True):
    """What the whole input shows about each of its kernels."""

    input: str
    """What the user calls it."""
    interleaved: bool
    """Several compilers wrote at once: neither compile times nor units are sure."""
    relocatable: bool
    """It shows that device code is linked, and code that may be what is."""
    units_in_doubt: bool
    """Steps overlap whose output is not buffered: their objects are in doubt."""
    arch_in_doubt: bool
    """It is interleaved and holds several archs: a device function's is not known."""
    doubts: Doubts
    """Lines around which nothing is certain."""
    namesakes: frozenset[str]
    """Symbols of several archs, in interleaved output: an advisory that names one does not say which."""
    linked: frozenset[str]
    """Symbols that the linker reports, in interleaved output: their code is relocatable."""


def _record(pending: PendingKernel, context: Context) -> Kernel:
    reasons, arch = pending.reasons, pending.arch
    if pending.role == "function":
        arch = None if context.arch_in_doubt else pending.section.arch
        if context.arch_in_doubt:
            reasons += ("interleaved output does not show for which arch it was compiled",)
    return Kernel(
        key=KernelKey(symbol=pending.symbol, arch=arch, unit=pending.step.unit),
        role=pending.role,
        usage=pending.figures,
        confidence="ambiguous" if reasons else "certain",
        reasons=reasons,
        advisories=pending.advisories,
        origins=(Origin(input=context.input, line=pending.line),),
        compile_ms=pending.compile_ms,
        source=pending.step.source,
    )


def finished(kernel: Kernel, section: Section, step: Step, context: Context) -> Kernel:
    """The record with what the whole input shows; itself where that changes nothing."""
    changes: dict[str, object] = {}
    whole = section.linked and not context.interleaved
    relocatable = kernel.key.symbol in context.linked or (context.relocatable and not whole)
    if step.relocatable or (step.relocatable is None and relocatable):
        changes["final"] = False
    if step.unit and (context.interleaved or (context.units_in_doubt and not step.buffered)):
        changes["key"] = replace(kernel.key, unit="")
        changes["source"] = ""
    if context.interleaved and kernel.compile_ms is not None:
        changes["compile_ms"] = None
    if section.notes and kernel.role == "entry":
        changes["advisories"] = kernel.advisories + tuple(note.advisory for note, _ in section.notes)
    if kernel.advisories and kernel.key.symbol in context.namesakes:
        changes["advisories"] = ()
    if context.doubts and (kernel.origins[0].line or 0) in context.doubts:
        changes["confidence"] = "ambiguous"
        changes["reasons"] = (*kernel.reasons, "lines near it are torn or missing")
        changes["compile_ms"] = None
    return replace(kernel, **changes) if changes else kernel


class _CalleeSums:
    """What kernels of whole programs and their callees spill together, by the lines where the kernels begin."""

    def __init__(self, pending: Iterable[PendingKernel]) -> None:
        self._sums = _callees(pending)
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


def _callees(pending: Iterable[PendingKernel]) -> dict[int, tuple[int, int]]:
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
