"""Records of the kernels and device functions of one writer's log, made at its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from spillscan.model import Advisory, Kernel, KernelKey, Origin, Usage
from spillscan.reading.logs.issue_log import Doubts
from spillscan.reading.logs.kernels import PendingKernel, Report, Run, Section, first_line
from spillscan.reading.logs.steps import Step


def records(report: Report, context: Context, *, in_order: bool) -> list[Kernel]:
    """Records of all kernels and functions, in line order.

    ``in_order``: no line is missing, and callees follow their kernel.
    """
    whole = context.interleaved or context.units_in_doubt or context.relocatable or context.doubts or context.advisories
    callees = _CalleeSums(report.pending) if in_order else None
    made: list[Kernel] = []
    for each in sorted(report.every, key=attrgetter("line")):
        kernels = each.kernels if isinstance(each, Run) else [_record(each, context)]
        if callees:
            kernels[-1] = callees.added(kernels[-1])  # callees of another kernel would precede the next one
        if whole or each.section.notes or each.step.relocatable:
            kernels = [finished(kernel, each.section, each.step, context) for kernel in kernels]
        made += kernels
    return made


def several_archs(report: Report) -> bool:
    """Whether kernels of several archs are reported."""
    run_archs = {run.kernels[0].key.arch for run in report.runs}
    return len(run_archs | {each.arch for each in report.pending if each.arch}) > 1


def may_be_relocatable(report: Report) -> bool:
    """Whether the log may contain relocatable code whose compile commands it lacks.

    Device functions of relocatable code (-rdc, -dc) come first and have a compile time each, as in debug builds (-G)
    and with -Ofc max (measured, 11.8 to 13.5); those of other whole programs have none. If the order of lines proves
    nothing, the number of compile times decides. ptxas sums a kernel's stack over its callees only if it knows them
    (measured, 9.1 to 13.5).
    """
    if report.interleaved and report.compile_times:
        return report.compile_times > report.registers_lines
    return any(each.section.apart and not each.section.linked for each in report.every)


class Context(Struct, frozen=True):
    """Properties of the whole input that affect each kernel's record."""

    input: str
    """Name of the input, as given by the user."""
    interleaved: bool
    """Several compilers wrote at once: neither compile times nor units are certain."""
    relocatable: bool
    """Device code is linked, and the log contains code that may be part of that link."""
    units_in_doubt: bool
    """Unbuffered steps overlap: the objects of their kernels are in doubt."""
    doubts: Doubts
    """Lines around which nothing is certain."""
    archs_in_doubt: bool
    """Kernels of several archs interleave: the arch of a device function is unknown."""
    advisories: Mapping[int, tuple[Advisory, ...]]
    """Advisories that name a kernel, by its first line."""
    linked: frozenset[str]
    """Symbols that the linker reports, if output is interleaved: their code is relocatable."""


def _record(pending: PendingKernel, context: Context) -> Kernel:
    reasons, arch = pending.reasons, pending.arch
    if pending.role == "function":
        arch = None if context.archs_in_doubt else pending.section.arch
        if context.archs_in_doubt:
            reasons += ("interleaved output does not show for which arch it was compiled",)
    return Kernel(
        key=KernelKey(symbol=pending.symbol, arch=arch, unit=pending.step.unit),
        role=pending.role,
        usage=pending.all_values,
        confidence="ambiguous" if reasons else "certain",
        reasons=reasons,
        origins=(Origin(input=context.input, line=pending.line),),
        compile_ms=pending.compile_ms,
        source=pending.step.source,
    )


def finished(kernel: Kernel, section: Section, step: Step, context: Context) -> Kernel:
    """``kernel`` updated with facts about the whole input; unchanged if none applies."""
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
    advisories = context.advisories.get(first_line(kernel), ())
    if section.notes and kernel.role == "entry":
        advisories += tuple(note.advisory for note, _ in section.notes)
    if advisories:
        changes["advisories"] = advisories
    if context.doubts and first_line(kernel) in context.doubts:
        changes["confidence"] = "ambiguous"
        changes["reasons"] = (*kernel.reasons, "lines near it are torn or missing")
        changes["compile_ms"] = None
    return replace(kernel, **changes) if changes else kernel


class _CalleeSums:
    """Cumulative spills of kernels of whole programs and their callees, by first line of the kernel."""

    def __init__(self, pending: Iterable[PendingKernel]) -> None:
        self._sums = _callees(pending)
        self._summed: dict[tuple[int, tuple[int, int]], Usage] = {}  # equal values share one record

    def added(self, kernel: Kernel) -> Kernel:
        """``kernel`` with its callees' spills added to its own; unchanged if either is unknown."""
        callees, own = self._sums.get(first_line(kernel)), kernel.usage.spills
        if callees is None or own is None:
            return kernel
        key = id(kernel.usage), callees
        usage = self._summed.get(key)
        if usage is None:
            usage = self._summed[key] = replace(
                kernel.usage,
                cumulative_spill_store_bytes=own[0] + callees[0],
                cumulative_spill_load_bytes=own[1] + callees[1],
            )
        return replace(kernel, usage=usage)


def _callees(pending: Iterable[PendingKernel]) -> dict[int, tuple[int, int]]:
    """Sum of callees' spills per kernel, if known for all of its callees.

    Whole programs list callees after their kernel; relocatable code and debug builds list them before all kernels of a
    module.
    """
    sums: dict[int, tuple[int, int] | None] = {}
    for each in pending:
        caller = each.caller_line
        if not caller or each.role != "function" or each.section.apart or each.step.relocatable:
            continue
        spills, before = each.spills, sums.get(caller, (0, 0))
        sums[caller] = None if spills is None or before is None else (before[0] + spills[0], before[1] + spills[1])
    return {caller: spills for caller, spills in sums.items() if spills is not None}
