"""Copies one stream through a sieve as it comes."""

from __future__ import annotations

import os
import select
from collections.abc import Callable

from spillscan.wrap.sieve import Sieve

IDLE_SECONDS = 0.1
"""How long the beginning of a line is held before it is passed on: somebody may wait for a prompt."""
READ_BYTES = 1 << 16


def pump(source: int, target: int, keep: Callable[[bytes], object]) -> Sieve:
    """Read descriptor ``source`` to its end: all of it goes to ``keep``, all but figures to descriptor ``target``.

    Returns the sieve, which knows whether there were figures. A ``target`` that nobody reads any more is left alone.
    """
    sieve = Sieve()
    out = _Writer(target)
    while data := _read(source, sieve, out):
        keep(data)
        out.write(sieve.feed(data))
    out.write(sieve.flush())
    return sieve


def _read(source: int, sieve: Sieve, out: _Writer) -> bytes:
    if sieve.holds and os.name == "posix" and not select.select([source], [], [], IDLE_SECONDS)[0]:
        out.write(sieve.flush())
    return os.read(source, READ_BYTES)


class _Writer:
    def __init__(self, target: int) -> None:
        self._target = target
        self._open = True

    def write(self, data: bytes) -> None:
        """All of ``data``."""
        rest = memoryview(data)
        try:
            while rest and self._open:
                rest = rest[os.write(self._target, rest) :]
        except BrokenPipeError:
            self._open = False
