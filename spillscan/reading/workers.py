"""Number of usable processors, and a pool of forked processes that map a function over many files or members.

Processes are forked, so that they share the input data without a copy.
"""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from spillscan.output.errors import SpillscanError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_T = TypeVar("_T")
_R = TypeVar("_R")
POSSIBLE = hasattr(os, "fork")

_CONTROL_GROUP = Path("/sys/fs/cgroup/cpu.max")
_limit: int | None = None


def limit_processors(count: int) -> None:
    """Limit this process to ``count`` processors, because it shares the machine with others."""
    global _limit  # noqa: PLW0603 - a property of the process, as its affinity is
    _limit = count


def processors() -> int:
    """Number of usable processors, by scheduler affinity, control group quota and :func:`limit_processors`."""
    granted = _granted()
    return granted if _limit is None else max(1, min(granted, _limit))


def _granted() -> int:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = _CONTROL_GROUP.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return count
    return max(1, min(count, -(-int(quota) // int(period)))) if quota.isdigit() else count


LEAST_BYTES = 64 << 20
"""Least decompressed bytes per process; a process for less costs more than it saves."""
_MOST = 8
"""Most processes."""
_PORTIONS = 16
"""Portions per process. Many, so that no process waits long for the last; each is sent as a whole."""
_NUMBER_BYTES = 4


def in_order(
    make: Callable[[_T], _R], items: Sequence[_T], sizes: Sequence[int], failure: str, least: int | None = None
) -> Iterator[_R]:
    """Results of ``make`` for ``items``, in order, from as many processes as are worthwhile.

    Neighbours share a process. ``sizes``: work per item; ``least``: least work per process (default:
    :data:`LEAST_BYTES`). Exceptions of ``make`` are raised here. Raises :class:`~spillscan.SpillscanError` if a process
    dies; ``failure`` is the message about unfinished work.
    """
    count = min(processors(), sum(sizes) // (least or LEAST_BYTES), _MOST) if POSSIBLE else 1
    if count < 2:
        yield from map(make, items)
        return
    from multiprocessing.connection import wait

    portions = _portions(sizes, count * _PORTIONS)
    with ExitStack() as stack:
        numbers = stack.enter_context(_numbers(len(portions)))

        def serve(results: Connection) -> None:
            try:
                while number := numbers.read(_NUMBER_BYTES):
                    at = int.from_bytes(number, "little")
                    results.send((at, [make(items[each]) for each in portions[at]]))
            except Exception as error:
                results.send(error)

        running: dict[Connection, int] = {}
        stack.callback(_stop, running)
        with suppress(OSError):  # with fewer processes, those do all the work
            for _ in range(count):
                _start(serve, running)
        if not running:
            yield from map(make, items)
            return
        arrived: dict[int, list[_R]] = {}
        for number in range(len(portions)):
            while number not in arrived:
                for results in wait([*running]):
                    arrived.update(_received(results, running, failure))
            yield from arrived.pop(number)


def _portions(sizes: Sequence[int], most: int) -> list[range]:
    """Split items into at most about ``most`` ranges of similar total size."""
    least = sum(sizes) / most
    ranges, begin, pending = [], 0, 0
    for at, size in enumerate(sizes, 1):
        pending += size
        if pending >= least or at == len(sizes):
            ranges.append(range(begin, at))
            begin, pending = at, 0
    return ranges


def _numbers(count: int) -> BinaryIO:
    """Pipe with the numbers 0 to ``count`` - 1, each read once, by any of the processes that share it."""
    readable, writable = os.pipe()
    with open(writable, "wb") as file:
        file.write(b"".join(number.to_bytes(_NUMBER_BYTES, "little") for number in range(count)))
    return open(readable, "rb", buffering=0)


def _start(serve: Callable[[Connection], None], running: dict[Connection, int]) -> None:
    """Fork a process that sends its results, and add it to ``running``, which maps connections to processes.

    The child exits without running the parent's cleanup or handlers. Raises ``OSError`` if the fork fails.
    """
    from multiprocessing.connection import Pipe

    ours, theirs = Pipe(duplex=False)
    with theirs, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it does not use threads that libraries started
        try:
            process = os.fork()
        except OSError:
            ours.close()
            raise
        if not process:
            status = 1
            try:
                ours.close()
                limit_processors(1)
                serve(theirs)
                status = 0
            finally:
                os._exit(status)
    running[ours] = process


def _received(results: Any, running: dict[Connection, int], failure: str) -> list[tuple[int, Any]]:
    """Next message of a process; none if it is done. Raises the exception that it sent or died of."""
    try:
        message = results.recv()
    except EOFError:
        results.close()
        code = os.waitstatus_to_exitcode(os.waitpid(running.pop(results), 0)[1])
        if not code:
            return []
        how = f"was killed by signal {-code}" if code < 0 else "failed"
        what = f"{failure}: a worker process {how}"
        raise SpillscanError(what, "check that the machine has enough memory") from None
    if isinstance(message, Exception):
        raise message
    return [message]


def _stop(running: dict[Connection, int]) -> None:
    """Kill processes that still run."""
    for results, process in running.items():
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        results.close()
