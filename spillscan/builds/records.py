"""What compilers of a build said, kept: a record file beside each object, and the calls that ``spillscan run`` watches.

A record file is text that any reader of logs reads: what the compiler printed of one object, between lines that say
what was compiled, and how that ended. It takes the place of an older one whatever the compilation came to: a record
that speaks of an object as it was before a failed compilation would be a lie.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from spillscan.builds.compilation import split
from spillscan.output import folders
from spillscan.output.folders import DRAFT

SUFFIX = ".spillscan.log"
"""A record's name is its object's with this behind it."""
RUN = "SPILLSCAN_RUN"
"""The environment variable that names the folder in which a run keeps its calls; inert without it."""

_RECORD_DRAFT = re.compile(re.escape(DRAFT) + r"\d+-(.+)\.draft", re.DOTALL)
"""Ends as no log and no object does: who collects ``*.o`` or ``*.log`` finds no draft."""
_HEAD, _DIRECTORY, _SOURCE, _ENDED = "# spillscan record of ", "# directory: ", "# source: ", "# ended: "
_LONGEST_LINE = 1 << 20
_TAIL_BYTES = 1 << 12
_CALLS = "calls.jsonl"


class Recorded(NamedTuple):
    """What the lines of a record file say besides what its compiler printed."""

    folder: str
    """Where the command ran."""
    command: tuple[str, ...]
    """Its command line."""
    digests: tuple[tuple[str, str], ...]
    """(path, SHA-256) of each source when it was compiled, the path as the command says it; none in older records."""
    status: int | None
    """Its exit status, below 0 the signal that ended it; 0 in older records, which only success left."""


class Record:
    """The record of one object while its compiler runs. It takes its name only by :meth:`keep`, whole.

    Only the constructor raises: a full disk is no reason to stop a compiler, and :meth:`keep` returns it.
    """

    def __init__(self, made: str, command: Sequence[str], sources: Iterable[str] = ()) -> None:
        self._path = made + SUFFIX
        folder, name = os.path.split(made)
        self._temporary = os.path.join(folder, f"{DRAFT}{os.getpid()}-{name}.draft")
        self._file = open(self._temporary, "wb", buffering=0, opener=_no_link)  # noqa: SIM115 - keep or drop closes it
        folders.hold(self._file.fileno())
        self._error: OSError | None = None
        self._ends_line = True
        self.write(head_of(made, os.getcwd(), shlex.join(command)).encode("utf-8", "surrogateescape"))
        for path, digest in digests_of(sources).items():
            self._write_line(f"{_SOURCE}{digest} {path}")

    def write(self, data: bytes) -> None:
        """What the compiler printed."""
        rest = memoryview(data)
        self._ends_line = data[-1:] == b"\n" if data else self._ends_line
        try:
            while rest and self._error is None:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._error = error

    def _write_line(self, line: str) -> None:
        self.write(" ".join(line.splitlines()).encode("utf-8", "surrogateescape") + b"\n")

    def keep(self, status: int = 0) -> OSError | None:
        """The compiler ended: the record takes its name, in place of an older one. Returns what prevented it; an older
        record is gone then, too."""
        if not self._ends_line:
            self.write(b"\n")
        self._write_line(f"{_ENDED}{status}")
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


def head_of(made: str, folder: str, command: str) -> str:
    """The lines that say whose a compiler's output is, as readers of logs know them."""
    lines = (f"{_HEAD}{made}", f"{_DIRECTORY}{folder}", command)
    return "".join(" ".join(line.splitlines()) + "\n" for line in lines)


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def digests_of(paths: Iterable[str]) -> dict[str, str]:
    """SHA-256 of files, in hexadecimal, by path; those that cannot be read are left out."""
    return {path: digest for path in paths if (digest := digest_of(path)) is not None}


def digest_of(path: str) -> str | None:
    """SHA-256 of a file, in hexadecimal; ``None`` where it cannot be read."""
    import hashlib  # most of what is read of records needs no digest

    with contextlib.suppress(OSError), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
    return None


