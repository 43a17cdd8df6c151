"""Compression formats by their first bytes: one list of codecs, for streamed text and for archive members."""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, NamedTuple, Protocol

HEAD_BYTES, CHUNK_BYTES = 4096, 128
"""Compressed bytes from which a codec is recognized, and those decompressed at once: to at most 4 MiB (zstd)."""
_MAGIC_BYTES = 16
"""Upper limit for the length of a magic."""


class Engine(Protocol):
    """Decompressor of one stream, with the interface of :class:`bz2.BZ2Decompressor`."""

    @property
    def eof(self) -> bool:
        """Whether the end of the stream was reached."""

    @property
    def unused_data(self) -> bytes:
        """Bytes after the end of the stream."""

    def decompress(self, data: bytes, /) -> bytes:
        """Next bytes. Raises the exceptions of its codec (:func:`errors`)."""


class Codec(NamedTuple):
    """A compression format."""

    name: str
    magic: re.Pattern[bytes]
    """First bytes of a stream, distinct from any other file's."""
    make: Callable[[], Engine]
    """Makes an engine for one stream. May raise ``ImportError``."""


class CodecError(Exception):
    """The data is not a valid stream of its codec."""


_ZSTD_WINDOW_BITS = 27
"""Log2 of the largest window that a zstd frame may refer back to: 128 MiB, as in zstd's own command."""


def zstd() -> Any:
    """The zstd module: Python's own since 3.14, the backports package before. Imported only for such data."""
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def zstd_engine() -> Any:
    """Engine for one zstd frame."""
    options = {zstd().DecompressionParameter.window_log_max: _ZSTD_WINDOW_BITS}
    return zstd().ZstdDecompressor(options=options)


def _engine(module: str, name: str, *arguments: int) -> Callable[[], Engine]:
    """Factory of an engine from a module that is imported on first use."""
    return lambda: getattr(import_module(module), name)(*arguments)


_XZ = 1
"""``lzma.FORMAT_XZ``, without importing :mod:`lzma`."""


_SKIPPABLE = rb"[\x50-\x5f]\x2a\x4d\x18"
"""A frame without data, the same for LZ4 and zstd."""

CODECS = (
    Codec("gzip", re.compile(rb"\x1f\x8b\x08[\0-\x1f]"), lambda: zlib.decompressobj(zlib.MAX_WBITS | 16)),
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
        codec.make().decompress(head[:CHUNK_BYTES])
    except errors():
        return False
    return True


def unpacked(codec: Codec, chunks: Iterable[bytes | memoryview], behind: Callable[[int], None]) -> Iterator[bytes]:
    """Decompress all concatenated streams. ``chunks``: of :data:`CHUNK_BYTES`, which bounds what each expands to.

    Zeros may follow a stream, as padding of tapes. If other data follows, ``behind`` is called with the number of
    unused bytes of the chunks so far. Raises :class:`CodecError` for damaged data, ``EOFError`` if it is truncated.
    """
    damaged = errors()
    engine: Engine | None = codec.make()
    data = b""
    for chunk in chunks:
        data += chunk
        while data:
            if engine is None:
                data = data.lstrip(b"\0")
                if len(data) < _MAGIC_BYTES:
                    break
                if not codec.magic.match(data):
                    behind(len(data))
                    return
                engine = codec.make()
            try:
                piece = engine.decompress(data)
            except damaged as error:
                raise CodecError(str(error) or type(error).__name__) from error
            if piece:
                yield piece
            data = b""
            if engine.eof:
                data, engine = engine.unused_data or b"", None
    if engine is not None:
        raise EOFError("it is truncated")
    if data:
        behind(len(data))
