"""Report formats, one module each, discovered from the folder.

A format module has ``FORMAT``, ``HELP``, ``KINDS`` and ``render(report, style)``, which yields text or UTF-8 bytes.
It opens no file and queries no terminal; ``reports/render.py`` does. Output is deterministic: same report, same bytes.
Log text is hostile: each format escapes it by its own rules, and ``tests/reports/test_hostile.py`` checks every
format.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Protocol, cast

from spillscan.output.files import modules
from spillscan.output.terminal import Style
from spillscan.reports.report import Kind, Report


class ReportFormat(Protocol):
    """Interface of a format module."""

    FORMAT: str
    HELP: str
    KINDS: tuple[Kind, ...]

    def render(self, report: Report, style: Style) -> Iterator[str] | Iterator[bytes]:
        """Yield the report in pieces; bytes are UTF-8."""


@cache
def names() -> tuple[str, ...]:
    """Names of all formats, equal to their module names."""
    return tuple(modules(__path__))


@cache
def of_name(name: str) -> ReportFormat:
    """Format module of one of :func:`names`, without importing the others."""
    return cast(ReportFormat, import_module(f"{__name__}.{name}"))


def all_formats() -> dict[str, ReportFormat]:
    """All formats by name."""
    return {name: of_name(name) for name in names()}
