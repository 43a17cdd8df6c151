"""One module a format, found by being there.

A format module has ``FORMAT``, ``HELP``, ``KINDS`` and ``render(report, style)``: pieces of text in order, or of UTF-8.
It opens no file and asks no terminal; ``reports/render.py`` does. All text is deterministic: same report, same bytes.
What comes from logs is hostile: each format makes it harmless by its own rules, and ``tests/reports/test_hostile.py``
holds every format to that.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Protocol, cast

from spillscan.output import folders
from spillscan.output.terminal import Style
from spillscan.reports.report import Kind, Report


class ReportFormat(Protocol):
    """What a report module offers."""

    FORMAT: str
    HELP: str
    KINDS: tuple[Kind, ...]

    def render(self, report: Report, style: Style) -> Iterator[str] | Iterator[bytes]:
        """The report's text, piece by piece; bytes are UTF-8."""


@cache
def names() -> tuple[str, ...]:
    """Of all formats; each is that of its module."""
    return tuple(folders.modules(__path__))


@cache
def of_name(name: str) -> ReportFormat:
    """One of :func:`names`; the others need not be imported for it."""
    return cast(ReportFormat, import_module(f"{__name__}.{name}"))


def all_formats() -> dict[str, ReportFormat]:
    """Every format by its name."""
    return {name: of_name(name) for name in names()}
