"""Record files: what the compiler said of one object, beside the object, as text that any reader of logs reads."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

SUFFIX = ".spillscan.log"
"""A record's name is its object's with this behind it."""


class Record:
    """The record of one object while its compiler runs. It takes its name only by :meth:`keep`, whole."""

    def __init__(self, made: str, command: Sequence[str]) -> None:
        self._path = made + SUFFIX
        self._temporary = os.path.join(os.path.dirname(made), f".spillscan-{os.getpid()}-{os.path.basename(made)}")
        self._file = open(self._temporary, "wb")  # noqa: SIM115 - closed by keep or drop
        for line in (f"# spillscan record of {made}", f"# directory: {os.getcwd()}", shlex.join(command)):
            self._file.write(" ".join(line.splitlines()).encode("utf-8", "surrogateescape") + b"\n")

    def write(self, data: bytes) -> None:
        """What the compiler printed."""
        self._file.write(data)

    def keep(self) -> None:
        """The object was made: the record takes its name, in place of an older one."""
        self._file.close()
        os.replace(self._temporary, self._path)

    def drop(self, stale: bool) -> None:
        """Nothing came of it; ``stale`` if the object is there, and an older record no longer speaks of it."""
        self._file.close()
        os.unlink(self._temporary)
        if stale and os.path.exists(self._path):
            os.unlink(self._path)


def object_of(path: str) -> str:
    """The object that the record ``path`` is about; empty for a file that is no record."""
    return path.removesuffix(SUFFIX) if path.endswith(SUFFIX) else ""


def is_orphan(path: str) -> bool:
    """Whether ``path`` is a record whose object is gone."""
    made = object_of(path)
    return bool(made) and not os.path.exists(made)
