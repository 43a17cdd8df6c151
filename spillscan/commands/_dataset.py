"""Which dataset, and how answers are printed: shared by the commands that ask one."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from spillscan.commands import _common
from spillscan.output.safe import clip

if TYPE_CHECKING:
    from spillscan.dataset.builds import KeptBuild
    from spillscan.dataset.reading import Dataset

VARIABLE = "SPILLSCAN_DATASET"
DEFAULT = "spillscan-data"
_WIDEST_CELL = 72
"""Characters of a cell for people."""


def add_dataset(parser: argparse.ArgumentParser) -> None:
    """-d."""
    parser.add_argument(
        "-d",
        "--dataset",
        metavar="PLACE",
        help=f"folder or URL (s3://bucket/path) of the dataset (default: ${VARIABLE}, else {DEFAULT})",
    )


def add_format(parser: argparse.ArgumentParser) -> None:
    """-f."""
    parser.add_argument(
        "-f", "--format", choices=("text", "json", "csv"), default="text", help="output format (default: text)"
    )


def add_order(parser: argparse.ArgumentParser) -> None:
    """--order."""
    parser.add_argument(
        "--order",
        metavar="KEY",
        help="order builds by this word of their meta (default: by its time, else by when they were appended)",
    )


def root_of(arguments: argparse.Namespace) -> str:
    """Where the dataset is."""
    root: str = arguments.dataset or os.environ.get(VARIABLE) or DEFAULT
    return root


def dataset_of(arguments: argparse.Namespace) -> Dataset:
    """The dataset that was asked for."""
    from spillscan.dataset import open_dataset
    from spillscan.dataset.extra import without_pandas

    with without_pandas():
        return open_dataset(root_of(arguments))


def builds_of(dataset: Dataset, arguments: argparse.Namespace) -> tuple[KeptBuild, ...]:
    """Its builds in the order asked for."""
    from spillscan.dataset.builds import ordered

    return ordered(dataset.builds, arguments.order)


def width() -> int:
    """Columns of the terminal."""
    from spillscan.reports.render import style_of

    return style_of(None).width


def show(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], form: str, left: Collection[str] = (), more: str = ""
) -> None:
    """Print rows: as a table for people, as CSV, or as a JSON array of objects, one a line.

    ``left`` columns are aligned to the left; ``more`` is a last line for people.
    """
    if form == "text":
        from spillscan.output.table import table
        from spillscan.reports.render import style_of

        cells = [([clip(_text(value), _WIDEST_CELL) for value in row], "") for row in rows]
        lines = table(columns, cells, style_of(None), left)
        _common.say("\n".join([*lines, *([more] if more else [])]))
    elif form == "csv":
        from spillscan.output.csv import row as csv_row

        sys.stdout.write("".join([csv_row(tuple(columns)), *(csv_row(tuple(map(_cell, row))) for row in rows)]))
    else:
        from spillscan.output.json import array

        names = [_once(columns, at) for at in range(len(columns))]
        texts = (_json(dict(zip(names, row, strict=True))) for row in rows)
        sys.stdout.write("".join(array(texts)) + "\n")


def _once(columns: Sequence[str], at: int) -> str:
    """The name of a column; of two equal ones the second gets a number."""
    before = columns[:at].count(columns[at])
    return f"{columns[at]}_{before + 1}" if before else columns[at]


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else _json(value) if isinstance(value, list | dict | tuple) else str(value)


def _cell(value: Any) -> Any:
    return _json(value) if isinstance(value, list | dict | tuple) else value if _plain(value) else str(value)


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def _json(value: Any) -> str:
    import json

    return json.dumps(_known(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _known(value: Any) -> Any:
    """``value`` as JSON has it: moments as ISO 8601, what is no number as null."""
    if isinstance(value, dict):
        return {str(key): _known(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_known(each) for each in value]
    if isinstance(value, float):
        return value if value - value == 0 else None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return value if _plain(value) else str(value)
