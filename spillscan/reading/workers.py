"""Processors that this process may use, and processes that each make a part of something, piece by piece.

A process is forked, so that it has what is to be read without a copy, and what it makes comes in order, piece by piece,
while it is made: a pool of a library hands over whole results of finished tasks.
"""

from __future__ import annotations

import mmap
import os
import pickle
import select
import signal
import struct
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Generic, NoReturn, Protocol, TypeVar

from spillscan.output.errors import SpillscanError
from spillscan.reading.inputs import source

_T = TypeVar("_T")
POSSIBLE = hasattr(os, "fork")

_CONTROL_GROUP = Path("/sys/fs/cgroup/cpu.max")
_LENGTH = struct.Struct("<Q")
"""What stands before a message: how many bytes it has."""
_limit: int | None = None
_ending: list[int] = []
"""Processes that have sent all. To give back what they hold of memory takes them a while, for which nobody waits."""


def limit_processors(count: int) -> None:
    """Let this process use no more than ``count``: it is one of several that share the machine."""
    global _limit  # noqa: PLW0603 - a property of the process, as its affinity is
    _limit = count


def processors() -> int:
    """Processors that the scheduler lets this process have, no more than its control group pays for, nor than
    :func:`limit_processors` says."""
    found = _granted()
    return found if _limit is None else max(1, min(found, _limit))


