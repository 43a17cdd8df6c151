"""What an oracle compared and what differed, kept step by step in a file, so that a long run may be broken off."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path


class Differences:
    """What differs, counted by kind."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.compared: Counter[str] = Counter()
        self.failures: list[str] = []
        """Runs of NVIDIA's tools that ended with an error."""

    def equal(self, kind: str, where: object, ours: object, theirs: object) -> None:
        """Compare one figure."""
        self.compared[kind] += 1
        if ours != theirs:
            self.counts[kind] += 1
            if self.counts[kind] <= 3:
                print(f"  {kind} differs: {str(where)[:160]}")
                print(f"    ours   {str(ours)[:300]}")
                print(f"    theirs {str(theirs)[:300]}")

    def add(self, counts: dict[str, int], compared: dict[str, int], failures: list[str]) -> None:
        """Take in another's."""
        self.counts.update(counts)
        self.compared.update(compared)
        self.failures += failures


class Ledger:
    """Steps that are finished, a line of JSON each; without a file none is remembered."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.total = Differences()
        self._done: set[tuple[str, ...]] = set()
        if path and path.exists():
            for line in path.read_text().splitlines():
                self._take(**json.loads(line))

    def _take(self, step: list[str], counts: dict[str, int], compared: dict[str, int], failures: list[str]) -> None:
        self._done.add(tuple(step))
        self.total.add(counts, compared, failures)

    def has(self, *step: str) -> bool:
        """Whether a step was finished, now or in an earlier run."""
        return step in self._done

    def finish(self, reported: Differences, *step: str) -> None:
        """Keep a step's outcome."""
        held = {
            "step": list(step),
            "counts": reported.counts,
            "compared": reported.compared,
            "failures": reported.failures,
        }
        self._take(list(step), reported.counts, reported.compared, reported.failures)
        if self.path:
            with self.path.open("a") as file:
                file.write(json.dumps(held) + "\n")
