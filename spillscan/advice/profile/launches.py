"""Launches in CSV of Nsight Compute: the raw page (one row per launch) or the details page (one row per metric).

ncu writes its table to the stream that the profiled program writes to. The header begins with ``"ID"`` and a row with a
quoted number; lines without either are the program's or messages of ncu (``==PROF==``) and are skipped. A row that is
damaged is an error: a launch that is lost silently would change the ranking.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import prod
from typing import NoReturn

from msgspec import Struct, field
from msgspec.structs import replace

from spillscan.model import Issue, Launch, Origin
from spillscan.occupancy.launches import launch as launch_of
from spillscan.output.errors import InputError
from spillscan.output.nouns import count
from spillscan.output.safe import printable
from spillscan.reading.inputs.source import Source, Stream

_NAMES = """
registers            count   launch__registers_per_thread | Registers Per Thread
dynamic_shared_bytes bytes   launch__shared_mem_per_block_dynamic | Dynamic Shared Memory Per Block
cluster_blocks       count   launch__cluster_size | Cluster Size
duration_ns          time    gpu__time_duration.sum | gpu__time_duration.avg | Duration
instructions         count   smsp__inst_executed.sum | inst_executed | Executed Instructions
spill_instructions   count   sass__inst_executed_register_spilling | derived__local_spilling_requests \
| Local Memory Spilling Requests
"""
"""Metric, its kind, and its names on the pages of Nsight Compute 2020.1 to 2025.3, best first."""
_ROWS = [line.split(maxsplit=2) for line in _NAMES.strip().splitlines()]
METRICS = {name: kind for name, kind, _ in _ROWS}
_PRINTED = {each: (name, rank) for name, _, names in _ROWS for rank, each in enumerate(names.split(" | "))}
_WHOLE = ("registers", "dynamic_shared_bytes", "cluster_blocks")

_NUMBER = re.compile(r"(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(?: [({].*)?", re.DOTALL)  # instances follow in parentheses
_ABSENT = ("", "no data", "n/a", "(!) n/a", "nan", "-nan", "inf", "-inf")
_SCALES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_UNITS = {
    "count": re.compile(r"([kKMGT]?)(?:inst|block|request|register/thread)?"),
    "bytes": re.compile(r"([kKMGT]?)byte(?:/block)?"),
    "time": re.compile(r"([num]?s)(?:ec|econd)?"),
}

_START = re.compile(r'"(?:ID|\d*)",')
_BLOCK = re.compile(r"\(?(\d{1,10})(?:, ?| ?x ?)(\d{1,10})(?:, ?| ?x ?)(\d{1,10})\)?")
_CAPABILITY = re.compile(r"(\d{1,3})\.(\d{1,3})")
_IDENTITY = ("ID", "Process ID", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device", "CC")
_WIDE = ("ID", "Kernel Name")
_LONG = (*_WIDE, "Metric Name", "Metric Unit", "Metric Value")
_AGAIN = "export the profile: ncu -i REPORT --csv --page raw --print-units base > profile.csv"
_MAKE = "create a profile: ncu --csv --page raw --set full PROGRAM > profile.csv"


_Field = tuple[str, str, str, int]
"""(name, value, unit, line number) of a metric."""


class ProfiledLaunch(Struct, frozen=True, kw_only=True):
    """One launch of one kernel, as Nsight Compute printed it."""

    kernel: str
    """Mangled, demangled by NVIDIA, or the bare function name."""
    number: str = ""
    """Nsight Compute's ID of the launch, per process."""
    arch: str | None = None
    """Target of the device, such as ``sm_90``."""
    block: tuple[int, ...] | None = None
    """Threads per block by dimension."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Values of ``METRICS`` in base units, without those that are missing or were rounded to fewer bytes."""
    origin: Origin

    @property
    def threads(self) -> int | None:
        """Threads per block."""
        return None if self.block is None else prod(self.block)

    @property
    def spill_share(self) -> float | None:
        """Spill instructions as a share of all executed instructions, 0 to 1."""
        spills, every = self.metrics.get("spill_instructions"), self.metrics.get("instructions")
        return None if spills is None or not every else spills / every

    @property
    def launch(self) -> Launch | None:
        """Launch as written in a policy; ``None`` if block size or dynamic shared memory is unknown."""
        dynamic = self.metrics.get("dynamic_shared_bytes")
        if self.threads is None or dynamic is None:
            return None
        blocks = int(self.metrics.get("cluster_blocks") or 1)
        return launch_of(threads_per_block=self.threads, dynamic_shared_bytes=int(dynamic), cluster_blocks=blocks)


def read_profiles(sources: Sequence[Source]) -> tuple[list[ProfiledLaunch], list[Issue]]:
    """Launches of all inputs in order, and the errors that ncu printed."""
    launches: list[ProfiledLaunch] = []
    errors: list[Issue] = []
    for source in sources:
        called = "standard input" if source.uri == "-" else source.uri
        with source.open() as stream:
            own = read(stream, called, errors)
        if not own and source.explicit:
            how = _AGAIN.replace("REPORT", printable(called)) if called.endswith(".ncu-rep") else _MAKE
            raise InputError(f"no launch in {called}{f': {errors[0].message}' if errors else ''}", how)
        launches += own
    if not launches:
        raise InputError("no Nsight Compute launch in these inputs", _MAKE)
    return launches, errors


