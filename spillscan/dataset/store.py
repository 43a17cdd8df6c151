"""Where a dataset lies: a local folder, or a place of any object store that fsspec knows.

Only whole objects are ever put: a reader sees all of one or nothing of it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from spillscan.dataset.extra import needed
from spillscan.errors import InputError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

DRAFT = ".draft-"
"""How the names of files begin that are not whole yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """One object of a store."""

    path: str
    """Below the root, forward slashes."""
    size_bytes: int
    """Its size."""
    modified: float | None
    """When it was put, in seconds since 1970; ``None`` where the store does not tell."""


class Store(Protocol):
    """What a dataset asks of the place where it lies; paths are below its root."""

    root: str

    def put(self, path: str, data: bytes) -> None:
        """Put an object, whole, in the place of an older one."""

    def read(self, paths: Sequence[str]) -> list[bytes | None]:
        """The objects; ``None`` for one that is not there."""

    def list(self, folder: str) -> list[Object]:
        """All objects below ``folder``, by path; none where it is not there."""

    def delete(self, paths: Sequence[str]) -> None:
        """Delete what is there of these."""

    def arrow(self) -> tuple[FileSystem, str]:
        """A file system for Arrow, and what stands before the paths there."""


def store(root: str) -> Store:
    """The store at ``root``."""
    if "://" in root and not root.startswith("file://"):
        return _Remote(root)
    return _Folder(root.removeprefix("file://"))


class _Folder:
    def __init__(self, root: str) -> None:
        self.root = root
        self._base = os.path.abspath(root)

    def put(self, path: str, data: bytes) -> None:
        aim = os.path.join(self._base, path)
        folder = os.path.dirname(aim)
        draft = os.path.join(folder, f"{DRAFT}{os.getpid()}-{secrets.token_hex(4)}")
        with _told(f"cannot write {self.root}"):
            os.makedirs(folder, exist_ok=True)
            try:
                with open(draft, "xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(draft, aim)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(draft)
                raise

    def read(self, paths: Sequence[str]) -> list[bytes | None]:
        with _told(f"cannot read {self.root}"):
            return [self._read(path) for path in paths]

    def _read(self, path: str) -> bytes | None:
        try:
            with open(os.path.join(self._base, path), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def list(self, folder: str) -> list[Object]:
        found = []
        with _told(f"cannot read {self.root}"):
            for entry in _files(os.path.join(self._base, folder)):
                with contextlib.suppress(FileNotFoundError):  # gone meanwhile
                    status = entry.stat()
                    path = os.path.relpath(entry.path, self._base).replace(os.sep, "/")
                    found.append(Object(path=path, size_bytes=status.st_size, modified=status.st_mtime))
        return sorted(found, key=lambda each: each.path)

    def delete(self, paths: Sequence[str]) -> None:
        with _told(f"cannot delete from {self.root}"):
            for path in paths:
                aim = os.path.join(self._base, path)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(aim)

    def arrow(self) -> tuple[FileSystem, str]:
        from pyarrow.fs import LocalFileSystem

        return LocalFileSystem(), self._base + "/"


class _Remote:
    def __init__(self, root: str) -> None:
        with needed():
            import fsspec
        self.root = root
        try:
            with needed(root.partition("://")[0] + "://"):
                self._fs, base = fsspec.core.url_to_fs(root)
        except (ValueError, ImportError) as error:
            raise InputError(f"cannot open {root}: {error}", "pip install the fsspec package of this store") from error
        self._base = base.rstrip("/")

    def put(self, path: str, data: bytes) -> None:
        with _told(f"cannot write {self.root}"):
            self._fs.pipe_file(f"{self._base}/{path}", data)

    def read(self, paths: Sequence[str]) -> list[bytes | None]:
        if not paths:
            return []
        full = [f"{self._base}/{path}" for path in paths]
        with _told(f"cannot read {self.root}"):
            found: dict[str, Any] = self._fs.cat(full, on_error="return") if len(full) > 1 else self._one(full[0])
            results = [found.get(path, found.get(path.lstrip("/"))) for path in full]
            for each in results:
                if isinstance(each, BaseException) and not isinstance(each, FileNotFoundError):
                    raise each
        return [None if isinstance(each, BaseException) else each for each in results]

    def _one(self, path: str) -> dict[str, Any]:
        try:
            return {path: self._fs.cat_file(path)}
        except FileNotFoundError:
            return {}

    def list(self, folder: str) -> list[Object]:
        self._fs.invalidate_cache()
        with _told(f"cannot read {self.root}"):
            try:
                entries: dict[str, dict[str, Any]] = self._fs.find(f"{self._base}/{folder}", detail=True)
            except FileNotFoundError:
                return []
        base = self._base.lstrip("/") + "/"
        found = [
            Object(
                path=path.lstrip("/").removeprefix(base), size_bytes=entry.get("size") or 0, modified=_modified(entry)
            )
            for path, entry in entries.items()
        ]
        return sorted(found, key=lambda each: each.path)

    def delete(self, paths: Sequence[str]) -> None:
        with _told(f"cannot delete from {self.root}"):
            for path in paths:
                with contextlib.suppress(FileNotFoundError):
                    self._fs.rm_file(f"{self._base}/{path}")

    def arrow(self) -> tuple[FileSystem, str]:
        from pyarrow.fs import FSSpecHandler, PyFileSystem

        return PyFileSystem(FSSpecHandler(self._fs)), self._base + "/"


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{what}: {error.strerror or error}") from error


def _files(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _files(entry.path)
        elif entry.is_file():
            yield entry


def _modified(entry: dict[str, Any]) -> float | None:
    told = next(
        (entry[name] for name in ("LastModified", "last_modified", "mtime", "updated", "created") if name in entry),
        None,
    )
    if isinstance(told, datetime):
        return (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()
    return float(told) if isinstance(told, int | float) else None
