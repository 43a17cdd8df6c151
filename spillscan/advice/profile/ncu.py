"""Tables of Nsight Compute as launches.

ncu writes its table, the raw page (a row a launch) or a long form (a row a figure), to the stream that the profiled
program writes to. A table begins with the names of its columns; what begins with a quoted number is a row of it, or the
input is damaged; all other lines are the program's own or messages of ncu (``==PROF==``), and are passed over. A
program for tables may have written the file again: with other separators, without quotes.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from spillscan.advice.profile.model import (
    METRICS,
    Measured,
    MetricName,
    NotANumberError,
    Profile,
    ProfiledLaunch,
    decimals,
    factor,
    number,
)
from spillscan.model import Issue, Origin
from spillscan.output.errors import InputError
from spillscan.output.nouns import count
from spillscan.output.safe import clip, printable
from spillscan.reading.inputs.source import Stream

# ---- rows ------------------------------------------------------------------------------------------------------------


AGAIN = "export the profile again: ncu -i REPORT --csv --page raw --print-units base"
_HEADER = b'"ID","'
_ROW = re.compile(rb'"\d*",')
_REWRITTEN_HEADER = re.compile(rb'"?ID"?([,;\t])(?=.*\bKernel Name\b)')
_REWRITTEN_ROW = re.compile(rb'"?\d*"?[,;\t]')
_INNER_ROW = re.compile(rb'"\d+","')
_MOST_TRIED = 4
_MOST_JOINED_LINES = 256
_LONGEST_COMPLAINT = 300


@dataclass(frozen=True, slots=True)
class TableRow:
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


def rows(stream: Stream, name: str, around: Around) -> Iterator[TableRow]:
    """Every row of every table, the row of units included; :class:`InputError` where one is damaged."""
    columns: tuple[str, ...] = ()
    separator, a_row = ",", _ROW
    for at, line in _logical_lines(stream, name):
        if header := _header(line):
            columns, separator, a_row = tuple(_cells(header, name, at)), ",", _ROW
            around.tables += 1
        elif rewritten := _REWRITTEN_HEADER.match(line):
            separator, a_row = rewritten[1].decode(), _REWRITTEN_ROW
            columns = tuple(_cells(line, name, at, separator))
            around.tables += 1
        elif columns and a_row.match(line):
            yield TableRow(at, columns, _cells(line, name, at, separator))
        elif columns and (cells := _behind(line, columns)):
            yield TableRow(at, columns, cells)
        elif line.startswith(b"==ERROR=="):
            text = printable(line[9:].decode(errors="replace").strip(), _LONGEST_COMPLAINT)
            around.complaints.append(
                Issue(
                    code="profiler-error",
                    message=f"Nsight Compute says: {text}",
                    severity="error",
                    origin=Origin(input=name, line=at, format="ncu"),
                )
            )


def _logical_lines(stream: Stream, name: str) -> Iterator[tuple[int, bytes]]:
    """(number, line) without line ends; lines of a table are joined while a quoted cell is open (a rule's text may
    have several)."""
    pending: list[bytes] = []
    begin = quotes = 0
    for at, line in enumerate(_lines(stream), 1):
        if pending:
            pending.append(line)
            quotes += line.count(b'"')
            if quotes % 2 == 0:
                yield begin, b"\n".join(pending)
                pending = []
            elif len(pending) > _MOST_JOINED_LINES:
                break
        elif line.startswith(b'"') and line.count(b'"') % 2 and (_ROW.match(line) or line.startswith(_HEADER)):
            pending, begin, quotes = [line], at, line.count(b'"')
        else:
            yield at, line
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


def _cells(line: bytes, name: str, number: int, separator: str = ",") -> list[str]:
    try:
        text = line.decode()
        return next(csv.reader([text], strict=True, delimiter=separator))
    except (UnicodeDecodeError, csv.Error) as error:
        why = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise InputError(f"{name}:{number}: this row of the table cannot be read: {why}", AGAIN) from None


# ---- the two shapes of tables ----------------------------------------------------------------------------------------


IDENTITY = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
    "Device", "CC",
)  # fmt: skip
"""Columns that say which launch a row is about."""
_LONG = ("Metric Name", "Metric Unit", "Metric Value")


class Shape:
    """How rows of one table are read."""

    def __init__(self, columns: tuple[str, ...], name: str, line: int) -> None:
        self.columns = columns
        self._name = name
        self._places = {column: place for place, column in enumerate(columns)}
        for needed in ("ID", "Kernel Name"):
            if needed not in self._places:
                raise InputError(f"{name}:{line}: the table has no column {needed!r}", AGAIN)
        self.wide = "Metric Name" not in self._places
        self._identity = [(column, self._places.get(column)) for column in IDENTITY]
        self._units: list[str] | None = None
        self._wanted: list[tuple[MetricName, int, str]] = []
        if self.wide:
            self._wanted = [
                (METRICS[column], place, column)
                for column, place in self._places.items()
                if column in METRICS and column not in IDENTITY
            ]
        else:
            missing = [column for column in _LONG if column not in self._places]
            if missing:
                raise InputError(f"{name}:{line}: the table has no column {missing[0]!r}", AGAIN)
            self._least = 1 + max(self._places[column] for column in (*_LONG, *IDENTITY) if column in self._places)

    def takes_units(self, row: TableRow) -> bool:
        """Take the row of units that stands below the names of a raw page's columns; ``True`` where ``row`` is it."""
        if not self.wide or self._units is not None:
            return False
        if row.cells[0]:
            raise InputError(f"{self._name}:{row.line}: the row of units is missing", AGAIN)
        self._check(row, len(self.columns))
        self._units = row.cells
        return True

    def identity(self, row: TableRow) -> dict[str, str]:
        """Which launch ``row`` is about: every column of ``IDENTITY``, empty where the table lacks it."""
        self._check(row, len(self.columns) if self.wide else self._least)
        return {column: "" if place is None else row.cells[place] for column, place in self._identity}

    def named(self, row: TableRow) -> str:
        """Which figure a row of a long table is about; empty for rules, and in a raw page."""
        return "" if self.wide else row.cells[self._places["Metric Name"]]

    def figures(self, row: TableRow) -> Iterator[tuple[MetricName, str, str, str]]:
        """(metric, printed value, unit, printed name) of each figure of the row that is read at all."""
        if self._units is not None:
            for metric, place, column in self._wanted:
                yield metric, row.cells[place], self._units[place], column
            return
        printed_as, unit, value = (row.cells[self._places[column]] for column in _LONG)
        if printed_as in METRICS:
            yield METRICS[printed_as], value, unit, printed_as

    def _check(self, row: TableRow, least: int) -> None:
        if not least <= len(row.cells) <= len(self.columns):
            where = f"{self._name}:{row.line}"
            wanted = f"{len(self.columns)}" if least == len(self.columns) else f"{least} to {len(self.columns)}"
            raise InputError(f"{where}: this row of the table has {count(len(row.cells), 'cell')}, not {wanted}", AGAIN)
        if not row.cells[0].isdigit() and self._units is not None:
            raise InputError(f"{self._name}:{row.line}: this row of the table has no ID", AGAIN)


