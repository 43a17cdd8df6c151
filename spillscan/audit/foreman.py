"""Carries out batches by a process that may die: what killed it is found, tried again alone, and given up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from spillscan.audit.hand import DeathError, Hand
from spillscan.audit.messages import Batch, Begun, Item, Kept, Outcome
from spillscan.errors import SpillscanError

MOST_DEATHS = 2
"""Of processes that read one file and nothing else, before the file is given up."""


@dataclass(frozen=True, slots=True)
class _Death:
    """How far a batch came before its process died."""

    how: str
    rest: tuple[Item, ...]
    """Items without an outcome."""
    suspect: Item | None
    """The one that was being read."""
    content_hash: str
    """Of the suspect, where it is known."""


class Foreman:
    """One worker process at a time, replaced when it dies."""

    def __init__(self, processors: int) -> None:
        self._processors = processors
        self._hand: Hand | None = None
        self._stopped = False

    def carry_out(self, batch: Batch, tell: Callable[[Outcome], None]) -> None:
        """Bring every item of ``batch`` to an outcome, and ``tell`` each as soon as it is final.

        Where the process dies, the file that it was reading is read by another that reads nothing else; if that dies
        twice, the file has failed. Files that were read and not yet written are read again. Raises
        :class:`~spillscan.errors.SpillscanError` where the dataset cannot be written.
        """
        left = [batch]
        deaths: Counter[str] = Counter()
        while left and not self._stopped:
            piece = left.pop()
            death = self._attempt(piece, tell)
            if death is not None and not self._stopped:
                left += _again(piece, death, deaths)

    def stop(self) -> None:
        """End the process at once, and :meth:`carry_out` with it; may be called by another thread."""
        self._stopped = True
        hand = self._hand
        if hand is not None:
            hand.stop()

    def _attempt(self, batch: Batch, tell: Callable[[Outcome], None]) -> _Death | None:
        rest = dict(enumerate(batch.items))
        begun: Begun | None = None
        if self._hand is None:
            self._hand = Hand(self._processors)
        try:
            for event in self._hand.carry_out(batch):
                if isinstance(event, Kept):
                    del rest[event.number]
                    tell(event.outcome)
                else:
                    begun = event if isinstance(event, Begun) else None
        except DeathError as death:
            self._hand = None
            suspect = rest.get(begun.number) if begun else None
            return _Death(death.how, tuple(rest.values()), suspect, begun.content_hash if begun else "")
        return None


def _again(piece: Batch, death: _Death, deaths: Counter[str]) -> Iterator[Batch]:
    """What is left of ``piece``, in smaller pieces, the last of which comes first."""
    if len(piece.items) == 1 and death.rest:
        (item,) = death.rest
        deaths[item.uri] += 1
        if deaths[item.uri] > 2 * MOST_DEATHS:
            raise SpillscanError(f"processes that write into {piece.root} die: the last {death.how}")
        if deaths[item.uri] < MOST_DEATHS:
            yield piece
        else:
            reason = f"{item.uri} cannot be read: each process that read it {death.how}"
            hashes = piece.hashes or {item.uri: death.content_hash}
            yield replace(piece, refused=f"{reason}; is there memory enough?", hashes=hashes)
    elif death.suspect is not None:
        yield from _pieces(piece, tuple(item for item in death.rest if item is not death.suspect))
        yield replace(piece, items=(death.suspect,))
    else:
        middle = len(death.rest) // 2
        yield from _pieces(piece, death.rest[:middle])
        yield from _pieces(piece, death.rest[middle:])


def _pieces(piece: Batch, items: tuple[Item, ...]) -> Iterator[Batch]:
    if items:
        yield replace(piece, items=items)
