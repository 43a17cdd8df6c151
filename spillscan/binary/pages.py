"""The memory that a mapped file takes: pages that were read are given back, else a large file counts as a whole."""

from __future__ import annotations

import mmap

from spillscan.binary.window import Buffer

_STEP_BYTES = 16 << 20
"""How far reading goes on before pages are given back: a call for each member would cost more than it saves."""


class Pages:
    """Those of one file. What is asked for again comes back from the system's cache."""

    def __init__(self, buffer: Buffer) -> None:
        self._map = buffer if isinstance(buffer, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED") else None
        self._left = 0

    def leave(self, offset: int) -> None:
        """Everything before ``offset`` was read."""
        if self._map is None or not self._left + _STEP_BYTES <= offset <= len(self._map):
            return
        end = offset - offset % mmap.PAGESIZE
        self._map.madvise(mmap.MADV_DONTNEED, self._left, end - self._left)
        self._left = end
