"""Processors that this process may use, and processes that each make a part of something, piece by piece.

A process is forked, so that it has what is to be read without a copy, and what it makes comes in order, piece by piece,
while it is made: a pool of a library hands over whole results of finished tasks.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO, NoReturn, TypeVar

from spillscan.errors import SpillscanError
from spillscan.inputs import source

_T = TypeVar("_T")
POSSIBLE = hasattr(os, "fork")

_CONTROL_GROUP = Path("/sys/fs/cgroup/cpu.max")
_SWITCH_SECONDS = 0.0002
"""A thread that takes what a process sends has this process's interpreter after that time. By default it waits 5 ms
each time that the pipe is full, and the other process with it."""
_LENGTH = struct.Struct("<Q")
"""What stands before a message: how many bytes it has."""
_limit: int | None = None


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
    """A process for each of some iterables; use as a context manager, at whose end none is left.

    What they send is taken at once and kept until it is asked for, so that none has to wait.
    """

    def __init__(self, parts: Sequence[Iterable[Any]], failure: str, arrivals: Arrivals | None = None) -> None:
        """``failure``: what a process that dies leaves undone; ``arrivals``: where what all of them send is kept. Those
        take what is left, whoever is free: where the system gives fewer processes, fewer do. Else it raises
        :class:`SpillscanError`."""
        self._workers: list[Worker] = []
        self._switch_seconds = sys.getswitchinterval()
        for part in parts:
            try:
                self._workers.append(Worker(part, failure, arrivals))
            except OSError as error:
                if arrivals is not None:
                    break
                self.__exit__()
                why = f"the system gives no other process: {error.strerror}"
                raise SpillscanError(f"{failure}: {why}", "end some, or let it have one processor") from error
        for worker in self._workers:  # no thread may run while a process is forked
            worker.listen()

    def __enter__(self) -> Sequence[Worker]:
        sys.setswitchinterval(_SWITCH_SECONDS)
        return self._workers

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stop()
        sys.setswitchinterval(self._switch_seconds)


class Worker:
    """One process, and a thread that keeps what it sends."""

    def __init__(self, part: Iterable[Any], failure: str, arrivals: Arrivals | None = None) -> None:
        self._failure = failure
        self._arrivals: Arrivals = SimpleQueue() if arrivals is None else arrivals
        readable, writable = os.pipe()
        with warnings.catch_warnings():  # it does not use the threads that libraries started
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                self._process = os.fork()
            except OSError:
                os.close(readable)
                os.close(writable)
                raise
        if not self._process:
            os.close(readable)
            _make(part, writable)
        os.close(writable)
        self._pipe = os.fdopen(readable, "rb", source.BLOCK_BYTES)
        source.widen(self._pipe)
        self._listener = threading.Thread(target=self._listen, daemon=True)

    def listen(self) -> None:
        """Begin to take what the process sends."""
        self._listener.start()

    def _listen(self) -> None:
        while message := receive(self._pipe):
            self._arrivals.put((self, message))
        self._arrivals.put((self, b""))

    def items(self) -> Iterator[Any]:
        """All that the process makes, as it comes. Raises :class:`SpillscanError` where it did not come to its end."""
        while message := self._arrivals.get()[1]:
            yield pickle.loads(message)
        self.end()

    def end(self) -> None:
        """See the process off that has sent all. Raises :class:`SpillscanError` where it did not come to its end."""
        _, status = os.waitpid(self._process, 0)
        self._process = 0
        if status:
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
        if self._listener.is_alive():
            self._listener.join()
        self._pipe.close()


Arrivals = SimpleQueue[tuple[Worker, bytes]]
"""Messages, and who sent them; an empty one is its last."""


def _make(part: Iterable[Any], descriptor: int) -> NoReturn:
    """What a process does. It never returns, and leaves nothing of the caller's behind: buffers, handlers."""
    status = 1
    try:
        with os.fdopen(descriptor, "wb", source.BLOCK_BYTES) as stream:
            for item in part:
                send(stream, item)
        status = 0
    finally:
        os._exit(status)


