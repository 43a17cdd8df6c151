"""Batches go to workers: processes on this machine that may die, each with a thread that finds what killed it; or those
of a Dask cluster, which read and write, while its scheduler and this process hold names only.

A process of its own for each thread, and no pool of a library. Pebble 5.2 with two workers, a third of whose tasks
killed their process, beside a busy calling process: of 696 tasks 21 never ended and 123 failed with "broken pool" that
should have been done; a worker killed while it had no task broke the pool for good. The executors of the standard
library fail every task that waits when one process dies, and do not say by which signal.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, BinaryIO

from spillscan import __version__
from spillscan.history.audit.messages import READY, Batch, Begun, Broken, Ended, Event, FileOutcome, Item
from spillscan.output.errors import InputError, SpillscanError
from spillscan.reading.workers import processors, receive, send

if TYPE_CHECKING:
    from distributed import Client, Future

MOST_DEATHS = 2
"""Of processes that read one file and nothing else, before the file is given up."""


def outcomes(batches: Sequence[Batch], processes: int) -> Iterator[FileOutcome]:
    """The outcome of every item, as it comes. Raises :class:`~spillscan.SpillscanError` where the audit cannot
    go on. When the caller stops asking, the processes are ended; what they have written stays."""
    left = iter(batches)
    count = max(1, min(processes, len(batches)))
    found: SimpleQueue[FileOutcome | BaseException | None] = SimpleQueue()
    workers = [Worker(max(1, processors() // count)) for _ in range(count)]

    def work(worker: Worker) -> None:
        try:
            for batch in left:
                worker.carry_out(batch, found.put)
            found.put(None)
        except BaseException as error:
            found.put(error)

    threads = [threading.Thread(target=work, args=(worker,), daemon=True) for worker in workers]
    try:
        for thread in threads:
            thread.start()
        while count:
            outcome = found.get()
            if isinstance(outcome, BaseException):
                raise outcome
            if outcome is None:
                count -= 1
            else:
                yield outcome
    finally:
        for worker in workers:
            worker.stop()
        for thread in threads:
            if thread.ident is not None:
                thread.join()


@dataclass(frozen=True, slots=True)
class _Death:
    """How far a batch came before its process died."""

    how: str
    rest: tuple[Item, ...]
    """Items without an outcome."""
    suspect: Item | None
    """The one that was being read."""
    content_hash: str
    """Of the suspect, where it is known."""


class Worker:
    """One process at a time that carries out batches, replaced when it dies. It ends with whoever started it."""

    def __init__(self, processors: int) -> None:
        self._processors = processors
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def carry_out(self, batch: Batch, report: Callable[[FileOutcome], None]) -> None:
        """Bring every item of ``batch`` to an outcome, and ``report`` each as soon as it is final.

        Where the process dies, the file that it was reading is read by another that reads nothing else; if that dies
        twice, the file has failed. Files that were read and not yet written are read again. Raises
        :class:`~spillscan.SpillscanError` where the dataset cannot be written.
        """
        left = [batch]
        deaths: Counter[str] = Counter()
        while left and not self._stopped:
            piece = left.pop()
            death = self._attempt(piece, report)
            if death is not None and not self._stopped:
                left += _again(piece, death, deaths)

    def stop(self) -> None:
        """End the process at once, and :meth:`carry_out` with it; may be called by another thread. What it has not
        written is not lost, but not done."""
        self._stopped = True
        if (process := self._process) is not None:
            with suppress(OSError):
                process.kill()
            _ended(process)

    def _attempt(self, batch: Batch, report: Callable[[FileOutcome], None]) -> _Death | None:
        rest = dict(enumerate(batch.items))
        begun = Begun(None)
        if self._process is None:
            self._process = _started(self._processors)
        with suppress(BrokenPipeError):  # it is dead, as the end of its messages says
            send(self._process.stdin, batch)  # type: ignore[arg-type]
        while (event := _next(self._process)) != READY:
            if event is None:
                how, self._process = _ended(self._process), None
                suspect = None if begun.number is None else rest.get(begun.number)
                return _Death(how, tuple(rest.values()), suspect, begun.content_hash)
            if isinstance(event, Broken):
                raise SpillscanError(event.what, event.hint)
            if isinstance(event, Ended):
                del rest[event.number]
                report(event.outcome)
            elif isinstance(event, Begun):
                begun = event
        return None


def _started(count: int) -> subprocess.Popen[bytes]:
    # Its modules come from where this process has them: not from the folder that is audited.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "spillscan.history.audit.worker", str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    if _next(process) != READY:
        raise SpillscanError(
            f"a process that reads files did not start: it {_ended(process)}", "is there memory enough?"
        )
    return process


def _next(process: subprocess.Popen[bytes]) -> Event | None:
    """What the process reports next; ``None`` where it has died."""
    stream: BinaryIO = process.stdout  # type: ignore[assignment]
    data = receive(stream)
    event: Event | None = pickle.loads(data) if data else None
    return event


def _ended(process: subprocess.Popen[bytes]) -> str:
    """How it ended."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    code = process.wait()
    if code >= 0:
        return f"ended with status {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _again(piece: Batch, death: _Death, deaths: Counter[str]) -> Iterator[Batch]:
    """What is left of ``piece``, in smaller pieces, the last of which comes first. What is read together is so once
    more: the file need not be what killed the process."""
    together = piece.items[0].together
    if together and not deaths[together] and death.rest:
        deaths[together] += 1
        yield replace(piece, items=death.rest)
    elif len(piece.items) == 1 and death.rest:
        (item,) = death.rest
        deaths[item.uri] += 1
        if deaths[item.uri] > 2 * MOST_DEATHS:
            raise SpillscanError(
                f"processes that write into {piece.root} die: the last {death.how}", "is there memory enough?"
            )
        if deaths[item.uri] < MOST_DEATHS:
            yield piece
        else:
            reason = f"{item.uri} cannot be read: each process that read it {death.how}"
            hashes = piece.hashes or {item.uri: death.content_hash}
            yield replace(piece, refused=f"{reason}; is there memory enough?", hashes=hashes)
    elif death.suspect is not None:
        yield from _pieces(piece, tuple(item for item in death.rest if item is not death.suspect))
        yield replace(piece, items=(death.suspect,))
    else:
        middle = len(death.rest) // 2
        yield from _pieces(piece, death.rest[:middle])
        yield from _pieces(piece, death.rest[middle:])


