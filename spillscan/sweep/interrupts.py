"""Ctrl-C while a program is started: it waits until the program can be ended."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def held_back() -> Iterator[Callable[[], None]]:
    """Interrupts that come inside act when what is yielded is called: outside, where somebody catches them.

    Where Ctrl-C is ignored, or this is not the main thread, which alone gets it, nothing is changed.
    """
    usual = signal.getsignal(signal.SIGINT)
    came: list[tuple[int, FrameType | None]] = []
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield lambda: None
        return

    def act() -> None:
        if came:
            usual(*came[0])

    signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield act
    finally:
        signal.signal(signal.SIGINT, usual)
