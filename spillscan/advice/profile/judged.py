"""One launch with everything that is known of it: its kernel, its occupancy by the hardware's rules, the verdict,
and where profile and build contradict each other. What only follows another convention is no contradiction: registers
shown as 16 at least, the driver's own shared memory, limits by the carve-out that it chose.

The verdict is what the published procedure says: low occupancy and latency-bound, look at the limiter; low occupancy
and busy, leave it; high occupancy and slow, look elsewhere. Where many of the instructions executed are spills, these
come first. Every threshold but that of local traffic is NVIDIA's; where a figure that a step needs is missing, the
verdict is unknown and says what is. Never how fast something else would be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from spillscan.advice.profile.executed import Executed, executed, without_spills
from spillscan.advice.profile.matching import Kernels, Match, agrees
from spillscan.advice.profile.model import Measured, Profile, ProfiledLaunch
from spillscan.model import Build, Issue, Launch, Usage
from spillscan.naming import alone
from spillscan.occupancy.binding import limited_by
from spillscan.occupancy.launches import launch as launch_of
from spillscan.occupancy.launches import settled
from spillscan.occupancy.model import Occupancy
from spillscan.occupancy.summary import percent, summarise
from spillscan.output.errors import UsageError
from spillscan.output.nouns import count
from spillscan.output.safe import printable

Kind = Literal["spills", "limiter", "leave", "elsewhere", "small-grid", "imbalance", "unknown"]


@dataclass(frozen=True, slots=True)
class Threshold:
    """A figure from which on something is said, and who published it."""

    value: float
    """Percent, percentage points or waves."""
    source: str
    """Where it is published."""


LATENCY = Threshold(
    60, "Nsight Compute, rule SOLBottleneck (SpeedOfLight.py): latency_bound_threshold, percent of peak"
)
BUSY = Threshold(80, "Nsight Compute, rule SOLBottleneck (SpeedOfLight.py): no_bound_threshold, percent of peak")
WAVES = Threshold(1, "Nsight Compute, rule SOLBottleneck (SpeedOfLight.py): waves_threshold")
LOW_OCCUPANCY = Threshold(
    80, "Nsight Compute, rule TheoreticalOccupancy (TheoreticalOccupancy.py): low_theoretical_threshold, percent"
)
ACHIEVED_GAP = Threshold(10, "Nsight Compute, rule AchievedOccupancy (AchievedOccupancy.py), percentage points")
LOCAL_INSTRUCTIONS = Threshold(
    10, "Nsight Compute, rule LocalMemoryUsage (LocalMemoryUsage.py), percent of the instructions executed"
)
LOCAL_TRAFFIC = Threshold(
    5,
    "a convention without a source that states it; what to compare: NVIDIA, Local Memory and Register Spilling"
    " (P. Micikevicius, 2011); percent of local and global traffic",
)

THRESHOLDS = {
    "latency_percent": LATENCY,
    "busy_percent": BUSY,
    "waves": WAVES,
    "low_occupancy_percent": LOW_OCCUPANCY,
    "achieved_gap_points": ACHIEVED_GAP,
    "local_instructions_percent": LOCAL_INSTRUCTIONS,
    "local_traffic_percent": LOCAL_TRAFFIC,
}
"""By the name that JSON gives them."""


@dataclass(frozen=True, slots=True)
class ProfileVerdict:
    """What to look at."""

    kind: Kind
    """Stable name."""
    text: str
    """One line."""
    concerns: tuple[str, ...] = ()
    """What besides is above a published threshold, a line each."""


def verdict(measured: Measured, limiters: Sequence[str]) -> ProfileVerdict:
    """The verdict on one launch; ``limiters``: what binds its occupancy, as far as that is known."""
    kind, text = _on_occupancy(measured, limiters)
    share, concerns = measured.spill_instruction_share, tuple(_concerns(measured))
    if share is None or 100 * share <= LOCAL_INSTRUCTIONS.value:
        return ProfileVerdict(kind, text, concerns)
    above = f"{100 * share:.1f} % of the instructions executed are spills (above {LOCAL_INSTRUCTIONS.value:g} %)"
    return ProfileVerdict("spills", f"{above}: these come first", (text, *concerns))


_ON_OCCUPANCY = ("compute_percent", "memory_percent", "theoretical_percent", "waves", "achieved_percent")


def _on_occupancy(measured: Measured, limiters: Sequence[str]) -> tuple[Kind, str]:
    compute, memory, theoretical, waves, achieved = map(measured.figure, _ON_OCCUPANCY)
    if compute is None or memory is None:
        return "unknown", "unknown without compute and memory throughput: profile with --section SpeedOfLight"
    if theoretical is None:
        return "unknown", "unknown without theoretical occupancy: profile with --section Occupancy"
    busiest = max(compute, memory)
    peak = f"{'memory' if memory >= compute else 'compute'} at {busiest:.0f} % of its peak"
    low, occupancy = theoretical < LOW_OCCUPANCY.value, f"{percent(theoretical / 100)} occupancy"
    if busiest >= LATENCY.value:
        how = "busy" if busiest >= BUSY.value else "well used"
        if low:
            return "leave", f"{how} ({peak}) at {occupancy}: leave the occupancy as it is"
        return "elsewhere", f"{how} ({peak}) at {occupancy}: more is not to be had from occupancy"
    bound = f"latency-bound ({peak})"
    if waves is None:
        return "unknown", f"{bound}, but unknown without waves per SM: profile with --section LaunchStats"
    if waves < WAVES.value:
        return ("small-grid", f"{bound}: the grid fills {waves:.2g} of the GPU; more blocks come before occupancy")
    if low:
        what = f"limited by {limited_by(limiters)}" if limiters else "its limiter is not known"
        return "limiter", f"{bound} at {occupancy}, {what}: look at the limiter"
    if achieved is None:
        return "unknown", f"{bound}, but unknown without achieved occupancy: profile with --section Occupancy"
    if theoretical - achieved > ACHIEVED_GAP.value:
        return (
            "imbalance",
            f"{bound}, {achieved:.0f} % of the possible {occupancy} achieved: look at uneven blocks,"
            " short blocks and the last wave",
        )
    return "elsewhere", f"{bound} at {achieved:.0f} % occupancy: look elsewhere, at what the warps wait for"


def _concerns(measured: Measured) -> list[str]:
    said = []
    share = measured.local_share
    if share is not None and 100 * share > LOCAL_TRAFFIC.value:
        said.append(
            f"{100 * share:.1f} % of local and global traffic is local memory (above {LOCAL_TRAFFIC.value:g} %)"
        )
    local = measured.total("local_load_instructions", "local_store_instructions")
    every = measured.figure("instructions")
    if share is None and not every and local:
        loads, stores = (measured.figure(f"local_{way}_instructions") for way in ("load", "store"))
        said.append(
            f"{count(round(loads), 'load')} and {count(round(stores), 'store')} of local memory executed;"
            " of how much is not known: profile with --section MemoryWorkloadAnalysis_Tables"
        )
    if local is not None and every:
        part = 100 * local / every
        if part > LOCAL_INSTRUCTIONS.value:
            above = f"(above {LOCAL_INSTRUCTIONS.value:g} %)"
            said.append(f"{part:.1f} % of the instructions executed access local memory {above}")
    return said


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedLaunch:
    """A launch, judged."""

    match: Match
    """Its kernel, or why there is none."""
    occupancy: Occupancy | None
    """Theoretical occupancy by this tool's rules; ``None``: see ``unknown``."""
    limiters: tuple[str, ...]
    """What binds, by this tool's rules, else by the profiler's limits; empty where neither is known."""
    unknown: str
    """Why there is no occupancy of our own, one line."""
    verdict: ProfileVerdict
    """What the published procedure makes of it."""
    clean: ProfiledLaunch | None = None
    """The same launch by a build that executes no spills; ``None`` where the profile has none."""
    trips: tuple[int, ...] = ()
    """How often its loops turn, the outermost first; empty: not known."""

    @property
    def executed(self) -> tuple[Executed, ...]:
        """Loads and stores of local memory, held against its code."""
        return executed(self.match, self.trips)

    @property
    def launch(self) -> ProfiledLaunch:
        """The launch."""
        return self.match.launch

    @property
    def measured(self) -> Measured:
        """The launch's figures."""
        return self.match.launch.measured

    @property
    def name(self) -> str:
        """The kernel's short name, with template arguments."""
        kernel = self.match.kernel
        return alone(self.launch.kernel if kernel is None else kernel.named_by)