LEAST_BYTES = 64 << 20
"""Of a share, decompressed: below, a process costs more than it saves."""
_MOST = 8
"""Processes."""
_PORTIONS = 4
"""Of what is left, for each process, the next is one: they become smaller, so that at the end none waits long."""
_MOST_PORTIONS = 256
"""The least portion is so small a part of all."""

_HEAP_BYTES = 31 << 20
"""glibc takes larger blocks from the system one by one, and smaller ones, too, until one of their size was freed, and
gives back what is free beyond twice that: each member's pages would be made anew. So one that is never touched is freed
at first."""


def shared(
    found: Sequence[_T],
    sizes: Sequence[int],
    read: Callable[[_T], Iterable[Any]],
    failure: str,
    least: int | None = None,
) -> Iterator[tuple[_T, Iterable[Any]]]:
    """Each thing that was ``found``, in order, with what is ``read`` of it, by as many processes as pay. ``sizes``: how
    much that is; ``least``: of a share (default: :data:`LEAST_BYTES`). What is read of one is to be taken before the
    next is asked for. Raises :class:`~spillscan.errors.SpillscanError` where a process dies: ``failure`` says what it
    leaves undone.

    Whoever is free takes the next portion, this process between what else it does; what comes before its turn is kept.
    """
    count = max(1, min(processors(), sum(sizes) // (least or LEAST_BYTES), _MOST)) if POSSIBLE else 1
    bytes(_HEAP_BYTES)
    if count == 1:
        for each in found:
            yield each, read(each)
        return
    parts = portions(sizes, count)
    done: dict[int, list[list[Any]]] = {}
    arrivals: Arrivals = SimpleQueue()
    with Tickets(len(parts)) as tickets:

        def share() -> Iterator[tuple[int, list[list[Any]]]]:
            for number in iter(tickets.take, None):
                yield number, [list(read(found[at])) for at in parts[number]]

        with Workers([share() for _ in range(1, count)], failure, arrivals) as running:
            left = len(running)
            for number, part in enumerate(parts):
                mine = None
                while number not in done and mine != number:
                    if arrivals.empty() and (mine := tickets.take()) is not None:
                        if mine != number:
                            done[mine] = [list(read(found[at])) for at in parts[mine]]
                    else:
                        left -= _arrived(arrivals, done)
                if mine == number:
                    yield from ((found[at], read(found[at])) for at in part)
                else:
                    yield from zip((found[at] for at in part), done.pop(number), strict=True)
            while left:
                left -= _arrived(arrivals, done)


def _arrived(arrivals: Arrivals, done: dict[int, list[list[Any]]]) -> bool:
    """Wait for a message; whether it is the last of a process."""
    worker, message = arrivals.get()
    if not message:
        worker.end()
        return True
    number, items = pickle.loads(message)
    done[number] = items
    return False


class Tickets:
    """Numbers from 0 on, each of which is taken once, by any of the processes that are forked while they are there."""

    def __init__(self, count: int) -> None:
        self._readable, writable = os.pipe()
        os.write(writable, b"".join(map(_TICKET.pack, range(count))))  # a pipe holds a page at least
        os.close(writable)

    def __enter__(self) -> Tickets:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._readable)

    def take(self) -> int | None:
        """The next one; ``None``: there is none left."""
        ticket = os.read(self._readable, _TICKET.size)
        return _TICKET.unpack(ticket)[0] if ticket else None


_TICKET = struct.Struct("<I")


def portions(sizes: Sequence[int], count: int) -> list[range]:
    """Neighbours that one process reads together, for so many processes: smaller ones the less is left."""
    found, left = [], sum(sizes)
    least = left // _MOST_PORTIONS
    begin = held = 0
    for end, size in enumerate(sizes, 1):
        held += size
        if end == len(sizes) or held > max(least, left // (_PORTIONS * count)):
            found.append(range(begin, end))
            begin, left, held = end, left - held, 0
    return found
