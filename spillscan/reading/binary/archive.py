"""Archives as they are, without a file written: zip (wheels), tar, static libraries (the ``ar`` format of Unix and of
Windows import libraries), gzip and zstd around anything."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

import numpy as np
from isal import isal_zlib

from spillscan.reading.binary.window import Budget, DamageError, Window
from spillscan.reading.inputs.memory import Pages
from spillscan.reading.inputs.source import BARREN, kind_of_binary

if TYPE_CHECKING:
    import tarfile

_BLOCK = 1 << 20
_INVALID = cast(type[Exception], isal_zlib.error)  # typed as an instance there
_ZSTD_WINDOW = 1 << 27
_ZIP, _GZIP, _ZSTD = b"PK\x03\x04", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"
_NAMED = re.compile(r"\.(?:so(?:\.[\d.]+)?|dll|pyd|exe|o|obj|a|lib|cubin|fatbin|pkl|pickle)$", re.IGNORECASE)
"""What is called so may hold code whatever it begins with: that may be damaged."""
_HEAD_BYTES = 512
_LIBRARY_MAGIC = b"!<arch>\n"
_MEMBER_HEADER_BYTES = 60
_LONGEST_NAME = 4096


class Packed(NamedTuple):
    """A file in an archive."""

    name: str
    """As the archive names it; empty in what is only compressed."""
    stored: Window
    """Its bytes as they stand in the archive."""
    plain_bytes: int
    """How many they are when they are unpacked, as the archive claims where they were not."""
    plain: Window | None
    """Unpacked; ``None`` of what is of no format with code, which is not looked into."""


def kind(window: Window) -> str | None:
    """``zip``, ``tar``, ``library``, ``gzip`` or ``zstd``; ``None`` for anything else."""
    if window.starts(_ZIP):
        return "zip"
    if window.starts(_GZIP):
        return "gzip"
    if window.starts(_ZSTD):
        return "zstd"
    if window.starts(_LIBRARY_MAGIC):
        return "library"
    if window.size >= 512 and window.copy(257, 5, "tar header") == b"ustar":
        return "tar"
    return None


def members(window: Window, budget: Budget) -> Iterator[Packed | Window | DamageError]:
    """Each member, and windows of the archive's own bytes, such as headers; damage of one does not end the others."""
    form = kind(window)
    if form == "zip":
        yield from _zip(window, budget)
    elif form == "tar":
        yield from _tar(window, budget)
    elif form == "library":
        yield from _library(window)
    else:
        data = _inflate(window, budget) if form == "gzip" else _unzstd(window, budget)
        yield Packed("", window, len(data), Window(data))


def _zip(window: Window, budget: Budget) -> Iterator[Packed | Window | DamageError]:
    import zipfile  # as tarfile: a library needs neither

    try:
        archive = zipfile.ZipFile(cast(BinaryIO, _File(window)))
        infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
    except Exception as error:  # of hostile bytes it raises anything: IndexError, struct.error …
        raise DamageError(f"not a sound zip archive: {error}", window.start) from error
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
            if info.flag_bits & 1:
                raise DamageError(f"member {info.filename!r} is encrypted", body.start)
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise DamageError(f"member {info.filename!r}: unknown compression {info.compress_type}", body.start)
            stored = info.compress_type == zipfile.ZIP_STORED
            if not _worth(info.filename, _head(body) if stored else _deflate_head(body)):
                yield Packed(info.filename, body, info.file_size, None)
                continue
            plain = body if stored else Window(_deflated(body, budget, -isal_zlib.MAX_WBITS))
            if isal_zlib.crc32(plain.whole) != info.CRC:
                yield DamageError(f"member {info.filename!r} is not what its checksum says", body.start)
            yield Packed(info.filename, body, plain.size, plain)
        except DamageError as damage:
            yield damage
    yield window.part(archive.start_dir, window.size - archive.start_dir, "zip directory")
    if window.copy(min(end, archive.start_dir), max(0, archive.start_dir - end), "zip archive").find(_ZIP) >= 0:
        yield DamageError(_UNNAMED, window.start + end)


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


def _worth(name: str, head: bytes) -> bool:
    """Whether a member may hold code: whatever is no text and of no format without code."""
    return _NAMED.search(name) is not None or (kind_of_binary(head) is not None and not head.startswith(BARREN))


def _head(body: Window) -> bytes:
    return body.copy(0, min(body.size, _HEAD_BYTES), "member")


def _deflate_head(body: Window) -> bytes:
    try:
        data = body.view(0, min(body.size, _HEAD_BYTES), "member")
        return isal_zlib.decompressobj(-isal_zlib.MAX_WBITS).decompress(data, _HEAD_BYTES)
    except _INVALID as error:
        raise DamageError(f"compressed data is damaged: {error}", body.start) from error


