"""Where a dataset lies: a local folder, or a place of any object store that fsspec knows; and what things are called
there.

Only whole objects are ever put: a reader sees all of one or nothing of it. Labels and archs may be any text: only
harmless characters reach a path.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b, file_digest
from typing import Any, BinaryIO, NamedTuple, Protocol
from urllib.parse import quote, unquote

from xxhash import xxh3_128

from spillscan.output.errors import InputError, SpillscanError, StoreError, UsageError
from spillscan.output.safe import clip, printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One input file, or one member of an archive, of one build."""

    uri: str
    """Path or URL, the same in every audit of the build."""
    content_hash: str
    """Hash of its bytes, hexadecimal; empty where they could not be fetched."""
    size_bytes: int | None = None
    """Its bytes as they are stored; ``None`` where that is not known."""
    failure: str | None = None
    """Why it could not be read, one line; ``None`` where it was read."""
    store_tag: str | None = None
    """What its store calls this content (an ETag): while it does, the bytes are these; ``None`` where it has none."""

    @property
    def id(self) -> str:
        """What its rows are known by: 16 hexadecimal digits of uri and content."""
        return digest(self.uri, self.content_hash)


def digest(*words: str) -> str:
    """16 hexadecimal digits that stand for ``words``."""
    hasher = blake2b(digest_size=8)
    for word in words:
        data = word.encode("utf-8", "surrogatepass")
        hasher.update(len(data).to_bytes(8, "little"))
        hasher.update(data)
    return hasher.hexdigest()


KERNELS, UNITS, ISSUES, COMMITS = "kernels", "units", "issues", "commits"
QUARANTINE = "quarantine"
"""Where a repair puts what is damaged."""
SEVERAL = f"{COMMITS}/several"
"""Records of more than one build."""

NULL = "__HIVE_DEFAULT_PARTITION__"
"""How Hive's folders, and all who read them, spell a value that is not known."""

_LONGEST = 200
"""Characters of one step of a path; file systems take 255."""


def check_label(label: str) -> None:
    """Refuse what no folder can be called by and no reader could hold apart."""
    shown = clip(printable(label), 60)
    if not label or label == NULL:
        raise UsageError(f"{shown!r} is not a label", "call the build by a commit, a tag or a date")
    try:
        label.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the label {shown} is not text", "call the build by a commit, a tag or a date") from None
    if len(_escaped(label)) > _LONGEST:
        raise UsageError(f"the label {shown} is too long", f"at most {_LONGEST} letters and digits")


def folder(table: str, label: str, *arch: str | None) -> str:
    """``kernels/label=v1/arch=sm_80``: Hive's way to write columns as folders."""
    path = f"{table}/label={_escaped(label)}"
    return "/".join((path, *(f"arch={_arch(each)}" for each in arch)))


def _arch(arch: str | None) -> str:
    if arch is None:
        return NULL
    escaped = _escaped(arch)
    if escaped == NULL:
        return f"%5F{NULL[1:]}"
    return escaped if len(escaped) <= _LONGEST else f"{escaped[:60].rstrip('%')}-{digest(arch)}"


def is_odd(arch: str) -> bool:
    """Whether what stands in the path is not this arch."""
    return unquote(_arch(arch)) != arch or arch == NULL


def _escaped(text: str) -> str:
    return quote(text, safe="", errors="backslashreplace").replace("~", "%7E")


