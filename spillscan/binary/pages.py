"""The memory that a mapped file takes: pages that were read are given back, else a large file counts as a whole."""

from __future__ import annotations

import mmap
from contextlib import suppress

from spillscan.binary.window import Window

_STEP_BYTES = 16 << 20
"""How far reading goes on before pages are given back: a call for each member would cost more than it saves."""


class Pages:
    """Those of the files that images stand in. What is asked for again comes back from the system's cache."""

    def __init__(self) -> None:
        self._left = 0

    def leave(self, window: Window) -> None:
        """Everything before ``window`` was read."""
        buffer = window.buffer
        if not isinstance(buffer, mmap.mmap) or window.start < self._left + _STEP_BYTES:
            return
        end = window.start - window.start % mmap.PAGESIZE
        with suppress(AttributeError):  # not on every system
            buffer.madvise(mmap.MADV_DONTNEED, self._left, end - self._left)
        self._left = end
