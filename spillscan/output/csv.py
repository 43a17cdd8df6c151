"""CSV text, a row at a time."""

from __future__ import annotations

import csv
import io
from typing import Any

from spillscan.output.safe import printable

_FORMULA_STARTS = tuple("=+-@＝＋－＠")


def row(values: tuple[Any, ...]) -> str:
    """One record of RFC 4180. Cells that a spreadsheet would run begin with a quote, and characters that are no text
    are replaced."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerow([_cell(value) for value in values])
    return buffer.getvalue()


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = printable(value)
    return "'" + text if text.lstrip().startswith(_FORMULA_STARTS) else text
