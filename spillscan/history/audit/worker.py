"""Run one batch: read its files and write their records into the dataset.

Every file gets an outcome, whatever it does. Only the death of the process leaves some without; ``pool`` handles that.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from spillscan.history.audit import stores
from spillscan.history.audit.messages import Batch, FileOutcome, Item, State
from spillscan.history.audit.stores import retried
from spillscan.model import Build, Issue, Kernel, Origin, Reading
from spillscan.output.errors import InputError, SpillscanError
from spillscan.reading import logs, pipeline
from spillscan.reading.inputs import codecs
from spillscan.reading.inputs.formats import HEAD_BYTES, kind_of_binary, reader_of
from spillscan.reading.inputs.source import Stream
from spillscan.reading.pipeline import contents, has_images

if TYPE_CHECKING:
    from spillscan.history.dataset import Unit

MANY_KERNELS = 5_000
"""Number of kernels read after which they are written; limits memory to this and one file (or one group of files)."""
COMMIT_SECONDS = 2.0
"""Seconds after which records are written, too; a killed audit loses this and one file."""
NO_OUTPUT = "no build output"
"""Reason why most files of a folder are skipped."""
NO_CODE = "no GPU machine code"
"""Reason why most libraries are skipped."""


class Readable(NamedTuple):
    """A file that may contain records."""

    item: Item
    path: str
    """Path on this machine."""
    content_hash: str
    tag: str | None
    """The store's tag of this content."""
    state: tuple[int, int]
    """Size and modification time."""


def run_batch(batch: Batch) -> list[FileOutcome]:
    """Run a batch; returns the outcome of each item once it is in the dataset.

    Raises :class:`~spillscan.SpillscanError` if the dataset cannot be written.
    """
    try:
        return _BatchReader(batch).run()
    except OSError as error:
        raise InputError(f"cannot write {batch.root}: {error.strerror or error}") from error


class _BatchReader:
    """One batch in progress: records and outcomes not yet written."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._known = _units_of(batch.run, batch.root, batch.label)
        self._results: list[tuple[Unit, Build | None]] = []
        self._outcomes: list[FileOutcome] = []
        self._kernels = 0
        self._written = time.monotonic()

    def run(self) -> list[FileOutcome]:
        """Read and write all items; those that belong together as one, the others one by one."""
        items = self._batch.items
        for group in [items] if items[0].together else [[item] for item in items]:
            if self._batch.refused:
                for item in group:
                    self._fail(item, self._batch.refused)
            else:
                self._read_together(group)
            if self._kernels >= MANY_KERNELS or time.monotonic() >= self._written + COMMIT_SECONDS:
                self._write()
        self._write()
        return self._outcomes

    def _read_together(self, group: Sequence[Item]) -> None:
        with ExitStack() as copies:  # copies of remote files
            files = [file for item in group if (file := self._examined(item, copies))]
            if all((file.item.uri, file.content_hash) in self._known.read for file in files):
                for file in files:
                    self._end(file.item, "present")
                return
            readings = [(file, reading) for file in files if (reading := self._reading(file)) is not None]
        if not readings:
            return
        total = Reading()
        for _, reading in readings:
            total.add(reading)
        parts = _by_input(pipeline.build_of(total), [file.item.uri for file, _ in readings])
        for file, reading in readings:
            kernels, issues = parts[file.item.uri]
            self._keep(file, Build(kernels=tuple(kernels), issues=tuple(issues), stats=reading.stats))

    def _examined(self, item: Item, copies: ExitStack) -> Readable | None:
        """The file if it may contain records; else ``None``, after recording its outcome."""
        path, tag = item.path, None
        with self._accounted(item):
            if stores.is_url(item.path):
                if item.store_tag is not None and (item.uri, item.store_tag) in self._known.tags:
                    self._end(item, "present")
                    return None
                if not _may_be_read(stores.beginning(item.path, item.uri, HEAD_BYTES)):
                    self._end(item, "skipped", NO_OUTPUT)
                    return None
                path = copies.enter_context(stores.fetched(item.path, item.uri))
                if item.store_tag is not None and item.store_tag == stores.tag(item.path, item.uri):
                    tag = item.store_tag
            with stores.opened(path, item.uri) as file, Stream(file, item.uri) as stream:
                refusal = _refusal(stream)
                status = os.fstat(file.fileno())
            if refusal:
                self._end(item, "skipped", refusal)
                return None
            content_hash = stores.digest(path, item.uri)
            return Readable(item, path, content_hash, tag, (status.st_size, status.st_mtime_ns))
        return None

    def _reading(self, readable: Readable) -> Reading | None:
        """Records of a file; ``None`` after recording the outcome of a file without any."""
        item = readable.item
        with (
            self._accounted(item, readable.content_hash),
            stores.opened(readable.path, item.uri) as file,
            Stream(file, item.uri) as stream,
        ):
            reading = _reading_of(stream, item.uri)
            status = os.stat(readable.path)
            if (status.st_size, status.st_mtime_ns) != readable.state:
                self._fail(item, f"{item.uri} was written to while it was read; audit it again")
            elif isinstance(reading, str):
                self._end(item, "skipped", reading)
            else:
                return reading
        return None

    @contextmanager
    def _accounted(self, item: Item, content_hash: str = "") -> Iterator[None]:
        """Record any error as the file's outcome."""
        try:
            yield
        except Exception as error:
            reason = f"{item.uri} cannot be read: {type(error).__name__}: {error}"
            if isinstance(error, SpillscanError):
                reason = str(error)
            elif isinstance(error, MemoryError):
                reason = f"not enough memory for {item.uri}"
            self._fail(item, reason, content_hash)

    def _keep(self, file: Readable, build: Build) -> None:
        from spillscan.history.dataset import Unit

        item = file.item
        entries = [kernel for kernel in build.named.kernels if kernel.role == "entry"]
        spilling = sum(any(kernel.spills or ()) for kernel in entries)
        unit = Unit(uri=item.uri, content_hash=file.content_hash, size_bytes=item.size_bytes, store_tag=file.tag)
        self._results.append((unit, build))
        outcome = replace(self._outcome(item, "read"), kernels=len(entries), spilling=spilling)
        self._outcomes.append(outcome)
        self._kernels += len(build.kernels)

    def _fail(self, item: Item, reason: str, content_hash: str = "") -> None:
        from spillscan.history.dataset import Unit

        line = " ".join(reason.split())
        unit = Unit(uri=item.uri, content_hash=content_hash, size_bytes=item.size_bytes, failure=line)
        if (item.uri, content_hash, line) not in self._known.failed:
            self._results.append((unit, None))
        self._outcomes.append(self._outcome(item, "failed", line))

    def _end(self, item: Item, state: State, reason: str = "") -> None:
        self._outcomes.append(self._outcome(item, state, reason))

    def _outcome(self, item: Item, state: State, reason: str = "") -> FileOutcome:
        return FileOutcome(
            label=self._batch.label, uri=item.uri, state=state, reason=reason, size_bytes=item.size_bytes
        )

    def _write(self) -> None:
        from spillscan.history.dataset import write_batch

        results = self._results
        if results:
            batch = self._batch
            retried(lambda: write_batch(batch.root, batch.label, results, batch.meta, batch.begun))
        self._results, self._kernels = [], 0
        self._written = time.monotonic()


