"""What the published procedure makes of a launch, in words: low occupancy and latency-bound, look at the limiter; low
occupancy and busy, leave it; high occupancy and slow, look elsewhere. Where many of the instructions executed are
spills, these come first. Never how fast something else would be.

Every threshold but that of local traffic is NVIDIA's; where a figure that a step needs is missing, the verdict is
unknown and says what is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from spillscan.profile.model import Measured

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


def _on_occupancy(measured: Measured, limiters: Sequence[str]) -> tuple[Kind, str]:
    compute, memory, theoretical = measured.compute_percent, measured.memory_percent, measured.theoretical_percent
    if compute is None or memory is None:
        return "unknown", "unknown without compute and memory throughput: profile with --section SpeedOfLight"
    if theoretical is None:
        return "unknown", "unknown without theoretical occupancy: profile with --section Occupancy"
    busiest = max(compute, memory)
    peak = f"{'memory' if memory >= compute else 'compute'} at {busiest:.0f} % of its peak"
    low = theoretical < LOW_OCCUPANCY.value
    if busiest >= LATENCY.value:
        how = "busy" if busiest >= BUSY.value else "well used"
        if low:
            return "leave", f"{how} ({peak}) at {theoretical:.4g} % occupancy: leave the occupancy as it is"
        return "elsewhere", f"{how} ({peak}) at {theoretical:.4g} % occupancy: more is not to be had from occupancy"
    bound = f"latency-bound ({peak})"
    if measured.waves is None:
        return "unknown", f"{bound}, but unknown without waves per SM: profile with --section LaunchStats"
    if measured.waves < WAVES.value:
        return (
            "small-grid",
            f"{bound}: the grid fills {measured.waves:.2g} of the GPU; more blocks come before occupancy",
        )
    if low:
        what = f"limited by {'+'.join(limiters)}" if limiters else "its limiter is not known"
        return "limiter", f"{bound} at {theoretical:.4g} % occupancy, {what}: look at the limiter"
    achieved = measured.achieved_percent
    if achieved is None:
        return "unknown", f"{bound}, but unknown without achieved occupancy: profile with --section Occupancy"
    if theoretical - achieved > ACHIEVED_GAP.value:
        return (
            "imbalance",
            f"{bound}, {achieved:.0f} % of the possible {theoretical:.4g} % occupancy achieved: look at uneven blocks,"
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
    local = measured.local_instructions
    if local is not None and measured.instructions:
        percent = 100 * local / measured.instructions
        if percent > LOCAL_INSTRUCTIONS.value:
            above = f"(above {LOCAL_INSTRUCTIONS.value:g} %)"
            said.append(f"{percent:.1f} % of the instructions executed access local memory {above}")
    return said
