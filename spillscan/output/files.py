"""Files: package data, caches and drafts; output is written atomically, only where asked, and never through a link out
of its folder."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from typing import Any, TextIO
from zlib import crc32

from msgspec import Struct

from spillscan.output.errors import SpillscanError, UsageError, nearest

DRAFT = ".spillscan-"
"""Prefix of incomplete files: records of running or killed compilers, and reports."""


def modules(package: Iterable[str]) -> list[str]:
    """Plug-ins of a package, given its ``__path__``: modules whose names have no leading underscore.

    Cheaper than ``pkgutil``, which imports many modules.
    """
    files = (name for folder in package for name in os.listdir(folder))
    return sorted(name.removesuffix(".py") for name in files if name.endswith(".py") and not name.startswith("_"))


@cache
def shipped(name: str) -> str:
    """A folder of data in the installed package, or next to it in a checkout."""
    package = os.path.dirname(os.path.dirname(__file__))
    for candidate in (os.path.join(package, name), os.path.join(os.path.dirname(package), name)):
        if os.path.isdir(candidate):
            return candidate
    raise SpillscanError(f"the folder {name} is missing from this installation", "install spillscan again")


def cache_folder(name: str) -> str:
    """Cache folder by the XDG base directory specification: ``$XDG_CACHE_HOME/spillscan/NAME``, else below
    ``~/.cache``.

    Raises :class:`RuntimeError` if there is no home folder.
    """
    home = os.environ.get("XDG_CACHE_HOME", "")
    home = home if os.path.isabs(home) else os.path.expanduser("~/.cache")
    if home.startswith("~"):
        raise RuntimeError("no home folder")
    return os.path.join(home, "spillscan", name)


def remember(name: str, file: str, value: object) -> None:
    """Store a JSON value for the next run, if possible."""
    import json

    with suppress(OSError, RuntimeError):  # no home folder, or a read-only one
        folder = cache_folder(name)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        draft = os.path.join(folder, f"{file}.{os.getpid()}")
        with open(draft, "wb") as written:
            written.write(b"%08x%b" % (crc32(data := json.dumps(value).encode()), data))
        os.replace(draft, os.path.join(folder, file))


def remembered(name: str, file: str) -> Any:
    """The value that :func:`remember` stored; ``None`` if there is none, or if it is damaged."""
    import json

    with suppress(OSError, RuntimeError, ValueError):
        with open(os.path.join(cache_folder(name), file), "rb") as written:
            data = written.read()
        if int(data[:8], 16) == crc32(data[8:]):
            return json.loads(data[8:])
    return None


def lock(descriptor: int, *, wait: bool = False) -> None:
    """Lock a file to show that the process that writes it lives; ``wait`` for another one.

    No effect on file systems without locks.
    """
    with suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_locked(path: str) -> bool | None:
    """Whether the process that writes the draft ``path`` lives; ``None`` if unknown."""
    try:
        import fcntl

        with open(path, "rb") as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (ImportError, OSError):
        return None
    return False


def sweep(folder: str, is_draft: Callable[[str], bool], older_than_seconds: float = 0) -> None:
    """Delete drafts whose process was killed, found by their names."""
    with suppress(OSError):
        names = filter(is_draft, os.listdir(folder or os.curdir))
        for path in [os.path.join(folder, name) for name in names]:
            if time.time() - os.stat(path).st_mtime >= older_than_seconds and is_locked(path) is False:
                os.unlink(path)


_DRAFT = f"{DRAFT}report-"
_YOUNG_SECONDS = 60
"""Seconds; a younger draft may not be locked yet."""


_KINDS = {stat.S_IFIFO: "FIFO", stat.S_IFSOCK: "socket", stat.S_IFDIR: "folder", stat.S_IFCHR: "device"}


def refuse_odd(path: str, mode: int) -> None:
    """Reject anything but a regular file, which might block or never end."""
    if not stat.S_ISREG(mode):
        raise UsageError(f"{path} is a {_KINDS.get(stat.S_IFMT(mode), 'device')}; expected a file")


def is_open_file(path: str) -> bool:
    """Whether ``path`` names a file that the caller has already opened: ``/dev/stdin``, a process substitution."""
    return path == "/dev/stdin" or path.startswith(("/dev/fd/", "/proc/self/fd/"))


def read_text(path: str, most: int, what: str) -> str:
    """Text of a small regular file, without a byte order mark. ``what`` names the expected content (``a policy``)."""
    try:
        refuse_odd(path, os.stat(path).st_mode)
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            refuse_odd(path, os.fstat(file.fileno()).st_mode)
            content = file.read(most + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    if len(content) > most:
        raise UsageError(f"{path} is larger than {most >> 20} MiB; expected {what}")
    return decoded(content, path)


def decoded(content: bytes, label: str) -> str:
    """``content`` as text, without a byte order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{label}:{line}: not UTF-8", "save it as UTF-8") from None


