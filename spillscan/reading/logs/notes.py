"""Advisories and warnings, kept until their kernel is known."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple

from spillscan.model import LOST_SETTING, Advisory, Usage
from spillscan.reading.logs.issue_log import IssueLog
from spillscan.reading.logs.kernels import PendingKernel, Report, Section, first_line
from spillscan.reading.logs.link_lines import LinkLines
from spillscan.reading.logs.messages import Note
from spillscan.reading.logs.steps import NO_STEP

Placed = tuple[Note, int]
"""A note and its line."""
Spills = tuple[int, int] | None
"""Bytes of (spill stores, spill loads); ``None`` if not given."""
_NO_KERNEL = "__cuda_dummy_entry__"
"""ptxas's name for a module without kernels (measured, 13.0); neither PTX nor cubin contains this symbol."""


class Notes:
    """Notes of one writer."""

    def __init__(self, issues: IssueLog) -> None:
        self._issues = issues
        self._named: dict[str, list[Placed]] = {}
        self._nameless: list[Placed] = []
        self._sections: list[Section] = []

    def add(self, note: Note, line: int) -> None:
        """Add a note from ``line``. Errors that name no kernel are not kept, as they are issues already."""
        if note.symbol == _NO_KERNEL and not note.is_error:
            return
        if note.symbol is not None:
            self._named.setdefault(note.symbol, []).append((note, line))
        elif not note.is_error:
            self._nameless.append((note, line))

    def begin_section(self) -> Section:
        """Begin a ptxas run, which takes the nameless notes printed since the last run began."""
        section = Section(headed=True, notes=self._nameless)
        self._nameless = []
        if section.notes:
            self._sections.append(section)
        return section

    def attach(self, report: Report, linker: LinkLines) -> dict[int, tuple[Advisory, ...]]:
        """Advisories by the first line of the kernel that they name, at the end of the log.

        Adds functions that only warnings name to ``report``, and reports notes without a kernel as issues.
        """
        self._settle_nameless(report)
        attached: dict[int, tuple[Advisory, ...]] = {}
        without_size: set[str] = set()
        for symbol, kernels in self._named_kernels(report).items():
            given, rest = _given(self._named[symbol], kernels, counted=not report.interleaved)
            if kernels or symbol in linker.symbols:
                dynamic = [note.advisory for note, _ in rest if note.advisory.kind == "dynamic_stack"]
                rest = [each for each in rest if each[0].advisory.kind != "dynamic_stack"]
                without_size |= {symbol} if dynamic else set()
                given = {line: advisories + dynamic for line, advisories in given.items()}
            if not (report.interleaved and len({kernel.arch for kernel in kernels if kernel.arch}) > 1):
                attached |= {line: tuple(dict.fromkeys(advisories)) for line, advisories in given.items() if advisories}
            for only_warned, advisories in self._without_record(symbol, rest, {kernel.spills for kernel in kernels}):
                report.pending.append(only_warned)
                attached[only_warned.line] = advisories
        linker.forget_stacks(without_size)
        return attached

    def _named_kernels(self, report: Report) -> dict[str, list[_Named]]:
        """Kernels and functions that notes name, in line order."""
        named: dict[str, list[_Named]] = {symbol: [] for symbol in self._named}
        for run in report.runs if named else ():
            for kernel in run.kernels:
                if kernel.key.symbol in named:
                    named[kernel.key.symbol].append(_Named(first_line(kernel), kernel.key.arch, kernel.usage.spills))
                    run.noted = True
        for each in report.pending:
            if each.symbol in named:
                spills = each.stack.spills if each.stack else each.usage.spills
                named[each.symbol].append(_Named(each.line, each.arch, spills))
                each.noted = True
        return {symbol: sorted(kernels, key=itemgetter(0)) for symbol, kernels in named.items()}

    def _settle_nameless(self, report: Report) -> None:
        """Keep the notes that apply to each kernel of their section, and report all other nameless notes as issues."""
        functions = {id(each.section) for each in report.pending if each.role == "function"}
        for section in self._sections:
            if section.entries != 1 or report.interleaved:
                alone = not report.interleaved and id(section) not in functions
                mine = _of_each_kernel(section) if alone else []
                for note, line in section.notes:
                    if not mine or note.advisory.kind != LOST_SETTING:
                        self._unattached(note, line, "the message names no kernel")
                section.notes = mine
        for note, line in self._nameless:
            self._unattached(note, line, "the message names no kernel")

    def _without_record(
        self, symbol: str, notes: list[Placed], reported: set[Spills]
    ) -> Iterator[tuple[PendingKernel, tuple[Advisory, ...]]]:
        """Kernels or functions that only warnings with values name, as in a log without ``-v``, and those warnings."""
        frames = {note.frame_bytes for note, _ in notes if note.frame_bytes is not None}
        if not frames and all(note.advisory.kind != "spill_warning" for note, _ in notes):
            for note, line in notes:
                if not note.is_error:  # the failed step reports it
                    self._unattached(note, line, f"the log has no report of {symbol}")
            return
        amounts: list[Spills] = [*sorted({note.spills for note, _ in notes if note.spills is not None})]
        for spills in amounts or [None]:
            if spills and spills in reported:
                continue
            stores, loads = spills or (None, None)
            mine = [(note, line) for note, line in notes if note.spills in (spills, None)]
            usage = Usage(
                stack_bytes=next(iter(frames)) if len(frames) == 1 else None,
                spill_store_bytes=stores,
                spill_load_bytes=loads,
            )
            kernel = PendingKernel(symbol, None, "unknown", mine[0][1], NO_STEP, Section(), usage=usage, noted=True)
            yield kernel, tuple(note.advisory for note, _ in mine)

    def _unattached(self, note: Note, line: int, why: str) -> None:
        text = f"{note.advisory.text} ({why})"
        if note.advisory.kind == LOST_SETTING:  # a kernel runs with registers other than its source sets
            self._issues.add("unattached-setmaxnreg", text, line, "error")
        else:
            self._issues.add("unattached-advisory", text, line, "note", symbol=note.symbol or "")


