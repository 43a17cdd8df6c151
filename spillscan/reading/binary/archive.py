"""Archives and compressed files, read in place: tar, zip (wheels), static libraries, and streams of any codec."""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

import numpy as np

from spillscan.reading.binary.window import Budget, DamageError, Pages, UnopenedError, Window
from spillscan.reading.inputs import codecs, formats
from spillscan.reading.inputs.formats import kind_of_binary

if TYPE_CHECKING:
    import zipfile

_BLOCK_BYTES, _HEAD_BYTES, _LONGEST_NAME = 1 << 20, 4096, 4096
_NAMED = re.compile(r"\.(?:so(?:\.[\d.]+)?|dll|pyd|exe|o|obj|a|lib|cubin|fatbin|pkl|pickle)$", re.IGNORECASE)
"""Extensions of members that are read whatever their first bytes are, since those may be damaged."""


class Content(NamedTuple):
    """An unpacked member of an archive; without a name: the content of a compressed file."""

    name: str
    window: Window
    packed_bytes: int
    """Its size in the archive."""


class Rest(NamedTuple):
    """Bytes after the end of an archive or compressed stream."""

    window: Window


class SealedError(UnopenedError):
    """Member that is not opened, and the reason."""

    def __init__(self, name: str, why: str, offset: int) -> None:
        super().__init__(why, offset)
        self.member = name


Entry = Content | Rest | DamageError


def kind(window: Window) -> str | None:
    """Archive format of a window, a key of :data:`spillscan.reading.inputs.formats.KINDS`; ``None`` if it is none."""
    return formats.kind(window.copy(0, min(window.size, formats.ARCHIVE_HEAD_BYTES), "archive"))


def members(window: Window, budget: Budget) -> Iterator[Entry]:
    """Members that may contain code or text; a damaged one does not stop the others. Raises :class:`DamageError`."""
    if (form := kind(window)) == "thin":
        raise UnopenedError("it is a thin archive, whose members are separate files", window.start)
    readers = {"library": _library, "tar": _tar, "zip": _zip}
    return readers[form or ""](window, budget)


def codec_of(window: Window) -> codecs.Codec | None:
    """Codec that compressed the window; ``None`` if none is known."""
    return codecs.codec_of(window.copy(0, min(window.size, codecs.HEAD_BYTES), "compressed data"))


def unpacked(window: Window, codec: codecs.Codec, budget: Budget) -> Iterator[Entry]:
    """The content of a compressed file, and the bytes after it. Raises :class:`DamageError`."""
    unused: list[int] = []
    pages, given, plain = Pages(), 0, bytearray()

    def chunks() -> Iterator[memoryview]:
        nonlocal given
        while given < window.size:
            pages.leave(window.buffer, window.start + given)
            chunk = window.whole[given : given + codecs.CHUNK_BYTES]
            given += len(chunk)
            yield chunk

    budget.enter(0, window.start)
    room = budget.room(window.size, window.start)
    try:
        for piece in codecs.unpacked(codec, chunks(), unused.append):
            plain += piece
            if len(plain) > room:
                raise budget.excess(window.size, window.start)
    except EOFError as error:
        raise DamageError("the compressed data is truncated", window.start) from error
    except codecs.CodecError as error:
        raise DamageError(f"compressed data is damaged: {error}", window.start) from error
    budget.take(len(plain), window.size, window.start)
    end = given - sum(unused)
    yield Content("", Window(plain), end)
    yield Rest(window.part(end, window.size - end, "compressed data"))


def rest_of(window: Window, at: int) -> Rest:
    """The bytes after an archive that ends at ``at``, and after the zeros that fill it up."""
    while at < window.size:
        block = window.copy(at, min(_BLOCK_BYTES, window.size - at), "padding")
        at += len(block) - len(block.lstrip(b"\0"))
        if block.strip(b"\0"):
            break
    return Rest(window.part(at, window.size - at, "padding"))


def _may_matter(name: str, head: bytes) -> bool:
    """Whether a member may contain code or a log."""
    return _NAMED.search(name) is not None or not head.startswith(formats.BARREN)


def _stored(name: str, body: Window) -> Iterator[Content]:
    """An uncompressed member, unless it can contain neither code nor logs."""
    if _may_matter(name, body.copy(0, min(body.size, _HEAD_BYTES), "member")):
        yield Content(name, body, body.size)


def _tar(window: Window, budget: Budget) -> Iterator[Entry]:
    import tarfile  # libraries need neither this nor zipfile

    try:
        with tarfile.open(fileobj=cast(BinaryIO, WindowFile(window)), mode="r:") as archive:
            while (info := archive.next()) is not None:
                offset = window.start + info.offset_data
                budget.enter(0, offset)
                if info.issparse():
                    yield SealedError(info.name, "it is a sparse file", offset)
                elif info.isreg():
                    yield from _stored(info.name, window.part(info.offset_data, info.size, f"member {info.name!r}"))
            end = archive.offset
        if window.copy(end, 512, "end of the archive").strip(b"\0"):
            raise EOFError("it is truncated or damaged")  # tarfile treats a damaged header as the end
    except DamageError:
        raise
    except Exception as error:  # tarfile raises anything for hostile bytes
        raise DamageError(f"not a valid tar archive: {error}", window.start) from error
    yield rest_of(window, end)


