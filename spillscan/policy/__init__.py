"""What a team demands of its kernels; the same for every command that judges.

A policy is made of layers: defaults, a file (``spillscan.yaml`` or ``[tool.spillscan]``), the environment, the command
line. Each gives settings, and entries that hold for the kernels which their globs name; what comes later wins, key by
key. ``Policy.terms_of(kernel)`` is what all of them together demand of one kernel. Everything here is pure but
``load.py``, which finds and reads the file. Names are imported on first use: parsing arguments needs only ``keys.py``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spillscan.policy.effective import Policy
    from spillscan.policy.launches import Launches, LaunchMap, parse_launch
    from spillscan.policy.patterns import matches
    from spillscan.policy.severity import SEVERITIES, Level, at_least
    from spillscan.policy.terms import Limits, Terms

_HOMES = {
    "Policy": "effective",
    "LaunchMap": "launches",
    "Launches": "launches",
    "parse_launch": "launches",
    "matches": "patterns",
    "SEVERITIES": "severity",
    "Level": "severity",
    "at_least": "severity",
    "Limits": "terms",
    "Terms": "terms",
}

__all__ = [
    "SEVERITIES",
    "LaunchMap",
    "Launches",
    "Level",
    "Limits",
    "Policy",
    "Terms",
    "at_least",
    "matches",
    "parse_launch",
]


def __getattr__(name: str) -> object:
    """Import a public name from its home module when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'spillscan.policy' has no attribute {name!r}")
    return getattr(import_module(f"spillscan.policy.{_HOMES[name]}"), name)
