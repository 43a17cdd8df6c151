"""Progress of long work, by tqdm: a line on standard error, shown only on a terminal and erased at the end.

tqdm is imported only if a line may be shown.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from spillscan.output.safe import printable
from spillscan.output.terminal import watched

if TYPE_CHECKING:
    from typing import Self

DELAY_SECONDS = 1.0
"""Seconds before a line is shown; shorter work shows nothing."""
_PAUSE_SECONDS = 0.1
_LONGEST_NAME = 30


class Progress:
    """A progress line in bytes; does nothing if standard error is not a terminal."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self.watched = watched()
        """Whether the line can be seen."""
        self._bar: Any = None

    def expect(self, total: int) -> None:
        """Start, with ``total`` bytes to do; 0: unknown."""
        self.close()
        if not self.watched:
            return
        from threading import RLock

        from tqdm import tqdm

        # Workers are forked, so tqdm must not start a thread or use a lock between processes.
        tqdm.monitor_interval = 0
        tqdm.set_lock(RLock())
        shown = {"desc": self._doing, "unit": "B", "unit_scale": True, "leave": False, "dynamic_ncols": True}
        pace = {"delay": DELAY_SECONDS, "mininterval": _PAUSE_SECONDS, "miniters": 1}
        self._bar = tqdm(total=total or None, file=sys.stderr, **shown, **pace)

    def reach(self, done: int, at: str = "") -> None:
        """Set the amount done; ``at``: the current item."""
        if self._bar is not None:
            self._bar.set_postfix_str(printable(at, _LONGEST_NAME), refresh=False)
            self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Erase the line."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
