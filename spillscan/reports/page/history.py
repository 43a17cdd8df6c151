"""The page that a team keeps open: what the builds of a dataset come to, where that jumped, what changed last, and any
two of them side by side."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from spillscan import __version__
from spillscan.model.figures import figure as declared
from spillscan.output.safe import clip
from spillscan.reports.page.columns import LONGEST_ARCH, LONGEST_NAME
from spillscan.reports.page.document import document, table

_LONGEST_LABEL, _LONGEST_CELL = 60, 300


@dataclass(frozen=True, slots=True, kw_only=True)
class PastBuild:
    """One build."""

    label: str
    """What it is called."""
    date: str
    """When it was made."""
    commit: str = ""
    """Its commit, where that is known and is not its label."""
    link: str = ""
    """The commit's page, an address of the web; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """A total over all builds."""

    label: str
    """What it is."""
    values: tuple[float | None, ...]
    """A value a build; ``None`` where nothing is known."""
    unknown: tuple[int, ...]
    """Kernels of a build of which it is not known."""
    jumps: tuple[tuple[int, int, float], ...]
    """Indexes of the build before and of the one after, and the threshold that was passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTable:
    """One table, as texts."""

    title: str
    heads: tuple[str, ...]
    left: tuple[str, ...]
    """Heads of columns that hold words."""
    rows: Sequence[Sequence[str]]
    ends: Sequence[tuple[int, int]] = ()
    """Of each row, if any, indexes of the build before and of the one after: what its link compares."""
    empty: str = "none"
    """What is said where there is no row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """A kernel in the builds that can be compared."""

    name: str
    """What tables call it."""
    arch: str | None
    """Its target."""
    points: Sequence[dict[str, int | None] | None]
    """Its figures by name, a build each; ``None`` where a build does not have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Builds of a dataset."""

    title: str
    """What they are of."""
    builds: Sequence[PastBuild]
    """The oldest first."""
    courses: Sequence[Course]
    """Totals, each a chart."""
    said: str
    """What makes a jump."""
    tables: Sequence[PastTable]
    """In the order in which people ask; the first, of all builds, stands only where no script runs."""
    metrics: Sequence[str]
    """Figures in which builds are compared, the gravest first."""
    followed: Iterable[Followed]
    """Kernels."""
    legend: Sequence[tuple[str, str]] = ()
    """What letters in names stand for, by family."""
    since: int = 0
    """Index of the first build whose kernels are followed."""


def history_document(history: History) -> Iterator[str]:
    """The page, piece by piece."""
    tables = [
        {
            "title": each.title,
            "heads": each.heads,
            "words": [head in each.left for head in each.heads],
            "rows": [[clip(cell, _LONGEST_CELL) for cell in row] for row in each.rows],
            "ends": list(each.ends),
            "empty": each.empty,
        }
        for each in history.tables
    ]
    payload = {
        "title": clip(history.title, LONGEST_NAME),
        "tool": f"spillscan {__version__}",
        "kind": "history",
        "views": [{"name": "history", "label": "History"}],
        "builds": [{name: clip(text, _LONGEST_CELL) for name, text in asdict(each).items()} for each in history.builds],
        "courses": [asdict(each) for each in history.courses],
        "said": history.said,
        "tables": tables[1:],
        "metrics": [
            {"label": shown.label, "unit": shown.unit, "sign": -1 if shown.worse == "fewer" else 1}
            for shown in map(declared, history.metrics)
        ],
        "since": history.since,
        "legend": list(history.legend),
        "kernels": (_kernel(each, history.metrics) for each in history.followed),
    }
    yield from document(history.title, payload, ("history",), _static(payload, tables))


def _kernel(kernel: Followed, metrics: Sequence[str]) -> str:
    """Name, arch, where it is, and each figure; as runs of what stays the same: an index and what is from there on."""
    columns = [_runs(None if point is None else point[name] for point in kernel.points) for name in metrics]
    there = _runs(int(point is not None) for point in kernel.points)
    arch = None if kernel.arch is None else clip(kernel.arch, LONGEST_ARCH)
    return json.dumps([clip(kernel.name, LONGEST_NAME), arch, there, *columns], separators=(",", ":"))


def _runs(values: Iterable[int | None]) -> list[int | None]:
    found: list[int | None] = []
    for value, group in groupby(enumerate(values), key=lambda each: each[1]):
        found += [next(group)[0], value]
    return found


def _static(payload: dict[str, Any], tables: Sequence[dict[str, Any]]) -> Iterator[str]:
    for each in tables:
        yield from table(each["title"], each["heads"], each["rows"], len(each["rows"]))
