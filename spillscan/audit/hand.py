"""One worker process, as the process sees it that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO

from spillscan.audit.messages import Batch, Broken, Done, Event, Ready
from spillscan.audit.pipe import receive, send
from spillscan.errors import SpillscanError


class DeathError(Exception):
    """The process died; ``how`` says by what."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


class Hand:
    """A process that carries out batches, one at a time. It ends when :meth:`stop` is called, or its owner dies."""

    def __init__(self, processors: int) -> None:
        # Its modules come from where this process has them: not from the folder that is audited.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "spillscan.audit.worker", str(processors)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        if not isinstance(receive(self._out), Ready):
            raise SpillscanError(f"a process that reads files did not start: it {self._end()}")

    def carry_out(self, batch: Batch) -> Iterator[Event]:
        """What it says while it does. Raises :class:`DeathError` where the process dies before it is done, and
        :class:`~spillscan.errors.SpillscanError` where the dataset cannot be written."""
        with suppress(BrokenPipeError):  # it is dead: what it says last tells so
            assert self._process.stdin is not None
            send(self._process.stdin, batch)  # type: ignore[arg-type]
        while not isinstance(event := receive(self._out), Done):
            if event is None:
                raise DeathError(self._end())
            if isinstance(event, Broken):
                raise SpillscanError(event.what, event.hint)
            yield event

    def stop(self) -> None:
        """End it at once; what it has not written is not lost, but not done."""
        with suppress(OSError):
            self._process.kill()
        self._end()

    @property
    def _out(self) -> BinaryIO:
        assert self._process.stdout is not None
        return self._process.stdout  # type: ignore[return-value]

    def _end(self) -> str:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        code = self._process.wait()
        if code >= 0:
            return f"ended with status {code}"
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