def _inflate(window: Window, budget: Budget) -> bytearray:
    return _deflated(window, budget, 16 + isal_zlib.MAX_WBITS)


def _deflated(window: Window, budget: Budget, form: int) -> bytearray:
    """All streams that stand behind each other; of gzip several may."""
    room = budget.room(window.size, window.start)
    engine = isal_zlib.decompressobj(form)
    plain, pages = bytearray(), Pages()
    try:
        data = window.whole
        pending: bytes | memoryview = b""
        at, held = 0, False
        while at < len(data) or pending or held:  # the library may hold more of its output than was asked for
            if not pending and not held:
                pages.leave(window.buffer, window.start + at)
                pending, at = data[at : at + _BLOCK], at + _BLOCK
            if engine.eof:
                if form < 0 or not (pending := bytes(pending).lstrip(b"\0")):
                    break
                engine = isal_zlib.decompressobj(form)
            piece = engine.decompress(pending, _BLOCK)
            plain += piece
            held = len(piece) == _BLOCK and not engine.eof
            pending = engine.unused_data if engine.eof else engine.unconsumed_tail
            if len(plain) > room:
                raise budget.excess(window.size, window.start)
        if not engine.eof:
            raise DamageError("compressed data that breaks off", window.start)
    except _INVALID as error:
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
                pages.leave(window.buffer, window.start + file.tell())
                if len(plain) > room:
                    raise budget.excess(window.size, window.start)
    except zstandard.ZstdError as error:
        raise DamageError(f"compressed data is damaged: {error}", window.start) from error
    budget.take(len(plain), window.size, window.start)
    return plain


def _tar(window: Window, budget: Budget) -> Iterator[Packed | Window | DamageError]:
    for info in _tar_members(window):
        budget.enter(0, window.start + info.offset)
        try:
            yield window.part(info.offset, info.offset_data - info.offset, "tar header")
            if not info.isreg() or info.issparse():
                continue
            body = window.part(info.offset_data, info.size, f"member {info.name!r}")
        except DamageError as damage:
            yield damage
            continue
        yield Packed(info.name, body, body.size, body if _worth(info.name, _head(body)) else None)


def _tar_members(window: Window) -> Iterator[tarfile.TarInfo]:
    import tarfile

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


def _library(window: Window) -> Iterator[Packed | Window]:
    """Each member; symbol tables and the table of long names are none.

    Raises :class:`DamageError` where a header is none.
    """
    at, names, farthest = len(_LIBRARY_MAGIC), Window(window.buffer, window.start, 0), 0
    yield window.part(0, at, "library")
    while at + _MEMBER_HEADER_BYTES <= window.size:
        header = window.copy(at, _MEMBER_HEADER_BYTES, "library member")
        size = header[48:58].strip()
        if header[58:] != b"`\n" or not size.isdigit():
            raise DamageError("a library member without a header", window.start + at)
        at += _MEMBER_HEADER_BYTES
        body = window.part(at, int(size), "library member")
        yield window.part(at - _MEMBER_HEADER_BYTES, _MEMBER_HEADER_BYTES, "library member")
        at += int(size)
        if int(size) % 2 and at < window.size:
            yield window.part(at, 1, "library member")
        at += int(size) % 2
        name = header[:16].rstrip()
        if name == b"/" and not farthest and body.size >= 4:
            count = int.from_bytes(body.copy(0, 4, "library symbols"), "big")
            if 4 + 4 * count <= body.size:  # the first symbol table; the second of Windows counts otherwise
                farthest = int(body.array(np.dtype(">u4"), count, 4, "library symbols").max(initial=0))
        if name in (b"/", b"/SYM64/", b"__.SYMDEF", b"//"):
            yield body
            names = body if name == b"//" else names
            continue
        if name.startswith(b"#1/") and name[3:].isdigit():  # BSD: the name stands before the bytes
            length = min(int(name[3:]), body.size)
            name = body.text(0, min(length, _LONGEST_NAME))
            yield body.part(0, length, "library member")
            body = body.part(length, body.size - length, "library member")
        elif name[:1] == b"/" and name[1:].isdigit():
            name = names.text(int(name[1:]), int(name[1:]) + _LONGEST_NAME).split(b"\n")[0]
        yield Packed(name.rstrip(b"/").decode("utf-8", "backslashreplace"), body, body.size, body)
    if farthest >= window.size or window.copy(min(at, window.size), max(0, window.size - at), "library").strip(b"\n\0"):
        raise DamageError("a library that breaks off", window.start + min(at, window.size))
