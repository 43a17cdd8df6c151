"""Loads and stores of local memory that warps executed, held against those of the code: how often each one in a loop
ran, and how many that can be at most, where it is known how often loops turn. And what a launch took with spills and
without, where a profile has both: only that says how much of its time ends with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from spillscan.advice.profile.matching import Match, agrees
from spillscan.advice.profile.model import ProfiledLaunch

_WARP_THREADS = 32
_CALLS = frozenset({"CAL", "CALL", "JCAL"})


class Executed(NamedTuple):
    """Loads, or stores, of one launch."""

    way: str
    """``load`` or ``store``."""
    per_warp: float
    """Executed by a warp, on average."""
    outside: int
    """Such instructions of the code that stand in no loop."""
    inside: int
    """Those in loops."""
    most: int | None
    """As many as a warp can execute at most: what branches skip is none; ``None`` where it is not known how often loops
    turn."""

    @property
    def trips(self) -> float | None:
        """How often each of those in loops was executed, on average; ``None`` where none is in a loop, or not even
        those outside were all executed."""
        return (self.per_warp - self.outside) / self.inside if self.inside and self.per_warp >= self.outside else None

    @property
    def text(self) -> str:
        """One line."""
        ran = f"a warp executed {self.per_warp:,.6g} local {self.way}s"
        if not self.inside and self.per_warp == self.outside:
            return f"{ran}, each of its code once"
        if self.trips is None:
            return f"{ran}, its code has {self.outside:,} outside of loops" + (": some are skipped" * (self.within))
        each = f"{self.inside:,} in loops, {self.trips:.5g} times each on average"
        bound = "" if self.most is None else f"; at most {self.most:,} with the trips given"
        return f"{ran}: {self.outside:,} outside of loops, {each}{bound}"

    @property
    def within(self) -> bool:
        """Whether its code can execute as many; where that is not known, it can."""
        return self.most is None or self.per_warp <= self.most


def warps_of(launch: ProfiledLaunch) -> int | None:
    """Warps of a launch; ``None`` where the profile does not give grid or block."""
    if launch.grid is None or not launch.threads:
        return None
    return prod(launch.grid) * -(-launch.threads // _WARP_THREADS) or None


def executed(match: Match, trips: Sequence[int] = ()) -> tuple[Executed, ...]:
    """Loads and stores as far as they were measured; none where the code cannot say which are whose: it was not read,
    it calls others, its warps have roles, its control cannot be followed, or it is another build's.

    ``trips``: how often loops turn, the outermost first.
    """
    kernel, warps = match.kernel, warps_of(match.launch)
    if kernel is None or kernel.sass is None or warps is None or agrees(match.launch, kernel) is False:
        return ()
    sass = kernel.sass
    groups = sass.local.groups
    if not groups or sass.roles or sass.local.flow != "followed" or _CALLS & {name for name, _ in sass.opcodes}:
        return ()
    if any(group.depth is None or group.inner for group in groups):
        return ()
    found = []
    for way in ("load", "store"):
        name = f"local_{way}_instructions"
        count = None if name in match.launch.measured.rounded else match.launch.measured.figure(name)
        depths = [(group.depth or 0, number) for group, number in groups.items() if group.store is (way == "store")]
        if count is None or not depths:
            continue
        known = max(depth for depth, _ in depths) <= len(trips)
        found.append(
            Executed(
                way=way,
                per_warp=count / warps,
                outside=sum(number for depth, number in depths if not depth),
                inside=sum(number for depth, number in depths if depth),
                most=sum(number * prod(trips[:depth]) for depth, number in depths) if known else None,
            )
        )
    return tuple(found)


def without_spills(launches: Sequence[ProfiledLaunch]) -> dict[int, ProfiledLaunch]:
    """By the ``id`` of a launch that executed spills: the same launch (kernel, device, grid, block, dynamic shared
    memory) by a build that executes none, of several that with the fewest registers. Both have a time."""
    alike: dict[object, list[ProfiledLaunch]] = {}
    for each in (each for each in launches if each.measured.figure("duration_ns")):
        same = each.kernel, each.arch, each.block, each.grid, each.measured.figure("dynamic_shared_bytes")
        alike.setdefault(same, []).append(each)
    found: dict[int, ProfiledLaunch] = {}
    for group in alike.values():
        clean = [each for each in group if _spills(each) == 0]
        if clean:
            other = min(clean, key=lambda each: each.measured.figure("registers") or 0)
            found |= {id(each): other for each in group if _spills(each)}
    return found


def _spills(launch: ProfiledLaunch) -> float | None:
    """Spills that it executed; 0 where only local memory was counted, and there is none."""
    spills: float | None = launch.measured.figure("spill_instructions")
    local = launch.measured.total("local_load_instructions", "local_store_instructions")
    return 0.0 if spills is None and local == 0 else spills
