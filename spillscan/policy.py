"""What a team demands of its kernels; the same for every command that judges."""

from __future__ import annotations

from dataclasses import dataclass

from spillscan.model import Severity

SEVERITIES: tuple[Severity, ...] = ("note", "warning", "error")
"""From mild to severe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits for every kernel."""

    max_spill_bytes: int = 0
    """Most bytes that spill stores and spill loads may have together, per thread."""
    max_registers: int | None = None
    """Most registers per thread; ``None`` sets no limit."""


def at_least(severity: Severity, threshold: str) -> bool:
    """Whether ``severity`` reaches ``threshold``; nothing reaches ``never``."""
    return threshold != "never" and SEVERITIES.index(severity) >= [*SEVERITIES].index(threshold)  # type: ignore[arg-type]
