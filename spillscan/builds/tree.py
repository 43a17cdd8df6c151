"""Watched folders: list their files before a build, and find those that differ after it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache

Entry = tuple[int, int, int]
"""Inode, ctime in ns and size of a file."""
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/proc", "/sys", "/dev", "/run", "/boot")
_NOT_ENTERED = frozenset((".git", ".hg", ".svn"))


def top_of(folder: str) -> str:
    """The git work tree that contains ``folder``, else the folder itself."""
    from pathlib import Path

    here = Path(folder).resolve()
    return str(next((each for each in (here, *here.parents) if os.path.exists(each / ".git")), here))


def shown(path: str) -> str:
    """An absolute path, relative to the current folder if it is below that."""
    return path.removeprefix(os.path.join(os.getcwd(), ""))


def entry_of(path: str, *, follow: bool = True) -> Entry | None:
    """Inode, ctime and size of a file, or of a link that is not to be followed; ``None`` if there is none."""
    with suppress(OSError, ValueError):
        status = os.stat(path, follow_symlinks=follow)
        if stat.S_ISREG(status.st_mode) or not follow:
            return status.st_ino, status.st_ctime_ns, status.st_size
    return None


def is_since(path: str, since_ns: int) -> bool:
    """Whether a file or folder changed at or after a time."""
    with suppress(OSError):
        return os.stat(path).st_ctime_ns >= since_ns
    return False


class Watched:
    """Rules for the folders that a run watches; excludes the system's and toolkits'."""

    def __init__(self, left_out: Iterable[str]) -> None:
        here = os.path.join(os.getcwd(), "")
        real = (os.path.join(os.path.realpath(each), "") for each in (*_SYSTEM, *left_out))
        self._left_out = tuple(each for each in real if not here.startswith(each))
        homes = (os.sep, os.path.expanduser("~"), os.environ.get("TMPDIR", "/tmp"), "/tmp", "/var/tmp", "/home")
        self._shallow = frozenset(map(os.path.realpath, homes))
        """Folders of which only direct files are listed, since their subfolders belong to others."""

    def allows(self, folder: str) -> bool:
        """Whether a folder may be watched."""
        return not os.path.join(os.path.realpath(folder), "").startswith(self._left_out)

    def outermost(self, tops: Iterable[str], of_calls: Iterable[str]) -> tuple[str, ...]:
        """The ``tops`` and those folders of compiler calls that may be watched, without what another one covers."""
        allowed = {os.path.realpath(each) for each in of_calls if self.allows(each)} - self._shallow
        folders: list[str] = []
        for folder in sorted(allowed.union(tops)):
            if not folder.startswith(tuple(f"{top}/" for top in folders if top not in self._shallow)):
                folders.append(folder)
        return tuple(folders)

    def files(self, tops: Iterable[str]) -> dict[str, Entry]:
        """All files in and below the folders; links under their own paths, too. Each real folder is entered once."""
        files: dict[str, Entry] = {}
        waiting, entered = [*map(os.path.realpath, tops)], set[str]()
        while waiting:
            if (folder := waiting.pop()) in entered or not self.allows(folder):
                continue
            entered.add(folder)
            with suppress(OSError), os.scandir(folder) as entries:
                for each in entries:
                    path = each.path
                    if each.is_symlink():
                        files[path] = entry_of(path, follow=False) or (0, 0, 0)
                        path = os.path.realpath(path)
                    if entry := entry_of(path):
                        files[path] = entry
                    elif each.name not in _NOT_ENTERED and folder not in self._shallow:
                        waiting.append(path)
        return files

    def changed(self, before: Mapping[str, Entry], tops: Iterable[str]) -> set[str]:
        """Real paths of new and changed files, and of all files that a new link leads to."""
        new = [path for path, entry in self.files(tops).items() if before.get(path) != entry]
        led = [os.path.realpath(path) for path in new if os.path.islink(path)]
        return {path for path in (*new, *led, *self.files(led)) if os.path.isfile(path) and not os.path.islink(path)}

    def changed_since(self, since_ns: int, tops: Iterable[str]) -> set[str]:
        """Files of unlisted folders that changed since ``since_ns``, or whose parent folder did, below the top."""

        @cache
        def is_later(path: str, top: str) -> bool:
            above = os.path.dirname(path)
            return is_since(path, since_ns) or (above not in (top, path) and is_later(above, top))

        return {path for top in tops for path in self.files([top]) if os.path.isfile(path) and is_later(path, top)}
