"""Whole code bases: every log, dump, object, library and archive below some folders or URLs, into a dataset.

``find`` lists files, which are dealt into batches; a ``worker`` process carries each out: it reads, writes into the
dataset, and may die. A ``pool`` of them works on this machine or in a cluster, and handles names only. :class:`Summary`
is what came of it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol
from uuid import uuid4

from spillscan.history.audit.find import Selection, find
from spillscan.history.audit.messages import Batch, FileOutcome, Item, State, dealt
from spillscan.model import Issue, Origin
from spillscan.output.errors import UndecidedError
from spillscan.output.nouns import count, listed, size
from spillscan.output.safe import printable
from spillscan.reading import workers

__all__ = ["Plan", "Selection", "Summary", "Watcher", "audit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What shall be audited, and where."""

    builds: Mapping[str, Sequence[str]]
    """Label -> files, folders, glob patterns and URLs."""
    into: str
    """The dataset: a folder or a URL."""
    meta: Mapping[str, str] = field(default_factory=dict)
    """Kept with each build."""
    selection: Selection = field(default_factory=Selection)
    """What is left out."""
    processes: int | None = None
    """On this machine; ``None``: one a processor."""
    scheduler: str | None = None
    """Address of a Dask scheduler whose workers shall do it instead."""


class Watcher(Protocol):
    """Is kept informed while files are read."""

    def expect(self, items: Sequence[Item]) -> None:
        """These will come to an outcome."""

    def count(self, outcome: FileOutcome) -> None:
        """One of them has."""


def audit(plan: Plan, watcher: Watcher | None = None) -> Summary:
    """Read all that is new, write it into the dataset, and say what came of it.

    It may be ended at any moment, and called again: what is finished is not read twice. Raises
    :class:`~spillscan.SpillscanError` where an input is not there, the dataset cannot be written, the cluster
    does not answer, or it is interrupted; never for a file that cannot be read.
    """
    from spillscan.history.audit.stores import is_url

    summary = Summary(kept_kernels=dict.fromkeys(plan.builds, 0))
    root = plan.into if is_url(plan.into) else os.path.abspath(plan.into)
    items: dict[str, list[Item]] = {}
    try:
        for label, inputs in plan.builds.items():
            items[label], left = find(inputs, label, plan.selection, root)
            for outcome in left:
                summary.count(outcome)
        if watcher is not None:
            watcher.expect([item for some in items.values() for item in some])
        with closing(_outcomes(plan, root, items)) as outcomes:
            for outcome in outcomes:
                summary.count(outcome)
                if watcher is not None:
                    watcher.count(outcome)
    except KeyboardInterrupt:
        done, known = summary.files.total(), summary.files["skipped"] + sum(map(len, items.values()))
        what = f"interrupted after {done:,} of {count(known, 'file')}; what was finished is in {plan.into}"
        raise UndecidedError(what, "the same command goes on from there") from None
    if summary.files["read"] or summary.failed:
        from spillscan.history.dataset.merge import merge

        merge(root, plan.builds)
    if summary.understood:
        _take_stock(summary, root, plan.builds)
    return summary


def _take_stock(summary: Summary, root: str, labels: Iterable[str]) -> None:
    """What the builds hold and may hide, as questions count it: what was read before is not read again."""
    from spillscan.history.dataset import open_dataset

    dataset = open_dataset(root)
    for held in dataset.summary([build for build in dataset.builds if build.label in labels]):
        summary.kept_kernels[held.build.label] = held.kernels
        summary.issues += held.issues


def _outcomes(plan: Plan, root: str, items: Mapping[str, Sequence[Item]]) -> Generator[FileOutcome]:
    from spillscan.history.audit.pool import Cluster, Machine, Pool, outcomes

    if any(items.values()):
        pool: Pool = Cluster(plan.scheduler) if plan.scheduler else Machine(plan.processes or workers.processors())
        yield from outcomes(pool, _batches(plan, root, items, pool.size))


def _batches(plan: Plan, root: str, items: Mapping[str, Sequence[Item]], workers: int) -> list[Batch]:
    run, now = uuid4().hex, datetime.now(UTC)
    return [
        Batch(run=run, root=root, label=label, begun=begun, meta=plan.meta, items=part)
        for at, (label, some) in enumerate(items.items())
        for begun in ((now + timedelta(microseconds=at)).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),)
        for part in dealt(some, workers)
    ]


