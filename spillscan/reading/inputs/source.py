"""One input as a bounded stream of whole lines, plain or compressed. Text is converted to UTF-8
(:mod:`spillscan.reading.inputs.encoding`)."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import stat
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from typing import BinaryIO

from msgspec import Struct

from spillscan.output.errors import InputError
from spillscan.reading.inputs import codecs, formats
from spillscan.reading.inputs.encoding import decoded, is_encoded, whole_lines


class Options(Struct, frozen=True, kw_only=True):
    """Optional work that a reader is asked for. Readers ignore what their format does not have."""

    live: bool = False
    """Whether to count live registers in binaries."""


DEFAULT = Options()


BLOCK_BYTES = 1 << 20
"""Bytes read per call: data that fits the processor's cache is searched several times faster."""

LARGEST_BUFFER_BYTES = 1 << 32
"""Most bytes of a piped binary that are read into memory."""


class Source(Struct, frozen=True):
    """One input, under the name that the user knows."""

    uri: str
    """Path as given or found, or ``-``."""
    explicit: bool = True
    """Whether the user named it. A file merely found in a folder need not contain anything."""
    expected: bool = False
    """Whether a run file names it as an output with GPU code."""

    @property
    def bytes(self) -> int:
        """Size on disk; 0 if unknown before reading."""
        return os.path.getsize(self.uri) if os.path.isfile(self.uri) else 0

    def open(self, watch: Callable[[int], None] | None = None) -> Stream:
        """The input's bytes, decompressed and decoded.

        ``watch`` is called with the number of bytes read so far, as stored on disk. Raises ``InputError`` that names
        the input.
        """
        if self.uri == "-":
            if sys.stdin is None:  # the caller closed it
                raise InputError("cannot read standard input: it is closed", "name a file")
            widen(sys.stdin.buffer)
            return Stream(sys.stdin.buffer, "standard input", watch)
        try:
            return Stream(open(self.uri, "rb"), self.uri, watch)
        except OSError as error:
            raise InputError(f"cannot read {self.uri}: {error.strerror or error}") from error


