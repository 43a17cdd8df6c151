"""One input as a bounded stream of whole lines, plain or compressed. Text is converted to UTF-8
(:mod:`spillscan.reading.inputs.encoding`)."""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from typing import BinaryIO

from msgspec import Struct

from spillscan.output.errors import InputError
from spillscan.reading.inputs import archives, codecs
from spillscan.reading.inputs.encoding import TOO_LONG, decoded, is_encoded, whole_lines
from spillscan.reading.inputs.mapped import mapped


class Options(Struct, frozen=True, kw_only=True):
    """Optional work that a reader is asked for. Readers ignore what their format does not have."""

    live: bool = False
    """Whether to count live registers in binaries."""


DEFAULT = Options()


BLOCK_BYTES = 1 << 20
"""Bytes read per call: data that fits the processor's cache is searched several times faster."""

HEAD_BYTES = 1 << 16
"""Bytes at the beginning of an input from which its format is detected."""

LARGEST_BUFFER_BYTES = 1 << 32
"""Most bytes of a piped binary that are read into memory."""

_PACKED_BYTES = 1 << 16
"""Bytes read per call from a compressed file."""

_BINARY_KINDS = {
    b"\x7fELF": "an ELF binary",
    b"\x89PNG": "a PNG image",
    b"MZ": "a Windows binary",
    b"%PDF": "a PDF document",
    b"\xff\xd8\xff": "a JPEG image",
    b"PAR1": "a Parquet file",
    b"\x50\xed\x55\xba": "a CUDA fatbin",
    **{bytes((0x80, protocol)): "a pickle" for protocol in range(2, 6)},
}

_GPU_CODE = (b"\x7fELF\2\1\1", b"\x50\xed\x55\xba\1\0\x10\0")
"""First bytes of cubins and fat binaries, at any position of a file."""


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
        while have < HEAD_BYTES and (chunk := next(self._chunks, b"")):
            self._ahead.append(chunk)
            have += len(chunk)
        return b"".join(self._ahead)[:HEAD_BYTES]

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
                raise InputError(f"{self._label} is larger than {limit_bytes >> 20} MiB", "split it")
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
        raise InputError(f"{self._label}: {TOO_LONG}")

    def _decoded(self) -> Iterator[bytes]:
        chunks = self._decompressed()
        first = next(chunks, b"")
        binary = first.startswith(tuple(_BINARY_KINDS)) or archives.kind(first) is not None
        encoded = None if binary else is_encoded(first)
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
            raise InputError(f"{self._label} is truncated: its compressed data ends early", "fetch it again") from error
        except codecs.CodecError as error:
            how = codec.name if codec else "compressed"
            raise InputError(f"{self._label} is not a valid {how} file: {error}", "fetch it again") from error
        except InputError:
            raise
        except OSError as error:
            raise InputError(f"cannot read {self._label}: {error.strerror or error}") from error

    def _unpacked(self, codec: codecs.Codec, start: bytes) -> Iterator[bytes]:
        """Decompress all frames of a compressed file."""

        def behind(_: int) -> None:
            raise codecs.CodecError("other data follows it")

        return codecs.unpacked(codec, chain([start], _blocks(self._raw, _PACKED_BYTES)), behind)


def widen(stream: BinaryIO) -> None:
    """Enlarge a pipe to one read, so that writer and reader wait for each other less often."""
    with contextlib.suppress(ImportError, AttributeError, OSError, ValueError):  # no pipe, not Linux, not allowed
        import fcntl

        fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, BLOCK_BYTES)


def _blocks(stream: BinaryIO, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    while chunk := stream.read(size):
        yield chunk


def kind_of_binary(head: bytes) -> str | None:
    """Description such as ``a PNG image``; ``None`` if ``head`` may be text."""
    for magic, kind in _BINARY_KINDS.items():
        if head.startswith(magic):
            return kind
    if found := archives.kind(head):
        return archives.KINDS[found]
    if any(head.find(beginning) >= 0 for beginning in _GPU_CODE):
        return "binary data"
    sample = head[:4096]
    controls = sum(sample.count(byte) for byte in range(32) if byte not in b"\t\n\v\f\r\x1b")
    high = sum(byte >= 0x80 for byte in sample) if 0 in sample else 0  # non-ASCII text contains no NUL
    return "binary data" if controls * 10 > len(sample) or high * 4 > len(sample) else None
