"""Page of a dataset: the tables of ``spillscan history`` in one file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spillscan.output.safe import clip
from spillscan.reports.page.document import STATIC, document, head
from spillscan.reports.table import Table

_LONGEST_CELL = 300


def history_document(
    title: str, tables: Mapping[str, Table[Any]], folded: Mapping[str, Table[Any]], summary: Sequence[str]
) -> Iterator[str]:
    """Yield the page in pieces: a summary, tables, and folded tables."""
    listed = [(each, False) for each in tables.values()] + [(each, True) for each in folded.values()]
    payload = {
        **head(title, "history", {"history": "History"}),
        "summary": summary,
        "tables": [
            {
                "title": each.title or "Regressions",
                "heads": each.heads,
                "words": [name in each.left for name in each.heads],
                "rows": [[clip(cell, _LONGEST_CELL) for cell in each.cells(row)] for row in each.rows],
                "folded": closed,
            }
            for each, closed in listed
        ],
    }
    lines = (line for each, _ in listed if each.rows for line in ("", *each.text(STATIC, STATIC.rows)))
    yield from document(title, payload, ("history",), (*summary, *lines))
