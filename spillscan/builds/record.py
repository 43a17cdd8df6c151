"""The run file of ``spillscan run``: compiler calls with their reports, and files with GPU code.

Paths are absolute, so that the file can be renamed and moved.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from spillscan.builds import compilation, tree
from spillscan.output.errors import InputError

FORMAT = "spillscan build 5"
_BEGINNING = re.compile(rb'\s*\{\s*"format"\s*:\s*"spillscan build ')
_ARCH = re.compile(r"\b(?:sm|compute|lto)_\d+\w?|\b(?:native|all-major)\b|(?<==)all\b")


class Call(Struct, frozen=True, kw_only=True):
    """One compiler call."""

    began_ns: int
    command: tuple[str, ...]
    """Words of the command, with environment variables and options files expanded."""
    folder: str
    """Working directory."""
    ancestors: tuple[tuple[str, ...], ...] = ()
    """Working directory and command line of each ancestor process; only while the build runs."""
    folders: tuple[str, ...] = ()
    """Folders of the files that the words name; only while the build runs."""
    sources: tuple[str, ...] = ()
    """Text files that the words name, as written."""
    files: Mapping[str, str] = {}
    """SHA-256 of each source and header that it read, by absolute path; empty if the file changed meanwhile."""
    headers: bool = False
    """Whether ``files`` contains all headers."""
    wrote: tuple[str, ...] = ()
    """Binary files that it wrote, as the words name them."""
    pieces: tuple[str, ...] = ()
    """Digests of the GPU code in the files that it wrote."""
    status: int | None = None
    """Exit status; negative: the signal that ended it; ``None``: it never ended."""
    report: str = ""
    """Standard error of the compiler."""

    @property
    def source(self) -> str:
        """First source, relative to the current folder if possible; empty if it names none."""
        names = [each for each in (*self.sources, *self.command) if each.endswith(".cu")] or self.sources
        return tree.shown(self.path(names[0])) if names else ""

    @property
    def object(self) -> str:
        """First file that it wrote, relative to the current folder if possible; empty if it wrote none."""
        return tree.shown(self.path(self.wrote[0])) if self.wrote else ""

    @property
    def target(self) -> str:
        """Output that the words name, else the working directory."""
        made = compilation.parse(self.command)
        return self.path(made.output if made else "")

    @property
    def name(self) -> str:
        """Display name: the source, else the output, else the command."""
        return self.source or (tree.shown(self.target) if self.target != self.folder else shlex.join(self.command)[:60])

    @property
    def archs(self) -> frozenset[str]:
        """Archs in the command line."""
        return frozenset(_ARCH.findall(" ".join(self.command)))

    def repeats(self, other: Call) -> bool:
        """Whether it is the same command in the same folder; a failure does not repeat a success."""
        same = self.folder == other.folder and self.command == other.command
        return same and (self.status == 0 or other.status != 0)

    def supersedes(self, other: Call) -> bool:
        """Whether it replaces ``other``, a call of an earlier run: it repeats it, or it wrote a file from the same
        sources to the same target, with any options; or to another target, if the folder of ``other`` is gone."""
        if self.status != 0 or not self.sources or {*map(self.path, self.sources)} != {*map(other.path, other.sources)}:
            return self.repeats(other)
        moved = self.target == other.target or not os.path.isdir(other.folder)
        return self.repeats(other) or (moved and any(os.path.exists(self.path(each)) for each in self.wrote))

    def path(self, name: str) -> str:
        """Absolute path of a file that the words name."""
        return os.path.normpath(os.path.join(self.folder, name))


class Output(Struct, frozen=True, kw_only=True):
    """A file with GPU code that a build wrote."""

    path: str
    entry: tuple[int, int, int]
    """Inode, ctime and size; a faster check for changes than the content."""
    pieces: tuple[str, ...]
    """Digests of its GPU code."""
    linked: bool = False
    """Whether a device linker wrote part of it."""

    @property
    def is_unchanged(self) -> bool:
        """Whether the file exists with unchanged GPU code."""
        from spillscan.builds.pieces import code_of

        entry = tree.entry_of(self.path)
        return entry == self.entry or (entry is not None and code_of(self.path).pieces == self.pieces)


class Run(Struct, frozen=True, kw_only=True):
    """One ``spillscan run``."""

    command: tuple[str, ...]
    folder: str
    """Working directory."""
    status: int | None = None
    """Exit status; negative: the signal that ended it; ``None``: still running, or killed."""
    kept: str = ""
    """While it runs: the folder with its calls and its list of files."""


class BuildRecord(Struct, frozen=True, kw_only=True):
    """The contents of a run file."""

    format: str = FORMAT
    runs: tuple[Run, ...] = ()
    """Runs in the order in which they ended; only the last of the same command."""
    watched: tuple[str, ...] = ()
    """Folders whose files were compared."""
    calls: tuple[Call, ...] = ()
    """Calls in the order in which they began."""
    outputs: tuple[Output, ...] = ()
    """Outputs, smallest first, so that objects precede what is linked from them."""

    @property
    def compilations(self) -> list[Call]:
        """Successful calls that name a source."""
        return [each for each in self.calls if each.status == 0 and each.source]

    def new_in(self, output: Output) -> set[str]:
        """GPU code of an output that no successful call wrote.

        A device linker that was not recorded adds one piece, linked from recorded code; that one does not count.
        """
        unseen = set(output.pieces).difference(*(call.pieces for call in self.calls if call.status == 0))
        return set() if output.linked and len(unseen) == 1 else unseen


def sniff(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is a run file."""
    return _BEGINNING.match(head) is not None


def is_one(path: str) -> bool:
    """Whether ``path`` is a run file, by its beginning."""
    with contextlib.suppress(OSError):
        if os.path.isfile(path):
            with open(path, "rb") as file:
                return sniff(file.read(64))
    return False


def encoded(build: BuildRecord) -> str:
    """Text of the file; each pair of path and digest is stored once."""
    plain, numbers = msgspec.to_builtins(build), dict[tuple[str, str], int]()
    for call in plain["calls"]:
        call["files"] = [numbers.setdefault(each, len(numbers)) for each in call["files"].items()]
    plain["files"] = list(numbers)
    return json.dumps(plain, separators=(",", ":")) + "\n"  # escapes file names that are not UTF-8


def decoded(data: bytes, name: str) -> BuildRecord:
    """Parse the contents of the run file ``name``.

    Raises InputError if it is damaged, or of another release.
    """
    again = f"delete or rename it, then build again: spillscan run -o {shlex.quote(name)} -- COMMAND"
    try:
        plain = json.loads(data)
        if plain.get("format") != FORMAT:
            raise InputError(f"{name} is not a run file of this release (format {plain.get('format')!r:.40})", again)
        files = msgspec.convert(plain.pop("files", []), list[tuple[str, str]])
        for call in plain["calls"]:
            call["files"] = dict(files[index] for index in call["files"])
        return msgspec.convert(plain, BuildRecord)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise InputError(f"{name} is not a valid run file: {error}", again) from None


def read(path: str) -> BuildRecord:
    """Contents of the run file ``path``; nothing if there is no file.

    Raises InputError if it cannot be read, is damaged, or of another release.
    """
    try:
        return decoded(Path(path).read_bytes(), path)
    except FileNotFoundError:
        return BuildRecord()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