def _pieces(piece: Batch, items: tuple[Item, ...]) -> Iterator[Batch]:
    if items:
        yield replace(piece, items=items)


TIMEOUT_SECONDS = 60
"""How long a scheduler, and its first worker, are waited for."""

_LOST = "every machine that read it was lost"


@contextmanager
def remote(address: str) -> Iterator[Client]:
    """The cluster of the scheduler at ``address``. Raises :class:`~spillscan.InputError` where it does not
    answer, or has no worker."""
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError("a cluster needs the package distributed", "pip install 'spillscan[cluster]'") from error
    for part in ("", ".client", ".core", ".nanny", ".scheduler", ".worker"):  # a worker that is lost is our concern
        logging.getLogger(f"distributed{part}").setLevel(logging.CRITICAL)
    try:
        client = Client(address, timeout=TIMEOUT_SECONDS)
    except (OSError, ValueError) as error:
        raise InputError(f"no Dask scheduler answers at {address}: {error}", "give tcp://HOST:PORT") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=TIMEOUT_SECONDS)
        except TimeoutError as error:
            raise InputError(f"the cluster at {address} has no worker", "start some with `dask worker`") from error
        yield client


def slots(client: Client) -> int:
    """How many batches its workers carry out at once."""
    threads: dict[str, int] = client.nthreads()
    return max(1, sum(threads.values()))


def cluster_outcomes(client: Client, batches: Sequence[Batch]) -> Iterator[FileOutcome]:
    """The outcome of every item, as its batch is done. Raises :class:`~spillscan.SpillscanError` where the audit
    cannot go on.

    A batch whose worker is lost is carried out by another; what the first has written is not read again. Where one
    batch loses worker after worker, its files are sent out one by one, and that which still does has failed. When the
    caller stops asking, what has not begun is not begun.
    """
    from distributed import as_completed
    from distributed.scheduler import KilledWorker

    def send(some: Sequence[Batch]) -> list[Future]:
        made: list[Future] = client.map(_carry_out, some, version=__version__, pure=False, key=_KEY)
        sent.update(zip((future.key for future in made), some, strict=True))
        return made

    sent: dict[str, Batch] = {}
    going = as_completed(send(batches))
    try:
        for future in going:
            batch = sent.pop(future.key)
            if future.cancelled():
                raise SpillscanError("the cluster has dropped the audit", "run the same command again to go on")
            error = future.exception()
            if error is None:
                yield from future.result()
            elif isinstance(error, KilledWorker) and not batch.refused:
                for again in send(_apart(batch)):
                    going.add(again)
            elif isinstance(error, SpillscanError):
                raise error
            else:
                raise SpillscanError(f"a worker of the cluster failed: {type(error).__name__}: {error}")
    finally:
        client.cancel([*going.futures])


def _apart(batch: Batch) -> list[Batch]:
    if len(batch.items) == 1:
        return [replace(batch, refused=f"{batch.items[0].uri} cannot be read: {_LOST}")]
    return [replace(batch, items=(item,)) for item in batch.items]


_KEY = "spillscan-audit"
_idle: list[Worker] = []
_lock = threading.Lock()


def _carry_out(batch: Batch, version: str) -> list[FileOutcome]:
    """What a worker of the cluster does: it has a batch read by a process of its own, which may die without it."""
    if version != __version__:
        raise SpillscanError(
            f"a worker of the cluster has spillscan {__version__}, this is {version}", "install the same everywhere"
        )
    with _lock:
        worker = _idle.pop() if _idle else Worker(1)
    found: list[FileOutcome] = []
    worker.carry_out(batch, found.append)
    with _lock:
        _idle.append(worker)
    return found
