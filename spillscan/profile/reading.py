"""Tables of Nsight Compute as launches: the raw page (a row a launch) and the long forms (a row a figure)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spillscan.errors import InputError
from spillscan.inputs.source import Source, Stream
from spillscan.model import Issue, Origin
from spillscan.output.safe import clip, printable
from spillscan.profile.metrics import METRICS, Metric
from spillscan.profile.model import Measured, Profile, ProfiledLaunch
from spillscan.profile.numbers import NotANumberError, decimals, factor, number
from spillscan.profile.shape import Shape
from spillscan.profile.table import AGAIN, Around, rows

_DIMENSIONS = re.compile(r"\(?(\d+)(?:, ?| ?x ?)(\d+)(?:, ?| ?x ?)(\d+)\)?")
_CAPABILITY = re.compile(r"(\d+)\.(\d+)")
_COUNTED = frozenset({"count", "bytes"})
_FRACTIONAL = frozenset(
    {"instructions", "spill_instructions", "local_load_instructions", "local_store_instructions"}
    | {f"{space}_{way}_bytes" for space in ("local", "global") for way in ("load", "store")}
)
"""Counts that are sums over the GPU, so large that they are kept as they are scaled."""


def read_all(sources: Sequence[Source]) -> Profile:
    """The launches of all inputs, in their order. :class:`InputError` where one cannot be read or is damaged, or where
    all of them hold no launch."""
    launches: list[ProfiledLaunch] = []
    issues: list[Issue] = []
    for each in sources:
        with each.open() as stream:
            profile = read(stream, each.uri)
        if not profile.launches and each.explicit:
            why = f": {profile.issues[0].message}" if profile.issues else ""
            raise InputError(f"no launch of Nsight Compute in {_called(each.uri)}{why}", _HOW)
        launches += profile.launches
        issues += profile.issues
    if not launches:
        raise InputError("no launch of Nsight Compute in these inputs", _HOW)
    return Profile(launches=tuple(launches), issues=tuple(issues))


_HOW = "make one with: ncu --csv --page raw --set full PROGRAM > profile.csv"


def read(stream: Stream, name: str) -> Profile:
    """The launches of one input, in order; none where it holds no table. :class:`InputError` where it is damaged."""
    around = Around()
    drafts: dict[tuple[str, ...], _Draft] = {}
    shape: Shape | None = None
    for row in rows(stream, _called(name), around):
        if shape is None or row.columns is not shape.columns:
            shape = Shape(row.columns, _called(name), row.line)
        if shape.takes_units(row):
            continue
        identity = shape.identity(row)
        if not identity["Kernel Name"]:
            raise InputError(f"{_called(name)}:{row.line}: this row of the table names no kernel", AGAIN)
        key = (f"{row.line}" if shape.wide else f"table {around.tables}", *identity.values())
        draft = drafts.setdefault(key, _Draft(row.line, identity))
        for metric, text, unit, told_as in shape.figures(row):
            draft.take(metric, text, unit, told_as, f"{_called(name)}:{row.line}")
    return Profile(
        launches=tuple(draft.launch(name) for draft in drafts.values()),
        issues=tuple(around.complaints),
    )


@dataclass(slots=True)
class _Draft:
    """A launch whose figures come one by one."""

    line: int
    identity: Mapping[str, str]
    figures: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Field -> (rank of the name it was told under, value)."""
    rounded: set[str] = field(default_factory=set)

    def take(self, metric: Metric, text: str, unit: str, told_as: str, where: str) -> None:
        scaled = factor(unit, metric.kind)
        if scaled is None:
            if unit and told_as in _AMBIGUOUS:  # another figure under the same label: Memory Throughput in byte/second
                return
            what = f"{printable(told_as, 80)} is in {printable(unit, 40)!r}" if unit else f"{told_as} has no unit"
            raise InputError(f"{where}: {what}, which this release cannot convert", AGAIN)
        if metric.figure in self.figures and self.figures[metric.figure][0] <= metric.rank:
            return
        try:
            value = number(text.strip())
        except NotANumberError as error:
            hint = "run ncu in the C locale (LC_ALL=C)" if "language" in str(error) else AGAIN
            raise InputError(f"{where}: {told_as}: {printable(clip(str(error), 120))}", hint) from None
        if value is None:
            return
        self.figures[metric.figure] = (metric.rank, value * scaled * metric.scale)
        self.rounded.discard(metric.figure)
        if metric.kind in _COUNTED and value and scaled > 10 ** decimals(text):
            self.rounded.add(metric.figure)

    def launch(self, name: str) -> ProfiledLaunch:
        told: dict[str, Any] = {}
        for figure, (_, value) in self.figures.items():
            whole = METRIC_KINDS[figure] in _COUNTED and figure not in _FRACTIONAL
            told[figure] = round(value) if whole else value
        measured = Measured(**told, rounded=frozenset(self.rounded))
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
    if measured.capability_major is None or measured.capability_minor is None:
        return None
    return measured.capability_major, measured.capability_minor


def _called(name: str) -> str:
    return "standard input" if name == "-" else name
