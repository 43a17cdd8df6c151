"""Where a profile contradicts the build that it is held against. What only follows another convention is no
contradiction: registers shown as 16 at least, the driver's own shared memory, limits by the carve-out that it chose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spillscan.model import Issue
from spillscan.output.safe import printable
from spillscan.profile.judged import Judged
from spillscan.profile.matching import agrees

_ROUNDING_POINTS = 0.01
"""The profiler prints two decimals of a percentage."""


def issues(judged: Sequence[Judged], against_build: bool) -> Iterator[Issue]:
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


def _of(each: Judged, against_build: bool) -> Iterator[tuple[str, str]]:
    measured, kernel = each.launch.measured, each.match.kernel
    if against_build and kernel is None:
        yield ("profile-unmatched", f"cannot be matched: {each.match.reason}")
    if kernel is not None:
        if agrees(each.launch, kernel) is False:
            yield (
                "profile-contradicts",
                f"launched with {measured.registers} registers, compiled with {kernel.usage.registers}: another build?",
            )
        shared, compiled = measured.static_shared_bytes, kernel.usage.shared_bytes
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
    ours, theirs = each.occupancy, measured.theoretical_percent
    if ours is not None and theirs is not None and abs(100 * ours.fraction - theirs) > _ROUNDING_POINTS:
        yield (
            "profile-contradicts",
            f"theoretical occupancy is {theirs:g} % to Nsight Compute, {100 * ours.fraction:.4g} % to this tool",
        )
