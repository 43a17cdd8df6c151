"""Storage of a dataset, a folder or any object store that fsspec supports, and the names of its objects.

Objects are written as a whole: a reader sees all of one or nothing. Labels may be any text and are escaped in paths.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b, file_digest
from typing import Any, NamedTuple
from urllib.parse import quote

from spillscan.output.errors import InputError, SpillscanError, StoreError, UsageError
from spillscan.output.safe import clip, printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One input file, or one member of an archive, of one build."""

    uri: str
    """Path or URL, the same in every audit of the build."""
    content_hash: str
    """Hash of its bytes, hexadecimal; empty if they could not be fetched."""
    size_bytes: int | None = None
    """Stored size; ``None`` if unknown."""
    failure: str | None = None
    """Reason why it could not be read, in one line; ``None`` if it was read."""
    store_tag: str | None = None
    """The store's tag of this content (an ETag), which changes with the bytes; ``None`` if it has none."""

    @property
    def id(self) -> str:
        """Id of the unit in rows: 16 hexadecimal digits of uri and content."""
        return digest(self.uri, self.content_hash)


def digest(*words: str) -> str:
    """Digest of ``words``: 16 hexadecimal digits."""
    hasher = blake2b(digest_size=8)
    for word in words:
        data = word.encode("utf-8", "surrogatepass")
        hasher.update(len(data).to_bytes(8, "little"))
        hasher.update(data)
    return hasher.hexdigest()


KERNELS, UNITS, ISSUES, COMMITS, PENDING = "kernels", "units", "issues", "commits", "pending"
_LONGEST = 200
"""Maximum characters of one part of a path; file systems allow 255."""


def check_label(label: str) -> None:
    """Reject a label that cannot be the name of a folder."""
    shown, hint = clip(printable(label), 60), "name the build after a commit, a tag or a date"
    try:
        escaped = _escaped(label.encode().decode())
    except UnicodeEncodeError:
        raise UsageError(f"the label {shown} is not valid UTF-8", hint) from None
    if not label or label == "__HIVE_DEFAULT_PARTITION__":  # spelling of null in Hive partitions
        raise UsageError(f"the label is {'reserved: ' + shown if label else 'empty'}", hint)
    if len(escaped) > _LONGEST:
        raise UsageError(f"the label {shown} is too long", f"use at most {_LONGEST} letters and digits")


def folder(table: str, label: str) -> str:
    """Folder of a table's build in Hive's notation: ``kernels/label=v1``."""
    return f"{table}/label={_escaped(label)}"


def _escaped(text: str) -> str:
    return quote(text, safe="").replace("~", "%7E")


