"""Advisories and warnings, kept until their kernel is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from spillscan.model import LOST_SETTING, Advisory, Kernel, Usage
from spillscan.reading.logs.issue_log import IssueLog
from spillscan.reading.logs.kernels import PendingKernel, Section, first_line
from spillscan.reading.logs.messages import Note
from spillscan.reading.logs.steps import NO_STEP

Placed = tuple[Note, int]
"""A note and its line."""
Spills = tuple[int, int] | None
"""Bytes of (spill stores, spill loads); ``None`` if not given."""
_NO_KERNEL = "__cuda_dummy_entry__"
"""ptxas's name for a module without kernels (measured, 13.0); neither PTX nor cubin contains this symbol."""


class Notes:
    """Notes not yet attached to a kernel."""

    def __init__(self, issues: IssueLog) -> None:
        self._issues = issues
        self.named: dict[str, dict[Spills, list[Placed]]] = {}
        """By the symbol that they name, then by the spills that they report for it."""
        self._nameless: list[Placed] = []
        self._sections: list[Section] = []

    def add(self, note: Note, line: int) -> None:
        """Add a note from ``line``. Errors that name no kernel are not kept, as they are issues already."""
        if note.symbol == _NO_KERNEL and not note.is_error:
            return
        if note.symbol is not None:
            self.named.setdefault(note.symbol, {}).setdefault(note.spills, []).append((note, line))
        elif not note.is_error:
            self._nameless.append((note, line))

    def take(self, symbol: str, spills: Spills) -> tuple[Advisory, ...]:
        """Remove and return advisories that name ``symbol``, except those that report spills other than ``spills``."""
        notes = self.named.get(symbol, {})
        reported = [*notes] if spills is None else [each for each in (None, spills) if each in notes]
        mine = [placed for each in reported for placed in notes.pop(each)]
        if not notes:
            self.named.pop(symbol, None)
        return tuple(note.advisory for note, _ in sorted(mine, key=_line))

    def attach_late(
        self, pending: list[PendingKernel], runs: list[list[Kernel]], linked: set[str], *, interleaved: bool
    ) -> set[str]:
        """Attach warnings without amounts that follow the lines of their kernel. Returns the symbols of dynamic stacks.

        These are spill warnings of kernels with spills, and nvlink's warnings of a stack of unknown size, for any arch.
        """
        symbols = {each.symbol for each in pending} | {kernel.key.symbol for kernels in runs for kernel in kernels}
        named = (symbols | linked) & {*self.named}
        dynamic = {symbol: self._take_late("dynamic_stack", symbol) for symbol in named}

        def late(symbol: str, line: int, spills: Spills) -> tuple[Advisory, ...]:
            counted = not interleaved and (spills is None or sum(spills) > 0)
            return dynamic[symbol] + (self._take_late("spill_warning", symbol, line) if counted else ())

        for each in sorted(pending, key=lambda kernel: -kernel.line):
            if each.symbol in named:
                more = late(each.symbol, each.line, each.all_values.spills)
                each.advisories = tuple(dict.fromkeys(each.advisories + more))
        for kernels in reversed(runs):
            for at, kernel in reversed([*enumerate(kernels)]):
                if kernel.key.symbol in named:
                    more = late(kernel.key.symbol, first_line(kernel), kernel.usage.spills)
                    kernels[at] = replace(kernel, advisories=kernel.advisories + more)
        return {symbol for symbol, notes in dynamic.items() if notes}

    def _take_late(self, kind: str, symbol: str, line: int = 0) -> tuple[Advisory, ...]:
        """Remove and return advisories of one kind that name ``symbol``, give no amounts and follow ``line``."""
        notes = self.named.get(symbol, {}).get(None, [])
        mine = [each for each in notes if each[0].advisory.kind == kind and each[1] > line]
        if mine:
            self.named[symbol][None] = [each for each in notes if each not in mine]
        return tuple(dict.fromkeys(note.advisory for note, _ in mine))

    def begin_section(self) -> Section:
        """Begin a ptxas run, which takes the nameless notes printed since the last run began."""
        section = Section(headed=True, notes=self._nameless)
        self._nameless = []
        if section.notes:
            self._sections.append(section)
        return section

    def settle(
        self, pending: list[PendingKernel], reported: Iterable[tuple[str, Spills]], *, interleaved: bool
    ) -> None:
        """End the log: add functions to ``pending`` that only warnings name, and report notes without a kernel as
        issues.

        ``reported``: (symbol, spills) of existing records.
        """
        functions = {id(each.section) for each in pending if each.role == "function"}
        for section in self._sections:
            if section.entries != 1 or interleaved:
                alone = not interleaved and id(section) not in functions
                mine = _of_each_kernel(section) if alone else []
                for note, line in section.notes:
                    if not mine or note.advisory.kind != LOST_SETTING:
                        self._unattached(note, line, "names no kernel")
                section.notes = mine
        pending += self._only_warned_of({*reported} if self.named else set())
        for symbol, by_spills in self.named.items():
            notes = _in_order(by_spills)
            if all(note.frame_bytes is None and note.advisory.kind != "spill_warning" for note, _ in notes):
                for note, line in notes:
                    if not note.is_error:  # the failed step reports it
                        self._unattached(note, line, f"names {symbol}, which has no record")
        for note, line in self._nameless:
            self._unattached(note, line, "names no kernel")

    def _only_warned_of(self, records: set[tuple[str, Spills]]) -> Iterator[PendingKernel]:
        """Kernels or functions named only by warnings with values, as in a log without ``-v``."""
        for symbol, by_spills in self.named.items():
            notes = _in_order(by_spills)
            frames = {note.frame_bytes for note, _ in notes if note.frame_bytes is not None}
            warned = any(note.advisory.kind == "spill_warning" for note, _ in notes)
            if not notes:
                continue
            spills: list[Spills] = [*sorted(each for each in by_spills if each is not None)]
            for amounts in spills or ([None] if frames or warned else []):
                if amounts and (symbol, amounts) in records:
                    continue
                stores, loads = amounts or (None, None)
                mine = _in_order({each: by_spills.get(each, []) for each in (amounts, None)})
                usage = Usage(
                    stack_bytes=next(iter(frames)) if len(frames) == 1 else None,
                    spill_store_bytes=stores,
                    spill_load_bytes=loads,
                )
                kernel = PendingKernel(symbol, None, "unknown", mine[0][1], NO_STEP, Section(), usage=usage)
                kernel.advisories = tuple(note.advisory for note, _ in mine)
                yield kernel

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


def _line(placed: Placed) -> int:
    return placed[1]


def _in_order(by_spills: dict[Spills, list[Placed]]) -> list[Placed]:
    return sorted((placed for notes in by_spills.values() for placed in notes), key=_line)