class Target(Struct, frozen=True):
    """A file to write."""

    path: str
    """Path as the user wrote it."""
    append: bool = False
    """Append to the file, as ``$GITHUB_STEP_SUMMARY`` requires, instead of replacing it."""

    @classmethod
    def parse(cls, text: str) -> Target | None:
        """Parse ``FILE``, or ``+FILE`` to append; ``None`` if there is no name. A file ``+x`` is written ``./+x``."""
        path = text.removeprefix("+")
        return cls(path, append=path != text) if path else None

    def check(self) -> None:
        """Reject a path without a folder, and a link that leads out of the named folder.

        A relative path stays below the current folder (or as many folders above it as the path has leading ``..``),
        whatever links a checkout contains. A file that is a link must stay in its folder. ``/dev`` and ``/proc`` are
        exempt.
        """
        folder, name = os.path.split(self.path)
        if os.path.exists(self.path) and not os.path.abspath(self.path).startswith(("/dev/", "/proc/")):
            refuse_odd(self.path, os.stat(self.path).st_mode)
        if os.path.abspath(folder).startswith(("/dev", "/proc")) and os.path.isabs(folder):
            return
        real = os.path.realpath(folder or os.curdir)
        if not os.path.isdir(real):
            raise UsageError(f"cannot write {self.path}: no such folder: {folder}", "create it first")
        if not os.path.isabs(folder):
            parts = folder.split(os.sep)
            climbs = next((index for index, part in enumerate(parts) if part not in ("", os.curdir, os.pardir)), None)
            top = os.path.realpath(os.path.join(os.curdir, *(parts if climbs is None else parts[:climbs])))
            if os.path.commonpath([top, real]) != top:
                raise UsageError(f"{folder} is a link to {real}", "if that is intended, pass the target folder")
        aim = os.path.realpath(os.path.join(real, name))
        if os.path.dirname(aim) != real:
            raise UsageError(f"{self.path} is a link to {aim}", "if that is intended, pass the target file")

    def write(self, text: str) -> None:
        """Write ``text`` atomically."""
        self.check()
        _write([(self, [text])])

    @contextmanager
    def draft(self, pieces: Iterable[str | bytes]) -> Iterator[Callable[[], None]]:
        """Write a text to a temporary file; yields the function that moves it to the target, or appends it."""
        mode = os.stat(self.path).st_mode if os.path.exists(self.path) else 0
        direct = bool(mode) and not stat.S_ISREG(mode)  # a device or pipe, which cannot be replaced
        real = self.path if direct else os.path.realpath(self.path)  # a pipe of the shell's >(…) has no other name
        with ExitStack() as stack:
            with self._failing():
                if self.append or direct:
                    if stat.S_ISDIR(mode):
                        raise IsADirectoryError(0, "is a folder")
                    from tempfile import TemporaryFile  # slow: it imports every archiver

                    file = stack.enter_context(TemporaryFile("w+", encoding="utf-8", newline=""))
                    commit = partial(_append, file, real)
                else:
                    folder = os.path.dirname(real)
                    sweep(folder, lambda name: name.startswith(_DRAFT), older_than_seconds=_YOUNG_SECONDS)
                    temporary = os.path.join(folder, f"{_DRAFT}{os.getpid()}-{os.urandom(4).hex()}")
                    handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                    stack.callback(_remove, temporary)
                    lock(handle)
                    file = stack.enter_context(open(handle, "w", encoding="utf-8", newline=""))
                    commit = partial(_move, temporary, real)
                _copy(pieces, file)
                file.flush()
            yield partial(self._commit, commit)

    def _commit(self, commit: Callable[[], None]) -> None:
        with self._failing():
            commit()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Name the target in errors of the system."""
        try:
            yield
        except OSError as error:
            raise UsageError(f"cannot write {self.path}: {error.strerror}") from error


def _write(texts: Iterable[tuple[Target, Iterable[str | bytes]]]) -> None:
    """Write all texts to temporary files before the first target is touched."""
    with ExitStack() as stack:
        for commit in [stack.enter_context(target.draft(pieces)) for target, pieces in texts]:
            commit()


def _move(temporary: str, real: str) -> None:
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(temporary, 0o666 & ~mask)
    os.replace(temporary, real)


def _remove(temporary: str) -> None:
    with suppress(FileNotFoundError):  # moved
        os.unlink(temporary)


def _append(text: TextIO, real: str) -> None:
    """Append a text to a file; a partial write is truncated again."""
    text.seek(0)
    with open(real, "ab", buffering=0) as file:
        regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        size = file.tell() if regular else 0
        try:
            rest = memoryview(text.read().encode())
            while rest:
                rest = rest[file.write(rest) :]
        except OSError:
            if regular:
                file.truncate(size)
            raise


class Form(Struct, frozen=True):
    """One ``-f FORMAT[:FILE]``."""

    name: str
    """Format."""
    target: Target | None
    """Target file; ``None`` is standard output."""


def parse_forms(wanted: Sequence[str], names: Sequence[str]) -> list[Form]:
    """Parse the requested forms for a command with the formats ``names``; the default is text."""
    forms = [_form(text, names) for text in wanted or ("text",)]
    if sum(form.target is None for form in forms) > 1:
        raise UsageError("two formats for standard output", "write all but one to a file: -f json:build.json")
    places = [os.path.realpath(form.target.path) for form in forms if form.target is not None]
    for form in forms:
        if form.target is not None and places.count(os.path.realpath(form.target.path)) > 1:
            raise UsageError(f"two formats for {form.target.path}", "use a separate file for each")
    return forms


def _form(text: str, names: Sequence[str]) -> Form:
    name, colon, path = text.partition(":")
    if name not in names:
        raise UsageError(f"unknown format {name!r}", nearest(name, names))
    if not colon:
        return Form(name, None)
    target = Target.parse(path)
    if target is None:
        raise UsageError(f"{text!r} has no file name", f"write {name}:FILE, or {name} for standard output")
    target.check()
    return Form(name, target)


def put(forms: Sequence[Form], pieces: Callable[[Form], Iterable[str | bytes]]) -> None:
    """Write the ``pieces`` of each form to its target: all files first, then standard output."""
    _write((form.target, pieces(form)) for form in forms if form.target is not None)
    for form in forms:
        if form.target is None:
            if form.name != "text" and hasattr(sys.stdout, "reconfigure"):  # text keeps the terminal's encoding
                sys.stdout.reconfigure(encoding="utf-8", errors="replace")
            _copy(pieces(form), sys.stdout)


def _copy(pieces: Iterable[str | bytes], file: TextIO) -> None:
    """Write pieces that are all text, or all UTF-8 bytes."""
    raw = getattr(file, "buffer", None)  # absent from a notebook's standard output
    file.flush()
    for piece in pieces:
        if isinstance(piece, bytes) and raw is not None:
            raw.write(piece)
        else:
            file.write(piece if isinstance(piece, str) else piece.decode())
