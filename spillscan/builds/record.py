"""The run file of ``spillscan run``: calls of compilers with their reports, and files with GPU code.

Paths are absolute, so that the file means the same whatever its name and wherever it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import stat
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from spillscan.builds import tree
from spillscan.builds.pieces import pieces
from spillscan.output.errors import InputError

NAME = "spillscan-build.json"
"""Default name of a run file."""
FORMAT = "spillscan build 3"
_BEGINNING = re.compile(rb'\s*\{\s*"format"\s*:\s*"spillscan build ')
_ARCH = re.compile(r"\b(?:sm|compute|lto)_\d+\w?|\b(?:native|all-major)\b|(?<==)all\b")
_LONGEST_NAME = 60


class Call(Struct, frozen=True, kw_only=True):
    """One call of a compiler."""

    id: str
    """When it began, in ns, and its process: distinguishes it from all others."""
    command: tuple[str, ...]
    """Its words, with those of variables and options files in their places."""
    folder: str
    """Its working directory."""
    ancestors: tuple[tuple[str, ...], ...] = ()
    """Working directory and command line of those that called it; only while the build runs."""
    folders: tuple[str, ...] = ()
    """The folders of files that its words name; only while the build runs."""
    sources: tuple[str, ...] = ()
    """The texts that its words name, as they name them."""
    files: Mapping[str, str] = {}
    """SHA-256 of each source and header that it read; empty if the file changed meanwhile."""
    headers: bool = False
    """Whether ``files`` contains all headers."""
    wrote: tuple[str, ...] = ()
    """The binary files that it wrote, as its words name them."""
    pieces: tuple[str, ...] = ()
    """Their GPU code."""
    status: int | None = None
    """Exit status, below 0 the signal that ended it; ``None``: it never ended."""
    report: str = ""
    """Its standard error."""
    version: str = ""
    """Release of the compiler: ``13.0.88``; empty if unknown."""

    @property
    def began_ns(self) -> int:
        """When it began."""
        return int(self.id.partition("-")[0])

    @property
    def source(self) -> str:
        """Its first source, as seen from here; empty if it names none."""
        found = [each for each in (*self.sources, *self.command) if each.endswith(".cu")] or self.sources
        return tree.shown(self.path(found[0])) if found else ""

    @property
    def object(self) -> str:
        """The first file that it wrote, as seen from here; empty if it wrote none."""
        return tree.shown(self.path(self.wrote[0])) if self.wrote else ""

    @property
    def name(self) -> str:
        """What people call it: its source, else its command."""
        return self.source or shlex.join(self.command)[:_LONGEST_NAME]

    @property
    def archs(self) -> frozenset[str]:
        """The archs that it names."""
        return frozenset(_ARCH.findall(" ".join(self.command)))

    def repeats(self, other: Call) -> bool:
        """Whether it compiles the same: equal words, or the same files and archs."""
        if self.folder != other.folder or self.archs != other.archs:
            return False
        named, words = {*self.sources, *self.wrote}, {*other.command}
        same = bool(self.sources) and named <= words and {*other.sources, *other.wrote} <= {*self.command}
        return same or self.command == other.command

    def path(self, name: str) -> str:
        """The absolute path of a file that it names."""
        return os.path.normpath(os.path.join(self.folder, name))


class Output(Struct, frozen=True, kw_only=True):
    """A file with GPU code that a build wrote."""

    path: str
    entry: tuple[int, int, int]
    """Inode, ctime and size, which tell sooner than its content that it is as it was."""
    pieces: tuple[str, ...]
    """Its GPU code."""
    linked: bool = False
    """Whether a device linker wrote part of it."""
    older_than: str = ""
    """A source that was compiled again, and of which it has the earlier code."""

    @property
    def is_as_it_was(self) -> bool:
        """Whether its GPU code is there and unchanged."""
        entry = tree.entry_of(self.path)
        return entry == self.entry or (entry is not None and pieces(self.path) == self.pieces)


class Run(Struct, frozen=True, kw_only=True):
    """One ``spillscan run``."""

    command: tuple[str, ...]
    folder: str
    """Its working directory."""
    status: int | None = None
    """Exit status, below 0 the signal that ended it; ``None``: it runs, or was killed."""
    kept: str = ""
    """While it runs, the folder that contains its calls and its list of files."""
    did: bool = False
    """Whether it compiled or wrote anything."""


class BuildRecord(Struct, frozen=True, kw_only=True):
    """The contents of a run file."""

    format: str = FORMAT
    runs: tuple[Run, ...] = ()
    """In the order in which they ended; of the same command the last."""
    watched: tuple[str, ...] = ()
    """Folders whose files were compared."""
    calls: tuple[Call, ...] = ()
    """In the order in which they began."""
    outputs: tuple[Output, ...] = ()
    """The smallest first: objects before what is made of them."""

    def new_in(self, output: Output) -> set[str]:
        """The GPU code of an output that no call wrote which ended well. A device linker that no call shows adds one
        piece, which is of seen code."""
        unseen = set(output.pieces).difference(*(call.pieces for call in self.calls if call.status == 0))
        return set() if output.linked and len(unseen) == 1 else unseen


def sniff(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is a run file."""
    return _BEGINNING.match(head) is not None


def is_one(path: str) -> bool:
    """Whether ``path`` is a run file, by its beginning."""
    with contextlib.suppress(OSError):
        if stat.S_ISREG(os.stat(path).st_mode):
            with open(path, "rb") as file:
                return sniff(file.read(64))
    return False


def encoded(build: BuildRecord) -> str:
    """The file's text; each digest once."""
    digests: dict[tuple[str, str], int] = {}
    calls = []
    for call in build.calls:
        read = [digests.setdefault(each, len(digests)) for each in call.files.items()]
        calls.append({**msgspec.to_builtins(call), "files": read})
    plain = {**msgspec.to_builtins(build), "calls": calls, "files": list(digests)}
    return json.dumps(plain, separators=(",", ":")) + "\n"  # names of files that are no UTF-8 stay as they are


def decoded(data: bytes, name: str) -> BuildRecord:
    """The contents of a run file called ``name``.

    Raises InputError if it is damaged, or of another release.
    """
    again = f"delete it and build again: spillscan run -o {shlex.quote(name)} -- COMMAND"
    try:
        plain = json.loads(data)
        if plain.get("format") != FORMAT:
            raise InputError(f"{name} is a run file of another release ({str(plain.get('format'))[:40]!r})", again)
        files = msgspec.convert(plain.pop("files", []), list[tuple[str, str]])
        for call in plain["calls"]:
            call["files"] = dict(files[index] for index in call["files"])
        return msgspec.convert(plain, BuildRecord)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise InputError(f"{name} is a damaged run file: {error}", again) from None


def read(path: str) -> BuildRecord | None:
    """The contents of the run file ``path``; ``None`` if there is no file.

    Raises InputError if it is no sound run file.
    """
    try:
        with open(path, "rb") as file:
            return decoded(file.read(), path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