# ---- launches --------------------------------------------------------------------------------------------------------


_DIMENSIONS = re.compile(r"\(?(\d{1,10})(?:, ?| ?x ?)(\d{1,10})(?:, ?| ?x ?)(\d{1,10})\)?")
_CAPABILITY = re.compile(r"(\d{1,3})\.(\d{1,3})")
_COUNTED = frozenset({"count", "bytes"})
_FRACTIONAL = frozenset(
    {"instructions", "spill_instructions", "local_load_instructions", "local_store_instructions"}
    | {f"{space}_{way}_bytes" for space in ("local", "global") for way in ("load", "store")}
)
"""Counts that are sums over the GPU, so large that they are kept as they are scaled."""


def read(stream: Stream, name: str) -> Profile:
    """The launches of one input, in order; none where it holds no table. :class:`InputError` where it is damaged."""
    around = Around()
    drafts: dict[tuple[str, ...], _Draft] = {}
    shape: Shape | None = None
    for row in rows(stream, called(name), around):
        if shape is None or row.columns is not shape.columns:
            shape = Shape(row.columns, called(name), row.line)
        if shape.takes_units(row):
            continue
        identity = shape.identity(row)
        if not identity["Kernel Name"]:
            raise InputError(f"{called(name)}:{row.line}: this row of the table names no kernel", AGAIN)
        key = (f"{row.line}" if shape.wide else f"table {around.tables}", *identity.values())
        draft = drafts.setdefault(key, _Draft(row.line, identity))
        if named := shape.named(row):
            draft.named.append(named)
        for metric, text, unit, printed_as in shape.figures(row):
            draft.take(metric, text, unit, printed_as, f"{called(name)}:{row.line}")
    _check_end(list(drafts.values()), called(name))
    return Profile(launches=tuple(draft.launch(name) for draft in drafts.values()), issues=tuple(around.complaints))


