"""What a baseline holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple

Figures = tuple[tuple[str, int], ...]
"""(name, value) by name: what a rule measured of one kernel; greater is worse."""

Copies = tuple[Figures, ...]
"""Figures of each copy of one kernel (it may stand in several translation units), greatest first; where all copies are
equal there is one, whatever their number."""


class Identity(NamedTuple):
    """A kernel of one arch, whatever checkout or translation unit it was compiled in."""

    symbol: str
    """Canonical symbol, shortened where it is very long (:func:`spillscan.baseline.keys.identity_of`)."""
    arch: str | None
    """``None`` where the log does not say."""
    function: bool = False
    """Whether it is a device function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is recorded of one kernel of one arch."""

    name: str
    """Short name, for people."""
    recorded: dict[str, Copies] = field(default_factory=dict)
    """Accepted figures by rule; empty for a kernel that is only known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression:
    """A finding that somebody excused by hand, until a day."""

    kernel: str
    """Glob, or ``re:`` pattern, on symbol, full or short name."""
    rule: str
    """Name of the rule."""
    arch: str | None
    """Only this arch; ``None`` means all."""
    reason: str
    """Why."""
    until: date
    """Last day on which it holds."""
    line: int
    """Where it stands in the file, 1-based."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """A baseline file's content."""

    entries: dict[Identity, Entry] = field(default_factory=dict)
    """Every known kernel, and device functions with findings."""
    suppressions: tuple[Suppression, ...] = ()
    """In the order of the file."""
    preamble: str
    """What stands above ``kernels:``, as it stands there: version, suppressions, comments."""