def _granted() -> int:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = _CONTROL_GROUP.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return count
    return max(1, min(count, -(-int(quota) // int(period)))) if quota.isdigit() else count


def send(stream: BinaryIO, message: object) -> None:
    """Write ``message`` to another process of this program, at once: it may wait for it. Raises ``BrokenPipeError``
    where the other side has gone."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def receive(stream: BinaryIO) -> bytes:
    """The next message, pickled; empty where the other side has gone, in the middle of one or not."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return b""
    (size,) = _LENGTH.unpack(head)
    data = stream.read(size)
    return data if len(data) == size else b""


class Workers:
    """A process for each of some iterables; use as a context manager, at whose end none works any more.

    What they send is kept until it is asked for, so that none has to wait.
    """

    def __init__(self, parts: Sequence[Iterable[Any]], failure: str, *, fewer: bool = False) -> None:
        """``failure``: what a process that dies leaves undone; ``fewer``: others do what is left where the system gives
        fewer processes. Else it raises :class:`SpillscanError`."""
        self._workers: list[Worker] = []
        for part in parts:
            try:
                self._workers.append(Worker(part, failure))
            except OSError as error:
                if fewer:
                    break
                self.__exit__()
                why = f"the system gives no other process: {error.strerror}"
                raise SpillscanError(f"{failure}: {why}", "end some, or let it have one processor") from error

    def __enter__(self) -> Sequence[Worker]:
        return self._workers

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stop()


class Worker:
    """One process, and what it sends: it lies in memory that both have, and a pipe says how much of it is there."""

    def __init__(self, part: Iterable[Any], failure: str) -> None:
        _ending[:] = [process for process in _ending if not _has_ended(process)]
        self._failure = failure
        self._taken_bytes = 0
        opened = [*os.pipe()]
        self._pipe, writable = opened
        with warnings.catch_warnings():  # it does not use the threads that libraries started
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                self._memory = _memory()
                opened.append(self._memory)
                self._process = os.fork()
            except OSError:
                for descriptor in opened:
                    os.close(descriptor)
                raise
        if not self._process:
            os.close(self._pipe)
            _make(part, self._memory, writable)
        os.close(writable)

    def fileno(self) -> int:
        """What can be read from as soon as :meth:`receive` need not wait."""
        return self._pipe

    def items(self) -> Iterator[Any]:
        """All that the process makes, as it comes. Raises :class:`SpillscanError` where it did not come to its end."""
        while (item := self.receive()) is not None:
            yield item

    def receive(self) -> Any:
        """What the process has made next; ``None``: that was all. Raises :class:`SpillscanError` where it did not come
        to its end."""
        head = os.read(self._pipe, _LENGTH.size)  # it is written at once, or not at all
        if not head:
            self._fail()
        (size,) = _LENGTH.unpack(head)
        if not size:
            _ending.append(self._process)
            self._process = 0
            return None
        begin = self._taken_bytes
        self._taken_bytes += _whole_pages(size)
        with mmap.mmap(self._memory, size, offset=begin) as data:
            item = pickle.loads(data)
            if hasattr(mmap, "MADV_REMOVE"):
                with suppress(OSError):  # no system must
                    data.madvise(mmap.MADV_REMOVE)
        return item

    def _fail(self) -> NoReturn:
        _, status = os.waitpid(self._process, 0)
        self._process = 0
        code = os.waitstatus_to_exitcode(status)
        how = f"was killed by signal {-code}" if code < 0 else "failed"
        raise SpillscanError(f"{self._failure}: a process that had a part of it {how}", "is there memory enough?")

    def stop(self) -> None:
        """End the process, if it still runs."""
        if self._process:
            with suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
            self._process = 0
        os.close(self._pipe)
        os.close(self._memory)


def _has_ended(process: int) -> bool:
    try:
        return os.waitpid(process, os.WNOHANG) != (0, 0)
    except ChildProcessError:  # somebody else saw it off
        return True


def _keep_freed() -> None:
    """Let this process use again what it has freed. Else glibc gives large blocks back, and the pages of the next one
    are made anew: half of all page faults, for which processes wait for each other in the system."""
    with suppress(ImportError, OSError, AttributeError):  # another C library
        import ctypes

        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)


_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
"""As glibc's malloc.h numbers them."""


def _memory() -> int:
    """A file that lies in memory where the system has such, and in no folder."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("spillscan")
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _whole_pages(size: int) -> int:
    return -(-size // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY


def _make(part: Iterable[Any], memory: int, pipe: int) -> NoReturn:
    """What a process does. It never returns, and leaves nothing of the caller's behind: buffers, handlers."""
    status = 1
    try:
        _ending.clear()  # they are the caller's
        _keep_freed()
        with os.fdopen(memory, "wb", source.BLOCK_BYTES) as stream:
            begin = 0
            for item in part:
                pickle.dump(item, stream, pickle.HIGHEST_PROTOCOL)
                end = stream.tell()
                stream.flush()
                os.write(pipe, _LENGTH.pack(end - begin))
                begin += _whole_pages(end - begin)
                stream.seek(begin)
            os.write(pipe, _LENGTH.pack(0))
        status = 0
    finally:
        os._exit(status)


LEAST_BYTES = 64 << 20
"""Of a share, decompressed: below, a process costs more than it saves."""
_MOST = 8
"""Processes."""
_PORTIONS = 16
"""Of what is left for each process, the next is one: they become smaller, so that at the end none waits long."""
_MOST_PORTIONS = 128
"""The least portion is so small a part of what each process has."""

_HEAP_BYTES = 31 << 20
"""glibc takes larger blocks from the system one by one, and smaller ones, too, until one of their size was freed, and
gives back what is free beyond twice that: each member's pages would be made anew. So one that is never touched is freed
at first."""


class Post(Protocol):
    """How what is read goes from one process to another. There is one on each side, which may remember what went."""

    def packed(self, items: Iterable[Any]) -> Any:
        """What was read of one thing, as it is sent."""

    def unpacked(self, sent: Any) -> Sequence[Any]:
        """What was sent."""


class Plain:
    """As it is."""

    def packed(self, items: Iterable[Any]) -> Any:
        """See :class:`Post`."""
        return list(items)

    def unpacked(self, sent: Any) -> Sequence[Any]:
        """See :class:`Post`."""
        found: Sequence[Any] = sent
        return found


class Numbers(Generic[_T]):
    """Records that go from one process to another as numbers, known by their identity, each itself but once. There is
    one on each side."""

    def __init__(self) -> None:
        self._known: list[_T] = []
        self._numbers: dict[int, int] = {}
        """By identity, of those that were sent."""

    def __len__(self) -> int:
        return len(self._known)

    def clear(self) -> None:
        """Number anew."""
        self._known.clear()
        self._numbers.clear()

    def of(self, records: Sequence[_T]) -> tuple[list[int], list[_T]]:
        """The number of each, and those that were not sent yet."""
        numbers, known = self._numbers, self._known
        first = len(known)
        for each in records:
            if id(each) not in numbers:
                numbers[id(each)] = len(known)
                known.append(each)
        return [numbers[id(each)] for each in records], known[first:]

    def records(self, numbers: Iterable[int], fresh: Iterable[_T]) -> Iterator[_T]:
        """Those that the other side's numbers stand for; ``fresh``: what it sent with them."""
        self._known += fresh
        return map(self._known.__getitem__, numbers)


def shared(
    found: Sequence[_T],
    sizes: Sequence[int],
    read: Callable[[_T], Iterable[Any]],
    failure: str,
    least: int | None = None,
    kind: Callable[[_T], str] = lambda _: "",
) -> Iterator[tuple[_T, Iterable[Any]]]:
    """Each thing that was ``found``, in order, with what is ``read`` of it; for the rest see :func:`as_they_come`. What
    comes before its turn is kept."""
    waiting: dict[int, Iterable[Any]] = {}
    turn = 0
    for at, items in as_they_come(found, sizes, read, failure, least, kind):
        if at != turn:
            waiting[at] = list(items)
            continue
        yield found[at], items
        turn += 1
        while turn in waiting:
            yield found[turn], waiting.pop(turn)
            turn += 1


def as_they_come(
    found: Sequence[_T],
    sizes: Sequence[int],
    read: Callable[[_T], Iterable[Any]],
    failure: str,
    least: int | None = None,
    kind: Callable[[_T], str] = lambda _: "",
    post: Callable[[], Post] = Plain,
) -> Iterator[tuple[int, Iterable[Any]]]:
    """The number of each thing that was ``found``, with what is ``read`` of it, by as many processes as pay. ``sizes``:
    how much that is; ``least``: of a share (default: :data:`LEAST_BYTES`); ``kind``: of one kind a process reads as
    much as it can, since it remembers what it has seen. What is read of one is to be taken before the next is asked
    for. Raises :class:`~spillscan.SpillscanError` where a process dies: ``failure`` says what it leaves undone.

    Whoever is free takes the next portion of its own share, and then of another's; this process between what else it
    does.
    """
    count = max(1, min(processors(), sum(sizes) // (least or LEAST_BYTES), _MOST)) if POSSIBLE else 1
    bytes(_HEAP_BYTES)
    if count == 1:
        for at, each in enumerate(found):
            yield at, read(each)
        return
    shares = portions(sizes, list(map(kind, found)), count)
    parts = [part for share in shares for part in share]
    with Tickets([len(share) for share in shares]) as tickets:

        def share(own: int, mine: Post) -> Iterator[tuple[int, list[Any]]]:
            while (number := tickets.take(own)) is not None:
                yield number, [mine.packed(read(found[at])) for at in parts[number]]

        posts = [post() for _ in range(1, count)]
        made = [share(own, each) for own, each in enumerate(posts, 1)]
        with Workers(made, failure, fewer=True) as running:
            working = dict(zip(running, posts, strict=False))
            while (number := tickets.take(0)) is not None:
                for at in parts[number]:
                    yield at, read(found[at])
                yield from _arrived(working, parts, wait=False)
            while working:
                yield from _arrived(working, parts, wait=True)


def _arrived(
    working: dict[Worker, Post], parts: Sequence[Sequence[int]], *, wait: bool
) -> Iterator[tuple[int, Sequence[Any]]]:
    """What those who are ``working`` have sent, a message of each at most."""
    poll = select.poll()
    for worker in working:
        poll.register(worker, select.POLLIN)
    ready = {descriptor for descriptor, _ in poll.poll(None if wait else 0)}
    for worker in [each for each in working if each.fileno() in ready]:
        message = worker.receive()
        if message is None:
            del working[worker]
            continue
        number, sent = message
        for at, items in zip(parts[number], sent, strict=True):
            yield at, working[worker].unpacked(items)


class Tickets:
    """Numbers from 0 on, in queues of so many each. Each number is taken once, by any of the processes that are forked
    while they are there."""

    def __init__(self, counts: Sequence[int]) -> None:
        self._queues: list[int] = []
        first = 0
        for count in counts:
            readable, writable = os.pipe()
            self._queues.append(readable)
            os.write(writable, b"".join(map(_TICKET.pack, range(first, first + count))))  # a pipe holds a page at least
            os.close(writable)
            first += count

    def __enter__(self) -> Tickets:
        return self

    def __exit__(self, *_: object) -> None:
        for readable in self._queues:
            os.close(readable)

    def take(self, own: int) -> int | None:
        """The next one, of one's ``own`` queue before the others; ``None``: there is none left."""
        for at in range(own, own + len(self._queues)):
            if ticket := os.read(self._queues[at % len(self._queues)], _TICKET.size):
                return int(_TICKET.unpack(ticket)[0])
        return None


_TICKET = struct.Struct("<I")


def portions(sizes: Sequence[int], kinds: Sequence[str], count: int) -> list[list[list[int]]]:
    """What each of so many processes reads, portion by portion, in order: as few kinds as can be, and of a kind that
    several read, portions in turn, so that all come to its end together. Where there are fewer kinds, one share for
    all. Portions become smaller the less is left."""
    shares = count if len(set(kinds)) >= count else 1
    readers = count // shares  # of each share
    due = _due(sizes, kinds, shares)
    rest = {kind: dict(owners) for kind, owners in due.items()}
    reader = {kind: next(iter(owners)) for kind, owners in due.items()}
    left = [sum(owners.get(each, 0) for owners in due.values()) for each in range(shares)]
    least = [whole / (_MOST_PORTIONS * readers) for whole in left]
    found: list[list[list[int]]] = [[] for _ in range(shares)]
    part: list[list[int]] = [[] for _ in range(shares)]
    held = [0] * shares
    for at, (kind, size) in enumerate(zip(kinds, sizes, strict=True)):
        mine = reader[kind]
        part[mine].append(at)
        held[mine] += size
        rest[kind][mine] -= size
        if held[mine] > max(least[mine], left[mine] / (_PORTIONS * readers)):
            found[mine].append(part[mine])
            left[mine] -= held[mine]
            part[mine], held[mine] = [], 0
            for each, owners in due.items():
                if len(owners) > 1 and reader[each] == mine:
                    reader[each] = max(owners, key=lambda owner: rest[each][owner] / (owners[owner] or 1))
    for portion, last in zip(found, part, strict=True):
        if last:
            portion.append(last)
    return found


def _due(sizes: Sequence[int], kinds: Sequence[str], count: int) -> dict[str, dict[int, float]]:
    """How much of each kind each of so many processes reads: all the same in all, of few kinds."""
    whole: Counter[str] = Counter()
    for kind, size in zip(kinds, sizes, strict=True):
        whole[kind] += size
    due: dict[str, dict[int, float]] = {kind: {} for kind in sorted(whole)}
    owner, room = 0, sum(sizes) / count
    for kind, owners in due.items():
        left: float = whole[kind]
        while owner < count - 1 and left > room:
            owners[owner] = room
            left -= room
            owner, room = owner + 1, sum(sizes) / count
        owners[owner] = left
        room -= left
    return due
