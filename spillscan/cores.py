"""How many processors this process may use."""

from __future__ import annotations

import os
from pathlib import Path

_CONTROL_GROUP = Path("/sys/fs/cgroup/cpu.max")
_most: int | None = None


def most(count: int) -> None:
    """Let this process have no more than ``count``: it is one of several that share the machine."""
    global _most  # noqa: PLW0603 - a property of the process, as its affinity is
    _most = count


def available() -> int:
    """Processors that the scheduler lets this process have, no more than its control group pays for, nor than
    :func:`most` says."""
    found = _granted()
    return found if _most is None else max(1, min(found, _most))


def _granted() -> int:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = _CONTROL_GROUP.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return count
    return max(1, min(count, -(-int(quota) // int(period)))) if quota.isdigit() else count