def judge(profile: Profile, build: Build | None) -> tuple[JudgedLaunch, ...]:
    """Every launch of the profile, in its order; without ``build``, by the profile's own figures."""
    if build is None:
        matches = [Match(launch=launch, reason="no build was given") for launch in profile.launches]
    else:
        kernels = Kernels(build.kernels)
        matches = [kernels.match(launch) for launch in profile.launches]
    clean = without_spills(profile.launches)
    return tuple(_judged(each, clean.get(id(each.launch))) for each in matches)


def worst_first(judged: Sequence[JudgedLaunch]) -> list[JudgedLaunch]:
    """By share of spill instructions, then share of local-memory traffic, then time on the GPU; unknown comes last."""

    def damage(each: JudgedLaunch) -> tuple[float, float, float]:
        measured = each.measured
        return (
            -(measured.spill_instruction_share or 0),
            -(measured.local_share or 0),
            -(measured.figure("duration_ns") or 0),
        )

    return sorted(judged, key=damage)


def usage_of(match: Match) -> Usage:
    """What the launch used: its kernel's figures where they are known and agree, the profile's otherwise."""
    measured, kernel = match.launch.measured, match.kernel
    seen = Usage(
        registers=measured.figure("registers"),
        shared_bytes=measured.figure("static_shared_bytes"),
        barriers=measured.figure("barriers"),
    )
    if kernel is None or agrees(match.launch, kernel) is False:
        return seen
    used = kernel.usage
    return replace(
        used,
        registers=seen.registers if used.registers is None else used.registers,
        shared_bytes=used.shared_bytes if seen.shared_bytes is None else seen.shared_bytes,
        barriers=used.barriers if seen.barriers is None else seen.barriers,
    )


