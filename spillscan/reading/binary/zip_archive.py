"""Zip archives: wheels, conda packages, whatever else is one; every member held against its checksum."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, cast

from spillscan.reading.binary.packed import (
    BLOCK_BYTES,
    HEAD_BYTES,
    Found,
    Packed,
    SealedError,
    WindowFile,
    grown,
    head_of,
    is_worth,
)
from spillscan.reading.binary.window import Budget, DamageError, Window
from spillscan.reading.inputs import archives, codecs
from spillscan.reading.inputs.memory import Pages

if TYPE_CHECKING:
    import zipfile

_ZIP = b"PK\x03\x04"
_DEFLATE = codecs.Codec("deflate", re.compile(rb""), codecs.deflate)
_CODECS = {each.name: each for each in codecs.CODECS}
_STORED = 0
_METHODS = {8: _DEFLATE, 12: _CODECS["bzip2"], 14: _CODECS["lzma"], 93: _CODECS["zstd"], 95: _CODECS["xz"]}
"""Of zip members, by number (APPNOTE.TXT, 4.4.5); 0: as they are."""
_ENDS_BY_MARK = 2
"""Flag of LZMA members: their size is not used."""


def _chunks(info_size: int, flags: int, method: int, body: Window) -> Iterator[bytes | memoryview]:
    """A member's bytes as its codec takes them: LZMA stands behind a header of its own (APPNOTE.TXT, 5.8.8)."""
    at = 0
    if method == 14:
        (properties,) = body.unpack("2xH", 0, "LZMA header")
        size = -1 if flags & _ENDS_BY_MARK else info_size
        yield body.copy(4, properties, "LZMA header") + struct.pack("<q", size)
        at = 4 + properties
    data = body.whole
    pages = Pages()
    for begin in range(at, len(data), BLOCK_BYTES):
        pages.leave(body.buffer, body.start + begin)
        yield data[begin : begin + BLOCK_BYTES]


def members(window: Window, budget: Budget) -> Iterator[Found]:
    """Each member, with what the archive consists of besides. Raises :class:`DamageError`."""
    import zipfile  # as tarfile: a library needs neither

    try:
        archive = zipfile.ZipFile(cast(BinaryIO, WindowFile(window)))
        infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
    except Exception as error:  # of hostile bytes it raises anything: IndexError, struct.error …
        raise DamageError(f"not a sound zip archive: {error}", window.start) from error
    is_wheel = any(info.filename.endswith(".dist-info/WHEEL") for info in infos)
    end = 0
    for info in infos:
        try:
            begin = _data_offset(window, info.header_offset)
            if info.header_offset < end:
                raise DamageError(f"member {info.filename!r} overlaps another", window.start + info.header_offset)
            if window.copy(end, info.header_offset - end, "zip archive").find(_ZIP) >= 0:
                yield DamageError(_UNNAMED, window.start + end)
            end = begin + info.compress_size
            budget.enter(0, window.start + info.header_offset)
            body = window.part(begin, info.compress_size, f"member {info.filename!r}")
            yield window.part(info.header_offset, begin - info.header_offset, "zip member")
            if info.flag_bits & _DESCRIBED_BEHIND:
                yield _descriptor(window, end)
            if info.is_dir():
                yield body
                continue
            yield from _member(info, body, budget, is_wheel)
        except DamageError as damage:
            yield damage
    yield window.part(archive.start_dir, window.size - archive.start_dir, "zip directory")
    if window.copy(min(end, archive.start_dir), max(0, archive.start_dir - end), "zip archive").find(_ZIP) >= 0:
        yield DamageError(_UNNAMED, window.start + end)


def _member(info: zipfile.ZipInfo, body: Window, budget: Budget, is_wheel: bool) -> Iterator[Found]:
    """One that is a file. A wheel's text is what people write and run, no log; but for its PTX."""
    method = _METHODS.get(info.compress_type)
    if info.flag_bits & 1:
        raise SealedError(info.filename, "it is encrypted", body)
    if method is None and info.compress_type != _STORED:
        raise SealedError(info.filename, f"it is compressed by method {info.compress_type}", body)
    head = head_of(body) if method is None else _first_bytes(info, method, body)
    is_text = not is_worth(info.filename, head)
    if is_text and (head.startswith(archives.BARREN) or (is_wheel and not info.filename.endswith(".ptx"))):
        yield Packed(info.filename, body, info.file_size, None)
        return
    plain = body
    if method is not None:
        chunks = _chunks(info.file_size, info.flag_bits, info.compress_type, body)
        plain = Window(grown(method, chunks, lambda _: None, budget, body))
    if zlib.crc32(plain.whole) != info.CRC:
        yield DamageError(f"member {info.filename!r} is not what its checksum says", body.start)
    yield Packed(info.filename, body, plain.size, None if is_text else plain, plain if is_text else None)


def _first_bytes(info: zipfile.ZipInfo, method: codecs.Codec, body: Window) -> bytes:
    """The first bytes of a compressed member: what comes of its first block."""
    engine, head = method.make(), b""
    try:
        for chunk in _chunks(info.file_size, info.flag_bits, info.compress_type, body):
            for begin in range(0, len(chunk), HEAD_BYTES):
                head += engine.decompress(chunk[begin : begin + HEAD_BYTES], HEAD_BYTES)
                if len(head) >= archives.HEAD_BYTES or engine.eof:
                    return head
    except codecs.errors() as error:
        raise DamageError(f"compressed data is damaged: {error}", body.start) from error
    return head


_UNNAMED = "a member that the directory of the archive does not name"


def _data_offset(window: Window, header: int) -> int:
    """Where a member's bytes begin: behind its local header, whose extra field may differ from the directory's."""
    magic, name, extra = window.unpack("4s22xHH", header, "zip member")
    if magic != _ZIP:
        raise DamageError("a zip member without a header", window.start + header)
    return header + 30 + int(name) + int(extra)


_DESCRIBED_BEHIND = 8
"""Flag: checksum and sizes stand behind the member's bytes, too."""


def _descriptor(window: Window, at: int) -> Window:
    """Checksum and sizes behind a member: with a mark of their own or without; of large files sizes of 8 bytes."""
    rest = Window(window.buffer, window.start + at, window.size - at)
    short = 12 + 4 * rest.starts(b"PK\7\x08")
    wide = rest.size > short + 8 and rest.copy(short, 2, "zip descriptor") != b"PK"
    return rest.part(0, min(short + 8 * wide, rest.size), "zip descriptor")
