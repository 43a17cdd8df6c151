"""The page that a team keeps open: what the builds of a dataset come to, where that jumped, what changed last, and any
two of them side by side."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from spillscan import __version__
from spillscan.history.dataset.builds import KeptBuild
from spillscan.history.dataset.history import Series
from spillscan.model.figures import figure as declared
from spillscan.naming import Names
from spillscan.output.records import plain
from spillscan.output.safe import clip
from spillscan.reports.page.columns import LONGEST_NAME, letters, shown_arch, shown_name
from spillscan.reports.page.document import STATIC, document
from spillscan.reports.table import Table

_LONGEST_LABEL, _LONGEST_CELL = 60, 300


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
class History:
    """Builds of a dataset."""

    title: str
    """What they are of."""
    builds: Sequence[KeptBuild]
    """The oldest first."""
    courses: Sequence[Course]
    """Totals, each a chart."""
    said: str
    """What makes a jump."""
    tables: Mapping[str, Table[Any]]
    """In the order in which people ask; the first, of all builds, stands only where no script runs."""
    ends: Mapping[str, Sequence[tuple[int, int]]]
    """By table, if any, of each row indexes of the build before and of the one after: what its link compares."""
    metrics: Sequence[str]
    """Figures in which builds are compared, the gravest first."""
    followed: Sequence[Series]
    """Kernels in the builds that can be compared."""
    names: Names
    """What tables call them."""
    since: int = 0
    """Index of the first build whose kernels are followed."""


def history_document(history: History) -> Iterator[str]:
    """The page, piece by piece."""
    tables = [
        {
            "title": each.title,
            "heads": each.heads,
            "words": [head in each.left for head in each.heads],
            "rows": [[clip(cell, _LONGEST_CELL) for cell in each.cells(row)] for row in each.rows],
            "ends": history.ends.get(name, ()),
            "empty": each.empty,
        }
        for name, each in history.tables.items()
    ]
    payload = {
        "title": clip(history.title, LONGEST_NAME),
        "tool": f"spillscan {__version__}",
        "kind": "history",
        "views": [{"name": "history", "label": "History"}],
        "builds": [_build(each) for each in history.builds],
        "courses": [asdict(each) for each in history.courses],
        "said": history.said,
        "tables": tables[1:],
        "metrics": [
            {"label": shown.label, "unit": shown.unit, "sign": -1 if shown.worse == "fewer" else 1}
            for shown in map(declared, history.metrics)
        ],
        "since": history.since,
        "legend": letters((each.kernel.named_by for each in history.followed), history.names),
        "kernels": (_kernel(each, history) for each in history.followed),
    }
    lines = (line for each in history.tables.values() for line in ("", *each.text(STATIC, STATIC.rows)))
    yield from document(history.title, payload, ("history",), lines)


def _build(build: KeptBuild) -> dict[str, str]:
    said = {"label": build.label, "date": str(plain(build.time))[:10], "commit": build.commit, "link": build.link}
    return {name: clip(text, _LONGEST_CELL) for name, text in said.items()}


def _kernel(series: Series, history: History) -> str:
    """Name, arch, where it is, and each figure; as runs of what stays the same: an index and what is from there on."""
    columns = [_runs(None if point is None else point[name] for point in series.points) for name in history.metrics]
    there = _runs(int(point is not None) for point in series.points)
    name = shown_name(series.kernel.named_by, history.names)
    return json.dumps([name, shown_arch(series.kernel.key.arch), there, *columns], separators=(",", ":"))


def _runs(values: Iterable[int | None]) -> list[int | None]:
    found: list[int | None] = []
    for value, group in groupby(enumerate(values), key=lambda each: each[1]):
        found += [next(group)[0], value]
    return found
