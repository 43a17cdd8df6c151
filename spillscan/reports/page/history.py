"""Pages of a dataset: the one that a team keeps open, with what its builds come to, where that jumped, what changed
last, and any two of them side by side; and how figures of some kernels went over the builds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from spillscan.history.dataset.history import Series
from spillscan.history.dataset.records import KeptBuild
from spillscan.model.figures import figure as declared
from spillscan.naming import Names
from spillscan.output.records import plain
from spillscan.output.safe import clip
from spillscan.reports.page.columns import letters, shown_arch, shown_name
from spillscan.reports.page.document import STATIC, document
from spillscan.reports.page.series import head
from spillscan.reports.table import Table

_LONGEST_CELL = 300
_Ends = Mapping[str, Sequence[tuple[int, int]]]
"""By table of each row indexes of the build before and of the one after."""


def history_document(
    title: str,
    builds: Sequence[KeptBuild],
    *,
    courses: Sequence[Mapping[str, Any]],
    said: str,
    tables: Mapping[str, Table[Any]],
    ends: _Ends,
    metrics: Sequence[str],
    followed: Sequence[Series],
    names: Names,
    since: int = 0,
) -> Iterator[str]:
    """The page, piece by piece.

    ``builds``: the oldest first. ``courses``: totals, each a chart: their ``label``, a value a build in ``values``
    (``None`` where nothing is known), in ``unknown`` of how many kernels it is not known, and ``jumps``: indexes of the
    build before and of the one after, and the threshold that was passed. ``said``: what makes a jump. ``tables``: in
    the order in which people ask; ``builds`` stands only where no script runs. ``ends``: by table, if
    any, of each row indexes of the build before and of the one after: what its link compares. ``metrics``: in which
    builds are compared, the worst first. ``followed``: kernels in the builds that can be compared, from index
    ``since`` on.
    """
    payload = {
        **head(title, "history", "History"),
        "views": [{"name": "history", "label": "History"}, {"name": "trend", "label": "Trend"}],
        "builds": [_build(each) for each in builds],
        "courses": courses,
        "said": said,
        "tables": _listed({name: each for name, each in tables.items() if name != "builds"}, ends),
        "metrics": [
            {"label": shown.label, "unit": shown.unit, "sign": -1 if shown.worse == "fewer" else 1}
            for shown in map(declared, metrics)
        ],
        "since": since,
        "legend": letters((each.kernel.named_by for each in followed), names),
        "kernels": (_kernel(each, metrics, names) for each in followed),
    }
    lines = (line for each in tables.values() for line in ("", *each.text(STATIC, STATIC.rows)))
    yield from document(title, payload, ("turns", "history", "trend"), lines)


def _listed(tables: Mapping[str, Table[Any]], ends: _Ends) -> list[dict[str, Any]]:
    return [
        {
            "title": each.title,
            "heads": each.heads,
            "words": [head in each.left for head in each.heads],
            "rows": [[clip(cell, _LONGEST_CELL) for cell in each.cells(row)] for row in each.rows],
            "ends": ends.get(name, ()),
            "empty": each.empty,
        }
        for name, each in tables.items()
    ]


def _build(build: KeptBuild) -> dict[str, str]:
    said = {"label": build.label, "date": str(plain(build.time))[:10], "commit": build.commit, "link": build.link}
    return {name: clip(text, _LONGEST_CELL) for name, text in said.items()}


def _kernel(series: Series, metrics: Sequence[str], names: Names) -> str:
    """Name, arch, where it is, and each figure; as runs of what stays the same: an index and what is from there on."""
    columns = [_runs(None if point is None else point[name] for point in series.points) for name in metrics]
    there = _runs(int(point is not None) for point in series.points)
    name = shown_name(series.kernel.named_by, names)
    return json.dumps([name, shown_arch(series.kernel.key.arch), there, *columns], separators=(",", ":"))


def _runs(values: Iterable[int | None]) -> list[int | None]:
    found: list[int | None] = []
    for value, group in groupby(enumerate(values), key=lambda each: each[1]):
        found += [next(group)[0], value]
    return found


ON_A_PAGE = 2_000
"""Kernels that a page has lines of, the liveliest first."""
_BRIEF = 24
"""Characters of a name at the end of a line."""


def trend_document(
    title: str,
    builds: Sequence[KeptBuild],
    series: Sequence[Series],
    metrics: Sequence[str],
    names: Names,
    lines: Iterable[str] = (),
    *,
    tables: Mapping[str, Table[Any]],
    ends: _Ends,
) -> Iterator[str]:
    """The page of a trend, piece by piece: of the first kernels lines, and what happened to families. ``lines``: what a
    terminal shows."""
    drawn = [
        {
            "name": shown_name(each.kernel.named_by, names),
            "brief": names.of(each.kernel.named_by, _BRIEF),
            "arch": shown_arch(each.kernel.key.arch),
            "metric": metric,
            "values": each.values(metric),
        }
        for each in series[:ON_A_PAGE]
        for metric in metrics
        if any(value is not None for value in each.values(metric))
    ]
    payload = {
        **head(title, "trend", "Trend"),
        "legend": letters((each.kernel.named_by for each in series[:ON_A_PAGE]), names, _BRIEF),
        "builds": [_build(each) for each in builds],
        "metrics": [
            {"name": name, "label": declared(name).label, "unit": declared(name).unit}
            for name in dict.fromkeys(str(line["metric"]) for line in drawn)
        ],
        "left_out": max(0, len(series) - ON_A_PAGE),
        "tables": _listed({name: each for name, each in tables.items() if each.rows}, ends),
        "series": drawn,
    }
    yield from document(title, payload, ("turns", "trend"), lines)
