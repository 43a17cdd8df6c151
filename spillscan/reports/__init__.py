"""One module a format, found by being there.

A report module has ``FORMAT``, ``HELP`` and ``render(report, style) -> Iterator[str]``: pieces of text, in order. It
opens no file and asks no terminal; ``render.py`` does. All text is deterministic: same report, same bytes.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Literal, Protocol, cast

from spillscan.model import Build, Change, Finding
from spillscan.policy import Launches, LaunchMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What there is to tell: a build, with findings after ``check``, with changes after ``diff``."""

    kind: Literal["scan", "check", "diff"]
    """Which command asks."""
    build: Build
    """The build; of a diff, the head."""
    base: Build | None = None
    """Of a diff, the base."""
    findings: tuple[Finding, ...] = ()
    """Most severe first."""
    changes: tuple[Change, ...] = ()
    """Worst first."""
    launches: Launches = LaunchMap()  # noqa: RUF009 - frozen
    """How kernels are launched, as far as somebody said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How a person wants it; machine formats ignore it."""

    width: int = 100
    """Columns of the terminal."""
    color: bool = False
    """Whether escape sequences may be used."""
    rows: int | None = 25
    """Most rows of a table; ``None`` shows all."""


class ReportFormat(Protocol):
    """What a report module offers."""

    FORMAT: str
    HELP: str

    def render(self, report: Report, style: Style) -> Iterator[str]:
        """The report's text, piece by piece."""


@cache
def all_formats() -> dict[str, ReportFormat]:
    """Every report module of this folder, by format name."""
    names = (module.name for module in pkgutil.iter_modules(__path__) if module.name not in ("render", "_table"))
    found = [cast(ReportFormat, import_module(f"{__name__}.{name}")) for name in sorted(names)]
    return {module.FORMAT: module for module in found}