def _library(window: Window, budget: Budget) -> Iterator[Entry]:
    """Members of a static library (``ar``; also Debian packages and Windows import libraries), without its symbol
    tables and its table of long names."""
    at, names, farthest = 8, Window(window.buffer, window.start, 0), 0
    while at + 60 <= window.size:
        budget.enter(0, window.start + at)
        header = window.copy(at, 60, "library member")
        size = header[48:58].strip()
        if header[58:] != b"`\n" or not size.isdigit():
            raise DamageError("a library member has no header", window.start + at)
        body = window.part(at + 60, int(size), "library member")
        at += 60 + int(size) + int(size) % 2
        name = header[:16].rstrip()
        if name == b"/" and not farthest and body.size >= 4:
            count = int.from_bytes(body.copy(0, 4, "library symbols"), "big")
            if 4 + 4 * count <= body.size:  # the first symbol table; the second of Windows has another layout
                farthest = int(body.array(np.dtype(">u4"), count, 4, "library symbols").max(initial=0))
        if name == b"//":
            names = body
        if name in (b"/", b"/SYM64/", b"__.SYMDEF", b"//"):
            continue
        if name.startswith(b"#1/") and name[3:].isdigit():  # BSD: the name precedes the bytes
            length = min(int(name[3:]), body.size)
            name, body = body.text(0, min(length, _LONGEST_NAME)), body.part(length, body.size - length, "member")
        elif name[:1] == b"/" and name[1:].isdigit():
            name = names.text(int(name[1:]), int(name[1:]) + _LONGEST_NAME).split(b"\n")[0]
        yield from _stored(name.rstrip(b"/").decode("utf-8", "backslashreplace"), body)
    at = min(at, window.size)
    if farthest >= window.size or window.copy(at, window.size - at, "library").strip(b"\n\0"):
        raise DamageError("the library is truncated", window.start + at)


def ends_as_zip(window: Window) -> bool:
    """Whether a zip archive ends here, whatever precedes it."""
    import zipfile

    return window.find(b"PK\5\6") >= 0 and zipfile.is_zipfile(cast(BinaryIO, WindowFile(window)))


_STORED, _DEFLATED = 0, 8
_UNLISTED = "the archive contains a member that its index does not list"


def _zip(window: Window, budget: Budget) -> Iterator[Entry]:
    import zipfile

    try:
        archive = zipfile.ZipFile(cast(BinaryIO, WindowFile(window)))
        infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
    except Exception as error:  # zipfile raises anything for hostile bytes: IndexError, struct.error …
        raise DamageError(f"not a valid zip archive: {error}", window.start) from error
    is_wheel = any(info.filename.endswith(".dist-info/WHEEL") for info in infos)
    end = 0
    for info in infos:
        at = info.header_offset
        budget.enter(0, window.start + at)
        try:
            name, extra = window.unpack("HH", at + 26, "zip member")
            body = window.part(at + 30 + name + extra, info.compress_size, f"member {info.filename!r}")
            if at < end:
                raise DamageError(f"member {info.filename!r} overlaps another", window.start + at)
            if window.part(end, at - end, "zip archive").find(b"PK\x03\x04") >= 0:
                yield DamageError(_UNLISTED, window.start + end)
            end = body.end - window.start
            if info.flag_bits & 1:
                raise SealedError(info.filename, "it is encrypted", body.start)
            if not info.is_dir():
                yield from _zip_member(archive, info, body, budget, is_wheel)
        except DamageError as damage:
            yield damage
        except NotImplementedError as error:
            yield SealedError(info.filename, str(error), body.start)
        except Exception as error:
            yield DamageError(f"member {info.filename!r} is damaged: {error}", window.start + at)
    if window.part(end, max(0, archive.start_dir - end), "zip archive").find(b"PK\x03\x04") >= 0:
        yield DamageError(_UNLISTED, window.start + end)


def _zip_member(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, body: Window, budget: Budget, is_wheel: bool
) -> Iterator[Entry]:
    """One file of a zip archive. Text files of a wheel, except PTX, are skipped: they are sources, not logs."""
    with archive.open(info) as file:
        head = file.read(_HEAD_BYTES)
        is_text = kind_of_binary(head) is None and not _NAMED.search(info.filename)
        if not _may_matter(info.filename, head) or (is_text and is_wheel and not info.filename.endswith(".ptx")):
            return
        if info.compress_type == _STORED:
            if zlib.crc32(body.whole) != info.CRC:
                yield DamageError(f"member {info.filename!r} is damaged: Bad CRC-32", body.start)
            yield Content(info.filename, body, body.size)
            return
        room = budget.room(body.size, body.start)
        step = _BLOCK_BYTES if info.compress_type == _DEFLATED else _HEAD_BYTES  # others: unbounded output
        plain = bytearray(head)
        while len(plain) <= room and (piece := file.read(step)):
            plain += piece
    if len(plain) > room:
        raise budget.excess(body.size, body.start)
    budget.take(len(plain), body.size, body.start)
    yield Content(info.filename, Window(plain), body.size)


class WindowFile(io.RawIOBase):
    """A window as a read-only file."""

    def __init__(self, window: Window) -> None:
        self._window, self._at = window, 0

    def readable(self) -> bool:
        """Always true."""
        return True

    seekable: Callable[..., bool] = readable

    def tell(self) -> int:
        """Offset of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the offset of the next byte, and return it."""
        self._at = max(0, (0, self._at, self._window.size)[whence] + offset)
        return self._at

    def readinto(self, target: memoryview) -> int:  # type: ignore[override]
        """Fill ``target`` with the available bytes; returns their number."""
        size = max(0, min(len(target), self._window.size - self._at))
        target[:size] = self._window.view(self._at, size, "archive") if size else b""
        self._at += size
        return size
