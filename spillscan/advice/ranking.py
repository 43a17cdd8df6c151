"""Rank families of kernels: by spill cost, then those limited by occupancy alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from spillscan.advice.fixes import of_occupancy, summary_of
from spillscan.model import Kernel
from spillscan.model.local import cost
from spillscan.output.nouns import count
from spillscan.reading.machine.spillmap import share_text

if TYPE_CHECKING:
    from spillscan.advice.profile.matching import Matched
    from spillscan.naming import Names
    from spillscan.occupancy.launches import Launches

About = Literal["spills", "occupancy"]
"""Problem of a family: its kernels spill; or they do not, and occupancy is limited."""


class Ranked(Struct, frozen=True):
    """A family, and the values that determine its rank."""

    about: About
    """Problem to be fixed."""
    family: str
    """Name that its kernels share."""
    kernels: tuple[Kernel, ...]
    """Kernels of the family with that problem, worst first."""
    cost: int
    """Spill cost: bytes of spills, times ten per enclosing loop; 0 without spills."""
    share: float
    """Share of all kernels' spill cost, 0 to 1."""
    spill_ns: float | None = None
    """Profiled GPU time times the share of spills in executed instructions; ``None`` if not profiled."""
    time_ns: float | None = None
    """Profiled GPU time; ``None`` if not profiled."""

    @property
    def worst(self) -> Kernel:
        """Worst kernel, to which all advice refers."""
        return self.kernels[0]


def ranked(
    kernels: Sequence[Kernel], names: Names, launches: Launches, profile: Sequence[Matched] = ()
) -> list[Ranked]:
    """Families that spill, by spill cost (with a profile, by time), then those limited by occupancy, by empty warp
    slots."""
    launched: dict[int, list[Matched]] = {}
    for measured in profile:
        if measured.kernel is not None:
            launched.setdefault(id(measured.kernel), []).append(measured)
    kernels = [kernel for kernel in kernels if not kernel.is_helper]  # nobody can change ptxas's own code
    costs = {id(kernel): spill_cost(kernel) for kernel in kernels}
    total = sum(costs.values())
    spilling: dict[str, list[Kernel]] = {}
    limited: dict[str, list[tuple[Kernel, float]]] = {}
    asked: dict[tuple[object, ...], float | None] = {}
    for kernel in kernels:
        if costs[id(kernel)]:
            spilling.setdefault(names.base(kernel.named_by), []).append(kernel)
        elif (empty := _empty(kernel, launches, asked)) is not None:
            limited.setdefault(names.base(kernel.named_by), []).append((kernel, empty))
    families = []
    for family, members in spilling.items():
        spent = {id(kernel): _times(launched.get(id(kernel), ())) for kernel in members}
        members.sort(key=lambda kernel: (-(spent[id(kernel)][0] or 0), -costs[id(kernel)]))
        heavy = sum(costs[id(kernel)] for kernel in members)
        on_spills, on_all = (_sum(each) for each in zip(*spent.values(), strict=True))
        families.append(Ranked("spills", family, tuple(members), heavy, heavy / total, on_spills, on_all))
    families.sort(key=lambda each: (-(each.spill_ns or 0), -each.cost))
    rest = []
    for family, pairs in limited.items():
        pairs.sort(key=lambda pair: -pair[1])
        time = _sum(_times(launched.get(id(kernel), ()))[1] for kernel, _ in pairs)
        each = Ranked("occupancy", family, tuple(kernel for kernel, _ in pairs), 0, 0.0, None, time)
        rest.append((-(time or 0), -pairs[0][1], -len(pairs), each))
    return families + [each for *_, each in sorted(rest, key=lambda row: row[:3])]


def spill_cost(kernel: Kernel) -> int:
    """Spill cost: bytes that a kernel's own spills move, times ten per enclosing loop; printed bytes if loops are
    unknown."""
    spills = kernel.spills
    if spills == (0, 0):  # skip the search for loops
        return 0
    if kernel.sass is None or not kernel.sass.instructions:
        return sum(spills or ())
    own = ((group, number) for group, number in kernel.sass.local.own.groups.items() if group.kind == "spill")
    return sum(number * cost(group.bytes, group.depth) for group, number in own) or sum(spills or ())


def _times(launched: Sequence[Matched]) -> tuple[float | None, float | None]:
    """(GPU time spent on spills, GPU time) in ns; ``None`` if unknown."""
    shares = [(each.launch.metrics.get("duration_ns"), each.launch.spill_share) for each in launched]
    return (
        _sum(time * share if time is not None and share is not None else None for time, share in shares),
        _sum(time for time, _ in shares),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fsum(known) if known else None


def _empty(kernel: Kernel, launches: Launches, asked: dict[tuple[object, ...], float | None]) -> float | None:
    """Share of warp slots that a kernel leaves empty; ``None`` unless its launch is known and a fix exists.

    ``asked``: cache of earlier results.
    """
    if kernel.role != "entry" or kernel.spills != (0, 0):
        return None
    launch = launches.launch_of(kernel)
    if launch is None:
        return None
    question = kernel.usage, kernel.key.arch, launch
    if question not in asked:
        summary = summary_of(kernel, launch)
        known = summary.occupancy if summary is not None and not summary.at_most else None
        asked[question] = 1 - known.fraction if known is not None and of_occupancy(known, launch) else None
    return asked[question]


def why_here(about: Ranked) -> str:
    """Why a family is ranked here, such as ``3 kernels, 74% of the spill cost``."""
    from spillscan.advice.profile.table import time_text

    noun = "device function" if about.worst.role == "function" else "kernel"
    words = [count(len(about.kernels), noun)]
    if about.about == "spills":
        words.append(f"{share_text(about.share)} of the spill cost")
    if about.time_ns is not None:
        words.append(f"{time_text(about.time_ns)} measured")
    if about.spill_ns is not None:
        share = about.spill_ns / about.time_ns if about.time_ns else 0
        words.append(f"spills are {share_text(share)} of executed instructions")
    return ", ".join(words)
