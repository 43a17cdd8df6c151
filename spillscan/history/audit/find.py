"""Expand the audit's folders, patterns and URLs to items, each file once.

Opens no files except run files.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import NamedTuple

from spillscan.builds import record
from spillscan.history.audit import stores
from spillscan.history.audit.messages import FileOutcome, Item
from spillscan.output.errors import InputError, SpillscanError, UsageError
from spillscan.output.files import DRAFT
from spillscan.output.git import git
from spillscan.reading.inputs.own_files import outputs_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Files that the user excludes."""

    exclude: Sequence[str] = ()
    """Glob patterns; see :meth:`excludes`."""
    most_bytes: int | None = None
    """Maximum size of a file to read."""

    def excludes(self, below: str) -> bool:
        """Whether a pattern matches ``below``, the path below the input (with ``/``), or one of its parts."""
        parts = below.split("/")
        return any(
            fnmatchcase(below, pattern) or any(fnmatchcase(part, pattern) for part in parts)
            for pattern in (each.strip("/") for each in self.exclude)
        )

    def refusal(self, below: str, size_bytes: int | None) -> str:
        """Reason to skip a file; empty if it is to be read."""
        if self.exclude and self.excludes(below):
            return "excluded"
        if size_bytes == 0:
            return "empty"
        if self.most_bytes is not None and (size_bytes or 0) > self.most_bytes:
            return f"larger than {self.most_bytes:,} bytes"
        return ""


class FileName(NamedTuple):
    """One name of a file."""

    path: str
    """Path as the user would write it."""
    below: str
    """Path below the input that contains the file, with ``/``."""
    top: str = ""
    """Folder that was searched, or run file with its outputs; empty for another file that the user named."""
    size_bytes: int = 0
    """Size of the file, following links."""
    identity: tuple[int, int] = (0, 0)
    """Device and inode: equal for all names of one file."""
    is_link: bool = False
    """Whether this name is a symbolic link."""
    trouble: str = ""
    """Reason why it cannot be read; empty for a regular file."""


def find(inputs: Sequence[str], label: str, selection: Selection, into: str) -> tuple[list[Item], list[FileOutcome]]:
    """Files at or below ``inputs``, sorted by name, and the skipped or missing ones with the reason.

    A file with several names (links) is taken once, under the first name that is not a symbolic link. A folder with a
    run file is read together, as is a run file with its outputs, since all contain the same kernels. ``into`` is the
    dataset's folder, which is no input. Raises :class:`~spillscan.SpillscanError` for an input that does not exist or
    that no driver opens.
    """
    items: dict[str, Item] = {}
    tops: dict[str, str] = {}
    left: list[FileOutcome] = []
    files: list[FileName] = []

    def skip(uri: str, reason: str) -> None:
        left.append(FileOutcome(label=label, uri=uri, state="skipped", reason=reason))

    def admit(item: Item, below: str, size_bytes: int | None) -> None:
        if reason := selection.refusal(below, size_bytes):
            skip(item.uri, reason)
        else:
            items[item.uri] = item

    for given in inputs:
        if given == "-":
            raise UsageError("audit reads files, not standard input", "pass a file or a folder")
        if stores.is_url(given) and not given.startswith("file://"):
            for each in stores.listed(given):
                uri = stores.shown(each.url)
                item = Item(uri=uri, path=each.url, size_bytes=each.size_bytes or 0, store_tag=each.tag)
                admit(item, each.below, each.size_bytes)
        elif record.is_one(path := given.removeprefix("file://")):
            files += (_file_name(each, os.path.basename(each), path) for each in (path, *outputs_of(path)))
        else:
            files += local_files(path, selection, into)
    seen: set[tuple[int, int]] = set()
    for file in sorted(files, key=lambda file: (file.is_link, file.path)):
        if file.path in items:
            continue
        if os.path.basename(file.path).startswith(DRAFT):
            skip(file.path, "a leftover temporary file")
        elif file.trouble:
            skip(file.path, file.trouble)
        elif file.identity in seen:
            skip(file.path, "a link to a listed file")
        else:
            seen.add(file.identity)
            tops[file.path] = file.top
            item = Item(uri=file.path, path=os.path.abspath(file.path), size_bytes=file.size_bytes)
            admit(item, file.below, file.size_bytes)
    listed = ((uri, tops[uri]) for uri in items if tops.get(uri))
    recorded = {top for uri, top in listed if uri == top or (uri.endswith(".json") and record.is_one(uri))}
    together = (
        replace(items[uri], together=top) if (top := tops.get(uri, "")) in recorded else items[uri]
        for uri in sorted(items)
    )
    return list(together), sorted(left, key=lambda outcome: outcome.uri)


def local_files(given: str, selection: Selection, into: str) -> Iterator[FileName]:
    """Files at or below a file, folder or pattern.

    Skips hidden folders, links to folders (which may form loops), and ``into``, the dataset's folder. Raises
    :class:`~spillscan.InputError` if there is no such file.
    """
    if os.path.isdir(given):
        yield from _walk(given, selection, into)
    elif os.path.lexists(given):
        yield _file_name(given, os.path.basename(given))
    elif glob.has_magic(given) and (paths := sorted(glob.glob(given, recursive=True))):
        for path in paths:
            if not os.path.isdir(path):
                yield _file_name(path, os.path.basename(path))
            elif "**" not in given and not os.path.islink(path):  # ** also matches the folder's files
                yield from _walk(path, selection, into)
    else:
        raise InputError(f"no such file: {given}", "pass files, folders, patterns or URLs")


def _walk(top: str, selection: Selection, into: str) -> Iterator[FileName]:
    troubles: list[FileName] = []

    def unreadable(error: OSError) -> None:
        name = str(error.filename)
        troubles.append(FileName(name, os.path.relpath(name, top), trouble=f"cannot be read: {error.strerror}"))

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
            yield _file_name(os.path.join(parent, name), below + name, top)
    yield from troubles


def _file_name(path: str, below: str, top: str = "") -> FileName:
    try:
        status = os.stat(path)
    except OSError as error:  # a dangling link, or one to itself
        return FileName(path, below, trouble=f"cannot be opened: {error.strerror}")
    if not stat.S_ISREG(status.st_mode):
        return FileName(path, below, trouble="not a regular file")
    return FileName(path, below, top, status.st_size, (status.st_dev, status.st_ino), os.path.islink(path))


def commit_of(revision: str) -> dict[str, str]:
    """Hash and date of the commit ``revision`` in the current folder's git repository; empty if unknown."""
    named = f"{revision}^{{commit}}"
    try:
        done = git(
            os.curdir,
            "log",
            "-1",
            "--no-show-signature",
            "--format=%H %cI",
            "--end-of-options",
            named,
            option="--label",
        )
    except SpillscanError:  # git is not installed
        return {}
    commit, _, time = done.stdout.decode("ascii", "replace").strip().partition(" ")
    return {"commit": commit, "time": time} if not done.returncode and time else {}
