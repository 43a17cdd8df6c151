"""Locate folders (plug-ins, package data, caches), and lock drafts of files while their process lives."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any
from zlib import crc32

from spillscan.output.errors import SpillscanError

DRAFT = ".spillscan-"
"""Prefix of incomplete files: records of running or killed compilers, and reports."""


def modules(package: Iterable[str]) -> list[str]:
    """Plug-ins of a package, given its ``__path__``: modules whose names have no leading underscore.

    Cheaper than ``pkgutil``, which imports many modules.
    """
    files = (name for folder in package for name in os.listdir(folder))
    return sorted(name.removesuffix(".py") for name in files if name.endswith(".py") and not name.startswith("_"))


@cache
def shipped(name: str) -> str:
    """A folder of data in the installed package, or next to it in a checkout."""
    package = os.path.dirname(os.path.dirname(__file__))
    for candidate in (os.path.join(package, name), os.path.join(os.path.dirname(package), name)):
        if os.path.isdir(candidate):
            return candidate
    raise SpillscanError(f"the folder {name} is missing from this installation", "install spillscan again")


def kept(name: str) -> str:
    """Cache folder by the XDG base directory specification: ``$XDG_CACHE_HOME/spillscan/NAME``, else below
    ``~/.cache``.

    Raises :class:`RuntimeError` if there is no home folder.
    """
    home = os.environ.get("XDG_CACHE_HOME", "")
    home = home if os.path.isabs(home) else os.path.expanduser("~/.cache")
    if home.startswith("~"):
        raise RuntimeError("no home folder")
    return os.path.join(home, "spillscan", name)


def remember(name: str, file: str, value: object) -> None:
    """Store a JSON value for the next run, if possible."""
    import json

    with contextlib.suppress(OSError, RuntimeError):  # no home folder, or a read-only one
        folder = kept(name)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        draft = os.path.join(folder, f"{file}.{os.getpid()}")
        with open(draft, "wb") as written:
            written.write(b"%08x%b" % (crc32(data := json.dumps(value).encode()), data))
        os.replace(draft, os.path.join(folder, file))


def remembered(name: str, file: str) -> Any:
    """The value that :func:`remember` stored; ``None`` if there is none, or if it is damaged."""
    import json

    with contextlib.suppress(OSError, RuntimeError, ValueError):
        with open(os.path.join(kept(name), file), "rb") as written:
            data = written.read()
        if int(data[:8], 16) == crc32(data[8:]):
            return json.loads(data[8:])
    return None


def hold(descriptor: int) -> None:
    """Lock a file to show that the process that writes it lives. No effect on file systems without locks."""
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_held(path: str) -> bool | None:
    """Whether the process that writes the draft ``path`` lives; ``None`` if unknown."""
    try:
        import fcntl

        with open(path, "rb") as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (ImportError, OSError):
        return None
    return False


def sweep(folder: str, is_draft: Callable[[str], bool], older_than_seconds: float = 0) -> None:
    """Delete drafts whose process was killed, found by their names."""
    with contextlib.suppress(OSError):
        names = filter(is_draft, os.listdir(folder or os.curdir))
        for path in [os.path.join(folder, name) for name in names]:
            if time.time() - os.stat(path).st_mtime >= older_than_seconds and is_held(path) is False:
                os.unlink(path)
