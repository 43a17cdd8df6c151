"""The two shapes of Nsight Compute's tables: a row a launch with a row of units, or a row a figure."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.errors import InputError
from spillscan.profile.metrics import METRICS, Metric
from spillscan.profile.table import AGAIN, Row

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
        self._wanted: list[tuple[Metric, int, str]] = []
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

    def takes_units(self, row: Row) -> bool:
        """Take the row of units that stands below the names of a raw page's columns; ``True`` where ``row`` is it."""
        if not self.wide or self._units is not None:
            return False
        if row.cells[0]:
            raise InputError(f"{self._name}:{row.line}: the row of units is missing", AGAIN)
        self._check(row, len(self.columns))
        self._units = row.cells
        return True

    def identity(self, row: Row) -> dict[str, str]:
        """Which launch ``row`` is about: every column of ``IDENTITY``, empty where the table lacks it."""
        self._check(row, len(self.columns) if self.wide else self._least)
        return {column: "" if place is None else row.cells[place] for column, place in self._identity}

    def figures(self, row: Row) -> Iterator[tuple[Metric, str, str, str]]:
        """(metric, printed value, unit, printed name) of each figure of the row that is read at all."""
        if self._units is not None:
            for metric, place, column in self._wanted:
                yield metric, row.cells[place], self._units[place], column
            return
        told_as, unit, value = (row.cells[self._places[column]] for column in _LONG)
        if told_as in METRICS:
            yield METRICS[told_as], value, unit, told_as

    def _check(self, row: Row, least: int) -> None:
        if not least <= len(row.cells) <= len(self.columns):
            where = f"{self._name}:{row.line}"
            wanted = f"{len(self.columns)}" if least == len(self.columns) else f"{least} to {len(self.columns)}"
            raise InputError(f"{where}: this row of the table has {len(row.cells)} cells, not {wanted}", AGAIN)
        if not row.cells[0].isdigit() and self._units is not None:
            raise InputError(f"{self._name}:{row.line}: this row of the table has no ID", AGAIN)
