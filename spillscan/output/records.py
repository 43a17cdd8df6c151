"""Rows and documents as CSV and JSON: one writer of each, for every command."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, AnyStr

from spillscan.output.safe import printable

_FORMULA_STARTS = tuple("=+-@＝＋－＠")
_COMPACT = (",", ":")


def row(values: Sequence[Any]) -> str:
    """One record of RFC 4180. Cells that a spreadsheet would run begin with a quote, and characters that are no text
    are replaced; lists and objects are JSON."""
    return rows([values])


def rows(records: Iterable[Sequence[Any]]) -> str:
    """Several records of RFC 4180, each as :func:`row` writes it."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerows(map(_cell, values) for values in records)
    return buffer.getvalue()


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, int | float):
        return value
    text = printable(value if isinstance(value, str) else compact(value) if _nested(value) else str(value))
    return "'" + text if text.lstrip().startswith(_FORMULA_STARTS) else text


def array(items: Iterable[str], indent: str = "  ") -> Iterator[str]:
    """JSON texts as an array, one a line."""
    yield "["
    separator = f"\n{indent}"
    for item in items:
        yield separator + harmless(item)
        separator = f",\n{indent}"
    yield f"\n{indent[:-2]}]" if separator[0] == "," else "]"


def document(value: Any) -> Iterator[str]:
    """JSON text: an object over several lines, an array one item a line."""
    if isinstance(value, list):
        yield from array(map(compact, value))
    else:
        yield harmless(json.dumps(plain(value), indent=1, allow_nan=False))
    yield "\n"


def objects(records: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
    """Records, the heads first, as objects of JSON; what several columns are called has a number."""
    heads, *values = records
    names = [f"{name}_{heads[:at].count(name) + 1}" if name in heads[:at] else name for at, name in enumerate(heads)]
    return [dict(zip(names, row, strict=True)) for row in values]


def compact(value: Any) -> str:
    """JSON text in one line."""
    return json.dumps(plain(value), allow_nan=False, separators=_COMPACT)


def harmless(text: AnyStr) -> AnyStr:
    """JSON that means the same and holds no ``##[command]``, which GitHub's runner obeys anywhere in a line that a step
    prints. Outside of strings JSON has no ``#``."""
    if isinstance(text, bytes):
        return text.replace(b"##", b"#\\u0023") if _holds_two(text) else text
    return text.replace("##", "#\\u0023") if "#" in text else text


def _holds_two(text: bytes) -> bool:
    """Whether ``##`` stands in it: one sign is found in a tenth of the time that two take, and there are few."""
    at = text.find(b"#")
    while at >= 0 and not text.startswith(b"#", at + 1):
        at = text.find(b"#", at + 1)
    return at >= 0


def plain(value: Any) -> Any:
    """``value`` as JSON has it: moments as ISO 8601, what is no number as null."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if _nested(value):
        return [plain(each) for each in value]
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _nested(value: Any) -> bool:
    return isinstance(value, list | tuple | Mapping)
