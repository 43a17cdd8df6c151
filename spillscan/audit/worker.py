"""A process that reads files and writes what they hold into the dataset: ``python -m spillscan.audit.worker CORES``.

It takes batches from its standard input and says on its standard output how far it is. Whatever a file does to it, no
other process is harmed; what it has not written when it dies is read by the next.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from spillscan import workers
from spillscan.audit import fetch, reading, stores
from spillscan.audit.messages import Batch, Begun, Broken, Done, Ended, Event, Item, Kept, Outcome, Ready, State
from spillscan.audit.patience import patiently
from spillscan.audit.pipe import receive, send
from spillscan.errors import InputError, SpillscanError
from spillscan.inputs.source import HEAD_BYTES, Stream
from spillscan.wrap.record import is_orphan

if TYPE_CHECKING:
    from spillscan.dataset import Unit
    from spillscan.model import Build

MANY_KERNELS = 5_000
"""After so many, what was read is written: memory is bounded by this and one file."""
FAILED_BEFORE = "it could not be read before (--retry-failed tries again)"
"""Why a file is not read that is known to fail."""


class Shift:
    """One batch on its way: what was read of it and is not yet written."""

    def __init__(self, batch: Batch, say: Callable[[Event], None]) -> None:
        self._batch = batch
        self._say = say
        self._known = _known(batch.run, batch.root, batch.label)
        self._results: list[tuple[Unit, Build | None]] = []
        self._outcomes: list[Kept] = []
        self._kernels = 0

    def run(self) -> None:
        """All of its items."""
        for number, item in enumerate(self._batch.items):
            if self._batch.refused:
                self._fail(number, item, self._batch.refused, self._batch.hashes.get(item.uri, ""))
                continue
            self._say(Begun(number))
            if stores.is_url(item.path):
                self._remote(number, item)
            else:
                self._local(number, item, item.path)
            self._say(Ended())
            if self._kernels >= MANY_KERNELS:
                self._write()
        self._write()

    def _remote(self, number: int, item: Item) -> None:
        try:
            if item.store_tag is not None and (item.uri, item.store_tag) in self._known.tags:
                self._end(number, item, "present")
                return
            beginning = fetch.head(item.path, item.uri, HEAD_BYTES)
            if not reading.may_be_read(beginning):
                self._end(number, item, "skipped", reading.NO_OUTPUT)
                return
            with fetch.fetched(item.path, item.uri) as copy:
                same = item.store_tag is not None and item.store_tag == fetch.tag(item.path, item.uri)
                self._local(number, item, copy, item.store_tag if same else None)
        except SpillscanError as error:
            self._fail(number, item, str(error))

    def _local(self, number: int, item: Item, path: str, tag: str | None = None) -> None:
        content_hash = ""
        try:
            with fetch.opened(path, item.uri) as file, Stream(file, item.uri) as stream:
                reader = reading.reader_of(stream)
                if isinstance(reader, str):
                    self._end(number, item, "skipped", reader)
                    return
                if is_orphan(path):
                    self._end(number, item, "skipped", "record of an object that is gone")
                    return
                before = os.fstat(file.fileno())
                content_hash = fetch.digest(path, item.uri)
                self._say(Begun(number, content_hash))
                if (item.uri, content_hash) in self._known.read:
                    self._end(number, item, "present")
                    return
                if (item.uri, content_hash) in self._known.failed and not self._batch.again:
                    self._end(number, item, "failed", FAILED_BEFORE)
                    return
                build = reading.build_of(reader, stream, item.uri)
                if isinstance(build, str):
                    self._end(number, item, "skipped", build)
                    return
                after = os.stat(path)
                if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
                    content_hash = ""
                    raise InputError(f"{item.uri} was written to while it was read", "audit it again")
                self._keep(number, item, content_hash, tag, build)
        except SpillscanError as error:
            self._fail(number, item, str(error), content_hash)
        except MemoryError:
            self._fail(number, item, f"not enough memory for {item.uri}", content_hash)
        except Exception as error:  # a file that the readers are not made for shall not stop the others
            self._fail(number, item, f"{item.uri} cannot be read: {type(error).__name__}: {error}", content_hash)

    def _keep(self, number: int, item: Item, content_hash: str, tag: str | None, build: Build) -> None:
        from spillscan.dataset import Unit

        entries = [kernel for kernel in build.kernels if kernel.role == "entry"]
        spilling = sum(any(kernel.spills or ()) for kernel in entries)
        unit = Unit(uri=item.uri, content_hash=content_hash, size_bytes=item.size_bytes, store_tag=tag)
        self._results.append((unit, build))
        self._note(number, item, "read", kernels=len(entries), spilling=spilling)
        self._kernels += len(build.kernels)

    def _fail(self, number: int, item: Item, reason: str, content_hash: str = "") -> None:
        from spillscan.dataset import Unit

        line = " ".join(reason.split())
        unit = Unit(uri=item.uri, content_hash=content_hash, size_bytes=item.size_bytes, failure=line)
        self._results.append((unit, None))
        self._note(number, item, "failed", line)

    def _note(self, number: int, item: Item, state: State, reason: str = "", **figures: int) -> None:
        self._outcomes.append(Kept(number, self._outcome(item, state, reason, **figures)))

    def _end(self, number: int, item: Item, state: State, reason: str = "") -> None:
        self._say(Kept(number, self._outcome(item, state, reason)))

    def _outcome(self, item: Item, state: State, reason: str, **figures: int) -> Outcome:
        size = item.size_bytes
        return Outcome(label=self._batch.label, uri=item.uri, state=state, reason=reason, size_bytes=size, **figures)

    def _write(self) -> None:
        from spillscan.dataset import write_batch

        results = self._results
        if results:
            patiently(lambda: write_batch(self._batch.root, self._batch.label, results, self._batch.meta))
        for outcome in self._outcomes:
            self._say(outcome)
        self._results, self._outcomes, self._kernels = [], [], 0


class _Known(NamedTuple):
    """What the dataset held when the audit began."""

    read: frozenset[tuple[str, str]]
    """(uri, content hash) of what was read."""
    failed: frozenset[tuple[str, str]]
    """(uri, content hash) of what could not be."""
    tags: frozenset[tuple[str, str]]
    """(uri, tag of its store) of what was read."""


@lru_cache(maxsize=16)
def _known(run: str, root: str, label: str) -> _Known:
    from spillscan.dataset import seen
    from spillscan.dataset.extra import without_pandas

    with without_pandas():
        units = patiently(lambda: seen(root, label))
    return _Known(
        frozenset((unit.uri, unit.content_hash) for unit in units if not unit.failed),
        frozenset((unit.uri, unit.content_hash) for unit in units if unit.failed),
        frozenset((unit.uri, unit.store_tag) for unit in units if unit.store_tag is not None and not unit.failed),
    )


def serve(orders: BinaryIO, answers: BinaryIO) -> None:
    """Carry out batches until nobody sends any more."""
    send(answers, Ready())
    while (batch := receive(orders)) is not None:
        try:
            Shift(batch, lambda event: send(answers, event)).run()
            send(answers, Done())
        except SpillscanError as error:
            send(answers, Broken(error.what, error.hint))
        except BrokenPipeError:
            raise
        except OSError as error:
            send(answers, Broken(f"cannot write {batch.root}: {error.strerror or error}", ""))


def main() -> None:
    """The process. Only its start may complain; later, what files make libraries print is nobody's concern."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to all: who started this process ends it
    workers.limit_processors(int(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "wb")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    try:
        serve(sys.stdin.buffer, answers)
    except BrokenPipeError:
        os._exit(0)  # who started it is gone


if __name__ == "__main__":
    main()
