"""How grave a finding is, and what that makes of a gate."""

from __future__ import annotations

from typing import Literal

from spillscan.model import Severity

Level = Literal["error", "warning", "note", "off"]
"""What a policy may say of a rule; ``off``: it finds nothing."""

SEVERITIES: tuple[Severity, ...] = ("note", "warning", "error")
"""From mild to severe."""


def at_least(severity: Severity, threshold: str) -> bool:
    """Whether ``severity`` reaches ``threshold``; nothing reaches ``never``."""
    return threshold != "never" and SEVERITIES.index(severity) >= [*SEVERITIES].index(threshold)  # type: ignore[arg-type]
