"""Counts of what an oracle compared and what differed."""

from __future__ import annotations

from collections import Counter


class Differences:
    """Differences, counted by kind."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.compared: Counter[str] = Counter()
        self.failures: list[str] = []
        """Runs of NVIDIA's tools that ended with an error."""

    def equal(self, kind: str, where: object, ours: object, theirs: object) -> None:
        """Compare one value."""
        self.compared[kind] += 1
        if ours != theirs:
            self.counts[kind] += 1
            if self.counts[kind] <= 3:
                print(f"  {kind} differs: {str(where)[:160]}")
                print(f"    ours   {str(ours)[:300]}")
                print(f"    theirs {str(theirs)[:300]}")
