"""Compression formats by their first bytes: one list of codecs, for streamed text and for archive members."""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, NamedTuple, Protocol

PIECE_BYTES = 1 << 20
"""Most bytes that an engine returns per call."""
HEAD_BYTES = 4096
"""Most bytes that :func:`begins` decompresses."""
_MAGIC_BYTES = 16
"""Upper limit for the length of a magic."""


class Engine(Protocol):
    """Decompressor of one stream, with the interface of :class:`bz2.BZ2Decompressor`."""

    @property
    def eof(self) -> bool:
        """Whether the end of the stream was reached."""

    @property
    def needs_input(self) -> bool:
        """Whether more input is needed for more output."""

    @property
    def unused_data(self) -> bytes:
        """Bytes after the end of the stream."""

    def decompress(self, data: bytes | memoryview, max_length: int = -1) -> bytes:
        """Next bytes, at most ``max_length``. Raises the exceptions of its codec (:func:`errors`)."""


class Codec(NamedTuple):
    """A compression format."""

    name: str
    magic: re.Pattern[bytes]
    """First bytes of a stream, distinct from any other file's."""
    make: Callable[[], Engine]
    """Makes an engine for one stream. May raise ``ImportError``."""


class CodecError(Exception):
    """The data is not a valid stream of its codec."""


class _Inflate:
    """zlib's decompressor with the interface of :class:`Engine`."""

    def __init__(self, form: int) -> None:
        self._engine = zlib.decompressobj(form)
        self._tail: bytes = b""
        self._asks = True

    @property
    def eof(self) -> bool:
        return bool(self._engine.eof)

    @property
    def needs_input(self) -> bool:
        return self._asks

    @property
    def unused_data(self) -> bytes:
        return bytes(self._engine.unused_data)

    def decompress(self, data: bytes | memoryview, max_length: int = -1) -> bytes:
        given = self._tail + bytes(data) if self._tail else data
        output = self._engine.decompress(given, max(0, max_length))
        self._tail = b"" if self._engine.eof else self._engine.unconsumed_tail
        # zlib may buffer more output than was asked for
        self._asks = not self._tail and len(output) != max_length
        return bytes(output)


_ZSTD_WINDOW_BITS = 27
"""Log2 of the largest window that a zstd frame may refer back to: 128 MiB, as in zstd's own command."""


def zstd() -> Any:
    """The zstd module: Python's own since 3.14, the backports package before. Imported only for such data."""
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def zstd_engine() -> Engine:
    """Engine for one zstd frame."""
    options = {zstd().DecompressionParameter.window_log_max: _ZSTD_WINDOW_BITS}
    engine: Engine = zstd().ZstdDecompressor(options=options)
    return engine


def _engine(module: str, name: str, *arguments: int) -> Callable[[], Engine]:
    """Factory of an engine from a module that is imported on first use."""
    return lambda: getattr(import_module(module), name)(*arguments)


_XZ = 1
"""``lzma.FORMAT_XZ``, without importing :mod:`lzma`."""


def deflate() -> Engine:
    """Engine for deflate data without a header, as in zip archives."""
    return _Inflate(-zlib.MAX_WBITS)


_SKIPPABLE = rb"[\x50-\x5f]\x2a\x4d\x18"
"""A frame without data, the same for LZ4 and zstd."""

CODECS = (
    Codec("gzip", re.compile(rb"\x1f\x8b\x08[\0-\x1f]"), lambda: _Inflate(zlib.MAX_WBITS | 16)),
    Codec("xz", re.compile(rb"\xfd7zXZ\0"), _engine("lzma", "LZMADecompressor", _XZ)),
    Codec("bzip2", re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), _engine("bz2", "BZ2Decompressor")),
    Codec("zstd", re.compile(rb"\x28\xb5\x2f\xfd|" + _SKIPPABLE), zstd_engine),
    Codec("lz4", re.compile(rb"\x04\x22\x4d\x18"), _engine("lz4.frame", "LZ4FrameDecompressor")),
)
"""All supported codecs."""

MAGICS = (b"\x1f\x8b\x08", b"\xfd7zXZ\0", b"BZh", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18")
"""Literal bytes to search for streams in other data."""


def errors() -> tuple[type[Exception], ...]:
    """Exceptions that engines raise for damaged data."""
    import lzma

    return (lzma.LZMAError, zstd().ZstdError, zlib.error, OSError, EOFError, RuntimeError, ValueError)


def codec_of(head: bytes) -> Codec | None:
    """Codec of a file that begins with ``head``; ``None`` if it is not compressed in a supported format."""
    return next((codec for codec in CODECS if codec.magic.match(head)), None)


def begins(codec: Codec, head: bytes) -> bool:
    """Whether the first bytes decompress without error."""
    try:
        codec.make().decompress(head[:HEAD_BYTES], HEAD_BYTES)
    except errors():
        return False
    return True


def unpacked(codec: Codec, chunks: Iterable[bytes | memoryview], behind: Callable[[int], None]) -> Iterator[bytes]:
    """Decompress all concatenated streams, in pieces.

    Zeros may follow a stream, as padding of tapes. If other data follows, ``behind`` is called with the number of
    unused bytes of the chunks so far. Raises :class:`CodecError` for damaged data, ``EOFError`` if it is truncated.
    """
    damaged = errors()
    engine: Engine | None = codec.make()
    waiting = b""
    for chunk in chunks:
        data = waiting + bytes(chunk) if waiting else chunk
        waiting = b""
        while True:
            if engine is None:
                data = bytes(data).lstrip(b"\0")
                if len(data) < _MAGIC_BYTES:
                    waiting = data
                    break
                if not codec.magic.match(data):
                    behind(len(data))
                    return
                engine = codec.make()
            try:
                piece = engine.decompress(data, PIECE_BYTES)
            except damaged as error:
                raise CodecError(str(error) or type(error).__name__) from error
            if piece:
                yield piece
            if engine.eof:
                data, engine = engine.unused_data or b"", None
            elif engine.needs_input:
                break
            else:
                data = b""
    if engine is not None:
        raise EOFError("it is truncated")
    if waiting:
        behind(len(waiting))
