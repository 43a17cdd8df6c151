"""Whether the copies of a kernel are any worse than recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from spillscan.baseline.model import Copies, Figures


def as_copies(figures: Sequence[Figures]) -> Copies:
    """``figures`` (at least one) as they are recorded: greatest first, equal ones once."""
    ordered = tuple(sorted(figures, reverse=True))
    return ordered[:1] if len(set(ordered)) == 1 else ordered


def compare(now: Sequence[Figures], recorded: Copies) -> list[Figures | None]:
    """For each of ``now`` the recorded figures that it is held to; ``None`` where it is worse than it may be.

    Every copy needs recorded figures of its own that none of its figures exceeds: a copy that got better excuses no
    other, and a fall in one figure no rise in another. Copies beyond the recorded number are held to the least of each
    figure. Where places can be found for all, they are, for rules of one or two figures; with more figures a worse one
    is still never passed.
    """
    spare = Counter([*recorded, *[_least(recorded)] * (len(now) - len(recorded))])
    found: list[Figures | None] = [None] * len(now)
    # Equals first: whatever else could take the place can take the equal's instead, so nobody loses by it.
    for index, figures in enumerate(now):
        if spare[figures]:
            spare[figures] -= 1
            found[index] = figures
    # By the first figure downwards, each takes the place that leaves most to those that follow.
    for index in sorted((i for i, limit in enumerate(found) if limit is None), key=lambda i: now[i], reverse=True):
        fitting = [limit for limit, count in spare.items() if count and _within(now[index], limit)]
        if fitting:
            place = min(fitting, key=lambda limit: limit[::-1])
            spare[place] -= 1
            found[index] = place
    return found


def _within(figures: Figures, limit: Figures) -> bool:
    """Whether no figure exceeds its limit; a figure without a limit does, unless it is 0."""
    limits = dict(limit)
    return all(value <= limits.get(name, 0) for name, value in figures)


def _least(recorded: Copies) -> Figures:
    return tuple((name, min(dict(copy).get(name, 0) for copy in recorded)) for name, _ in recorded[0])