def recorded(path: str) -> Recorded | None:
    """What the record file ``path`` says of its compilation; ``None`` where it is no record, or cannot be read."""
    if not object_of(path):
        return None
    try:
        with open(path, "rb") as file:
            head, directory, command = (_text(file.readline(_LONGEST_LINE)) for _ in range(3))
            digests, behind = [], file.tell()
            while (line := _text(file.readline(_LONGEST_LINE))).startswith(_SOURCE):
                digest, _, source = line.removeprefix(_SOURCE).partition(" ")
                digests.append((source, digest))
                behind = file.tell()
            file.seek(max(behind, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            last = _text(file.read().rstrip(b"\n").rpartition(b"\n")[2])
    except OSError:
        return None
    if not head.startswith(_HEAD) or not directory.startswith(_DIRECTORY):
        return None
    try:
        words = split(command, whole=True)
        status = int(last.removeprefix(_ENDED)) if last.startswith(_ENDED) else None if digests else 0
    except ValueError:
        return None
    return Recorded(directory.removeprefix(_DIRECTORY), tuple(words), tuple(digests), status)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape").rstrip("\n")


def object_of(path: str) -> str:
    """The object that the record ``path`` is about; empty for a file that is no record."""
    return path.removesuffix(SUFFIX) if path.endswith(SUFFIX) else ""


def is_orphan(path: str) -> bool:
    """Whether ``path`` is a record whose object is gone. That of a failed compilation speaks as long as its source is
    there: nothing was made, and something was to be."""
    made = object_of(path)
    if not made or os.path.exists(made):
        return False
    said = recorded(path)
    if said is None or not said.status:
        return True
    return not any(os.path.exists(os.path.join(said.folder, source)) for source, _ in said.digests)


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


# ---- the calls of a run ----------------------------------------------------------------------------------------------


class Call:
    """One call of a compiler while ``spillscan run`` watches; its lines are whole, however many calls run at once."""

    def __init__(self, folder: str, command: Sequence[str], real: str, sources: Iterable[str]) -> None:
        """``command`` with its response files expanded; ``real``: the program that runs."""
        self._folder = folder
        self._key = f"{os.getpid()}-{os.times().elapsed:.2f}"
        self._report = -1
        self._append(
            event="begin", command=list(command), compiler=real, folder=os.getcwd(), digests=digests_of(sources)
        )

    def write(self, data: bytes) -> None:
        """What the compiler printed on standard error."""
        with contextlib.suppress(OSError):
            if self._report < 0:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                self._report = os.open(os.path.join(self._folder, self._key), flags, 0o666)
            os.write(self._report, data)

    def end(self, status: int | None) -> None:
        """It ended, with an exit status, below 0 by a signal; ``None``: another program took its place."""
        if self._report >= 0:
            os.close(self._report)
        self._append(event="end", status=status)

    def _append(self, **event: Any) -> None:
        line = json.dumps({"key": self._key, **event}, ensure_ascii=True).encode() + b"\n"
        with contextlib.suppress(OSError):
            descriptor = os.open(os.path.join(self._folder, _CALLS), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            os.write(descriptor, line)
            os.close(descriptor)


def calls(folder: str) -> list[tuple[Mapping[str, Any], int | None, bytes]]:
    """(how it began, its status or ``None`` where it never ended, what it printed) of each call that a run saw, in the
    order in which they began. A line that is not whole counts for nothing: what it began is then seen by its object."""
    begun: dict[str, Mapping[str, Any]] = {}
    ended: dict[str, int | None] = {}
    with contextlib.suppress(OSError), open(os.path.join(folder, _CALLS), "rb") as file:
        for line in file:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                event = json.loads(line)
                if event["event"] == "begin":
                    begun[event["key"]] = event
                else:
                    ended[event["key"]] = event["status"]
    found = []
    for key, event in begun.items():
        report = b""
        with contextlib.suppress(OSError), open(os.path.join(folder, key), "rb") as file:
            report = file.read()
        found.append((event, ended.get(key), report))
    return found