class Stream:
    """Decompressed, decoded bytes of one input; use as a context manager."""

    def __init__(self, raw: BinaryIO, label: str, watch: Callable[[int], None] | None = None) -> None:
        self._raw = raw
        self._label = label
        self._watch = watch
        self._chunks = self._decoded()
        self._ahead: list[bytes] = []
        self._whole: bytes | None = None
        """Cache of the whole input, if it cannot be mapped and was requested."""

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    def head(self) -> bytes:
        """First bytes, enough to detect the format, without consuming them."""
        have = sum(map(len, self._ahead))
        while have < formats.HEAD_BYTES and (chunk := next(self._chunks, b"")):
            self._ahead.append(chunk)
            have += len(chunk)
        return b"".join(self._ahead)[: formats.HEAD_BYTES]

    def chunks(self) -> Iterator[bytes]:
        """All data, in pieces of any size."""
        while self._ahead:
            yield self._ahead.pop(0)
        if self._watch is None:
            yield from self._chunks
            return
        seekable = self._raw.seekable()
        read = 0
        for chunk in self._chunks:
            read = self._raw.tell() if seekable else read + len(chunk)
            self._watch(read)
            yield chunk

    def read(self, limit_bytes: int) -> bytes:
        """All data at once, for formats that cannot be streamed. Raises InputError if it is larger than
        ``limit_bytes``."""
        pieces, size = [], 0
        for chunk in self.chunks():
            pieces.append(chunk)
            size += len(chunk)
            if size > limit_bytes:
                raise InputError(f"{self._label} is larger than {limit_bytes >> 20} MiB", "pass smaller inputs")
        return b"".join(pieces)

    def buffer(self) -> bytes | mmap.mmap:
        """All data for random access. A file is mapped as stored; anything else is read and decompressed."""
        if self._label != "standard input":
            try:
                return mapped(self._raw.fileno())
            except (OSError, ValueError, AttributeError):
                pass  # a pipe, a member of an archive, or empty
        if self._whole is None:
            self._whole = self.read(LARGEST_BUFFER_BYTES)
        return self._whole

    def again(self) -> Stream | None:
        """A new stream from the beginning; ``None`` if the input cannot be read again."""
        if not self._raw.seekable():
            return None
        self._raw.seek(0)
        return Stream(self._raw, self._label)

    def state(self) -> tuple[int, int] | None:
        """Size and modification time of a regular file; ``None`` for anything else."""
        try:
            status = os.fstat(self._raw.fileno())
        except (OSError, AttributeError):
            return None
        return (status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None

    def lines(self, too_long: Callable[[], None] | None = None) -> Iterator[bytes]:
        """All data, in blocks of whole lines; only the last may lack its newline.

        A line of more than 1 MiB is replaced by an empty one, and ``too_long`` is called before the block that begins
        with it. Without ``too_long``, such a line raises :class:`~spillscan.InputError`.
        """
        return whole_lines(self.chunks(), too_long or self._refuse)

    def _refuse(self) -> None:
        raise InputError(f"{self._label}: a line of more than 1 MiB", "check that this is the right file")

    def _decoded(self) -> Iterator[bytes]:
        chunks = self._decompressed()
        first = next(chunks, b"")
        encoded = is_encoded(first) if formats.may_be_encoded(first) else None
        if encoded is not None:
            yield from decoded(first, chunks)
        elif first:
            yield first
            yield from chunks

    def _decompressed(self) -> Iterator[bytes]:
        codec: codecs.Codec | None = None
        try:
            start = self._raw.read(codecs.HEAD_BYTES)
            while 0 < len(start) < codecs.HEAD_BYTES and (more := self._raw.read(codecs.HEAD_BYTES - len(start))):
                start += more
            if codec := codecs.codec_of(start):
                yield from self._unpacked(codec, start)
            elif start:
                yield start + self._raw.read(BLOCK_BYTES - len(start))
                yield from _blocks(self._raw)
        except EOFError as error:
            raise InputError(f"{self._label} is truncated (compressed data)", "fetch or build it again") from error
        except codecs.CodecError as error:
            how = codec.name if codec else "compressed"
            raise InputError(f"{self._label} is not a valid {how} file: {error}", "fetch or build it again") from error
        except InputError:
            raise
        except OSError as error:
            raise InputError(f"cannot read {self._label}: {error.strerror or error}") from error

    def _unpacked(self, codec: codecs.Codec, start: bytes) -> Iterator[bytes]:
        """Decompress all frames of a compressed file."""

        def behind(_: int) -> None:
            raise codecs.CodecError("other data follows the compressed data")

        return codecs.unpacked(codec, chain([start], _blocks(self._raw, codecs.CHUNK_BYTES)), behind)


def widen(stream: BinaryIO) -> None:
    """Enlarge a pipe to one read, so that writer and reader wait for each other less often."""
    with contextlib.suppress(ImportError, AttributeError, OSError, ValueError):  # no pipe, not Linux, not allowed
        import fcntl

        fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, BLOCK_BYTES)


def _blocks(stream: BinaryIO, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    while chunk := stream.read(size):
        yield chunk


# ---- mapped files ---------------------------------------------------------------------------------------------------

_LEAST_HOLE_BYTES = 1 << 20
"""Smaller holes count as stored, which bounds the number of ranges."""


class Mapped(mmap.mmap):
    """A file mapped for reading."""

    stored: list[tuple[int, int]]
    """Ranges outside of holes, in order; holes read as zeros."""


def mapped(descriptor: int) -> Mapped:
    """The open file's data. Raises ``OSError`` or ``ValueError`` if it cannot be mapped."""
    buffer = Mapped(descriptor, 0, access=mmap.ACCESS_READ)
    buffer.stored = _stored(descriptor, len(buffer))
    return buffer


def _stored(descriptor: int, size: int) -> list[tuple[int, int]]:
    whole = [(0, size)]
    if not hasattr(os, "SEEK_HOLE") or os.fstat(descriptor).st_blocks * 512 >= size:
        return whole
    position, end = os.lseek(descriptor, 0, os.SEEK_CUR), 0
    ranges: list[tuple[int, int]] = []
    try:
        while end < size:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
            end = os.lseek(descriptor, begin, os.SEEK_HOLE)
            if ranges and begin - ranges[-1][1] < _LEAST_HOLE_BYTES:
                begin, _ = ranges.pop()
            ranges.append((begin, min(end, size)))
    except OSError as error:
        if error.errno != errno.ENXIO:  # otherwise the rest is a hole
            return whole
    finally:
        os.lseek(descriptor, position, os.SEEK_SET)
    return ranges
