"""Processes that each make a part of something, and hand it over as it is asked for."""

from __future__ import annotations

import os
import pickle
import signal
import struct
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NoReturn

from spillscan.errors import SpillscanError
from spillscan.inputs import source

POSSIBLE = hasattr(os, "fork")

_LENGTH = struct.Struct("<Q")
"""What stands before a message: how many bytes it has."""


class Workers:
    """A process for each of some iterables; use as a context manager, at whose end none is left.

    What they say is taken at once and kept until it is asked for, so that none has to wait.
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
    """One process, and a thread that keeps what it says."""

    def __init__(self, part: Iterable[Any], origin: str) -> None:
        self._origin = origin
        self._said: SimpleQueue[bytes] = SimpleQueue()
        readable, writable = os.pipe()
        with warnings.catch_warnings():  # it does not use the threads that libraries started
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process = os.fork()
        if not self._process:
            os.close(readable)
            _say(part, writable)
        os.close(writable)
        self._pipe = os.fdopen(readable, "rb", source.BLOCK_BYTES)
        source.widen(self._pipe)
        self._listener = threading.Thread(target=self._listen, daemon=True)

    def listen(self) -> None:
        """Begin to take what the process says."""
        self._listener.start()

    def _listen(self) -> None:
        while len(head := self._pipe.read(_LENGTH.size)) == _LENGTH.size:
            (size,) = _LENGTH.unpack(head)
            message = self._pipe.read(size)
            if len(message) < size:  # it died while it wrote
                break
            self._said.put(message)
        self._said.put(b"")

    def items(self) -> Iterator[Any]:
        """All that the process makes, as it comes. Raises :class:`SpillscanError` where it did not come to its end."""
        while said := self._said.get():
            yield pickle.loads(said)
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


def _say(part: Iterable[Any], descriptor: int) -> NoReturn:
    """What a process does. It never returns, and leaves nothing of the caller's behind: buffers, handlers."""
    status = 1
    try:
        with os.fdopen(descriptor, "wb", source.BLOCK_BYTES) as said:
            for item in part:
                message = pickle.dumps(item, pickle.HIGHEST_PROTOCOL)
                said.write(_LENGTH.pack(len(message)))
                said.write(message)
                said.flush()  # whoever waits for it shall not wait for the next
        status = 0
    finally:
        os._exit(status)
