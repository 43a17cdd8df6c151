"""Run batches in the processes of an executor, on this machine or on a Dask cluster.

A process may die. Its batch is then run alone, and if it dies again in halves, until the file that kills it is found.

A process that dies breaks the executor of the standard library and all batches submitted to it. So the executor gets no
more batches than its processes can start at once.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from multiprocessing import get_context
from typing import Protocol

from spillscan.history.audit.messages import Batch, FileOutcome
from spillscan.history.audit.worker import run_batch
from spillscan.output.errors import InputError, SpillscanError
from spillscan.reading import workers

_MOST_DEATHS = 2
"""Maximum number of processes that one file alone may kill before it is given up."""
_TIMEOUT_SECONDS = 30


class Pool(Protocol):
    """Processes that run batches."""

    size: int
    """Maximum number of batches at a time."""
    deaths: tuple[type[Exception], ...]
    """Errors that report the death of a process."""

    def executor(self, size: int) -> AbstractContextManager[Executor]:
        """An executor with ``size`` processes."""


class Machine:
    """Processes on this machine."""

    deaths: tuple[type[Exception], ...] = (BrokenProcessPool,)

    def __init__(self, size: int) -> None:
        self.size = size

    @contextmanager
    def executor(self, size: int) -> Iterator[Executor]:
        """An executor of ``size`` processes; a death ends it and all its processes."""
        share = max(1, workers.processors() // size)
        with ProcessPoolExecutor(size, get_context("spawn"), _begin, (share,)) as pool:
            try:
                yield pool
            except BaseException:  # the caller stopped iterating: batches that are not written are not done
                for process in list((pool._processes or {}).values()):  # 3.14: pool.kill_workers()
                    process.kill()
                raise


def _begin(processors: int) -> None:
    """Initialize a process: discard what libraries print, and leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    workers.limit_processors(processors)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)


class Cluster:
    """Workers of a Dask cluster."""

    def __init__(self, address: str) -> None:
        """Raises :class:`~spillscan.InputError` if no scheduler answers, or if it has no worker."""
        try:
            from distributed import Client
            from distributed.scheduler import KilledWorker
        except ImportError as error:
            raise InputError(
                "a Dask cluster needs the package `distributed`", "pip install 'spillscan[cluster]'"
            ) from error
        for part in ("", ".client", ".core", ".nanny", ".scheduler", ".worker"):  # deaths of workers are handled here
            logging.getLogger(f"distributed{part}").setLevel(logging.CRITICAL)
        self.deaths: tuple[type[Exception], ...] = (KilledWorker,)
        try:
            self._client = Client(address, timeout=_TIMEOUT_SECONDS)
        except (OSError, ValueError) as error:
            raise InputError(
                f"no Dask scheduler at {address}: {error}", "check the address: tcp://HOST:PORT"
            ) from error
        try:
            self._client.wait_for_workers(1, timeout=_TIMEOUT_SECONDS)
        except TimeoutError as error:
            raise InputError(f"the cluster at {address} has no worker", "start one with `dask worker`") from error
        self.size = max(1, sum(self._client.nthreads().values()))

    @contextmanager
    def executor(self, size: int) -> Iterator[Executor]:
        """An executor on the cluster; a death ends only its batch, and the scheduler uses the remaining workers."""
        yield self._client.get_executor(pure=False)


def outcomes(pool: Pool, batches: Sequence[Batch]) -> Iterator[FileOutcome]:
    """Outcomes of all items, batch by batch; what was written stays if the caller stops iterating.

    Raises :class:`~spillscan.SpillscanError` if the audit cannot go on.
    """
    left = list(batches)
    while left:
        unfinished: list[Batch] = []
        going: dict[Future[list[FileOutcome]], Batch] = {}
        size = min(pool.size, len(left))
        with pool.executor(size) as executor:
            while going or (left and not unfinished):
                while left and not unfinished and len(going) < size:
                    batch = left.pop(0)
                    going[executor.submit(run_batch, batch)] = batch
                for done in wait(going, return_when=FIRST_COMPLETED).done:
                    batch = going.pop(done)
                    if (outcome := _outcome(pool, done)) is None:
                        unfinished.append(batch)
                    else:
                        yield from outcome
        for batch in unfinished:
            yield from _alone(pool, batch)


def _outcome(pool: Pool, done: Future[list[FileOutcome]]) -> list[FileOutcome] | None:
    """Outcomes of a finished batch; ``None`` if its process died."""
    try:
        return done.result()
    except pool.deaths:
        return None
    except SpillscanError:
        raise
    except CancelledError:
        raise SpillscanError("the Dask cluster cancelled the audit", "run the same command again to continue") from None
    except Exception as error:
        raise SpillscanError(f"an audit process failed: {type(error).__name__}: {error}") from error


def _alone(pool: Pool, batch: Batch, deaths: int = 0) -> Iterator[FileOutcome]:
    """Outcomes of a batch that runs as the only one in its process; if the process dies too, of its halves."""
    with pool.executor(1) as executor:
        outcome = _outcome(pool, executor.submit(run_batch, batch))
    middle = len(batch.items) // 2
    if outcome is not None:
        yield from outcome
    elif middle and (deaths or not batch.items[0].together):
        for half in (batch.items[:middle], batch.items[middle:]):
            yield from _alone(pool, replace(batch, items=half), deaths)
    elif deaths + 1 < _MOST_DEATHS:
        yield from _alone(pool, batch, deaths + 1)
    else:
        reason = f"{batch.items[0].uri} cannot be read: each process that read it died (out of memory?)"
        yield from run_batch(replace(batch, refused=reason))
