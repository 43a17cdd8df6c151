"""Compression of files, by their first bytes: one list of codecs, for text that is streamed and for members of
archives."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import NamedTuple, Protocol

PIECE_BYTES = 1 << 20
"""Most that an engine gives at a time."""
HEAD_BYTES = 4096
"""What a trial decompresses, at most."""
_MAGIC_BYTES = 16
"""A magic is not longer."""


class Engine(Protocol):
    """Decompresses one stream, as :class:`bz2.BZ2Decompressor` does."""

    @property
    def eof(self) -> bool:
        """Whether its end was seen."""

    @property
    def needs_input(self) -> bool:
        """Whether nothing more comes of what it was given."""

    @property
    def unused_data(self) -> bytes:
        """What stands behind its end."""

    def decompress(self, data: bytes | memoryview, max_length: int = -1) -> bytes:
        """The next bytes, no more than ``max_length``. Raises what its codec says."""


class Codec(NamedTuple):
    """A way to compress."""

    name: str
    magic: re.Pattern[bytes]
    """First bytes of a stream, which no other file has."""
    make: Callable[[], Engine]
    """An engine for one stream. May raise ``ImportError``."""


class CodecError(Exception):
    """The bytes are no sound stream of their codec."""


class _Inflate:
    """Deflate with zlib's interface made that of the others."""

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
        found = self._engine.decompress(given, max(0, max_length))
        self._tail = b"" if self._engine.eof else self._engine.unconsumed_tail
        # The library may hold more of its output than was asked for.
        self._asks = not self._tail and len(found) != max_length
        return bytes(found)


def _zstd() -> Engine:
    from spillscan.reading.inputs import zstd

    return zstd.decompressor()


def _engine(module: str, name: str, *arguments: int) -> Callable[[], Engine]:
    """Of a library that is loaded when it is needed."""
    return lambda: getattr(import_module(module), name)(*arguments)


_XZ = 1
"""A format of :mod:`lzma`."""


def deflate() -> Engine:
    """Without a header, as members of zip archives are."""
    return _Inflate(-zlib.MAX_WBITS)


_SKIPPABLE = rb"[\x50-\x5f]\x2a\x4d\x18"
"""A frame that holds no data: LZ4 and zstd have the same."""

CODECS = (
    Codec("gzip", re.compile(rb"\x1f\x8b\x08[\0-\x1f]"), lambda: _Inflate(zlib.MAX_WBITS | 16)),
    Codec("xz", re.compile(rb"\xfd7zXZ\0"), _engine("lzma", "LZMADecompressor", _XZ)),
    Codec("bzip2", re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), _engine("bz2", "BZ2Decompressor")),
    Codec("zstd", re.compile(rb"\x28\xb5\x2f\xfd|" + _SKIPPABLE), _zstd),
    Codec("lz4", re.compile(rb"\x04\x22\x4d\x18"), _engine("lz4.frame", "LZ4FrameDecompressor")),
)
"""All of them."""

MAGICS = (b"\x1f\x8b\x08", b"\xfd7zXZ\0", b"BZh", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18")
"""What they are looked for by, among other bytes."""


def errors() -> tuple[type[Exception], ...]:
    """What engines raise for damaged data."""
    import lzma

    from spillscan.reading.inputs import zstd

    return (lzma.LZMAError, zstd.ZstdError, zlib.error, OSError, EOFError, RuntimeError, ValueError)


def codec_of(head: bytes) -> Codec | None:
    """What ``head``, the first bytes of a file, is compressed with; ``None``: with nothing that is known here."""
    return next((codec for codec in CODECS if codec.magic.match(head)), None)


def begins(codec: Codec, head: bytes) -> bool:
    """Whether the first bytes decompress."""
    try:
        codec.make().decompress(head[:HEAD_BYTES], HEAD_BYTES)
    except errors():
        return False
    return True


def unpacked(codec: Codec, chunks: Iterable[bytes | memoryview], behind: Callable[[int], None]) -> Iterator[bytes]:
    """All streams that stand behind each other, in pieces; zeros may stand between them, with which tapes are filled
    up. Where something else follows, ``behind`` learns how many bytes of the chunks so far are not used.

    Raises :class:`CodecError` for damaged data, ``EOFError`` where it is cut off.
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
        raise EOFError("it is cut off")
    if waiting:
        behind(len(waiting))
