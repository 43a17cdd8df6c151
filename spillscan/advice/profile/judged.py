"""One launch with everything that is known of it: its kernel, its occupancy by the hardware's rules, and where profile
and build contradict each other. What only follows another convention is no contradiction: registers shown as 16 at
least, the driver's own shared memory, limits by the carve-out that it chose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from spillscan.advice.profile.matching import Kernels, Match, agrees
from spillscan.advice.profile.model import Measured, Profile, ProfiledLaunch
from spillscan.model import Build, Issue, Launch, Usage
from spillscan.naming import alone
from spillscan.occupancy.launches import launch as launch_of
from spillscan.occupancy.launches import settled
from spillscan.occupancy.model import Occupancy
from spillscan.occupancy.summary import percent, summarise
from spillscan.output.errors import UsageError
from spillscan.output.safe import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedLaunch:
    """A launch held against a build."""

    match: Match
    """Its kernel, or why there is none."""
    occupancy: Occupancy | None
    """Theoretical occupancy by this tool's rules; ``None``: see ``unknown``."""
    limiters: tuple[str, ...]
    """What binds, by this tool's rules, else by the profiler's limits; empty where neither is known."""
    unknown: str
    """Why there is no occupancy of our own, one line."""

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
    return tuple(map(_judged, matches))


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


def _judged(match: Match) -> JudgedLaunch:
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
    ours, theirs = each.occupancy, measured.figure("theoretical_percent")
    if ours is not None and theirs is not None and abs(100 * ours.fraction - theirs) > _ROUNDING_POINTS:
        yield (
            "profile-contradicts",
            f"theoretical occupancy is {theirs:g} % to Nsight Compute, {percent(ours.fraction)} to this tool",
        )