def read(stream: Stream, called: str, errors: list[Issue]) -> list[ProfiledLaunch]:
    """Launches of one input. Raises InputError if a table is damaged; adds errors that ncu printed to ``errors``."""
    rows: dict[tuple[str, ...], tuple[dict[str, str], Origin, list[_Field]]] = {}
    columns: list[str] = []
    units: dict[str, str] = {}
    tables, least, by_metric = 0, 0, False
    for at, cells in _rows(stream, called, errors):
        origin = Origin(input=called, line=at, format="ncu")
        if cells[0] == "ID":
            columns, units, tables, by_metric = cells, {}, tables + 1, "Metric Name" in cells
            needed = _LONG if by_metric else _WIDE
            if missing := next((column for column in needed if column not in cells), None):
                _damaged(origin, f"the table has no column {missing!r}")
            least = 1 + max(map(cells.index, needed)) if by_metric else len(cells)
            continue
        if not least <= len(cells) <= len(columns):
            _damaged(origin, f"this row has {count(len(cells), 'cell')}, not {len(columns)}")
        row = dict(zip(columns, cells, strict=False))
        if not units and not by_metric:
            if row["ID"]:
                _damaged(origin, "the row of units is missing")
            units = row
            continue
        if not (row["ID"] and row["Kernel Name"]):
            _damaged(origin, "this row has no kernel name or no ID")
        key = (str(tables), "" if by_metric else str(at), *(row.get(column, "") for column in _IDENTITY))
        fields = rows.setdefault(key, (row, origin, []))[2]
        if by_metric and row["Metric Name"]:  # else what a rule of ncu says
            fields.append((row["Metric Name"], row["Metric Value"], row["Metric Unit"], at))
        elif not by_metric:
            fields += [(name, row[name], units[name], at) for name in columns if name in _PRINTED]
    names = [[name for name, *_ in fields] for _, _, fields in rows.values()]
    if any(len(each) > len(names[-1]) and each[: len(names[-1])] == names[-1] for each in names):
        _, origin, _ = [*rows.values()][-1]
        _damaged(origin, "the last launch has fewer metrics than the others: the file is truncated")
    return [_launch(*each) for each in rows.values()]


def _rows(stream: Stream, called: str, errors: list[Issue]) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells) of each row, headers included; program output without line end may precede it."""
    blocks = (block.removesuffix(b"\n").split(b"\n") for block in stream.lines())
    lines = enumerate((line.removesuffix(b"\r").decode(errors="replace") for block in blocks for line in block), 1)
    begun = False
    for at, line in lines:
        start, origin = _START.search(line), Origin(input=called, line=at, format="ncu")
        if start is not None and (begun or start[0] == '"ID",'):
            begun, following = True, (more for _, more in lines)  # a cell may contain line breaks
            try:
                yield at, next(csv.reader(chain([line[start.start() :]], following), strict=True))
            except csv.Error as error:
                _damaged(origin, f"this row cannot be read: {error}")
        elif line.startswith("==ERROR=="):
            message = f"Nsight Compute reports: {printable(line[9:].strip(), 300)}"
            errors.append(Issue(code="profiler-error", message=message, severity="error", origin=origin))


def _launch(row: Mapping[str, str], origin: Origin, fields: Sequence[_Field]) -> ProfiledLaunch:
    """Launch of a row, with the best-named value of each metric."""
    best: dict[str, tuple[int, float | None]] = {}
    for name, text, unit, at in fields:
        metric, rank = _PRINTED.get(name, ("", 0))
        if metric and text.strip() not in _ABSENT and best.get(metric, (rank + 1,))[0] > rank:
            best[metric] = rank, _value(metric, text, unit, replace(origin, line=at))
    capability = _CAPABILITY.fullmatch(row.get("CC", ""))
    block = _BLOCK.fullmatch(row.get("Block Size", "").strip())
    return ProfiledLaunch(
        kernel=row["Kernel Name"],
        number=row["ID"],
        arch=f"sm_{capability[1]}{capability[2]}" if capability else None,
        block=tuple(map(int, block.groups())) if block else None,
        metrics={name: value for name, (_, value) in best.items() if value is not None},
        origin=origin,
    )


def _value(metric: str, text: str, unit: str, origin: Origin) -> float | None:
    """Value in base units; ``None`` if a whole number was rounded."""
    unit_match, number = _UNITS[METRICS[metric]].fullmatch(unit), _NUMBER.fullmatch(text.strip())
    if unit_match is None or number is None:
        what = "is not a number" if unit_match else f"has the unknown unit {printable(unit, 40)!r}"
        _damaged(origin, f"{metric}: {printable(text, 120)!r} {what}", _AGAIN.replace("ncu", "LC_ALL=C ncu"))
    scale = _SCALES[unit_match[1]]
    value = float(number[1].replace(",", "") + (number[2] or "")) * scale
    if metric not in _WHOLE:
        return value
    return None if value and scale > 10 ** len((number[2] or ".")[1:]) else round(value)


def _damaged(at: Origin, what: str, hint: str = _AGAIN) -> NoReturn:
    raise InputError(f"{at.input}:{at.line}: {what}", hint)
