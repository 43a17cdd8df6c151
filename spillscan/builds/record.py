"""The run file of ``spillscan run``: calls of compilers with their reports, and files with GPU code.

Paths are absolute, so that the file means the same whatever its name and wherever it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct

from spillscan.builds import compilation, tree
from spillscan.output import folders
from spillscan.output.errors import InputError

NAME = "spillscan-build.json"
"""Default name of a run file."""
FORMAT = "spillscan build 2"
_BEGINNING = re.compile(rb'\s*\{\s*"format"\s*:\s*"spillscan build ')
_ARCH = re.compile(r"\b(?:sm|compute|lto)_\d+\w?|\b(?:native|all-major)\b|(?<==)all\b")
_LONGEST_NAME = 60


class Call(Struct, frozen=True, kw_only=True):
    """One call of a compiler."""

    id: str
    """Distinguishes it from all others."""
    command: tuple[str, ...]
    """Its words."""
    folder: str
    """Its working directory."""
    environment: Mapping[str, str] = {}
    """The variables that add words: ``NVCC_PREPEND_FLAGS``, ``NVCC_APPEND_FLAGS``."""
    texts: Mapping[str, str] = {}
    """Contents of its options files, by name."""
    ancestors: tuple[tuple[str, ...], ...] = ()
    """Process number, working directory and command line of those that called it; only while the build runs."""
    files: Mapping[str, str] = {}
    """SHA-256 of each source and header that it read; empty if the file changed meanwhile."""
    headers: bool = False
    """Whether ``files`` contains all headers."""
    status: int | None = None
    """Exit status, below 0 the signal that ended it; ``None``: it never ended."""
    report: str = ""
    """Its standard error."""
    version: str = ""
    """Release of the compiler: ``13.0.88``; empty if unknown."""
    made: tuple[str, ...] = ()
    """The outputs that contain kernels which it reported."""

    @property
    def words(self) -> list[str]:
        """Its words with those of variables and options files in their places."""
        before, after = (
            compilation.split(self.environment.get(name, "")) for name in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
        )
        return list(compilation.expand([self.command[0], *before, *self.command[1:], *after], self.texts.get))

    @property
    def output(self) -> str:
        """The file that it was told to write; empty if it names none."""
        parsed = compilation.parse(self.words)
        return "" if parsed is None else parsed.output

    @property
    def sources(self) -> tuple[str, ...]:
        """The words that name its inputs: sources by their suffix, and whatever existed, without its output."""
        output, words = self.output, self.words[1:]
        named = (each for each in words if self.path(each) in self.files or each.endswith(compilation.INPUTS))
        return tuple(dict.fromkeys(each for each in named if each != output and not each.startswith("-")))

    @property
    def name(self) -> str:
        """What people call it: its first source, else its command."""
        return next(iter(self.sources), "") or shlex.join(self.command)[:_LONGEST_NAME]

    def repeats(self, other: Call) -> bool:
        """Whether it compiles the same: equal words, or the same sources, folder, output and archs."""
        if self.folder != other.folder:
            return False
        return self.words == other.words or (bool(self.sources) and self._work == other._work)

    @property
    def _work(self) -> tuple[object, ...]:
        archs = frozenset(_ARCH.findall(" ".join(self.words)))
        return frozenset(self.sources), self.output, archs

    def path(self, name: str) -> str:
        """The absolute path of a file that it names."""
        return os.path.normpath(os.path.join(self.folder, name))


class Output(Struct, frozen=True, kw_only=True):
    """A file with GPU code that a build wrote."""

    path: str
    digest: str
    """SHA-256 of its bytes."""
    entry: tuple[int, int, int]
    """Inode, ctime and size, which tell sooner than the digest that it is as it was."""
    unseen: tuple[str, ...] = ()
    """Kernels that no call reported which ended well."""
    repeats: bool = False
    """Whether other outputs have all of its code."""
    older_than: str = ""
    """An object with code that it linked, and that was compiled later."""

    @property
    def is_as_it_was(self) -> bool:
        """Whether the file is there and unchanged."""
        entry = tree.entry_of(self.path)
        return entry == self.entry or (entry is not None and tree.digest_of(self.path) == self.digest)


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
    """Objects first; what only repeats their code is left out."""


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
        read = [digests.setdefault((call.path(name), digest), len(digests)) for name, digest in call.files.items()]
        calls.append({**msgspec.to_builtins(call), "files": read})
    return msgspec.json.encode({**msgspec.to_builtins(build), "calls": calls, "files": list(digests)}).decode() + "\n"


def decoded(data: bytes, name: str) -> BuildRecord:
    """The contents of a run file called ``name``.

    Raises InputError if it is damaged, or of another release.
    """
    again = f"delete it and build again: spillscan run -o {shlex.quote(name)} -- COMMAND"
    try:
        plain = msgspec.json.decode(data, type=dict)
        if plain.get("format") != FORMAT:
            raise InputError(f"{name} is a run file of another release ({str(plain.get('format'))[:40]!r})", again)
        files = msgspec.convert(plain.pop("files", []), list[tuple[str, str]])
        for call in plain["calls"]:
            call["files"] = dict(files[index] for index in call["files"])
        return msgspec.convert(plain, BuildRecord)
    except (msgspec.DecodeError, msgspec.ValidationError, KeyError, TypeError, IndexError, AttributeError) as error:
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


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Keep other runs from writing the run file ``path``."""
    folder = folders.kept("locks")
    os.makedirs(folder, exist_ok=True)
    name = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:16]
    with open(os.path.join(folder, name), "ab") as file:
        with contextlib.suppress(ImportError, OSError):  # a file system without locks
            import fcntl

            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        yield
