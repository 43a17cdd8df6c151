"""Write files atomically, only where asked, and never through a link out of their folder."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

from msgspec import Struct

from spillscan.output import folders
from spillscan.output.errors import UsageError
from spillscan.output.folders import DRAFT

_DRAFT = f"{DRAFT}report-"
_YOUNG_SECONDS = 60
"""Seconds; a younger draft may not be locked yet."""
_WRITTEN_CHARACTERS = 1 << 15
"""Characters written at a time; few enough that the memory is reused."""


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
            raise UsageError(f"cannot write {self.path}: no such folder: {folder}", "make it first")
        if not os.path.isabs(folder):
            parts = folder.split(os.sep)
            climbs = next((index for index, part in enumerate(parts) if part not in ("", os.curdir, os.pardir)), None)
            top = os.path.realpath(os.path.join(os.curdir, *(parts if climbs is None else parts[:climbs])))
            if os.path.commonpath([top, real]) != top:
                raise UsageError(f"{folder} is a link to {real}", "name that folder itself if you mean it")
        aim = os.path.realpath(os.path.join(real, name))
        if os.path.dirname(aim) != real:
            raise UsageError(f"{self.path} is a link to {aim}", "name that file itself if you mean it")

    def write(self, text: str) -> None:
        """Write ``text`` atomically."""
        self.check()
        draft = self.draft()
        try:
            draft.fill(lambda file: file.write(text))
            draft.commit()
        finally:
            draft.discard()

    def draft(self) -> Draft:
        """A temporary file for the text, before the target is touched."""
        import tempfile  # imported only by commands that write files

        real = os.path.realpath(self.path)
        try:
            mode = os.stat(self.path).st_mode
        except OSError:
            mode = 0
        direct = bool(mode) and not stat.S_ISREG(mode)  # a device or pipe, which cannot be replaced
        try:
            if self.append or direct:
                if stat.S_ISDIR(mode):
                    raise IsADirectoryError(0, "is a folder")
                place = self.path if direct else real  # a pipe of the shell's >(…) has no other name
                return Draft(self, place, tempfile.TemporaryFile("w+", encoding="utf-8", newline=""), None)
            folder = os.path.dirname(real)
            folders.sweep(folder, lambda name: name.startswith(_DRAFT), older_than_seconds=_YOUNG_SECONDS)
            handle, temporary = tempfile.mkstemp(dir=folder, prefix=_DRAFT)
            folders.hold(handle)
        except OSError as error:
            raise UsageError(f"cannot write {self.path}: {error.strerror}") from error
        return Draft(self, real, open(handle, "w", encoding="utf-8", newline=""), temporary)


class Draft:
    """Text being written for a :class:`Target`."""

    def __init__(self, target: Target, real: str, file: TextIO, temporary: str | None) -> None:
        self._target = target
        self._real = real
        self._file = file
        self._temporary = temporary

    def fill(self, write: Callable[[TextIO], object]) -> None:
        """Call ``write`` with the temporary file."""
        try:
            write(self._file)
            self._file.flush()
        except OSError as error:
            raise self._failed(error) from error

    def commit(self) -> None:
        """Move the text to its target."""
        try:
            if self._temporary is None:
                self._append()
                return
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(self._temporary, 0o666 & ~mask)
            os.replace(self._temporary, self._real)
            self._temporary = None
        except OSError as error:
            raise self._failed(error) from error

    def discard(self) -> None:
        """Remove the temporary file, if not committed."""
        self._file.close()
        if self._temporary is not None:
            os.unlink(self._temporary)
            self._temporary = None

    def _append(self) -> None:
        """Append to the file; a partial write is truncated again."""
        self._file.seek(0)
        with open(self._real, "ab", buffering=0) as file:
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            size = file.tell() if regular else 0
            try:
                rest = memoryview(self._file.read().encode())
                while rest:
                    rest = rest[file.write(rest) :]
            except OSError:
                if regular:
                    file.truncate(size)
                raise

    def _failed(self, error: OSError) -> UsageError:
        return UsageError(f"cannot write {self._target.path}: {error.strerror}")


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
        raise UsageError("two formats for standard output", "give all but one a file: -f json:build.json")
    places = [os.path.realpath(form.target.path) for form in forms if form.target is not None]
    for form in forms:
        if form.target is not None and places.count(os.path.realpath(form.target.path)) > 1:
            raise UsageError(f"two formats for {form.target.path}", "give each a file of its own")
    return forms


def _form(text: str, names: Sequence[str]) -> Form:
    name, colon, path = text.partition(":")
    if name not in names:
        from difflib import get_close_matches

        near = get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"unknown format {name!r}", f"{hint}choose from {', '.join(names)}")
    if not colon:
        return Form(name, None)
    target = Target.parse(path)
    if target is None:
        raise UsageError(f"{text!r} names no file", f"write {name}:FILE, or {name} for standard output")
    target.check()
    return Form(name, target)


def put(forms: Sequence[Form], pieces: Callable[[Form], Iterable[str | bytes]]) -> None:
    """Write the ``pieces`` of each form to its target: all files first, then standard output."""
    drafts: list[Draft] = []
    try:
        for form in forms:
            if form.target is not None:
                draft = form.target.draft()
                drafts.append(draft)
                draft.fill(lambda file, form=form: _copy(pieces(form), file))  # type: ignore[misc]
        for draft in drafts:
            draft.commit()
    finally:
        for draft in drafts:
            draft.discard()
    for form in forms:
        if form.target is None:
            if form.name != "text" and hasattr(sys.stdout, "reconfigure"):  # text keeps the terminal's encoding
                sys.stdout.reconfigure(encoding="utf-8", errors="replace")
            _copy(pieces(form), sys.stdout)


def _copy(pieces: Iterable[str | bytes], file: TextIO) -> None:
    """Write pieces that are all text, or all UTF-8 bytes."""
    raw = getattr(file, "buffer", None)  # absent from a notebook's standard output
    file.flush()
    batch: list[str] = []
    characters = 0
    for piece in pieces:
        if isinstance(piece, bytes) and raw is not None:
            raw.write(piece)
            continue
        batch.append(piece if isinstance(piece, str) else piece.decode())
        characters += len(piece)
        if characters >= _WRITTEN_CHARACTERS:
            file.writelines(batch)
            batch.clear()
            characters = 0
    file.write("".join(batch))
