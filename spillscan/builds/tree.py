"""Watched folders: a list of their files before a build, the files that differ after it, and the GPU code in them."""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from spillscan.output.git import git

Files = Mapping[str, tuple[int, int, int]]
"""Inode, ctime in ns and size by path; links to folders and files by their own paths."""
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/proc", "/sys", "/dev", "/run", "/boot")
_NOT_ENTERED = frozenset((".git", ".hg", ".svn"))
_HEAD_BYTES = 1 << 12
_PACKED = (b"PK\3\4", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd")
_ELF, _FATBIN = b"\x7fELF", b"\x50\xed\x55\xba\1\0\x10\0"
_LINK_STUB = b"__cudaPrelinkedFatbins"
_PTX = re.compile(rb"^\s*\.target\s+sm_", re.MULTILINE)


def top_of(folder: str) -> str:
    """The git work tree that contains ``folder``, else the folder itself."""
    with suppress(Exception):
        done = git(folder, "rev-parse", "--show-toplevel", option="run")
        if done.returncode == 0 and (top := done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")):
            return os.path.realpath(top)
    return os.path.realpath(folder)


class Watched:
    """The folders that a run watches, without those of the system and of toolkits."""

    def __init__(self, left_out: Iterable[str]) -> None:
        self._left_out = tuple(os.path.join(os.path.realpath(each), "") for each in (*_SYSTEM, *left_out))
        homes = (os.sep, os.path.expanduser("~"), tempfile.gettempdir(), "/tmp", "/var/tmp", "/home")
        self._shallow = frozenset(map(os.path.realpath, homes))
        """Folders of which only the files of their own are listed: below them is what others own."""

    def allows(self, folder: str) -> bool:
        """Whether a folder is watched if something leads there."""
        return not os.path.join(os.path.realpath(folder), "").startswith(self._left_out)

    def found(self, folders: Iterable[str]) -> list[str]:
        """The folders of calls that are watched from now on, without those that lie below another."""
        wanted = (os.path.realpath(each) for each in folders if self.allows(each))
        return self.outermost(each for each in wanted if each not in self._shallow)

    def outermost(self, folders: Iterable[str]) -> list[str]:
        """The folders without those that another covers."""
        found: list[str] = []
        for folder in sorted({os.path.realpath(each) for each in folders}):
            if not self.covers(found, folder):
                found.append(folder)
        return found

    def covers(self, tops: Iterable[str], folder: str) -> bool:
        """Whether a folder is one of ``tops``, or watched with one of them."""
        return any(folder == top or (top not in self._shallow and folder.startswith(f"{top}/")) for top in tops)

    def files(self, tops: Iterable[str]) -> dict[str, tuple[int, int, int]]:
        """All files of the folders and below them. Links are followed; each real folder is entered once."""
        found: dict[str, tuple[int, int, int]] = {}
        waiting = [each for each in map(os.path.realpath, tops) if self.allows(each)]
        entered = set[str]()
        while waiting:
            folder = waiting.pop()
            if folder in entered:
                continue
            entered.add(folder)
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    with suppress(OSError):
                        status = entry.stat(follow_symlinks=False)
                        if stat.S_ISLNK(status.st_mode):
                            found[entry.path] = _entry(status)
                            real = os.path.realpath(entry.path)
                            status = os.stat(real)
                            if not self.allows(real if stat.S_ISDIR(status.st_mode) else os.path.dirname(real)):
                                continue
                        else:
                            real = entry.path
                        if stat.S_ISREG(status.st_mode):
                            found[real] = _entry(status)
                        elif self._enters(folder, status, entry.name, real):
                            waiting.append(real)
        return found

    def _enters(self, folder: str, status: os.stat_result, name: str, real: str) -> bool:
        own = folder not in self._shallow and name not in _NOT_ENTERED
        return own and stat.S_ISDIR(status.st_mode) and self.allows(real)

    def changed(self, before: Files, tops: Iterable[str]) -> set[str]:
        """The real paths of files that are new or not as they were, and of all files to which a new link leads."""
        after = self.files(tops)
        found = {path for path, entry in after.items() if before.get(path) != entry}
        led = {os.path.realpath(path) for path in found if os.path.islink(path)}
        found |= set(self.files(each for each in led if os.path.isdir(each)))
        return {path for path in {*found, *led} if os.path.isfile(path) and not os.path.islink(path)}

    def changed_since(self, since_ns: int, tops: Iterable[str]) -> set[str]:
        """The files of folders of which there is no list: those that are later, and all in a later folder."""
        later: set[str] = set()
        for top in map(os.path.realpath, tops):
            known: dict[str, bool] = {top: False}
            for path, (_, ctime_ns, _) in self.files([top]).items():
                if not os.path.islink(path) and (
                    ctime_ns >= since_ns or _is_later(os.path.dirname(path), since_ns, known)
                ):
                    later.add(path)
        return later


def _is_later(folder: str, since_ns: int, known: dict[str, bool]) -> bool:
    """Whether a folder, or one above it up to a known one, changed since a time."""
    if folder not in known:
        with suppress(OSError):
            own = os.stat(folder).st_ctime_ns >= since_ns
            above = os.path.dirname(folder)
            known[folder] = own or (above != folder and _is_later(above, since_ns, known))
    return known.get(folder, False)


def _entry(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_ctime_ns, status.st_size


def entry_of(path: str) -> tuple[int, int, int] | None:
    """Inode, ctime and size of a file; ``None`` if there is none."""
    with suppress(OSError, ValueError):
        status = os.stat(path)
        return _entry(status) if stat.S_ISREG(status.st_mode) else None
    return None


def digest_of(path: str) -> str:
    """SHA-256 of a file; empty if it cannot be read."""
    with suppress(OSError, ValueError):
        if entry_of(path) is not None:
            with open(path, "rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
    return ""


def pieces(path: str) -> frozenset[bytes]:
    """Digests of each cubin and fat binary among the bytes of a file, and of a file of PTX; of a compressed file or
    archive, its own: reading shows what it holds. Equal pieces are equal code, whatever files contain it."""
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD_BYTES)
            if not head:
                return frozenset()
            if head.startswith(_PACKED) or _is_ptx(head):
                file.seek(0)
                return frozenset([hashlib.file_digest(file, "sha256").digest()])
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return frozenset(hashlib.blake2b(memoryview(data)[a:b]).digest() for a, b in _ranges(data))
    except (OSError, ValueError):
        return frozenset()


def is_packed(path: str) -> bool:
    """Whether a file is compressed, so that only reading shows what it holds."""
    with suppress(OSError), open(path, "rb") as file:
        return file.read(8).startswith(_PACKED)
    return False


def is_linked(path: str) -> bool:
    """Whether a file is a program, a shared library, or what a device linker made."""
    with suppress(OSError, ValueError), open(path, "rb") as file:
        head = file.read(18)
        if head.startswith(_ELF) and head[16:18] in (b"\2\0", b"\3\0"):
            return True
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data.find(_LINK_STUB) >= 0
    return False


def _is_ptx(head: bytes) -> bool:
    return b"\0" not in head and b".version" in head and _PTX.search(head) is not None


def _ranges(data: mmap.mmap) -> Iterator[tuple[int, int]]:
    at, following = 0, {_ELF: data.find(_ELF), _FATBIN: data.find(_FATBIN)}
    while waiting := [place for place in following.values() if place >= 0]:
        begin = min(waiting)
        end = _end_of_cubin(data, begin) if data[begin : begin + 4] == _ELF else _end_of_fatbin(data, begin)
        if end:
            yield begin, end
        at = end or begin + 1
        following = {
            text: place if place < 0 or place >= at else data.find(text, at) for text, place in following.items()
        }


def _end_of_fatbin(data: mmap.mmap, begin: int) -> int:
    size = int.from_bytes(data[begin + 8 : begin + 16], "little")
    return min(begin + 16 + size, len(data))


def _end_of_cubin(data: mmap.mmap, begin: int) -> int:
    """Where a cubin ends, by its section headers; 0 for another ELF file."""
    head = data[begin : begin + 64]
    if len(head) < 52 or head[18:20] != b"\xbe\0":
        return 0
    wide = head[4] == 2
    table, size, number = (
        (slice(40, 48), slice(58, 60), slice(60, 62)) if wide else (slice(32, 36), slice(46, 48), slice(48, 50))
    )
    sections, each, count = (int.from_bytes(head[part], "little") for part in (table, size, number))
    return min(begin + max(sections + each * count, 64), len(data))
