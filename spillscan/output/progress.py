"""How far long work is, by tqdm: a line on standard error, only where a person watches, gone when the work is done.

tqdm is imported where a line may be shown, and nowhere else.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from os.path import basename
from typing import TYPE_CHECKING, Any, Protocol

from spillscan.output.safe import printable
from spillscan.output.terminal import watched

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

DELAY_SECONDS = 1.0
"""Shorter work shows nothing."""
_PAUSE_SECONDS = 0.1
_LONGEST_NAME = 30


class Progress:
    """One line that is kept up to date; where no person can see it, nothing."""

    def __init__(self, doing: str, unit: str = "B") -> None:
        self._doing, self._unit = doing, unit
        self.watched = watched()
        """Whether a person sees it."""
        self._bar: Any = None

    def expect(self, total: int) -> None:
        """So much is to be done, in the unit; 0: not known."""
        self.close()
        if self.watched:
            self._bar = self._begin(total)

    def reach(self, done: int, at: str = "") -> None:
        """So much is done; ``at`` is being worked on."""
        if self._bar is not None:
            self.advance(done - self._bar.n, at)

    def advance(self, amount: int, at: str = "") -> None:
        """So much more is done."""
        if self._bar is not None:
            self._bar.set_postfix_str(printable(at, _LONGEST_NAME), refresh=False)
            self._bar.update(amount)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self, total: int) -> Any:
        from threading import RLock

        from tqdm import tqdm

        # Workers are forked: no thread of tqdm's own, and no lock between processes.
        tqdm.monitor_interval = 0
        tqdm.set_lock(RLock())
        size = self._unit == "B"
        return tqdm(
            total=total or None,
            desc=self._doing,
            unit=self._unit if size else f" {self._unit}",
            unit_scale=size,
            delay=DELAY_SECONDS,
            mininterval=_PAUSE_SECONDS,
            miniters=1,
            leave=False,
            dynamic_ncols=True,
            file=sys.stderr,
        )


class Input(Protocol):
    """What is read."""

    @property
    def uri(self) -> str:
        """Its place; ``-`` for standard input."""

    @property
    def bytes(self) -> int:
        """Its size as it lies on disk."""


class Reading:
    """How far the inputs of a build are read: counts the bytes of each as they lie on disk."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._current: Input | None = None
        self._read_bytes = 0

    def expect(self, sources: Sequence[Input]) -> None:
        """These will be read."""
        self._progress.expect(sum(each.bytes for each in sources))

    def read(self, each: Input, read_bytes: int) -> None:
        """So many bytes of ``each`` were read."""
        if each is not self._current:
            self._current, self._read_bytes = each, 0
        self._progress.advance(
            read_bytes - self._read_bytes, "standard input" if each.uri == "-" else basename(each.uri)
        )
        self._read_bytes = read_bytes
