"""Access to files by URL, through fsspec's drivers for object stores and web servers, and to local files.

Remote files are copied into a temporary file. Requests that fail are retried.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple, TypeVar
from urllib.parse import urlsplit

from spillscan.output.errors import InputError, SpillscanError, StoreError, UsageError
from spillscan.reading.inputs.source import BLOCK_BYTES

PAUSES_SECONDS = (0.1, 0.3, 0.9, 2.7)
"""Pauses between attempts; after the last, the store has failed."""

LASTING = (PermissionError, ImportError, SpillscanError)
"""Errors that another attempt does not fix."""

T = TypeVar("T")

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
"""At least two letters, since ``C:`` is a drive."""
_TAGS = ("ETag", "etag", "md5Hash", "content_md5", "blob_id")
"""Keys of the content tag: S3 and web servers, Google, Azure, Hugging Face.

A weak ETag (``W/``) is not used, as it may outlive a change.
"""


def is_url(name: str) -> bool:
    """Whether ``name`` is a URL, not a path."""
    return _URL.match(name) is not None


def shown(url: str) -> str:
    """``url`` without user name and password, since names are stored and printed."""
    parts = urlsplit(url)
    return url.replace(parts.netloc, parts.netloc.rpartition("@")[2], 1) if "@" in parts.netloc else url


def filesystem(url: str) -> tuple[Any, str]:
    """The driver's file system, and its own name of ``url``.

    Raises :class:`~spillscan.UsageError` if there is no driver.
    """
    protocol = url.partition("://")[0].lower()
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise UsageError(f"{protocol}:// needs the package fsspec", "pip install 'spillscan[data]'") from error
    try:
        driver, path = url_to_fs(url)
    except ImportError as error:
        cause = error.__cause__  # carries the missing module's name; fsspec's own error only describes it
        package = (cause.name if isinstance(cause, ImportError) else None) or str(error)
        raise UsageError(f"{protocol}:// needs the package {package}", f"pip install {package}") from error
    except ValueError as error:
        raise UsageError(f"{shown(url)} cannot be opened: {error}", "use s3://, gs://, hf:// or https://") from error
    return driver, path


class Listed(NamedTuple):
    """One file as its store lists it."""

    url: str
    below: str
    """Path below the URL that was listed."""
    size_bytes: int | None
    """Size; ``None`` if the store does not report it."""
    tag: str | None
    """See :func:`tag_of`."""


def tag_of(entry: Mapping[str, Any]) -> str | None:
    """The store's tag of a file's content: the bytes are the same as long as the tag is.

    ``None`` if there is none. Size and time are no substitute, since both may stay the same when the bytes change.
    """
    for name in _TAGS:
        tag = entry.get(name)
        if isinstance(tag, str) and tag and not tag.startswith("W/"):
            return f"{name}={tag}"
    return None


def listed(url: str) -> list[Listed]:
    """All files at or below ``url``, or that it matches as a pattern, sorted.

    Raises :class:`~spillscan.SpillscanError` if there are none, or if the store does not answer.
    """
    try:
        return retried(lambda: list(_listing(url)), (*LASTING, FileNotFoundError))
    except SpillscanError:
        raise
    except Exception as error:
        reason: BaseException = error
        if isinstance(error, FileNotFoundError) and isinstance(error.__cause__, OSError):
            reason = error.__cause__  # no connection; fsspec reports it as a file that is not found
        if isinstance(reason, FileNotFoundError):
            raise InputError(f"no such file: {shown(url)}", "pass files, folders, patterns or URLs") from error
        raise InputError(
            f"cannot list {shown(url)}: {reason_of(reason)}", "check the store's address and credentials"
        ) from error


def _listing(url: str) -> Iterator[Listed]:
    driver, path = filesystem(url)
    if any(sign in path for sign in "*?["):
        entries = driver.glob(path, detail=True)
    elif (single := driver.info(path))["type"] == "directory":
        entries = driver.find(path, detail=True)
    else:
        yield Listed(url, path.rpartition("/")[2], single.get("size"), tag_of(single))
        return
    if not entries:
        raise FileNotFoundError(url)
    top = path.rstrip("/") + "/"
    account = urlsplit(url).netloc.rpartition("@")[0]
    for name in sorted(entries):
        if entries[name]["type"] == "file" and not name.endswith("/"):
            full = driver.unstrip_protocol(name)
            if account and "@" not in urlsplit(full).netloc:
                full = full.replace("://", f"://{account}@", 1)
            yield Listed(full, name.removeprefix(top), entries[name].get("size"), tag_of(entries[name]))


@contextmanager
def opened(path: str, uri: str) -> Iterator[BinaryIO]:
    """Open a local file.

    Raises :class:`~spillscan.InputError` unless it is a regular file that can be read. Never blocks on a pipe that
    replaced the file since it was listed.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise InputError(f"cannot read {uri}: {error.strerror or error}") from error
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InputError(f"{uri} was replaced by a folder or device", "restore the file, then run the audit again")
        yield file


