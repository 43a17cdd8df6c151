"""What may be wrong with a kernel, and what the whole log makes of it."""

from __future__ import annotations

from msgspec import Struct

from spillscan.reading.logs.constant_banks import prints_constant_banks
from spillscan.reading.logs.issue_log import FIGURES, IssueLog
from spillscan.reading.logs.messages import Stack
from spillscan.reading.logs.pending import NO_USAGE, PendingKernel, Suspicion

_REASONS: dict[Suspicion, str] = {
    "foreign": "the properties of another function stand before its registers line",
    "misplaced": "its properties stand before another kernel's registers line",
    "bare": "no stack line stands before its registers line",
    "nameless": "no 'Function properties' line names its stack",
    "unindented": "its stack line has lost its beginning",
}


class Seen(Struct):
    """What one writer's log has shown so far."""

    messages: int = 0
    """Of compilers and linkers."""
    entries: int = 0
    """Lines that begin a kernel."""
    names: bool = False
    """A line names the stack line that follows."""
    stack_lines: bool = False
    """One has an indent."""
    registers_lines: int = 0
    """``Used N registers``."""
    compile_times: int = 0
    """``Compile time = N ms``."""
    with_arch: bool = False
    """A kernel's first line names its arch."""
    without_abi: bool = False
    """A module has no ABI, and so no stack lines."""
    interleaved: bool = False
    """Several compilers wrote at once."""
    crossed: bool = False
    """The same, by other signs than compile times that follow no kernel."""
    overlapped: bool = False
    """A kernel began while another was open."""


def doubt_stack(kernel: PendingKernel, stack: Stack, missing: bool) -> None:
    """``missing``: the stack line of the properties before, unless this is it."""
    if not stack.indented:
        kernel.suspicions |= {"unindented"}
    if missing:
        kernel.reasons += ("a stack line was lost before its own",)
        kernel.stack_in_doubt = True


def judge(pending: PendingKernel, seen: Seen, issues: IssueLog, *, complete: bool) -> None:
    """Decide what is wrong with a kernel, now that the log has ended. ``complete``: no line is missing in it."""
    entry = pending.role == "entry"
    if entry and pending.usage.registers is not None and not pending.reasons:
        _demand_clauses(pending, issues)
    if entry and pending.arch is None and seen.with_arch:
        pending.reasons += ("the line that begins it names no arch, as others do",)
        issues.add_missing(f"no arch stands behind {pending.symbol}", pending.line)
    for suspicion in sorted(pending.suspicions):
        if not _stands(suspicion, seen, complete):
            continue
        pending.reasons += (_REASONS[suspicion],)
        issues.add_missing(f"{pending.symbol}: {_REASONS[suspicion]}", pending.line, symbol=pending.symbol)
        if suspicion in ("foreign", "bare"):
            pending.usage = NO_USAGE
        else:
            pending.stack_in_doubt = True


def _stands(suspicion: Suspicion, seen: Seen, complete: bool) -> bool:
    match suspicion:
        case "foreign" | "misplaced":
            return not (seen.overlapped and complete)
        case "bare":
            return seen.stack_lines or seen.names
        case "nameless":
            return seen.names
        case "unindented":
            return seen.stack_lines


def _demand_clauses(pending: PendingKernel, issues: IssueLog) -> None:
    """Clauses that its release and arch always print must be there."""
    banks, section = prints_constant_banks(pending.arch), pending.section
    counted = section.headed and section.barriers == 3
    if (banks and pending.usage.constant_bytes is None) or (counted and pending.usage.barriers is None):
        pending.reasons += ("its registers line is cut",)
        what = f"clauses are missing from the registers line of {pending.symbol}"
        issues.add_missing(what, pending.line, hides=FIGURES, symbol=pending.symbol)
