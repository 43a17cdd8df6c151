"""Results in the formats that -f selects."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from spillscan.output import files, records, terminal
from spillscan.output.files import Form, parse_forms
from spillscan.output.terminal import Style
from spillscan.reports.table import Table


def forms_of(arguments: argparse.Namespace) -> list[Form]:
    """Parse -f, and reject errors before any work is done."""
    return parse_forms(arguments.format, arguments.formats)


def answer(
    forms: Sequence[Form],
    *,
    text: Callable[[Style], Iterable[str]],
    json: Callable[[], Any],
    csv: Callable[[], Iterable[Sequence[Any]]] = tuple,
    html: Callable[[], Iterable[str]] = tuple,
    markdown: Callable[[], Iterable[str]] = tuple,
    rows: int | None = None,
) -> None:
    """Write a result in each of ``forms``.

    ``text`` and ``markdown``: lines; ``json``: a value; ``csv``: rows, the header first; ``html``: pieces of a page.
    """

    def pieces(form: Form) -> Iterable[str | bytes]:
        if form.name == "text":
            return (f"{line}\n" for line in text(terminal.style_of(rows, form.target is None)))
        if form.name == "markdown":
            return (f"{line}\n" for line in markdown())
        if form.name == "json":
            return records.document(json())
        return map(records.row, csv()) if form.name == "csv" else html()

    files.put(forms, pieces)


def show(forms: Sequence[Form], table: Table[Any], most: int | None = None) -> None:
    """Write a table as text (its first ``most`` rows), CSV or JSON."""
    answer(forms, text=lambda style: table.text(style, most), json=table.document, csv=table.records)