def launch_figures(launch: ProfiledLaunch) -> Launch | None:
    """How the kernel was launched, as a policy says it; ``None`` where the profile does not give it exactly. Dynamic
    shared memory that is rounded to nothing is left open: where the code declares none, it has none."""
    rounded = "dynamic_shared_bytes" in launch.measured.rounded
    dynamic, clusters = map(launch.measured.figure, ("dynamic_shared_bytes", "cluster_blocks"))
    if launch.threads is None or dynamic is None or (rounded and dynamic):
        return None
    figures = {"threads_per_block": launch.threads}
    if not rounded:
        figures["dynamic_shared_bytes"] = dynamic
    if clusters:
        figures["cluster_blocks"] = clusters
    return launch_of(**figures)


def why_no_figures(launch: ProfiledLaunch) -> str:
    """Why :func:`launch_figures` gives none, one line."""
    if launch.threads is None:
        return "the profile does not give its block size"
    if launch.measured.figure("dynamic_shared_bytes") is None:
        return "the profile does not give its dynamic shared memory (--section LaunchStats)"
    return _ROUNDED


_ROUNDED = "its dynamic shared memory is printed rounded (export with --print-units base)"


def _judged(match: Match, clean: ProfiledLaunch | None) -> JudgedLaunch:
    launch = launch_figures(match.launch)
    if launch is not None and match.kernel is not None:
        launch = settled(match.kernel, launch)
    occupancy, unknown = None, ""
    if launch is None:
        unknown = why_no_figures(match.launch)
    else:
        try:
            summary = summarise(usage_of(match), match.launch.arch, launch)
            occupancy, unknown = summary.occupancy, summary.unknown
            if summary.at_most:
                occupancy, unknown = None, _ROUNDED
            if occupancy is not None and summary.barriers_assumed and _barriers_bind(match.launch.measured, occupancy):
                occupancy, unknown = None, "the profile does not give its barriers, which limit it"
        except UsageError as error:
            unknown = error.what
    limiters = tuple(occupancy.limiters) if occupancy is not None else _their_limiters(match.launch.measured)
    return JudgedLaunch(
        match=match,
        occupancy=occupancy,
        limiters=limiters,
        unknown=unknown,
        verdict=verdict(match.launch.measured, limiters),
        clean=clean,
    )


