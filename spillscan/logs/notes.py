"""Advisories on their way to the kernels that they name: ptxas prints them before the kernels of their module."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from spillscan.logs.drafts import Draft, Section
from spillscan.logs.messages import Note
from spillscan.logs.steps import NO_STEP
from spillscan.model import Advisory, Usage


class Notes:
    """Advisories that have found no kernel yet."""

    def __init__(self) -> None:
        self._by_symbol: dict[str, list[tuple[Note, int]]] = defaultdict(list)
        self._nameless: list[tuple[Note, int]] = []

    def __contains__(self, symbol: str) -> bool:
        return symbol in self._by_symbol

    def add(self, note: Note, line: int) -> None:
        """One more, from ``line``. Errors that name no kernel are not kept: they are issues already."""
        if note.symbol is not None:
            self._by_symbol[note.symbol].append((note, line))
        elif not note.is_error:
            self._nameless.append((note, line))

    def take(self, symbol: str, spills: tuple[int, int] | None) -> tuple[Advisory, ...]:
        """The advisories that name ``symbol``, but for those that tell of other spills than ``spills``."""
        notes = self._by_symbol.pop(symbol, [])
        mine = [pair for pair in notes if pair[0].spills is None or spills is None or pair[0].spills == spills]
        if len(mine) < len(notes):
            self._by_symbol[symbol] = [pair for pair in notes if pair not in mine]
        return tuple(note.advisory for note, _ in mine)

    def take_nameless(self) -> list[tuple[Note, int]]:
        """(advisory that names no kernel, line) since the last call: those of the module that begins."""
        taken, self._nameless = self._nameless, []
        return taken

    def drafts(self) -> Iterator[Draft]:
        """A log without ``-v`` holds warnings alone; those with figures are all that is known of a function."""
        for symbol, notes in self._by_symbol.items():
            frames = {note.frame_bytes for note, _ in notes if note.frame_bytes is not None}
            spills = {note.spills for note, _ in notes if note.spills is not None}
            told: list[tuple[int, int] | None] = [*sorted(spills)]
            for figures in told or ([None] if frames else []):
                stores, loads = figures or (None, None)
                mine = [(note, line) for note, line in notes if note.spills in (figures, None)]
                usage = Usage(
                    stack_bytes=next(iter(frames)) if len(frames) == 1 else None,
                    spill_store_bytes=stores,
                    spill_load_bytes=loads,
                )
                draft = Draft(symbol, None, "unknown", mine[0][1], NO_STEP, Section(), usage=usage)
                draft.advisories = tuple(note.advisory for note, _ in mine)
                yield draft

    def unattached(self) -> Iterator[tuple[Note, int, str]]:
        """(advisory, line, why no kernel has it) for the rest."""
        for symbol, notes in self._by_symbol.items():
            if all(note.spills is None and note.frame_bytes is None for note, _ in notes):
                yield from ((note, line, f"names {symbol}, which is not in the log") for note, line in notes)
        yield from ((note, line, "names no kernel") for note, line in self._nameless)
