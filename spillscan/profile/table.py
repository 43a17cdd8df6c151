"""The tables in what ``ncu --csv`` writes: rows of cells, whatever stands around them.

ncu writes its table to the stream that the profiled program writes to. A table begins with the names of its columns;
what begins with a quoted number is a row of it, or the input is damaged; all other lines are the program's own or
messages of ncu (``==PROF==``), and are passed over.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

from spillscan.errors import InputError
from spillscan.inputs.source import Stream
from spillscan.model import Issue, Origin
from spillscan.output.safe import printable

AGAIN = "export the profile again: ncu -i REPORT --csv --page raw --print-units base"
_HEADER = b'"ID","'
_ROW = re.compile(rb'"\d*",')
_INNER_ROW = re.compile(rb'"\d+","')
_MOST_TRIED = 4
_MOST_JOINED_LINES = 256
_LONGEST_COMPLAINT = 300


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table."""

    line: int
    """1-based line of the input on which it begins."""
    columns: tuple[str, ...]
    """Names of the table's columns; the same object for all its rows."""
    cells: list[str]
    """As many as columns, or fewer in long tables."""


@dataclass(slots=True)
class Around:
    """What stood around the tables."""

    complaints: list[Issue] = field(default_factory=list)
    """Errors that ncu printed."""
    tables: int = 0
    """Tables seen."""


def rows(stream: Stream, name: str, around: Around) -> Iterator[Row]:
    """Every row of every table, the row of units included; :class:`InputError` where one is damaged."""
    columns: tuple[str, ...] = ()
    for number, line in _logical_lines(stream, name):
        if header := _header(line):
            columns = tuple(_cells(header, name, number))
            around.tables += 1
        elif columns and _ROW.match(line):
            yield Row(number, columns, _cells(line, name, number))
        elif columns and (cells := _behind(line, columns)):
            yield Row(number, columns, cells)
        elif line.startswith(b"==ERROR=="):
            text = printable(line[9:].decode(errors="replace").strip(), _LONGEST_COMPLAINT)
            around.complaints.append(
                Issue(
                    code="profiler-error",
                    message=f"Nsight Compute says: {text}",
                    severity="error",
                    origin=Origin(input=name, line=number, format="ncu"),
                )
            )


def _logical_lines(stream: Stream, name: str) -> Iterator[tuple[int, bytes]]:
    """(number, line) without line ends; lines of a table are joined while a quoted cell is open (a rule's text may
    have several)."""
    pending: list[bytes] = []
    begin = quotes = 0
    for number, line in enumerate(_lines(stream), 1):
        if pending:
            pending.append(line)
            quotes += line.count(b'"')
            if quotes % 2 == 0:
                yield begin, b"\n".join(pending)
                pending = []
            elif len(pending) > _MOST_JOINED_LINES:
                break
        elif line.startswith(b'"') and line.count(b'"') % 2 and (_ROW.match(line) or line.startswith(_HEADER)):
            pending, begin, quotes = [line], number, line.count(b'"')
        else:
            yield number, line
    if pending:
        raise InputError(f"{name}:{begin}: a quoted cell of the table is not closed: the file is cut off", AGAIN)


def _header(line: bytes) -> bytes | None:
    """The names of columns in ``line``, before which the program may have left a line of its own unended."""
    begin = line.find(_HEADER)
    return line[begin:] if begin == 0 or (begin > 0 and b'","Kernel Name","' in line[begin:]) else None


def _behind(line: bytes, columns: tuple[str, ...]) -> list[str] | None:
    """The cells of a row before which the program left a line of its own unended; ``None`` where there is none."""
    least = columns.index("Metric Value") + 1 if "Metric Value" in columns else len(columns)
    for begin in islice(_INNER_ROW.finditer(line), _MOST_TRIED):
        with suppress(UnicodeDecodeError, csv.Error):
            cells = next(csv.reader([line[begin.start() :].decode()], strict=True))
            if least <= len(cells) <= len(columns):
                return cells
    return None


def _lines(stream: Stream) -> Iterator[bytes]:
    for block in stream.lines():
        yield from (line.removesuffix(b"\r") for line in block.removesuffix(b"\n").split(b"\n"))


def _cells(line: bytes, name: str, number: int) -> list[str]:
    try:
        text = line.decode()
        return next(csv.reader([text], strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        why = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise InputError(f"{name}:{number}: this row of the table cannot be read: {why}", AGAIN) from None