def _by_input(build: Build, uris: Sequence[str]) -> dict[str, tuple[list[Kernel], list[Issue]]]:
    """Kernels and issues by the input of their first origin; members of an archive count for the archive."""
    parts: dict[str, tuple[list[Kernel], list[Issue]]] = {uri: ([], []) for uri in uris}

    def part(origin: Origin | None) -> tuple[list[Kernel], list[Issue]]:
        name = origin.input if origin else ""
        return parts.get(name) or parts.get(name.partition("!")[0]) or parts[uris[0]]

    for kernel in build.kernels:
        part(kernel.origins[0] if kernel.origins else None)[0].append(kernel)
    for issue in build.issues:
        part(issue.origin)[1].append(issue)
    return parts


class _Units(NamedTuple):
    """Contents of the dataset when the audit began."""

    read: frozenset[tuple[str, str]]
    """(uri, content hash) of files that were read."""
    failed: frozenset[tuple[str, str, str]]
    """(uri, content hash, reason) of files that could not be read."""
    tags: frozenset[tuple[str, str]]
    """(uri, store tag) of files that were read."""


@lru_cache(maxsize=16)
def _units_of(run: str, root: str, label: str) -> _Units:
    from spillscan.history.dataset import seen

    units = retried(lambda: seen(root, label))
    return _Units(
        frozenset((unit.uri, unit.content_hash) for unit in units if not unit.failed),
        frozenset((unit.uri, unit.content_hash, unit.failure) for unit in units if unit.failure is not None),
        frozenset((unit.uri, unit.store_tag) for unit in units if unit.store_tag is not None and not unit.failed),
    )


def _may_be_read(head: bytes) -> bool:
    """Whether a remote file that begins with ``head`` is worth fetching."""
    return codecs.codec_of(head) is not None or reader_of(head) != ""


def _refusal(stream: Stream) -> str:
    """Reason to skip a file; empty if it is to be read.

    Looks at the beginning of a file, and at the sections of a binary.
    """
    head = stream.head()
    reader = reader_of(head)
    if not reader or (reader == "logs" and len(head) < HEAD_BYTES and logs.silent(head)):
        return NO_OUTPUT
    return NO_CODE if reader == "binary" and not has_images(stream) else ""


def _reading_of(stream: Stream, uri: str) -> Reading | str:
    """Records of a file, or the reason why it is no build output.

    Raises :class:`~spillscan.InputError` if it is one and cannot be read.
    """
    reading = contents(stream, uri)
    if reading is None:
        return NO_OUTPUT
    if reading.understood:
        return reading
    severe = next((issue for issue in reading.issues if issue.severity != "note"), None)
    if severe is not None:
        raise InputError(f"{severe.origin or uri}: {severe.message}")
    return NO_OUTPUT if kind_of_binary(stream.head()) is None else NO_CODE
