"""Files of this machine, by folder and pattern: listed, never opened."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from spillscan.audit.selection import Selection
from spillscan.errors import InputError


class Leaf(NamedTuple):
    """One name of a file."""

    path: str
    """As the user would write it."""
    below: str
    """The path below the input that it was found in, with ``/``."""
    size_bytes: int = 0
    """Of the file, links followed."""
    identity: tuple[int, int] = (0, 0)
    """Device and inode: equal for all names of one file."""
    is_link: bool = False
    """Whether this name is a symbolic link."""
    trouble: str = ""
    """Why it cannot be read; empty for a regular file."""


def leaves(given: str, selection: Selection, into: str) -> Iterator[Leaf]:
    """What stands at or below a file, folder or pattern.

    Hidden folders and links to folders are not entered (so a loop of links is no loop), nor is ``into``, where the
    dataset lies. Raises :class:`~spillscan.errors.InputError` where there is nothing.
    """
    if os.path.isdir(given):
        yield from _walk(given, selection, into)
    elif os.path.lexists(given):
        yield _leaf(given, os.path.basename(given))
    elif glob.has_magic(given) and (found := sorted(glob.glob(given, recursive=True))):
        for path in found:
            if not os.path.isdir(path):
                yield _leaf(path, os.path.basename(path))
            elif "**" not in given and not os.path.islink(path):  # ** has found what is in it, too
                yield from _walk(path, selection, into)
    else:
        raise InputError(f"there is no {given}", "give files, folders, patterns or URLs")


def _walk(top: str, selection: Selection, into: str) -> Iterator[Leaf]:
    troubles: list[Leaf] = []

    def unreadable(error: OSError) -> None:
        name = str(error.filename)
        troubles.append(Leaf(name, os.path.relpath(name, top), trouble=f"cannot be read: {error.strerror}"))

    for parent, folders, names in os.walk(top, onerror=unreadable):
        below = "" if parent == top else os.path.relpath(parent, top).replace(os.sep, "/") + "/"
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".")
            and not selection.excludes(below + name)
            and os.path.realpath(os.path.join(parent, name)) != into
        ]
        for name in names:
            yield _leaf(os.path.join(parent, name), below + name)
    yield from troubles


def _leaf(path: str, below: str) -> Leaf:
    try:
        status = os.stat(path)
    except OSError as error:  # a link to nowhere, or to itself
        return Leaf(path, below, trouble=f"cannot be opened: {error.strerror}")
    if not stat.S_ISREG(status.st_mode):
        return Leaf(path, below, trouble="not a regular file")
    return Leaf(path, below, status.st_size, (status.st_dev, status.st_ino), os.path.islink(path))
