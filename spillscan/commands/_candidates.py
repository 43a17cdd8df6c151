"""``--by config``: the candidates of each tuned kernel beside each other, of one build or of two."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from spillscan.commands import _answers, _options
from spillscan.judging.compare.matrix import COLUMNS, CandidateRow, over_builds, side_by_side
from spillscan.model import Build
from spillscan.naming import Names
from spillscan.output.errors import InputError
from spillscan.output.files import parse_forms
from spillscan.output.nouns import count
from spillscan.output.terminal import Row, Style, fold, style_of, table
from spillscan.reports.formats import html
from spillscan.reports.report import Report

FORMATS = ("text", "json", "csv", "html")
_HEADS = ("kernel", "arch", "configuration", "threads", "regs", "spills", "shared", "blocks", "occ", "unbeaten")
_LEFT = ("kernel", "arch", "configuration", "unbeaten")
_NOT_SAID = "-"
_OCCUPANCY = 5
"""Its place among the texts of a candidate."""


def show(
    builds: Sequence[Build], labels: Sequence[str], arguments: argparse.Namespace, report: Callable[[], Report]
) -> None:
    """Write the table in the forms asked for; ``report`` makes the report whose page it stands on."""
    forms = parse_forms(arguments.format, FORMATS)
    whole = report()
    rows = side_by_side(builds, whole.launches)
    if not rows:
        raise InputError("no kernel says what it was tuned for", "scan the cache folder of Triton or Inductor")
    cells = [
        (at, build, cell) for at, row in enumerate(rows) for build, cell in zip(labels, row.cells, strict=True) if cell
    ]
    one = len(builds) == 1
    machine = [cell.row if one else (at, build, *cell.row) for at, build, cell in cells]
    heads = COLUMNS if one else ("candidate", "build", *COLUMNS)
    _answers.answer(
        forms,
        text=lambda style: _lines(rows, labels, style),
        json=lambda: [dict(zip(heads, row, strict=True)) for row in machine],
        csv=lambda: (heads, *machine),
        html=lambda: html.render(replace(whole, by="config"), style_of(None, False)),
        rows=_options.rows_of(arguments),
    )


def _lines(rows: Sequence[CandidateRow], labels: Sequence[str], style: Style) -> Iterator[str]:
    names = Names(row.latest.kernel.key.symbol for row in rows)  # what they were tuned for has a column
    shown = rows[: style.rows]
    lines: list[Row] = []
    for row in shown:
        kernel = row.latest.kernel
        figures = over_builds([None if cell is None else cell.texts(_NOT_SAID) for cell in row.cells])
        figures[_OCCUPANCY] = figures[_OCCUPANCY].replace(" %", "%")
        name = partial(names.of, kernel.key.symbol)
        lines.append(([name, kernel.key.arch or _NOT_SAID, row.latest.configuration, *figures], ""))

    yield from table(_HEADS, lines, style, _LEFT)
    yield from fold(len(rows) - len(shown), style)
    for at, label in enumerate(labels):
        there = [cell for row in rows if (cell := row.cells[at])]
        beaten = sum(not each.unbeaten for each in there)
        build = f"{label}: " if len(labels) > 1 else ""
        yield f"{build}{count(len(there), 'candidate')}, {beaten} beaten in all of these by another of the same tile"
