"""What stands before the opcode of each row, as the layout foretells it: line end, margin, address, blanks."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from spillscan.dumps.layout import SHORTEST_ADDRESS, WORD, Layout

REGION = 16**SHORTEST_ADDRESS
"""Addresses that their last four hexadecimal digits tell apart."""

_CACHED = 24
"""Tables kept: 128 KiB each."""


@lru_cache(maxsize=1)
def _digits() -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """The four digits of each word address of a region."""
    text = "".join(f"{address:0{SHORTEST_ADDRESS}x}" for address in range(0, REGION, WORD)).encode()
    return np.frombuffer(text, np.uint8).reshape(-1, SHORTEST_ADDRESS)


@lru_cache(maxsize=_CACHED)
def _table(region: int, phase: int, lines: int, size: int, end: bytes) -> memoryview:
    leading = f"{region:x}".encode() if region else b""
    before = end + b" " * 8 + b"/*" + leading
    text = (before + bytes(SHORTEST_ADDRESS) + b"*/").ljust(size)
    digits = _digits()[phase // WORD :: lines]
    rows = np.empty((len(digits), size), np.uint8)
    rows[:] = np.frombuffer(text, np.uint8)
    rows[:, len(before) : len(before) + SHORTEST_ADDRESS] = digits
    return memoryview(rows.tobytes())


def expected(layout: Layout, address: int, rows: int) -> memoryview:
    """The prefixes of ``rows`` rows, one a pattern, of which the first has this address; all are in one region."""
    region, low = divmod(address, REGION)
    index, phase = divmod(low, layout.step)
    size = layout.prefix
    table = _table(region, phase, layout.lines, size, layout.end)
    return table[index * size : (index + rows) * size]
