"""Reads one large dump on several cores: each process reads a range of whole functions.

Processes take turns, range by range, as some parts of a dump cost more than others. A range begins where a function
does. What its lines do not say is what stands before them: how many lines there are,
and which cubin they are in. That is filled in when the ranges are put together, in their order, so that records, issues
and counts are those of one reader.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import threading
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from queue import SimpleQueue
from typing import BinaryIO, NamedTuple, NoReturn

from spillscan import cores
from spillscan.errors import SpillscanError
from spillscan.model import Issue, Origin
from spillscan.sass import complaints, terminals
from spillscan.sass.accesses import Accesses
from spillscan.sass.blocks import SIZE
from spillscan.sass.code import instruction_bytes
from spillscan.sass.complaints import Complaints
from spillscan.sass.dump import FORMAT, Dump, Place
from spillscan.sass.headers import BEFORE_ALL, Cubin
from spillscan.sass.model import Outcome, SassFunction
from spillscan.sass.rows import Rows

LEAST_BYTES = 32 << 20
"""Of a range: below, a process costs more than it saves."""

_MOST = 8
"""Processes."""

TURNS = 4
"""Ranges of one process."""

_SEARCHED = 1 << 16
"""Bytes that are searched at once for the beginning of a function."""

_BEFORE = Cubin(0, "sm_70\n", "identifier\n", "object\n")
"""What a range does not know; no line of a dump can hold a line end. The arch counts two words an instruction."""

_MANY = 32
"""Items that travel together."""

_LENGTH = struct.Struct("<Q")
"""What stands before them: how many bytes they are."""


class Extent(NamedTuple):
    """A part of a file that can be read anywhere."""

    descriptor: int
    begin: int
    end: int


class _Part:
    """A stream of an extent; several processes read from one descriptor, so nobody moves its offset."""

    def __init__(self, extent: Extent) -> None:
        self._extent, self._at = extent, extent.begin

    def readinto(self, view: memoryview, /) -> int:
        count = os.preadv(self._extent.descriptor, [view[: self._extent.end - self._at]], self._at)
        self._at += count
        return count

    def read(self, size: int, /) -> bytes:
        data = os.pread(self._extent.descriptor, min(size, self._extent.end - self._at), self._at)
        self._at += len(data)
        return data


class _End(NamedTuple):
    """What a process says last."""

    outcome: Outcome
    place: Place
    complete: bool
    """The reader came to the end of its range."""


def cuts(extent: Extent, count: int) -> list[Extent]:
    """At most ``count`` ranges of about the same size; each but the first begins with a function's header line."""
    header = terminals.line_starts("function")
    begins = [extent.begin]
    for number in range(1, count):
        at = extent.begin + (extent.end - extent.begin) * number // count
        while at < extent.end:
            data = os.pread(extent.descriptor, min(_SEARCHED, extent.end - at), at)
            first = data.find(b"\n") + 1  # a match at the beginning may be the middle of a line
            last = data.rfind(b"\n") + 1
            if not data or not last:
                at += len(data) or extent.end
                continue
            if found := header.search(data, first, last):
                begins.append(at + found.start())
                break
            at += max(last - 1, 1)
    begins = sorted(set(begins))
    return [Extent(extent.descriptor, begin, end) for begin, end in zip(begins, [*begins[1:], extent.end], strict=True)]


def worthwhile(descriptor: int, size: int) -> list[Extent]:
    """The ranges of a file for the processors at hand: one where more would not pay."""
    extent = Extent(descriptor, 0, size)
    count = processes(size)
    return cuts(extent, count * TURNS) if count > 1 else [extent]


