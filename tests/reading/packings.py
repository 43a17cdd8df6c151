"""The containers and compressions that the same bytes are packed in, nested as deep as one asks."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Mapping

import lz4.frame

from spillscan.reading.inputs.codecs import zstd

Pack = Callable[[bytes, str], bytes]
"""Packed file, made of these bytes and this name."""


def zipped(data: bytes, name: str, **others: bytes) -> bytes:
    """Zip archive of stored members."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for each, content in {name: data, **others}.items():
            archive.writestr(each, content)
    return target.getvalue()


def tar(data: bytes, name: str) -> bytes:
    """Tar archive by POSIX."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return target.getvalue()


def library(data: bytes, name: str, **others: bytes) -> bytes:
    """Archive as ``ar`` writes it, with names of at most 15 letters."""
    made = b"!<arch>\n"
    for each, content in {**others, name[-15:]: data}.items():
        made += f"{each + '/':<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode() + content
        made += b"\n" * (len(content) % 2)
    return made


def deb(data: bytes, name: str) -> bytes:
    """A Debian package: ``ar`` with the files in a tar."""
    return library(tar(data, name), "data.tar", **{"debian-binary": b"2.0\n"})


def conda(data: bytes, name: str) -> bytes:
    """The second format: a zip of tar files that zstd compressed."""
    packed = zstd().compress(tar(data, name))
    return zipped(packed, "pkg-x-1.tar.zst", **{"metadata.json": b'{"conda_pkg_format_version": 2}'})


def wheel(data: bytes, name: str) -> bytes:
    """A zip with the mark of a wheel."""
    return zipped(data, name, **{"x-1.dist-info/WHEEL": b"Wheel-Version: 1.0\n"})


def joined(data: bytes, name: str) -> bytes:
    """Two tar archives joined by ``cat``."""
    return tar(b"nothing\n", "first.txt") + tar(data, name)


def folder(data: bytes, _: str) -> bytes:
    """The plain file, in a folder."""
    return data


CONTAINERS: Mapping[str, Pack] = {
    "folder": folder,
    "zip": zipped,
    "tar": tar,
    "a": library,
    "deb": deb,
    "conda": conda,
    "whl": wheel,
    "cat": joined,
}
COMPRESSIONS: Mapping[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zst": zstd().compress,
    "lz4": lz4.frame.compress,
}
DEPTHS = (1, 2, 3)


def packed(data: bytes, name: str, container: str, compression: str, depth: int) -> tuple[bytes, str]:
    """(bytes, name) of a file that is compressed and put into a container, ``depth`` times."""
    for _ in range(depth):
        data, name = COMPRESSIONS[compression](data), f"{name}.{compression}"
        data, name = CONTAINERS[container](data, name[-15:]), f"x.{container}"
    return data, name
