"""Second and third attempts at a store that fails now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from spillscan.errors import SpillscanError

PAUSES_SECONDS = (0.1, 0.3, 0.9, 2.7)
"""Between attempts; behind the last, the store has failed."""

_LASTING = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, ImportError, SpillscanError)
"""Errors that another attempt does not mend."""

T = TypeVar("T")


def patiently(action: Callable[[], T], pause: Callable[[float], None] = time.sleep) -> T:
    """What ``action`` returns, at the latest at its fifth attempt. Raises what the last one raised.

    Drivers of stores raise anything: errors of sockets, HTTP libraries and their own, few of them an ``OSError``.
    """
    for seconds in PAUSES_SECONDS:
        try:
            return action()
        except _LASTING:
            raise
        except Exception:
            pause(seconds)
    return action()
