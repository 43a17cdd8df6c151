"""One launch with everything that is known of it: its kernel, its occupancy by the hardware's rules, the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spillscan.errors import UsageError
from spillscan.model import Build, Usage
from spillscan.names import display_name
from spillscan.occupancy.launches import launch as launch_of
from spillscan.occupancy.model import Launch, Occupancy
from spillscan.occupancy.summary import summarise
from spillscan.profile.matching import Kernels, Match, agrees
from spillscan.profile.model import Measured, Profile, ProfiledLaunch
from spillscan.profile.verdict import Verdict, verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A launch, judged."""

    match: Match
    """Its kernel, or why there is none."""
    occupancy: Occupancy | None
    """Theoretical occupancy by this tool's rules; ``None``: see ``unknown``."""
    limiters: tuple[str, ...]
    """What binds, by this tool's rules, else by the profiler's limits; empty where neither is known."""
    unknown: str
    """Why there is no occupancy of our own, one line."""
    verdict: Verdict
    """What the published procedure makes of it."""

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
        return display_name(self.launch.kernel if kernel is None else kernel.key.symbol)


def judge(profile: Profile, build: Build | None) -> tuple[Judged, ...]:
    """Every launch of the profile, in its order; without ``build``, by the profile's own figures."""
    if build is None:
        return tuple(_judged(Match(launch=launch, reason="no build was given")) for launch in profile.launches)
    kernels = Kernels(build.kernels)
    return tuple(_judged(kernels.match(launch)) for launch in profile.launches)


def worst_first(judged: Sequence[Judged]) -> list[Judged]:
    """By share of spill instructions, then share of local-memory traffic, then time on the GPU; unknown comes last."""

    def damage(each: Judged) -> tuple[float, float, float]:
        measured = each.measured
        return (
            -(measured.spill_instruction_share or 0),
            -(measured.local_share or 0),
            -(measured.duration_ns or 0),
        )

    return sorted(judged, key=damage)


def usage_of(match: Match) -> Usage:
    """What the launch used: its kernel's figures where they are known and agree, the profile's otherwise."""
    measured, kernel = match.launch.measured, match.kernel
    seen = Usage(registers=measured.registers, shared_bytes=measured.static_shared_bytes, barriers=measured.barriers)
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
    """How the kernel was launched, as a policy says it; ``None`` where the profile does not tell it exactly."""
    measured = launch.measured
    if launch.threads is None or measured.dynamic_shared_bytes is None or "dynamic_shared_bytes" in measured.rounded:
        return None
    figures = {"threads_per_block": launch.threads, "dynamic_shared_bytes": measured.dynamic_shared_bytes}
    if measured.cluster_blocks:
        figures["cluster_blocks"] = measured.cluster_blocks
    return launch_of(**figures)


def why_no_figures(launch: ProfiledLaunch) -> str:
    """Why :func:`launch_figures` gives none, one line."""
    if launch.threads is None:
        return "the profile does not give its block size"
    if launch.measured.dynamic_shared_bytes is None:
        return "the profile does not give its dynamic shared memory (--section LaunchStats)"
    return "its dynamic shared memory is printed rounded (export with --print-units base)"


def _judged(match: Match) -> Judged:
    launch = launch_figures(match.launch)
    occupancy, unknown = None, ""
    if launch is None:
        unknown = why_no_figures(match.launch)
    else:
        try:
            summary = summarise(usage_of(match), match.launch.arch, launch)
            occupancy, unknown = summary.occupancy, summary.unknown
            if occupancy is not None and summary.barriers_assumed and _barriers_bind(match.launch.measured, occupancy):
                occupancy, unknown = None, "the profile does not give its barriers, which limit it"
        except UsageError as error:
            unknown = error.what
    limiters = tuple(occupancy.limiters) if occupancy is not None else _their_limiters(match.launch.measured)
    return Judged(
        match=match,
        occupancy=occupancy,
        limiters=limiters,
        unknown=unknown,
        verdict=verdict(match.launch.measured, limiters),
    )


def _barriers_bind(measured: Measured, occupancy: Occupancy) -> bool:
    """Whether the profiler's limit by barriers is below what all else allows."""
    return measured.limit_barriers is not None and measured.limit_barriers < occupancy.resident_blocks


def _their_limiters(measured: Measured) -> tuple[str, ...]:
    """What binds by the profiler's limits; none where it does not tell all of those that it always has."""
    limits = {
        "warps": measured.limit_warps,
        "registers": measured.limit_registers,
        "shared_memory": measured.limit_shared_memory,
        "blocks": measured.limit_blocks,
        "barriers": measured.limit_barriers,
    }
    known = {name: limit for name, limit in limits.items() if limit is not None}
    if len(known) < len(limits) - 1:  # releases before 2023 have no barriers
        return ()
    return tuple(name for name, limit in known.items() if limit == min(known.values()))
