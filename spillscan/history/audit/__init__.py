"""Audit: read every log, disassembly, object, library and archive below some folders or URLs into a dataset.

``find`` lists files, ``messages`` deals them into batches. A ``worker`` process reads a batch and writes it into the
dataset; it may crash. ``pool`` runs the workers on this machine or a cluster, and handles file names only.
:class:`Summary` is the result.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol
from uuid import uuid4

from spillscan.history.audit.find import Selection, find
from spillscan.history.audit.messages import Batch, FileOutcome, Item, State, batched
from spillscan.model import Issue, Origin
from spillscan.output.errors import UndecidedError
from spillscan.output.nouns import count, listed, size
from spillscan.output.safe import printable
from spillscan.reading import workers

__all__ = ["Plan", "Selection", "Summary", "Watcher", "audit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Inputs, dataset and processes of an audit."""

    builds: Mapping[str, Sequence[str]]
    """Files, folders, glob patterns and URLs by label."""
    into: str
    """Dataset: a folder or a URL."""
    meta: Mapping[str, str] = field(default_factory=dict)
    """Metadata to store with each build."""
    selection: Selection = field(default_factory=Selection)
    """Files to leave out."""
    processes: int | None = None
    """Processes on this machine; ``None``: one per processor."""
    scheduler: str | None = None
    """Address of a Dask scheduler whose workers run the audit instead."""


class Watcher(Protocol):
    """Receiver of an audit's progress."""

    def expect(self, items: Sequence[Item]) -> None:
        """Announce the files to read."""

    def count(self, outcome: FileOutcome) -> None:
        """Report the outcome of one file."""


def audit(plan: Plan, watcher: Watcher | None = None) -> Summary:
    """Read all new files, write them into the dataset, and return a summary.

    May be killed at any moment and called again: finished files are not read twice, and readers leave a build out until
    its audit has finished. Raises
    :class:`~spillscan.SpillscanError` if an input does not exist, the dataset cannot be written, the cluster does not
    answer, or the audit is interrupted; never for a file that cannot be read.
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
        with _unfinished(plan, root, items), closing(_outcomes(plan, root, items)) as outcomes:
            for outcome in outcomes:
                summary.count(outcome)
                if watcher is not None:
                    watcher.count(outcome)
    except KeyboardInterrupt:
        done, known = summary.files.total(), summary.files["skipped"] + sum(map(len, items.values()))
        what = f"interrupted after {done:,} of {count(known, 'file')}"
        raise UndecidedError(what, "run the same command again to continue") from None
    if summary.files["read"] or summary.failed:
        from spillscan.history.dataset.merge import merge

        merge(root, plan.builds)
    if summary.understood:
        _take_stock(summary, root, plan.builds)
    return summary


@contextmanager
def _unfinished(plan: Plan, root: str, items: Mapping[str, Sequence[Item]]) -> Iterator[None]:
    """Marks in the dataset that the builds are incomplete; the same inputs, audited to the end, remove them."""
    from spillscan.history.dataset.store import PENDING, Store, digest, folder
    from spillscan.history.dataset.writing import checked

    checked(plan.meta)  # a wrong call leaves no marks
    store = Store(root)
    marks = {f"{folder(PENDING, label)}/{digest(*inputs)}": "\n".join(inputs) for label, inputs in plan.builds.items()}
    for path, inputs in marks.items() if any(items.values()) else ():
        store.put(path, inputs.encode("utf-8", "surrogateescape"))
    yield
    store.delete(list(marks))


def _take_stock(summary: Summary, root: str, labels: Iterable[str]) -> None:
    """Add kernel counts and issues of the whole builds in the dataset, including files of earlier audits."""
    from spillscan.history.dataset import open_dataset

    dataset = open_dataset(root)
    for kept in dataset.summary([build for build in dataset.builds if build.label in labels]):
        summary.kept_kernels[kept.build.label] = kept.kernels
        summary.kept_spilling += kept.spilling
        summary.issues += kept.issues


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
        for part in batched(some, workers)
    ]


_LONGEST = 300
"""Maximum characters of one reason."""


@dataclass(slots=True, kw_only=True)
class Summary:
    """Counts and failures of one audit."""

    files: Counter[State] = field(default_factory=Counter)
    """Number of files per outcome."""
    kernels: int = 0
    """Kernel records of the files that were read: two for a kernel of a log and of its object."""
    spilling: int = 0
    """Number of these records that spill."""
    read_bytes: int = 0
    """Size of the files that were read."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Number of skipped files per reason."""
    failed: list[FileOutcome] = field(default_factory=list)
    """Files that could not be read."""
    kept_kernels: dict[str, int] = field(default_factory=dict)
    """Kernels of each build in the dataset, by label, including files that were already there."""
    kept_spilling: int = 0
    """Number of these kernels that spill."""
    issues: list[Issue] = field(default_factory=list)
    """Issues of the files in the dataset, from this audit or an earlier one."""

    def count(self, outcome: FileOutcome) -> None:
        """Add one outcome."""
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
        """The summary in a few lines, with at most ``rows`` failed files; independent of the number of processes."""
        return "\n".join(self._lines(rows))

    def _lines(self, rows: int | None) -> Iterator[str]:
        records = _kernels(self.kernels, self.spilling, "kernel record")
        yield f"{counted(self.files['read'])} read: {records}, {size(self.read_bytes)}"
        if self.understood and (kept := sum(self.kept_kernels.values())) < self.kernels:
            yield f"after joining records of the same kernel: {_kernels(kept, self.kept_spilling, 'kernel')}"
        if present := self.files["present"]:
            yield f"{counted(present)} already in the dataset"
        if skipped := self.files["skipped"]:
            reasons = ", ".join(f"{why} ({count:,})" for why, count in sorted(self.reasons.items(), key=_most_first))
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
            yield f"no kernel was read from {count(len(empty), 'build')}: {listed(shown, len(empty) - len(shown))}"
        if kinds := Counter(issue.code for issue in self.issues if issue.hidden):
            codes = ", ".join(f"{code} ({number:,})" for code, number in sorted(kinds.items(), key=_most_first))
            yield f"{count(kinds.total(), 'gap')}: {codes}"

    def _empty(self) -> list[str]:
        """Labels of builds without kernels."""
        return [label for label, kernels in self.kept_kernels.items() if not kernels]

    def unseen(self) -> Iterator[Issue]:
        """Reasons why the audit may be incomplete: a build without kernels, or a file that was not read completely."""
        for label in self._empty():
            named = f" from the build {printable(label, _LONGEST)}" if len(self.kept_kernels) > 1 else ""
            yield Issue(code="no-kernel", message=f"no kernel was read{named}", severity="error")
        for each in self.failed:
            origin = Origin(input=each.uri)
            yield Issue(code="unreadable", message=each.reason, severity="error", origin=origin)
        yield from self.issues


def _kernels(number: int, spilling: int, noun: str) -> str:
    return count(number, noun) + (f" ({spilling:,} spilling)" if spilling else "")


def _most_first(pair: tuple[str, int]) -> tuple[int, str]:
    return -pair[1], pair[0]


def counted(files: int) -> str:
    """``1 file``, ``2 files``."""
    return count(files, "file")