def _check_end(drafts: Sequence[_Draft], name: str) -> None:
    """ncu prints the same figures of each launch, in one order: the last of a long table has all that one before it
    has, or the table was cut at the end of a row."""
    if len(drafts) < 2:
        return
    last = drafts[-1].named
    whole = next((draft.named for draft in drafts[:-1] if len(draft.named) > len(last) > 0), None)
    if whole is not None and whole[: len(last)] == last:
        message = f"the last launch has {count(len(last), 'figure')}, one before it {len(whole)}: the file is cut off"
        raise InputError(f"{name}:{drafts[-1].line}: {message}", AGAIN)


@dataclass(slots=True)
class _Draft:
    """A launch whose figures come one by one."""

    line: int
    identity: Mapping[str, str]
    figures: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Field -> (rank of the name it was printed under, value)."""
    rounded: set[str] = field(default_factory=set)
    named: list[str] = field(default_factory=list)
    """Names of the figures in a long table, in its order, whether they are read or not."""

    def take(self, metric: MetricName, text: str, unit: str, printed_as: str, where: str) -> None:
        scaled = factor(unit, metric.kind)
        if scaled is None:
            if (
                unit and printed_as in _AMBIGUOUS
            ):  # another figure under the same label: Memory Throughput in byte/second
                return
            what = f"{printable(printed_as, 80)} is in {printable(unit, 40)!r}" if unit else f"{printed_as} has no unit"
            raise InputError(f"{where}: {what}, which this release cannot convert", AGAIN)
        if metric.figure in self.figures and self.figures[metric.figure][0] <= metric.rank:
            return
        try:
            value = number(text.strip())
        except NotANumberError as error:
            hint = "run ncu in the C locale (LC_ALL=C)" if "language" in str(error) else AGAIN
            raise InputError(f"{where}: {printed_as}: {printable(clip(str(error), 120))}", hint) from None
        if value is None:
            return
        self.figures[metric.figure] = (metric.rank, value * scaled * metric.scale)
        self.rounded.discard(metric.figure)
        if metric.kind in _COUNTED and value and scaled > 10 ** decimals(text):
            self.rounded.add(metric.figure)

    def launch(self, name: str) -> ProfiledLaunch:
        known: dict[str, Any] = {}
        for figure, (_, value) in self.figures.items():
            whole = METRIC_KINDS[figure] in _COUNTED and figure not in _FRACTIONAL
            known[figure] = round(value) if whole else value
        measured = Measured(known, frozenset(self.rounded))
        identity = self.identity
        process = identity["Process ID"]
        if identity["Process Name"]:
            process = f"{process} ({identity['Process Name']})" if process else identity["Process Name"]
        return ProfiledLaunch(
            number=identity["ID"],
            kernel=identity["Kernel Name"],
            process=process,
            context=identity["Context"],
            stream=identity["Stream"],
            device=identity["Device"],
            block=_dimensions(identity["Block Size"]),
            grid=_dimensions(identity["Grid Size"]),
            capability=_capability(identity["CC"], measured),
            measured=measured,
            origin=Origin(input=name, line=self.line, format="ncu"),
        )


METRIC_KINDS = {metric.figure: metric.kind for metric in METRICS.values()}
_AMBIGUOUS = frozenset(name for name, metric in METRICS.items() if metric.kind == "percent")


def _dimensions(text: str) -> tuple[int, ...] | None:
    found = _DIMENSIONS.fullmatch(text.replace(",", ", ").replace(",  ", ", ").strip())
    return tuple(map(int, found.groups())) if found else None


def _capability(text: str, measured: Measured) -> tuple[int, int] | None:
    found = _CAPABILITY.fullmatch(text)
    if found:
        return int(found[1]), int(found[2])
    major, minor = measured.figure("capability_major"), measured.figure("capability_minor")
    return None if major is None or minor is None else (major, minor)


def called(name: str) -> str:
    """What an input is called in complaints."""
    return "standard input" if name == "-" else name