def processes(size: int) -> int:
    """How many are worth their cost for so many bytes."""
    if not (hasattr(os, "fork") and hasattr(os, "preadv")):
        return 1
    return max(1, min(cores.available(), size // LEAST_BYTES, _MOST))


class Ranges:
    """A dump as :class:`~spillscan.sass.dump.Dump` reads it, by several processes.

    The calling process reads the first range itself, and each one when it is its turn again; what the others found is
    kept until it is theirs.
    """

    def __init__(self, ranges: Sequence[Extent], origin: str, size: int = SIZE) -> None:
        self.outcome = Outcome()
        self._ranges = ranges
        self._processes = max(2, processes(ranges[-1].end - ranges[0].begin))
        self._origin = origin
        self._size = size
        self._unknown = 0
        self._rows = Rows()

    def __iter__(self) -> Iterator[SassFunction | Issue]:
        turns = [self._ranges[first :: self._processes] for first in range(1, self._processes)]
        workers = [_Worker(extents, self._origin, self._size) for extents in turns if extents]
        try:
            for worker in workers:
                worker.listen()
            end = _End(self.outcome, Place(1, BEFORE_ALL), complete=True)
            for number, extent in enumerate(self._ranges):
                turn = number % self._processes
                if turn and end.place.cubin.member >= 0:
                    end = yield from self._filled(workers[turn - 1], end.place)
                else:
                    if turn:  # the dump has no headers: nothing can be filled in
                        workers[turn - 1].skip()
                    end = yield from self._direct(extent, end.place)
                if not end.complete:
                    break
            else:
                for worker in workers:
                    worker.ended()
        finally:
            for worker in workers:
                worker.stop()
        yield from Complaints(self._origin, FORMAT, self.outcome).summary()

    def _direct(self, extent: Extent, place: Place) -> Generator[SassFunction | Issue, None, _End]:
        dump = Dump(_Part(extent), self._origin, size=self._size, place=place, rows=self._rows)
        yield from self._shown(dump.items())
        self._add(dump.outcome)
        return _End(dump.outcome, dump.place, dump.complete)

    def _filled(self, worker: _Worker, before: Place) -> Generator[SassFunction | Issue, None, _End]:
        end = None
        for item in worker.items():
            if isinstance(item, _End):
                end = item
            else:
                yield from self._shown([_filled_in(item, before)])
        assert end
        self._add(end.outcome)
        return end._replace(place=Place(end.place.line + before.line - 1, _cubin(end.place.cubin, before.cubin)))

    def _shown(self, items: Iterable[SassFunction | Issue]) -> Iterator[SassFunction | Issue]:
        """Each reader shows some unknown lines; together they show no more."""
        for item in items:
            if isinstance(item, Issue) and item.code == "unknown-line":
                self._unknown += 1
                if self._unknown > complaints.SHOWN:
                    continue
            yield item

    def _add(self, outcome: Outcome) -> None:
        for name in ("lines", "bytes", "functions", "unknown_lines", "undecodable_bytes"):
            setattr(self.outcome, name, getattr(self.outcome, name) + getattr(outcome, name))


def _cubin(cubin: Cubin, before: Cubin) -> Cubin:
    """A cubin of a range, with what stands before it filled in."""
    return Cubin(
        member=before.member + cubin.member,
        arch=before.arch if cubin.arch == _BEFORE.arch else cubin.arch,
        identifier=before.identifier if cubin.identifier == _BEFORE.identifier else cubin.identifier,
        object=before.object if cubin.object == _BEFORE.object else cubin.object,
    )


def _filled_in(item: SassFunction | Issue, before: Place) -> SassFunction | Issue:
    """An item of a range, with what stands before it filled in."""
    if isinstance(item, Issue):
        return replace(item, origin=_moved(item.origin, before))
    cubin, stats = before.cubin, item.stats
    local = stats.local
    if isinstance(local.accesses, Accesses):
        lines = [line + before.line - 1 for line in local.accesses.lines if line is not None]
        local = replace(local, accesses=replace(local.accesses, lines=lines))
    arch, code_bytes = item.arch, stats.code_bytes
    if arch == _BEFORE.arch:
        arch = cubin.arch
        if code_bytes:
            last = code_bytes - instruction_bytes(_BEFORE.arch, 0)
            code_bytes = last + instruction_bytes(arch, last)
    names = {_BEFORE.identifier: cubin.identifier or cubin.unit, _BEFORE.object: cubin.unit}
    return replace(
        item,
        arch=arch,
        member=item.member + cubin.member,
        identifier=names.get(item.identifier, item.identifier),
        stats=replace(stats, local=local, code_bytes=code_bytes, origin=_moved(stats.origin, before)),
    )


def _moved(origin: Origin | None, before: Place) -> Origin | None:
    if origin is None or origin.line is None:
        return origin
    return replace(origin, line=origin.line + before.line - 1)


class _Worker:
    """A process that reads some ranges, and a thread that keeps what it says until it is asked for."""

    def __init__(self, extents: Sequence[Extent], origin: str, size: int) -> None:
        self._origin = origin
        self._said: SimpleQueue[bytes] = SimpleQueue()
        readable, writable = os.pipe()
        with warnings.catch_warnings():  # it does not use the threads that libraries started
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process = os.fork()
        if not self._process:
            os.close(readable)
            _read(extents, origin, size, writable)
        os.close(writable)
        self._pipe = os.fdopen(readable, "rb")
        self._listener = threading.Thread(target=self._listen, daemon=True)

    def listen(self) -> None:
        """Begin to take what the process says, so that it need not wait."""
        self._listener.start()

    def _listen(self) -> None:
        while len(head := self._pipe.read(_LENGTH.size)) == _LENGTH.size:
            self._said.put(self._pipe.read(*_LENGTH.unpack(head)))
        self._said.put(b"")

    def items(self) -> Iterator[SassFunction | Issue | _End]:
        """What the process said of its next range; the last is its end."""
        while said := self._said.get():
            try:
                items = pickle.loads(said)
            except (EOFError, pickle.UnpicklingError):  # it died while it wrote
                break
            yield from items
            if isinstance(items[-1], _End):
                return
        self.ended()
        raise self._error("failed")

    def skip(self) -> None:
        """Nobody wants to know what the next range holds."""
        for _ in self.items():
            pass

    def ended(self) -> None:
        """The process has said all; raises what became of it otherwise."""
        _, status = os.waitpid(self._process, 0)
        self._process = 0
        if status:
            code = os.waitstatus_to_exitcode(status)
            raise self._error(f"was killed by signal {-code}" if code < 0 else "failed")

    def _error(self, how: str) -> SpillscanError:
        message = f"{self._origin} was not read: a process that read a part of it {how}"
        return SpillscanError(message, "is there memory enough?")

    def stop(self) -> None:
        """End the process, if it still runs."""
        if self._process:
            with suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
            self._process = 0
        if self._listener.is_alive():
            self._listener.join()
        self._pipe.close()


def _read(extents: Sequence[Extent], origin: str, size: int, descriptor: int) -> NoReturn:
    """What a process does. It never returns, and leaves nothing of the caller's behind: buffers, handlers."""
    status = 1
    try:
        with os.fdopen(descriptor, "wb") as said:
            rows = Rows()
            for extent in extents:
                dump = Dump(_Part(extent), origin, size=size, place=Place(1, _BEFORE), rows=rows)
                items: list[SassFunction | Issue | _End] = []
                for item in dump.items():
                    items.append(item)
                    if len(items) == _MANY:
                        _say(said, items)
                        items = []
                _say(said, [*items, _End(dump.outcome, dump.place, dump.complete)])
                said.flush()
        status = 0
    finally:
        os._exit(status)


def _say(said: BinaryIO, items: Sequence[SassFunction | Issue | _End]) -> None:
    data = pickle.dumps(items, pickle.HIGHEST_PROTOCOL)
    said.write(_LENGTH.pack(len(data)))
    said.write(data)
