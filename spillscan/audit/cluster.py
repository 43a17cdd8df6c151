"""Batches over a Dask cluster: its workers read and write, its scheduler and this process hold names only."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from spillscan import __version__
from spillscan.audit.messages import Batch, FileOutcome
from spillscan.audit.pool import Worker
from spillscan.errors import InputError, SpillscanError

if TYPE_CHECKING:
    from distributed import Client, Future

TIMEOUT_SECONDS = 60
"""How long a scheduler, and its first worker, are waited for."""

_LOST = "every machine that read it was lost"


@contextmanager
def local(workers: int) -> Iterator[Client]:
    """A cluster of so many workers on this machine, for as long as it is used. They are threads: what reads, and may
    die, is a process that each of them has."""
    with _needed():
        from distributed import Client, LocalCluster
    _hush()
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0", memory_limit=0
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@contextmanager
def remote(address: str) -> Iterator[Client]:
    """The cluster of the scheduler at ``address``. Raises :class:`~spillscan.errors.InputError` where it does not
    answer, or has no worker."""
    with _needed():
        from distributed import Client
    _hush()
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


def outcomes(client: Client, batches: Sequence[Batch]) -> Iterator[FileOutcome]:
    """The outcome of every item, as its batch is done. Raises :class:`~spillscan.errors.SpillscanError` where the audit
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


def _hush() -> None:
    """A worker that is lost is our concern, not the terminal's."""
    for part in ("", ".client", ".core", ".nanny", ".scheduler", ".worker"):
        logging.getLogger(f"distributed{part}").setLevel(logging.CRITICAL)


@contextmanager
def _needed() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise InputError("a cluster needs the package distributed", "pip install 'spillscan[cluster]'") from error