def _barriers_bind(measured: Measured, occupancy: Occupancy) -> bool:
    """Whether the profiler's limit by barriers is below what all else allows."""
    limit = measured.figure("limit_barriers")
    return limit is not None and bool(limit < occupancy.resident_blocks)


_LIMITED = ("warps", "registers", "shared_memory", "blocks", "barriers")


def _their_limiters(measured: Measured) -> tuple[str, ...]:
    """What binds by the profiler's limits; none where it lacks some of those that it always has."""
    limits = {name: measured.figure(f"limit_{name}") for name in _LIMITED}
    known = {name: limit for name, limit in limits.items() if limit is not None}
    if len(known) < len(limits) - 1:  # releases before 2023 have no barriers
        return ()
    return tuple(name for name, limit in known.items() if limit == min(known.values()))


# ---- contradictions --------------------------------------------------------------------------------------------------


_ROUNDING_POINTS = 0.01
"""The profiler prints two decimals of a percentage."""


def issues(judged: Sequence[JudgedLaunch], against_build: bool) -> Iterator[Issue]:
    """An issue for each launch without a kernel, where a build was given, and for each figure that contradicts it; each
    text once a kernel, at its first launch."""
    seen: set[tuple[str, str]] = set()
    for each in judged:
        for code, message in _of(each, against_build):
            name = each.name
            if (name, message) not in seen:
                seen.add((name, message))
                text = printable(f"{name}: {message}")
                yield Issue(code=code, message=text, severity="warning", origin=each.launch.origin)


def _of(each: JudgedLaunch, against_build: bool) -> Iterator[tuple[str, str]]:
    measured, kernel = each.launch.measured, each.match.kernel
    if against_build and kernel is None:
        yield ("profile-unmatched", f"cannot be matched: {each.match.reason}")
    if kernel is not None:
        if agrees(each.launch, kernel) is False:
            seen = f"launched with {measured.figure('registers')} registers"
            yield "profile-contradicts", f"{seen}, compiled with {kernel.usage.registers}: another build?"
        shared, compiled = measured.figure("static_shared_bytes"), kernel.usage.shared_bytes
        if (
            shared is not None
            and compiled is not None
            and shared != compiled
            and "static_shared_bytes" not in measured.rounded
        ):
            yield (
                "profile-contradicts",
                f"launched with {shared:,} B static shared memory, compiled with {compiled:,} B: another build?",
            )
    for local in (local for local in each.executed if not local.within):
        ran = f"a warp executed {local.per_warp:,.6g} local {local.way}s"
        turning = " with the trips given" if local.inside else ""
        yield "profile-contradicts", f"{ran}, its code at most {local.most:,}{turning}: another build?"
    ours, theirs = each.occupancy, measured.figure("theoretical_percent")
    if ours is not None and theirs is not None and abs(100 * ours.fraction - theirs) > _ROUNDING_POINTS:
        yield (
            "profile-contradicts",
            f"theoretical occupancy is {theirs:g} % to Nsight Compute, {percent(ours.fraction)} to this tool",
        )
