"""Processors that this process may use, and processes that each make a part of something, piece by piece.

A process is forked, so that it has what is to be read without a copy, and what it makes comes in order, piece by piece,
while it is made: a pool of a library hands over whole results of finished tasks.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO, NoReturn, TypeVar

from spillscan.errors import SpillscanError
from spillscan.inputs import source

_T = TypeVar("_T")
POSSIBLE = hasattr(os, "fork")

_CONTROL_GROUP = Path("/sys/fs/cgroup/cpu.max")
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

    def __init__(self, parts: Sequence[Iterable[Any]], origin: str) -> None:
        self._workers: list[Worker] = []
        for part in parts:
            self._workers.append(Worker(part, origin))
        for worker in self._workers:  # no thread may run while a process is forked
            worker.listen()

    def __enter__(self) -> Sequence[Worker]:
        return self._workers

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stop()


class Worker:
    """One process, and a thread that keeps what it sends."""

    def __init__(self, part: Iterable[Any], origin: str) -> None:
        self._origin = origin
        self._messages: SimpleQueue[bytes] = SimpleQueue()
        readable, writable = os.pipe()
        with warnings.catch_warnings():  # it does not use the threads that libraries started
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process = os.fork()
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
            self._messages.put(message)
        self._messages.put(b"")

    def items(self) -> Iterator[Any]:
        """All that the process makes, as it comes. Raises :class:`SpillscanError` where it did not come to its end."""
        while message := self._messages.get():
            yield pickle.loads(message)
        _, status = os.waitpid(self._process, 0)
        self._process = 0
        if status:
            code = os.waitstatus_to_exitcode(status)
            how = f"was killed by signal {-code}" if code < 0 else "failed"
            raise SpillscanError(
                f"{self._origin} was not read: a process that read a part of it {how}", "is there memory enough?"
            )

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
_OWN_WORK = 0.12
"""What this process does besides, its start, records of what the others find, a report: as a part of reading all."""

_HEAP_BYTES = 31 << 20
"""glibc takes larger blocks from the system one by one, and smaller ones, too, until one of their size was freed, and
gives back what is free beyond twice that: each member's pages would be made anew. So one that is never touched is freed
at first."""


def shared(
    found: Sequence[_T], sizes: Sequence[int], read: Callable[[_T], Iterable[Any]], origin: str
) -> Iterator[tuple[_T, Iterable[Any]]]:
    """Each thing that was ``found``, in order, with what is ``read`` of it, by as many processes as pay; ``sizes``: how
    much that is. What is read of one is to be taken before the next is asked for. Raises
    :class:`~spillscan.errors.SpillscanError` where a process dies."""
    count = max(1, min(processors(), sum(sizes) // LEAST_BYTES, _MOST)) if POSSIBLE else 1
    owners = dealt(sizes, count)
    bytes(_HEAP_BYTES)

    def share(owner: int) -> Iterator[list[Any]]:
        for each, by in zip(found, owners, strict=True):
            if by == owner:
                yield list(read(each))

    with Workers([share(owner) for owner in range(1, count)], origin) as running:
        said: list[Iterator[Any]] = [iter(()), *(worker.items() for worker in running)]
        for each, by in zip(found, owners, strict=True):
            yield each, next(said[by]) if by else read(each)
        for others in said[1:]:
            next(others, None)


def dealt(sizes: Sequence[int], count: int) -> list[int]:
    """For each size whose it is: neighbours belong together, so that this process, which is first, seldom waits. Its
    share is smaller by what else it does."""
    total = max(1, sum(sizes))
    own = total * max(0.0, (1 - _OWN_WORK * (count - 1)) / count)
    other = (total - own) / max(1, count - 1)
    middles = [end - size / 2 for size, end in zip(sizes, accumulate(sizes), strict=True)]
    return [0 if middle <= own else min(count - 1, 1 + int((middle - own) / other)) for middle in middles]
