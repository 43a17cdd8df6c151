"""Outcomes of compilations into curves. Pure: no file, no clock; the same outcomes make the same curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spillscan.occupancy.launches import Launches
from spillscan.patterns import matches
from spillscan.sweep import pareto, reading
from spillscan.sweep.flags import flags
from spillscan.sweep.jobs import Outcome
from spillscan.sweep.model import Curve, Point
from spillscan.sweep.ptx import Entry
from spillscan.sweep.settings import AS_IS, Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One input for one arch by one release of ptxas, at every setting."""

    input: str
    """The file, as the user named it."""
    arch: str
    """Real arch."""
    toolkit: str
    """Release of ptxas."""
    entries: tuple[Entry, ...]
    """Its kernels, as its PTX declares them."""
    own_cap: int | None
    """``-maxrregcount`` of its build."""
    outcomes: tuple[tuple[Setting, Outcome], ...]
    """What came of each setting, in their order."""


def curves(series: Series, launches: Launches, globs: Sequence[str] = ()) -> list[Curve]:
    """A curve for each kernel that one of ``globs`` names (all, without any), in the order of the PTX."""
    chosen = [entry for entry in series.entries if wanted(entry, series.arch, globs)]
    found = [
        (setting, outcome, {} if outcome.failure else reading.kernels(outcome)) for setting, outcome in series.outcomes
    ]
    return [
        _curve(
            series,
            entry,
            launches,
            tuple(
                reading.point(setting, entry, series.arch, outcome, kernels.get(entry.symbol), launches)
                for setting, outcome, kernels in found
            ),
        )
        for entry in chosen
    ]


def wanted(entry: Entry, arch: str, globs: Sequence[str]) -> bool:
    """Whether one of ``globs`` names the kernel; without globs, every one is."""
    kernel = reading.stand_in(entry, arch)
    return not globs or any(matches(kernel, pattern) for pattern in globs)


def damage(curve: Curve) -> tuple[object, ...]:
    """Sort key: most spilled bytes as it is, then most registers, first."""
    point = curve.as_is
    return -(point.spill_bytes or 0), -(point.registers or 0)


def _curve(series: Series, entry: Entry, launches: Launches, points: tuple[Point, ...]) -> Curve:
    marked = pareto.mark(points)
    as_is = next((point for point in marked if point.setting == AS_IS), marked[0])
    swept = any(point.setting.kind == "cap" for point in marked)
    return Curve(
        input=series.input,
        symbol=entry.symbol,
        arch=series.arch,
        toolkit=series.toolkit,
        launch=reading.launch_at(AS_IS, entry, series.arch, launches),
        points=marked,
        facts=pareto.facts(marked),
        flags=tuple(flags(entry, series.arch, as_is, series.own_cap, swept)),
    )
