"""What a team demands of its kernels; the same for every command that judges.

A policy is made of layers: defaults, a file (``spillscan.yaml`` or ``[tool.spillscan]``), the environment, the command
line. Each gives settings, and entries that hold for the kernels which their globs name; what comes later wins, key by
key. ``Policy.terms_of(kernel)`` is what all of them together demand of one kernel. Everything here is pure but
``reading.load``, which finds and reads the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spillscan.judging.policy.effective import Policy

__all__ = ["Policy"]


def __getattr__(name: str) -> object:
    """Import the policy when it is first asked for: parsing arguments needs only ``keys.py``."""
    if name != "Policy":
        raise AttributeError(f"module 'spillscan.judging.policy' has no attribute {name!r}")
    from spillscan.judging.policy.effective import Policy

    return Policy