def _of_each_kernel(section: Section) -> list[Placed]:
    """Notes that apply to each kernel of a section without device functions.

    ptxas prints once per function that setmaxnreg is ignored (measured, 12.4 to 13.5): if there are as many messages as
    kernels, every kernel is meant.
    """
    ignored = [(note, line) for note, line in section.notes if note.advisory.kind == LOST_SETTING]
    return ignored[:1] if len(ignored) == section.entries else []


class _Named(NamedTuple):
    """A kernel or device function that notes name."""

    line: int
    arch: str | None
    spills: Spills


def _given(
    notes: list[Placed], kernels: list[_Named], *, counted: bool
) -> tuple[dict[int, list[Advisory]], list[Placed]]:
    """Advisories by the line of the kernel that follows them, and the notes that belong to none.

    A note that reports spills belongs to a kernel with as many. A spill warning without amounts after the last kernel
    with spills belongs to that one, if the log is in order (``counted``).
    """
    given: dict[int, list[Advisory]] = {}
    open_notes: dict[Spills, list[Placed]] = {}
    upcoming = deque(notes)
    for kernel in kernels:
        while upcoming and upcoming[0][1] < kernel.line:
            open_notes.setdefault(upcoming[0][0].spills, []).append(upcoming.popleft())
        fitting = [*open_notes] if kernel.spills is None else [None, kernel.spills]
        mine = [placed for spills in fitting for placed in open_notes.pop(spills, ())]
        given[kernel.line] = [note.advisory for note, _ in sorted(mine, key=itemgetter(1))]
    rest = sorted([placed for placeds in open_notes.values() for placed in placeds] + [*upcoming], key=itemgetter(1))
    spilling = [kernel for kernel in kernels if kernel.spills is None or sum(kernel.spills) > 0]
    if counted and spilling:
        given[spilling[-1].line] += [note.advisory for note, _ in rest if _warns_of_spills(note)]
        rest = [each for each in rest if not _warns_of_spills(each[0])]
    return given, rest


def _warns_of_spills(note: Note) -> bool:
    """Whether the note reports spills without their amounts."""
    return note.advisory.kind == "spill_warning" and note.spills is None
