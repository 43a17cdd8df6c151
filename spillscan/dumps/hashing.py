"""A dictionary from eight bytes to small numbers that is asked for thousands of keys at once: a perfect hash."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]

_U = np.uint64
_TRIES = 8
"""Factors that are tried before the table is doubled."""
_LEAST_BITS = 9
"""Of the index of a table."""
_ABSENT = -1


class FullError(Exception):
    """There are too many distinct keys."""


class Numbers:
    """What each key met so far stands for. No key is eight bytes 0xff, which are no text."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[int, int] = {}
        self._bits = _LEAST_BITS
        self._factor = 0x9E3779B97F4A7C15
        self._build()

    def _build(self) -> None:
        keys = np.array(list(self._known), _U)
        self._bits = max(self._bits, (len(keys) ** 2 // 4).bit_length())  # so that one factor in a few does
        tries = 0
        while True:
            slots = ((keys * _U(self._factor)) >> _U(64 - self._bits)).astype(np.int64)
            if len(np.unique(slots)) == len(keys):
                break
            self._factor = (self._factor * 6364136223846793005 + 1442695040888963407) % (1 << 64) | 1
            tries += 1
            self._bits += tries % _TRIES == 0
        self._keys = np.full(1 << self._bits, _ABSENT, np.int64).view(_U)
        self._keys[slots] = keys
        self._values = np.zeros(1 << self._bits, np.int64)
        self._values[slots] = list(self._known.values())
        self._multiplier, self._shift = _U(self._factor), _U(64 - self._bits)

    def find(self, keys: Words, scratch: Words, learn: Callable[[int, int], int]) -> Ints:
        """The number of each key; ``learn(key, index)`` gives that of a new one, which stands at ``index`` first.

        Raises :class:`FullError` where there is no room for another key, and what ``learn`` raises.
        """
        while True:
            np.multiply(keys, self._multiplier, out=scratch)
            np.right_shift(scratch, self._shift, out=scratch)
            slots = scratch.view(np.int64)
            new = self._keys.take(slots) != keys
            if not new.any():
                return self._values.take(slots)
            unknown, first = np.unique(keys[new], return_index=True)
            rows = np.flatnonzero(new)[first]
            for key, row in zip(unknown.tolist(), rows.tolist(), strict=True):
                if key not in self._known:
                    if len(self._known) == self._most:
                        raise FullError
                    self._known[key] = learn(key, row)
            self._build()
