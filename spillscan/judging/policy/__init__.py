"""Policy: what a team requires of its kernels, the same for every command that checks.

A policy consists of layers: defaults, the file ``spillscan.yaml``, the command line. Each has settings, and entries for
the kernels that their patterns match; later ones win, key by key. ``Policy.terms_of(kernel)`` is the result for one
kernel. Everything here is pure except ``reading.load``, which finds and reads the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spillscan.judging.policy.effective import Policy

__all__ = ["Policy"]


def __getattr__(name: str) -> object:
    """Import the policy on first use: parsing arguments needs only ``file.py``."""
    if name != "Policy":
        raise AttributeError(f"module 'spillscan.judging.policy' has no attribute {name!r}")
    from spillscan.judging.policy.effective import Policy

    return Policy
