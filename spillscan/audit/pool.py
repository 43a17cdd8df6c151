"""Batches on this machine: as many worker processes as there are processors, a thread to watch each."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from queue import SimpleQueue

from spillscan import workers
from spillscan.audit.foreman import Foreman
from spillscan.audit.messages import Batch, Outcome


def outcomes(batches: Sequence[Batch], processes: int) -> Iterator[Outcome]:
    """The outcome of every item, as it comes. Raises :class:`~spillscan.errors.SpillscanError` where the audit cannot
    go on. When the caller stops asking, the processes are ended; what they have written stays."""
    left = deque(batches)
    count = max(1, min(processes, len(batches)))
    said: SimpleQueue[Outcome | BaseException | None] = SimpleQueue()
    foremen = [Foreman(max(1, workers.processors() // count)) for _ in range(count)]

    def work(foreman: Foreman) -> None:
        try:
            while batch := _taken(left):
                foreman.carry_out(batch, said.put)
            said.put(None)
        except BaseException as error:
            said.put(error)

    threads = [threading.Thread(target=work, args=(foreman,), daemon=True) for foreman in foremen]
    try:
        for thread in threads:
            thread.start()
        while count:
            outcome = said.get()
            if isinstance(outcome, BaseException):
                raise outcome
            if outcome is None:
                count -= 1
            else:
                yield outcome
    finally:
        left.clear()
        for foreman in foremen:
            foreman.stop()
        for thread in threads:
            if thread.ident is not None:
                thread.join()


def _taken(left: deque[Batch]) -> Batch | None:
    try:
        return left.popleft()
    except IndexError:
        return None
