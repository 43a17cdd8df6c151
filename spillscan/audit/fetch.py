"""One file at hand: opened where it lies, or brought from a store into a temporary file."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, TypeVar

from spillscan.audit import stores
from spillscan.audit.patience import patiently
from spillscan.errors import InputError, SpillscanError
from spillscan.inputs.source import BLOCK_BYTES

T = TypeVar("T")


@contextmanager
def opened(path: str, uri: str) -> Iterator[BinaryIO]:
    """The file at ``path``, a local one. Raises :class:`~spillscan.errors.InputError` unless it is a regular file that
    can be read; a pipe that took its place since it was listed is not waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise InputError(f"cannot read {uri}: {error.strerror or error}") from error
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InputError(f"{uri} is no regular file any more")
        yield file


@contextmanager
def fetched(url: str, uri: str) -> Iterator[str]:
    """The path of a temporary copy of what lies at ``url``. Raises :class:`~spillscan.errors.SpillscanError` where the
    store does not give it, at several attempts."""
    descriptor, path = tempfile.mkstemp(prefix="spillscan-")
    try:
        with os.fdopen(descriptor, "wb") as copy:
            from_store(lambda: _copy(url, copy), uri)
        yield path
    finally:
        os.unlink(path)


def head(url: str, uri: str, size_bytes: int) -> bytes:
    """The first ``size_bytes`` of what lies at ``url``; errors as of :func:`fetched`."""

    def read() -> bytes:
        found, path = stores.filesystem(url)
        with found.open(path, "rb", block_size=size_bytes) as file:
            return bytes(file.read(size_bytes))

    return from_store(read, uri)


def tag(url: str, uri: str) -> str | None:
    """What the store calls the content at ``url`` now, if anything; errors as of :func:`fetched`."""
    return from_store(lambda: stores.tag_now(url), uri)


def from_store(action: Callable[[], T], uri: str) -> T:
    """What ``action`` returns, patiently; errors of drivers become one of ours."""
    try:
        return patiently(action)
    except SpillscanError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"cannot fetch {uri}: the store does not give it", "the next run tries again") from error
    except Exception as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"cannot fetch {uri}: {said}", "the next run tries again") from error


def digest(path: str, uri: str) -> str:
    """SHA-256 of a local file, hexadecimal; memory does not grow with it."""
    with opened(path, uri) as file:
        try:
            return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
        except OSError as error:
            raise InputError(f"cannot read {uri}: {error.strerror or error}") from error


def _copy(url: str, copy: BinaryIO) -> None:
    found, path = stores.filesystem(url)
    copy.seek(0)
    copy.truncate()
    with found.open(path, "rb", block_size=8 * BLOCK_BYTES, cache_type="readahead") as file:
        size = getattr(file, "size", None)
        while block := file.read(8 * BLOCK_BYTES):
            copy.write(block)
    copy.flush()
    if size is not None and copy.tell() != size:
        raise OSError(f"{copy.tell():,} of {size:,} bytes came")
