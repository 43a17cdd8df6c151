"""Progress of long work, by tqdm: a line on standard error, shown only on a terminal and erased at the end.

tqdm is imported only if a line may be shown.
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
"""Seconds before a line is shown; shorter work shows nothing."""
_PAUSE_SECONDS = 0.1
_LONGEST_NAME = 30


class Progress:
    """A progress line; does nothing if standard error is not a terminal."""

    def __init__(self, doing: str, unit: str = "B") -> None:
        self._doing, self._unit = doing, unit
        self.watched = watched()
        """Whether the line can be seen."""
        self._bar: Any = None

    def expect(self, total: int) -> None:
        """Start, with ``total`` units to do; 0: unknown."""
        self.close()
        if self.watched:
            self._bar = self._begin(total)

    def reach(self, done: int, at: str = "") -> None:
        """Set the amount done; ``at``: the current item."""
        if self._bar is not None:
            self.advance(done - self._bar.n, at)

    def advance(self, amount: int, at: str = "") -> None:
        """Add to the amount done; ``at``: the current item."""
        if self._bar is not None:
            self._bar.set_postfix_str(printable(at, _LONGEST_NAME), refresh=False)
            self._bar.update(amount)

    def close(self) -> None:
        """Erase the line."""
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

        # Workers are forked, so tqdm must not start a thread or use a lock between processes.
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
    """An input that is read."""

    @property
    def uri(self) -> str:
        """Its path or URL; ``-`` for standard input."""

    @property
    def bytes(self) -> int:
        """Its size on disk."""


class Reading:
    """Progress of reading inputs, in bytes on disk."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._current: Input | None = None
        self._read_bytes = 0

    def expect(self, sources: Sequence[Input]) -> None:
        """Announce the inputs to read."""
        self._progress.expect(sum(each.bytes for each in sources))

    def read(self, each: Input, read_bytes: int) -> None:
        """Report that ``read_bytes`` bytes of ``each`` were read in total."""
        if each is not self._current:
            self._current, self._read_bytes = each, 0
        self._progress.advance(
            read_bytes - self._read_bytes, "standard input" if each.uri == "-" else basename(each.uri)
        )
        self._read_bytes = read_bytes