_LONGEST = 300
"""Characters of one reason."""


@dataclass(slots=True, kw_only=True)
class Summary:
    """Figures of one audit."""

    files: Counter[State] = field(default_factory=Counter)
    """Files by what became of them."""
    kernels: int = 0
    """Entries that were read: not those of files that were in the dataset before."""
    spilling: int = 0
    """Those of them that spill."""
    read_bytes: int = 0
    """Size of the files that were read."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Why files were skipped, and how many for each reason."""
    failed: list[FileOutcome] = field(default_factory=list)
    """Files that could not be read."""
    kept_kernels: dict[str, int] = field(default_factory=dict)
    """Kernels of each build in the dataset, by label, those of files that were there before included."""
    issues: list[Issue] = field(default_factory=list)
    """What was not understood of the files that were read, in this audit or an earlier one."""

    def count(self, outcome: FileOutcome) -> None:
        """Take in one outcome."""
        self.files[outcome.state] += 1
        if outcome.state == "read":
            self.kernels += outcome.kernels
            self.spilling += outcome.spilling
            self.read_bytes += outcome.size_bytes
        elif outcome.state == "skipped":
            self.reasons[outcome.reason] += 1
        elif outcome.state == "failed":
            self.failed.append(outcome)

    @property
    def understood(self) -> int:
        """Files whose records are in the dataset."""
        return self.files["read"] + self.files["present"]

    def text(self, rows: int | None = None) -> str:
        """A few lines; at most ``rows`` of the failed files. The same however many processes worked on it."""
        return "\n".join(self._lines(rows))

    def _lines(self, rows: int | None) -> Iterator[str]:
        spill = f" ({self.spilling:,} spill)" if self.spilling else ""
        yield f"{counted(self.files['read'])} read: {count(self.kernels, 'kernel')}{spill}, {size(self.read_bytes)}"
        if present := self.files["present"]:
            yield f"{counted(present)} finished before"
        if skipped := self.files["skipped"]:
            reasons = ", ".join(f"{count:,} {why}" for why, count in sorted(self.reasons.items(), key=_most_first))
            yield f"{counted(skipped)} skipped: {reasons}"
        if self.failed:
            yield f"{counted(len(self.failed))} failed:"
            failed = sorted(self.failed, key=lambda outcome: (outcome.label, outcome.uri))
            for outcome in failed[:rows]:
                named = outcome.reason if outcome.uri in outcome.reason else f"{outcome.uri}: {outcome.reason}"
                yield f"  {printable(named, _LONGEST)}"
            if rows is not None and len(failed) > rows:
                yield f"  … {len(failed) - rows:,} more (--all shows them)"
        if len(self.kept_kernels) > 1 and (empty := self._empty()):
            shown = [printable(label, _LONGEST) for label in empty[:rows]]
            yield f"no kernel was read of {count(len(empty), 'build')}: {listed(shown, len(empty) - len(shown))}"
        if kinds := Counter(issue.code for issue in self.issues if issue.hidden):
            codes = ", ".join(f"{number:,} {code}" for code, number in sorted(kinds.items(), key=_most_first))
            yield f"{count(kinds.total(), 'gap')}: {codes}"

    def _empty(self) -> list[str]:
        """Builds of which no kernel was read."""
        return [label for label, kernels in self.kept_kernels.items() if not kernels]

    def unseen(self) -> Iterator[Issue]:
        """Why the audit may have missed something: it saw no kernel of a build, could not read a file, or not all of
        it."""
        for label in self._empty():
            named = f" of the build {printable(label, _LONGEST)}" if len(self.kept_kernels) > 1 else ""
            yield Issue(code="no-kernel", message=f"no kernel was read{named}", severity="error")
        for each in self.failed:
            origin = Origin(input=each.uri)
            yield Issue(code="unreadable", message=each.reason, severity="error", origin=origin)
        yield from self.issues


def _most_first(pair: tuple[str, int]) -> tuple[int, str]:
    return -pair[1], pair[0]


def counted(files: int) -> str:
    """``1 file``, ``2 files``."""
    return count(files, "file")
