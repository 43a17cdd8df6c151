"""Tables of rows: each column is defined once, with its value for people and for machines.

A table becomes text, CSV, JSON, Markdown, or a table of a page.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property, partial
from textwrap import wrap
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import Struct

from spillscan.output import markdown
from spillscan.output.records import compact, objects, plain
from spillscan.output.safe import clip
from spillscan.output.terminal import DIM, Cell, Row, Style, fold, hung, table

T = TypeVar("T")
_WIDEST_CELL, _LINES_BELOW = 72, 4
"""Characters of a cell for people; lines of that width for a cell shown below its row."""


class Column(NamedTuple, Generic[T]):
    """One column of a table."""

    head: str | None
    """Head for people; ``None`` if the column is only for machines."""
    name: str | None
    """Name in CSV and JSON; ``None`` if the column is only for people."""
    value: Callable[[T], Any]
    """Value of a row: a text, number, time or list; ``None`` if unknown."""
    left: bool = False
    """Whether it contains words, which are left-aligned."""
    spare: bool = False
    """Whether it may be omitted on a narrow terminal."""
    text: Callable[[T], Any] | None = None
    """Value for people, if it differs."""
    link: Callable[[T], str] | None = None
    """Link target in Markdown, a web address; empty for no link."""
    below: bool = False
    """Whether a terminal shows it below the row, on lines of its own."""

    def cell(self, row: T) -> str:
        """Cell for people: numbers with separators, ``-`` if unknown."""
        value = (self.text or self.value)(row)
        if not isinstance(value, str):
            value = plain(value)
        if isinstance(value, str):
            return value
        if value is None:
            return "-"
        return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else compact(value)

    def markdown(self, row: T) -> str:
        """Cell in Markdown."""
        address = self.link(row) if self.link is not None else ""
        cell = self.cell(row)
        return markdown.linked(cell if cell == "-" else markdown.words(cell), address)


class Table(Struct, Generic[T], frozen=True, kw_only=True, dict=True):
    """Rows and their columns."""

    columns: Sequence[Column[T]]
    rows: Sequence[T]
    title: str = ""
    """Title above the table, for people."""
    notes: Sequence[str] = ()
    """Lines below the table, for people."""
    empty: str = ""
    """Text shown instead of a table without rows; if empty, the heads are shown."""
    called: Callable[[T, int], str] | None = None
    """Name of a row's kernel in a given number of characters: the first column for people.

    Columns that are equal in all rows are then shown once, above the table.
    """
    counted: str = ""
    """Noun for rows that are not shown: ``changes``."""

    @cached_property
    def shown(self) -> list[Column[T]]:
        """Columns for people; optional ones only if some row has a value."""
        shown = [column for column in self.columns if column.head is not None]
        return [each for each in shown if not (each.spare and self.rows) or any(map(each.cell, self.rows))]

    @property
    def heads(self) -> list[str]:
        """Heads of the columns for people."""
        return [column.head or "" for column in self.shown]

    @property
    def left(self) -> list[str]:
        """Heads of the columns that contain words."""
        return [column.head or "" for column in self.shown if column.left]

    def cells(self, row: T) -> list[str]:
        """Cells of a row for people."""
        return [column.cell(row) for column in self.shown]

    def text(self, style: Style, most: int | None = None) -> Iterator[str]:
        """Lines for people, with the first ``most`` rows."""
        yield from wrap(self.title, style.width, break_long_words=False)
        if self.empty and not self.rows:
            yield f"  {self.empty}" if self.title else self.empty
            return
        rows = self.rows[:most]
        beside = [column for column in self.shown if not column.below]
        yield from table(
            [column.head or "" for column in beside],
            [line for row in rows for line in (self._fitting(row, beside), *self._below(row, style))],
            style,
            self.left,
            spare=[column.head or "" for column in beside if column.spare],
            caption=self.called is not None,
            words=self.left,
        )
        yield from fold(len(self.rows) - len(rows), style, f" {self.counted}" if self.counted else "")
        yield from self.notes

    def _fitting(self, row: T, columns: Sequence[Column[T]]) -> Row:
        cells: list[Cell] = [clip(column.cell(row), _WIDEST_CELL) for column in columns]
        return cells if self.called is None else [partial(self.called, row), *cells[1:]], ""

    def _below(self, row: T, style: Style) -> Iterator[Row]:
        for column in self.shown:
            if column.below and (cell := column.cell(row)):
                said = clip(cell, _LINES_BELOW * _WIDEST_CELL)
                yield from (([part], DIM) for part in hung([f"  {column.head}: {said}"], style, indent=4))

    def records(self) -> Iterator[Sequence[Any]]:
        """Records of CSV and Parquet, column names first."""
        columns = [column for column in self.columns if column.name is not None]
        yield [column.name for column in columns]
        yield from ([column.value(row) for column in columns] for row in self.rows)

    def document(self) -> Iterator[dict[str, Any]]:
        """JSON objects, created on demand."""
        return objects(self.records())

    def markdown(self, most: int | None) -> Iterator[str]:
        """Section of Markdown, with the first ``most`` rows."""
        yield from (f"## {markdown.words(self.title)}", "") if self.title else ()
        if self.rows:
            rows = self.rows[:most]
            cells = ([column.markdown(row) for column in self.shown] for row in rows)
            yield from markdown.table(self.heads, cells, [head for head in self.heads if head not in self.left])
            yield ""
            yield from map(markdown.words, fold(len(self.rows) - len(rows), Style()))
        else:
            yield markdown.words(self.empty)
        yield ""


def of_rows(
    heads: Sequence[str],
    rows: Sequence[Sequence[Any]],
    left: Collection[str] = (),
    names: Sequence[str] | None = None,
    **more: Any,
) -> Table[Any]:
    """Table whose rows are the same for people and machines; ``names`` for machines are by default the ``heads``."""
    both = zip(heads, names or heads, strict=True)
    columns = [Column(head, name, _cell_at(at), head in left) for at, (head, name) in enumerate(both)]
    return Table(columns=columns, rows=rows, **more)


def _cell_at(at: int) -> Callable[[Sequence[Any]], Any]:
    return lambda row: row[at]
