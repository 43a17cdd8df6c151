"""Tables of rows: each column is defined once, with its value for people and for machines.

A table becomes text, CSV, JSON, Markdown, or a table of a page.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from operator import itemgetter
from textwrap import wrap
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import Struct

from spillscan.output import markdown
from spillscan.output.nouns import of_number
from spillscan.output.records import compact, objects, plain
from spillscan.output.safe import clip
from spillscan.output.terminal import BOLD, Row, Style, fold, table

T = TypeVar("T")
_WIDEST_CELL = 72
"""Characters of a cell for people."""


class Line(NamedTuple):
    """A row of one text across all columns."""

    text: str
    color: str = BOLD


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
    spare: int = 0
    """Place in the order in which columns are omitted on a narrow terminal; 0: never; -1: moved below its row."""
    text: Callable[[T], Any] | None = None
    """Value for people, if it differs."""
    marked: Callable[[T], str] | None = None
    """Cell in Markdown, if it is more than the words of the text."""

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
        if self.marked is not None:
            return self.marked(row)
        cell = self.cell(row)
        return cell if cell in ("", "-") else markdown.words(cell)


class Table(Struct, Generic[T], frozen=True, kw_only=True, dict=True):
    """Rows and their columns."""

    columns: Sequence[Column[T]]
    rows: Sequence[T | Line]
    title: str = ""
    """Title above the table, for people."""
    notes: Sequence[str] = ()
    """Lines below the table, for people."""
    empty: str = ""
    """Text shown instead of a table without rows; if empty, the heads are shown."""
    hidden: int = 0
    """Number of rows that are not in the table."""
    counted: str = ""
    """Noun for rows that are not shown: ``change``."""
    remark: str = ""
    """Remark about rows that are not shown: ``, 2 errors among them``."""
    color: Callable[[T], str] = lambda _: ""
    """Color of a row on a terminal."""
    caption: bool = False
    """Whether columns that are equal in all rows are shown once, above the table."""

    @cached_property
    def shown(self) -> list[Column[T]]:
        """Columns for people; optional ones only if some row has a value."""
        shown = [column for column in self.columns if column.head is not None]
        rows = [row for row in self.rows if not isinstance(row, Line)]
        return [each for each in shown if not (each.spare and rows) or any(map(each.cell, rows))]

    @property
    def heads(self) -> list[str]:
        """Heads of the columns for people."""
        return [column.head or "" for column in self.shown]

    @property
    def left(self) -> list[str]:
        """Heads of the columns that contain words."""
        return [column.head or "" for column in self.shown if column.left]

    def cells(self, row: T | Line) -> list[str]:
        """Cells of a row for people."""
        return [row.text] if isinstance(row, Line) else [column.cell(row) for column in self.shown]

    def text(self, style: Style, most: int | None = None) -> Iterator[str]:
        """Lines for people, with the first ``most`` rows."""
        yield from wrap(self.title, style.width, break_long_words=False)
        if self.empty and not self.rows:
            yield f"  {self.empty}" if self.title else self.empty
            return
        rows = self.rows[:most]
        spare = sorted((column for column in self.shown if column.spare), key=lambda column: column.spare)
        yield from table(
            self.heads,
            list(map(self._printed, rows)),
            style,
            self.left,
            spare=[column.head or "" for column in spare],
            caption=self.caption,
            below=next((column.head or "" for column in spare if column.spare < 0), ""),
        )
        hidden = self.hidden + len(self.rows) - len(rows)
        noun = f" {of_number(hidden, self.counted)}" if self.counted else ""
        yield from fold(hidden, style, noun + self.remark)
        yield from self.notes

    def _printed(self, row: T | Line) -> Row:
        if isinstance(row, Line):
            return [row.text], row.color
        return [clip(cell, _WIDEST_CELL) for cell in self.cells(row)], self.color(row)

    def records(self) -> Iterator[Sequence[Any]]:
        """Records of CSV and Parquet, column names first."""
        columns = [column for column in self.columns if column.name is not None]
        yield [column.name for column in columns]
        yield from ([column.value(row) for column in columns] for row in self.rows if not isinstance(row, Line))

    def document(self) -> Iterator[dict[str, Any]]:
        """JSON objects, created on demand."""
        return objects(self.records())

    def markdown(self, most: int | None = None, most_bytes: int | None = None) -> Iterator[str]:
        """Section of Markdown, with the first ``most`` rows and at most ``most_bytes`` of them."""
        yield from (f"## {markdown.words(self.title)}", "") if self.title else ()
        if self.rows:
            rows = [self._marked(row) for row in self.rows[:most]]
            right = set(self.heads).difference(self.left)
            hidden = self.hidden + len(self.rows) - len(rows)
            yield from markdown.table(self.heads, rows, right, most_bytes, hidden, self.counted or "row", self.remark)
        else:
            yield markdown.words(self.empty)

    def _marked(self, row: T | Line) -> list[str]:
        if isinstance(row, Line):
            return [f"**{markdown.words(row.text)}**", *[""] * (len(self.shown) - 1)]
        return [column.markdown(row) for column in self.shown]


def of_rows(
    heads: Sequence[str],
    rows: Sequence[Sequence[Any]],
    left: Collection[str] = (),
    names: Sequence[str] | None = None,
    **more: Any,
) -> Table[Any]:
    """Table whose rows are the same for people and machines; ``names`` for machines are by default the ``heads``."""
    both = zip(heads, names or heads, strict=True)
    columns = [Column(head, name, itemgetter(at), head in left) for at, (head, name) in enumerate(both)]
    return Table(columns=columns, rows=rows, **more)