@contextlib.contextmanager
def needed(what: str = "a dataset") -> Iterator[None]:
    """Imports of packages from the extra ``data``; :class:`~spillscan.InputError` where one is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "spillscan"):
            raise
        hint = "pip install 'spillscan[data]'"
        raise InputError(f"{what} needs {package}, which is not installed", hint) from error


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
    """When it was put, in seconds since 1970; ``None`` where the store does not say."""


class State(NamedTuple):
    """What an object is now."""

    size_bytes: int
    digest: str
    """Made as the one that is recorded of it; empty where none is."""


def checksum(file: io.BufferedIOBase, recorded: str = "") -> str:
    """XXH3 of a file, hexadecimal: 128 bits, as fast as memory. Where what is ``recorded`` is longer, SHA-256. It finds
    damage, not forgery."""
    return file_digest(file, "sha256" if len(recorded) > _XXH3_DIGITS else xxh3_128).hexdigest()


_XXH3_DIGITS = 32


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

    def address(self, path: str) -> str:
        """What DuckDB calls an object."""

    @property
    def driver(self) -> Any:
        """The file system of fsspec by which DuckDB reads it; ``None`` for a folder."""

    def state(self, recorded: Mapping[str, str]) -> dict[str, State]:
        """Size and digest of those objects that are there, by their path; ``recorded``: the digest that each should
        have, empty where only its size is asked for."""


def store(root: str) -> Store:
    """The store at ``root``. Raises :class:`~spillscan.InputError` where that is a file, as a log is."""
    if os.path.isfile(root):
        raise InputError(f"{root} is a file, not a dataset", "`spillscan history audit FILE …` makes one of files")
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
        draft = os.path.join(folder, f"{DRAFT}{os.getpid()}-{os.urandom(4).hex()}")
        with _failing(f"cannot write {self.root}"):
            try:
                with _made(folder, draft) as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(draft, aim)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(draft)
                raise

    def read(self, paths: Sequence[str]) -> list[bytes | None]:
        with _failing(f"cannot read {self.root}"):
            return [self._read(path) for path in paths]

    def _read(self, path: str) -> bytes | None:
        try:
            with open(os.path.join(self._base, path), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def list(self, folder: str) -> list[Object]:
        found = []
        with _failing(f"cannot read {self.root}"):
            for entry in _files(os.path.join(self._base, folder)):
                with contextlib.suppress(FileNotFoundError):  # gone meanwhile
                    status = entry.stat()
                    path = os.path.relpath(entry.path, self._base).replace(os.sep, "/")
                    found.append(Object(path=path, size_bytes=status.st_size, modified=status.st_mtime))
        return sorted(found, key=lambda each: each.path)

    def delete(self, paths: Sequence[str]) -> None:
        with _failing(f"cannot delete from {self.root}"):
            for path in paths:
                aim = os.path.join(self._base, path)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(aim)
            for folder in {os.path.dirname(os.path.join(self._base, path)) for path in paths}:
                self._prune(folder)

    def _prune(self, folder: str) -> None:
        """Folders that are empty now; a place of thousands of builds has thousands of them."""
        with contextlib.suppress(OSError):  # it is in use
            while folder != self._base:
                os.rmdir(folder)
                folder = os.path.dirname(folder)

    def address(self, path: str) -> str:
        return f"{self._base}/{path}"

    driver = None

    def state(self, recorded: Mapping[str, str]) -> dict[str, State]:
        def one(path: str) -> State | None:
            try:
                with open(os.path.join(self._base, path), "rb") as file:
                    known = recorded[path]
                    return State(os.fstat(file.fileno()).st_size, checksum(file, known) if known else "")
            except OSError:
                return None

        with ThreadPoolExecutor(_READERS) as pool:
            states = zip(recorded, pool.map(one, recorded), strict=True)
            return {path: found for path, found in states if found is not None}


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
        with _failing(f"cannot write {self.root}"):
            self._fs.pipe_file(f"{self._base}/{path}", data)

    def read(self, paths: Sequence[str]) -> list[bytes | None]:
        if not paths:
            return []
        full = [f"{self._base}/{path}" for path in paths]
        with _failing(f"cannot read {self.root}"):
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
        with _failing(f"cannot read {self.root}"):
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
        with _failing(f"cannot delete from {self.root}"):
            for path in paths:
                with contextlib.suppress(FileNotFoundError):
                    self._fs.rm_file(f"{self._base}/{path}")

    def address(self, path: str) -> str:
        return str(self._fs.unstrip_protocol(f"{self._base}/{path}"))

    @property
    def driver(self) -> Any:
        return self._fs

    def state(self, recorded: Mapping[str, str]) -> dict[str, State]:
        tables = sorted({path.partition("/")[0] for path, known in recorded.items() if not known})
        sizes = {each.path: each.size_bytes for table in tables for each in self.list(table)}
        found = {path: State(sizes[path], "") for path in recorded if path in sizes}
        for path, known in recorded.items():
            if known and (data := self.read([path])[0]) is not None:
                found[path] = State(len(data), checksum(io.BytesIO(data), known))
        return found


_READERS = 4
"""Threads that read files to be checked."""


def _made(folder: str, name: str) -> BinaryIO:
    """A new file, whoever may be deleting its folder because it is empty."""
    for _ in range(_PATIENCE):
        os.makedirs(folder, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            return open(name, "xb")
    os.makedirs(folder, exist_ok=True)
    return open(name, "xb")


_PATIENCE = 100


@contextlib.contextmanager
def _failing(what: str) -> Iterator[None]:
    """Errors of files say what was to be done, and so do those of stores, whose drivers raise anything."""
    try:
        yield
    except SpillscanError:
        raise
    except OSError as error:
        raise InputError(f"{what}: {error.strerror or error}") from error
    except Exception as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise StoreError(f"{what}: {said}", "are its keys and its address right?") from error


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
    found = next(
        (entry[name] for name in ("LastModified", "last_modified", "mtime", "updated", "created") if name in entry),
        None,
    )
    if isinstance(found, datetime):
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    return float(found) if isinstance(found, int | float) else None
