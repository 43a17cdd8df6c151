"""In the build: the compiler's figures go into record files beside the objects, everything else goes on as printed.

A record file holds what the compiler said of one object, as text that any reader of logs reads.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Sequence

from spillscan.output import folders
from spillscan.output.folders import DRAFT

SUFFIX = ".spillscan.log"
"""A record's name is its object's with this behind it."""

_RECORD_DRAFT = re.compile(re.escape(DRAFT) + r"\d+-(.+)\.draft", re.DOTALL)
"""Ends as no log and no object does: who collects ``*.o`` or ``*.log`` finds no draft."""


class Record:
    """The record of one object while its compiler runs. It takes its name only by :meth:`keep`, whole.

    Only the constructor raises: a full disk is no reason to stop a compiler, and :meth:`keep` returns it.
    """

    def __init__(self, made: str, command: Sequence[str]) -> None:
        self._path = made + SUFFIX
        folder, name = os.path.split(made)
        self._temporary = os.path.join(folder, f"{DRAFT}{os.getpid()}-{name}.draft")
        self._file = open(self._temporary, "wb", buffering=0, opener=_no_link)  # noqa: SIM115 - keep or drop closes it
        folders.hold(self._file.fileno())
        self._error: OSError | None = None
        for line in (f"# spillscan record of {made}", f"# directory: {os.getcwd()}", shlex.join(command)):
            self.write(" ".join(line.splitlines()).encode("utf-8", "surrogateescape") + b"\n")

    def write(self, data: bytes) -> None:
        """What the compiler printed."""
        rest = memoryview(data)
        try:
            while rest and self._error is None:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._error = error

    def keep(self) -> OSError | None:
        """The object was made: the record takes its name, in place of an older one. Returns what prevented it; an older
        record is gone then, too."""
        try:
            self._file.close()
            if self._error is None:
                os.replace(self._temporary, self._path)
                self._sweep()
        except OSError as error:
            self._error = error
        if self._error is not None:
            self.drop(stale=True)
        return self._error

    def drop(self, stale: bool) -> None:
        """Nothing came of it; ``stale`` if the object is there, and an older record no longer speaks of it."""
        for path in (self._temporary, self._path) if stale else (self._temporary,):
            with contextlib.suppress(OSError):
                self._file.close()
                os.unlink(path)
        if stale:
            self._sweep()

    def _sweep(self) -> None:
        """Delete drafts of compilations of this object that were killed: only now does nothing depend on them."""
        folder, name = os.path.split(self._path.removesuffix(SUFFIX))
        folders.sweep(folder, lambda draft: (mine := _RECORD_DRAFT.fullmatch(draft)) is not None and mine[1] == name)


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def object_of(path: str) -> str:
    """The object that the record ``path`` is about; empty for a file that is no record."""
    return path.removesuffix(SUFFIX) if path.endswith(SUFFIX) else ""


def is_orphan(path: str) -> bool:
    """Whether ``path`` is a record whose object is gone."""
    made = object_of(path)
    return bool(made) and not os.path.exists(made)


def draft_of(path: str) -> str:
    """The object whose compiler has not come to its end, by the draft of its record; empty for any other file, and
    where a later compiler has."""
    folder, name = os.path.split(path)
    if not (match := _RECORD_DRAFT.fullmatch(name)):
        return ""
    made = os.path.join(folder, match[1])
    with contextlib.suppress(OSError):
        if os.stat(made + SUFFIX).st_mtime_ns > os.stat(path).st_mtime_ns:
            return ""
    return made