def digest(path: str, uri: str) -> str:
    """SHA-256 of a local file, hexadecimal; uses constant memory."""
    with opened(path, uri) as file:
        try:
            return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
        except OSError as error:
            raise InputError(f"cannot read {uri}: {error.strerror or error}") from error


@contextmanager
def fetched(url: str, uri: str) -> Iterator[str]:
    """Path of a temporary copy of the file at ``url``.

    Raises :class:`~spillscan.SpillscanError` if the store fails at every attempt.
    """
    descriptor, path = tempfile.mkstemp(prefix="spillscan-")
    try:
        with os.fdopen(descriptor, "wb") as copy:
            _fetched(lambda: _copy(url, copy), uri)
        yield path
    finally:
        os.unlink(path)


def beginning(url: str, uri: str, size_bytes: int) -> bytes:
    """First ``size_bytes`` bytes of the file at ``url``; raises as :func:`fetched`."""

    def read() -> bytes:
        driver, path = filesystem(url)
        with driver.open(path, "rb", block_size=size_bytes) as file:
            return bytes(file.read(size_bytes))

    return _fetched(read, uri)


def tag(url: str, uri: str) -> str | None:
    """The store's current content tag of ``url``, if any; raises as :func:`fetched`."""

    def read() -> str | None:
        driver, path = filesystem(url)
        driver.invalidate_cache()
        return tag_of(driver.info(path))

    return _fetched(read, uri)


def _copy(url: str, copy: BinaryIO) -> None:
    driver, path = filesystem(url)
    copy.seek(0)
    copy.truncate()
    with driver.open(path, "rb", block_size=8 * BLOCK_BYTES, cache_type="readahead") as file:
        size = getattr(file, "size", None)
        while block := file.read(8 * BLOCK_BYTES):
            copy.write(block)
    copy.flush()
    if size is not None and copy.tell() != size:
        raise OSError(f"{copy.tell():,} of {size:,} bytes received")


def _fetched(action: Callable[[], T], uri: str) -> T:
    """Result of ``action`` with retries; errors of drivers become :class:`~spillscan.InputError`."""
    try:
        return retried(action)
    except SpillscanError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"cannot fetch {uri}: it was not found in the store", "check the URL, then retry") from error
    except Exception as error:
        raise InputError(
            f"cannot fetch {uri}: {reason_of(error)}", "check the URL and your access, then retry"
        ) from error


def reason_of(error: BaseException) -> str:
    """Message of an error, in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def retried(
    action: Callable[[], T], lasting: tuple[type[Exception], ...] = LASTING, pause: Callable[[float], None] = time.sleep
) -> T:
    """Result of ``action``, after at most five attempts.

    Raises the error of the last attempt, or the first one that is ``lasting``. Drivers of stores raise anything: errors
    of sockets, HTTP libraries and their own, few of them an ``OSError``. ``FileNotFoundError`` is retried unless it is
    in ``lasting``, since web servers that fail report it for files that exist.
    """
    for seconds in PAUSES_SECONDS:
        try:
            return action()
        except Exception as error:
            if isinstance(error, lasting) and not isinstance(error, StoreError):
                raise
            pause(seconds)
    return action()
