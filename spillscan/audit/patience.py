"""Second and third attempts at a store that fails now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from spillscan.errors import SpillscanError

PAUSES_SECONDS = (0.1, 0.3, 0.9, 2.7)
"""Between attempts; behind the last, the store has failed."""

LASTING = (PermissionError, ImportError, SpillscanError)
"""Errors that another attempt does not mend."""

T = TypeVar("T")


def patiently(
    action: Callable[[], T],
    lasting: tuple[type[Exception], ...] = LASTING,
    pause: Callable[[float], None] = time.sleep,
) -> T:
    """What ``action`` returns, at the latest at its fifth attempt. Raises what the last one raised, or the first that
    raises one of ``lasting``.

    Drivers of stores raise anything: errors of sockets, HTTP libraries and their own, few of them an ``OSError``. That
    a file is not there is no lasting error where it has just been listed: web servers that fail say so, too.
    """
    for seconds in PAUSES_SECONDS:
        try:
            return action()
        except lasting:
            raise
        except Exception:
            pause(seconds)
    return action()