@contextlib.contextmanager
def needed(what: str = "a dataset") -> Iterator[None]:
    """Context for imports from the extra ``data``; :class:`~spillscan.InputError` if a package is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "spillscan"):
            raise
        raise InputError(f"{what} needs {package}, which is not installed", "pip install 'spillscan[data]'") from error


DRAFT = ".draft-"
"""Prefix of files that are not yet complete."""


class State(NamedTuple):
    """Current state of an object."""

    size_bytes: int
    sha256: str
    """Checksum; empty if not requested."""


def checksum(file: Any) -> str:
    """SHA-256 of a file, hexadecimal."""
    return file_digest(file, "sha256").hexdigest()


class Store:
    """Objects below a root, by paths with forward slashes."""

    def __init__(self, root: str) -> None:
        """Raises :class:`~spillscan.InputError` if ``root`` is a file, or if no driver supports its kind of URL."""
        if os.path.isfile(root):
            raise InputError(
                f"{root} is a file, not a dataset", "`spillscan history audit FILE …` creates one from files"
            )
        self.root = root
        self.local = "://" not in root or root.startswith("file://")
        try:
            with needed("a dataset" if self.local else root.partition("://")[0] + "://"):
                from fsspec.core import url_to_fs

                self._fs, base = url_to_fs(os.path.abspath(root.removeprefix("file://")) if self.local else root)
        except (ValueError, ImportError) as error:
            raise InputError(
                f"cannot open {root}: {error}", "check the URL scheme, or install its fsspec driver (s3fs, gcsfs, …)"
            ) from error
        self._base = base.rstrip("/")

    @property
    def driver(self) -> Any:
        """File system through which DuckDB reads; ``None`` for a folder, which DuckDB reads itself."""
        return None if self.local else self._fs

    def address(self, path: str) -> str:
        """Name of an object for DuckDB."""
        full = f"{self._base}/{path}"
        return full if self.local else str(self._fs.unstrip_protocol(full))

    def put(self, path: str, data: bytes) -> None:
        """Write a whole object, replacing an older one."""
        with _failing(f"cannot write {self.root}"):
            if self.local:
                _replace(f"{self._base}/{path}", data)
            else:
                self._fs.pipe_file(f"{self._base}/{path}", data)

    def read(self, paths: Sequence[str]) -> list[bytes | None]:
        """Contents of the objects; ``None`` for a missing one."""
        full = [f"{self._base}/{path}" for path in paths]
        with _failing(f"cannot read {self.root}"):
            if self.local or len(full) < 2:
                return [self._one(path) for path in full]
            contents: dict[str, Any] = self._fs.cat(full, on_error="return")  # concurrently
            results = [contents.get(path, contents.get(path.lstrip("/"))) for path in full]
            for each in results:
                if isinstance(each, BaseException) and not isinstance(each, FileNotFoundError):
                    raise each
        return [None if isinstance(each, BaseException) else each for each in results]

    def _one(self, path: str) -> bytes | None:
        try:
            return bytes(self._fs.cat_file(path))
        except FileNotFoundError:
            return None

    def list(self, folder: str) -> dict[str, int]:
        """Sizes of all objects below ``folder``, by path; empty if it does not exist."""
        self._fs.invalidate_cache()
        with _failing(f"cannot read {self.root}"):
            try:
                entries: dict[str, dict[str, Any]] = self._fs.find(f"{self._base}/{folder}", detail=True)
            except FileNotFoundError:
                return {}
        base = self._base.lstrip("/") + "/"
        return {path.lstrip("/").removeprefix(base): entry["size"] or 0 for path, entry in sorted(entries.items())}

    def delete(self, paths: Sequence[str]) -> None:
        """Delete the objects that exist."""
        with _failing(f"cannot delete from {self.root}"):
            for path in paths:
                with contextlib.suppress(FileNotFoundError):
                    self._fs.rm_file(f"{self._base}/{path}")

    def state(self, recorded: Mapping[str, str]) -> dict[str, State]:
        """State of the objects that exist, by path; checksums only for those with a ``recorded`` one."""
        sizes: dict[str, int] = {}
        for folder in sorted({path.rpartition("/")[0] if self.local else path.partition("/")[0] for path in recorded}):
            sizes |= self.list(folder)

        def one(path: str) -> State | None:
            if path not in sizes:
                return None
            if not recorded[path]:
                return State(sizes[path], "")
            try:
                with _failing(f"cannot read {self.root}"), self._fs.open(f"{self._base}/{path}", "rb") as file:
                    return State(sizes[path], checksum(file))
            except InputError:
                return None

        with ThreadPoolExecutor(_READERS) as pool:
            states = zip(recorded, pool.map(one, recorded), strict=True)
            return {path: state for path, state in states if state is not None}


_READERS = 4
"""Threads that checksum objects."""


def _replace(path: str, data: bytes) -> None:
    """Write a local file atomically and durably (fsync)."""
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    draft = os.path.join(folder, f"{DRAFT}{os.getpid()}-{os.urandom(4).hex()}")
    try:
        with open(draft, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise


@contextlib.contextmanager
def _failing(what: str) -> Iterator[None]:
    """Prefix errors of files and stores with ``what``; drivers of stores may raise any exception."""
    try:
        yield
    except SpillscanError:
        raise
    except OSError as error:
        raise InputError(f"{what}: {error.strerror or error}") from error
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise StoreError(f"{what}: {reason}", "check the store's address and credentials") from error
