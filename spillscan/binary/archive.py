"""Archives as they are, without a file written: zip (wheels), tar, gzip and zstd around anything."""

from __future__ import annotations

import io
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from spillscan.binary.window import Budget, DamageError, Pages, Window

_BLOCK = 1 << 20
_ZSTD_WINDOW = 1 << 27
_ZIP, _GZIP, _ZSTD = b"PK\x03\x04", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"
_WORTH = (b"\x7fELF", b"!<arch>\n", b"MZ", b"\x64\x86", b"\x50\xed\x55\xba", _ZIP, _GZIP, _ZSTD)
"""How members begin that may hold code; nothing else of an archive is decompressed."""

Member = tuple[str, Window]


def kind(window: Window) -> str | None:
    """``zip``, ``tar``, ``gzip`` or ``zstd``; ``None`` for anything else."""
    if window.starts(_ZIP):
        return "zip"
    if window.starts(_GZIP):
        return "gzip"
    if window.starts(_ZSTD):
        return "zstd"
    if window.size >= 512 and window.copy(257, 5, "tar header") == b"ustar":
        return "tar"
    return None


def members(window: Window, budget: Budget) -> Iterator[Member | DamageError]:
    """(name, bytes) of each member that may hold code; damage of one member does not end the others."""
    form = kind(window)
    if form == "zip":
        yield from _zip(window, budget)
    elif form == "tar":
        yield from _tar(window, budget)
    else:
        data = _inflate(window, budget) if form == "gzip" else _unzstd(window, budget)
        yield "", Window(data)


def _zip(window: Window, budget: Budget) -> Iterator[Member | DamageError]:
    try:
        archive = zipfile.ZipFile(cast(BinaryIO, _File(window)))
        infos = sorted((info for info in archive.infolist() if not info.is_dir()), key=lambda info: info.header_offset)
    except Exception as error:  # of hostile bytes it raises anything: IndexError, struct.error …
        raise DamageError(f"not a sound zip archive: {error}", window.start) from error
    end = 0
    for info in infos:
        try:
            budget.enter(0, window.start + info.header_offset)
            begin = _data_offset(window, info.header_offset)
            if info.header_offset < end:
                raise DamageError(f"member {info.filename!r} overlaps another", window.start + info.header_offset)
            end = begin + info.compress_size
            body = window.part(begin, info.compress_size, f"member {info.filename!r}")
            if info.flag_bits & 1:
                raise DamageError(f"member {info.filename!r} is encrypted", body.start)
            if info.compress_type == zipfile.ZIP_STORED:
                if _worth(bytes(body.view(0, min(8, body.size), "member"))):
                    yield info.filename, body
            elif info.compress_type == zipfile.ZIP_DEFLATED:
                head = _deflate_head(body)
                if _worth(head):
                    yield info.filename, Window(_deflated(body, budget, -zlib.MAX_WBITS))
            else:
                raise DamageError(f"member {info.filename!r}: unknown compression {info.compress_type}", body.start)
        except DamageError as damage:
            yield damage


def _data_offset(window: Window, header: int) -> int:
    """Where a member's bytes begin: behind its local header, whose extra field may differ from the directory's."""
    magic, name, extra = window.unpack("4s22xHH", header, "zip member")
    if magic != _ZIP:
        raise DamageError("a zip member without a header", window.start + header)
    return header + 30 + int(name) + int(extra)


def _worth(head: bytes) -> bool:
    return head.startswith(_WORTH)


def _deflate_head(body: Window) -> bytes:
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(body.view(0, min(body.size, 512), "member"), 64)
    except zlib.error:
        return b""


def _inflate(window: Window, budget: Budget) -> bytearray:
    return _deflated(window, budget, 16 + zlib.MAX_WBITS)


def _deflated(window: Window, budget: Budget, form: int) -> bytearray:
    room = budget.room(window.size, window.start)
    engine = zlib.decompressobj(form)
    plain, pages = bytearray(), Pages()
    try:
        data = window.view(0, window.size, "compressed data")
        pending: bytes | memoryview = b""
        at = 0
        while not engine.eof and (at < len(data) or pending):
            if not pending:
                pages.leave(Window(window.buffer, window.start + at, 0))
                pending, at = data[at : at + _BLOCK], at + _BLOCK
            plain += engine.decompress(pending, _BLOCK)
            pending = engine.unconsumed_tail
            if len(plain) > room:
                raise budget.excess(window.size, window.start)
        if not engine.eof:
            raise DamageError("compressed data that breaks off", window.start)
    except zlib.error as error:
        raise DamageError(f"compressed data is damaged: {error}", window.start) from error
    budget.take(len(plain), window.size, window.start)
    return plain


def _unzstd(window: Window, budget: Budget) -> bytearray:
    import zstandard

    room = budget.room(window.size, window.start)
    plain, pages, file = bytearray(), Pages(), _File(window)
    try:
        source = io.BufferedReader(file, _BLOCK)
        engine = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
        with engine.stream_reader(source, read_across_frames=True) as stream:
            while piece := stream.read(_BLOCK):
                plain += piece
                pages.leave(Window(window.buffer, window.start + file.tell(), 0))
                if len(plain) > room:
                    raise budget.excess(window.size, window.start)
    except zstandard.ZstdError as error:
        raise DamageError(f"compressed data is damaged: {error}", window.start) from error
    budget.take(len(plain), window.size, window.start)
    return plain


def _tar(window: Window, budget: Budget) -> Iterator[Member | DamageError]:
    for info in _tar_members(window):
        budget.enter(0, window.start + info.offset)
        if not info.isreg() or info.issparse():
            continue
        try:
            body = window.part(info.offset_data, info.size, f"member {info.name!r}")
        except DamageError as damage:
            yield damage
            continue
        if _worth(bytes(body.view(0, min(8, body.size), "member"))):
            yield info.name, body


def _tar_members(window: Window) -> Iterator[tarfile.TarInfo]:
    try:
        with tarfile.open(fileobj=cast(BinaryIO, _File(window)), mode="r:") as archive:
            while (info := archive.next()) is not None:
                yield info
    except DamageError:
        raise
    except Exception as error:  # of hostile bytes it raises anything, as zipfile does
        raise DamageError(f"not a sound tar archive: {error}", window.start) from error


class _File(io.RawIOBase):
    """A window as a file that only reads."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = (0, self._at, self._window.size)[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, target: memoryview) -> int:  # type: ignore[override]
        size = max(0, min(len(target), self._window.size - self._at))
        target[:size] = self._window.view(self._at, size, "archive") if size else b""
        self._at += size
        return size
