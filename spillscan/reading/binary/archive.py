"""Archives as they are, without a file written: each by its format, and what any codec compressed. Here tar, and static
libraries (the ``ar`` format of Unix, of Debian packages and of Windows import libraries)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, BinaryIO, Self, cast

import numpy as np

from spillscan.reading.binary.packed import (
    BLOCK_BYTES,
    LONGEST_NAME,
    Found,
    Packed,
    Rest,
    SealedError,
    WindowFile,
    as_it_is,
    grown,
    rest_of,
)
from spillscan.reading.binary.window import Budget, DamageError, UnopenedError, Window
from spillscan.reading.inputs import archives, codecs
from spillscan.reading.inputs.memory import Pages

if TYPE_CHECKING:
    import tarfile

_LIBRARY_MAGIC = b"!<arch>\n"
_MEMBER_HEADER_BYTES = 60


def kind(window: Window) -> str | None:
    """``zip``, ``tar``, ``library`` …, as :data:`spillscan.reading.inputs.archives.KINDS` has them; ``None`` for
    anything else."""
    return archives.kind(window.copy(0, min(window.size, archives.HEAD_BYTES), "archive"))


def members(window: Window, budget: Budget) -> Iterator[Found]:
    """Each member, and windows of the archive's own bytes, such as headers; damage of one does not end the others."""
    form = kind(window)
    if form == "library":
        return _library(window)
    if form == "tar":
        return _tar(window, budget)
    if form == "zip":
        from spillscan.reading.binary import zip_archive  # as others: a library needs none

        return zip_archive.members(window, budget)
    if form == "thin":
        raise UnopenedError("it only names its members, which are files of their own", window.start)
    from spillscan.reading.binary import packages

    if form == "cpio":
        return packages.of_cpio(window, budget)
    return packages.of_rpm(window) if form == "rpm" else packages.of_sqlite(window, budget)


def codec_of(window: Window) -> codecs.Codec | None:
    """What it is compressed with; ``None`` where it is not, or by nothing that is known here."""
    return codecs.codec_of(window.copy(0, min(window.size, codecs.HEAD_BYTES), "compressed data"))


def unpacked(window: Window, codec: codecs.Codec, budget: Budget) -> tuple[Packed, Rest]:
    """What a compressed file holds, and what stands behind it. Raises :class:`DamageError`."""
    unused: list[int] = []
    pages, given = Pages(), 0

    def chunks() -> Iterator[memoryview]:
        nonlocal given
        data = window.whole
        while given < len(data):
            pages.leave(window.buffer, window.start + given)
            chunk = data[given : given + BLOCK_BYTES]
            given += len(chunk)
            yield chunk

    plain = grown(codec, chunks(), unused.append, budget, window)
    end = given - sum(unused)
    packed = Packed("", window.part(0, end, "compressed data"), len(plain), Window(plain))
    return packed, Rest(window.part(end, window.size - end, "compressed data"))


def _tar(window: Window, budget: Budget) -> Iterator[Found]:
    end = 0
    for info in _tar_members(window):
        budget.enter(0, window.start + info.offset)
        try:
            yield window.part(info.offset, info.offset_data - info.offset, "tar header")
            end = info.offset_data
            if not info.isreg():
                continue
            if info.issparse():
                raise SealedError(info.name, "it is a sparse file", window.part(info.offset_data, 0, "tar member"))
            body = window.part(info.offset_data, info.size, f"member {info.name!r}")
            end += info.size
        except DamageError as damage:
            yield damage
            continue
        yield as_it_is(info.name, body)
    yield rest_of(window, min(end, window.size))


def _tar_members(window: Window) -> Iterator[tarfile.TarInfo]:
    import tarfile

    try:
        with tarfile.open(fileobj=cast(BinaryIO, WindowFile(window)), mode="r:", tarinfo=_sound_members()) as archive:
            while (info := archive.next()) is not None:
                yield info
    except DamageError:
        raise
    except Exception as error:  # of hostile bytes it raises anything, as zipfile does
        raise DamageError(f"not a sound tar archive: {error}", window.start) from error


@cache
def _sound_members() -> type[tarfile.TarInfo]:
    import tarfile

    class Member(tarfile.TarInfo):
        """A member of a tar file that ends as it must, by a block of zeros, and holds nothing else but members: the
        library takes what is damaged for the end."""

        @classmethod
        def fromtarfile(cls, tarfile_: tarfile.TarFile) -> Self:
            try:
                return super().fromtarfile(tarfile_)
            except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
                raise
            except tarfile.HeaderError as error:
                raise EOFError(f"it is cut off or damaged: {error}") from error

    return Member


def _library(window: Window) -> Iterator[Found]:
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
            name = body.text(0, min(length, LONGEST_NAME))
            yield body.part(0, length, "library member")
            body = body.part(length, body.size - length, "library member")
        elif name[:1] == b"/" and name[1:].isdigit():
            name = names.text(int(name[1:]), int(name[1:]) + LONGEST_NAME).split(b"\n")[0]
        yield as_it_is(name.rstrip(b"/").decode("utf-8", "backslashreplace"), body)
    if farthest >= window.size or window.copy(min(at, window.size), max(0, window.size - at), "library").strip(b"\n\0"):
        raise DamageError("a library that breaks off", window.start + min(at, window.size))
