"""Archives of logs: each text member of a tar or zip file is an input of its own, ``logs.tar!build/a.log``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, BinaryIO, Self, cast

from spillscan.output.errors import InputError
from spillscan.reading.inputs.source import Stream

if TYPE_CHECKING:
    import tarfile

DEEPEST = 6
"""Archives inside each other, unless a policy says another bound; genuine ones are two: logs that a service packed, of
logs that a build packed."""

_ZIP = b"PK\x03\x04"
_TAR_AT, _TAR = 257, b"ustar"
"""POSIX and GNU; the format before them has no mark."""


Members = Callable[[Stream, str], Iterator[tuple[str, Stream]]]
"""Of an archive and its name: each file in it with its name, to be read before the next is asked for."""


def errors(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """What reading a damaged member raises; of an encrypted one ``RuntimeError``; and ``others``."""
    import tarfile
    import zipfile
    import zlib

    return tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, *others


def members_of(head: bytes) -> Members | None:
    """How the members are read of an archive that begins so; ``None`` of anything else."""
    if head.startswith(_ZIP):
        return _zip_members
    return _tar_members if head[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR else None


def _tar_members(stream: Stream, name: str) -> Iterator[tuple[str, Stream]]:
    """Raises :class:`~spillscan.InputError` where it is damaged."""
    import tarfile

    try:
        with tarfile.open(fileobj=stream.file(), mode="r|", tarinfo=_whole_members()) as archive:
            for member in archive:
                if member.isfile() and (file := archive.extractfile(member)) is not None:
                    inner = f"{name}!{member.name}"
                    yield inner, Stream(cast(BinaryIO, file), inner)
    except errors() as error:
        raise InputError(f"{name} is not a sound tar file: {error}", "fetch it again") from error


def _zip_members(stream: Stream, name: str) -> Iterator[tuple[str, Stream]]:
    """Of a wheel, which holds no logs, only PTX. Raises :class:`~spillscan.InputError` where it is damaged or
    encrypted."""
    import zipfile

    try:
        with zipfile.ZipFile(stream.seekable()) as archive:
            files = [member for member in archive.infolist() if not member.is_dir()]
            if any(member.filename.endswith(".dist-info/WHEEL") for member in files):
                files = [member for member in files if member.filename.endswith(".ptx")]
            for member in files:
                inner = f"{name}!{member.filename}"
                with archive.open(member) as file:
                    yield inner, Stream(cast(BinaryIO, file), inner)
    except errors() as error:
        raise InputError(f"{name} cannot be unpacked: {error}", "fetch it again, or unpack it by hand") from error


@cache
def _whole_members() -> type[tarfile.TarInfo]:
    import tarfile

    class Member(tarfile.TarInfo):
        """A member of a tar file that ends as it must, by a block of zeros: others may have been cut off."""

        @classmethod
        def fromtarfile(cls, tarfile_: tarfile.TarFile) -> Self:
            try:
                return super().fromtarfile(tarfile_)
            except tarfile.EmptyHeaderError as error:  # type: ignore[attr-defined]
                raise EOFError("it is cut off") from error

    return Member
