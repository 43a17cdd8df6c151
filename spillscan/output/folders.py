"""Where files lie: plug-ins, what the package carries, what may be kept for the next run; and drafts of files, which a
process holds as long as it lives."""

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
"""How names of files begin that are not whole yet: records of compilers that still run, or were killed, and reports."""


def modules(package: Iterable[str]) -> list[str]:
    """The modules of a package, by its ``__path__``, that are plug-ins: whose names begin with no underscore. The
    standard library's ``pkgutil`` loads half of itself for that."""
    files = (name for folder in package for name in os.listdir(folder))
    return sorted(name.removesuffix(".py") for name in files if name.endswith(".py") and not name.startswith("_"))


@cache
def shipped(name: str) -> str:
    """A folder inside the installed package, or beside it in a checkout."""
    package = os.path.dirname(os.path.dirname(__file__))
    for candidate in (os.path.join(package, name), os.path.join(os.path.dirname(package), name)):
        if os.path.isdir(candidate):
            return candidate
    raise SpillscanError(f"the folder {name} is missing from this installation", "install spillscan again")


def kept(name: str) -> str:
    """By the XDG base directory specification: ``$XDG_CACHE_HOME/spillscan/NAME``, else below ``~/.cache``.

    Raises :class:`RuntimeError` where nobody knows a home.
    """
    home = os.environ.get("XDG_CACHE_HOME", "")
    home = home if os.path.isabs(home) else os.path.expanduser("~/.cache")
    if home.startswith("~"):
        raise RuntimeError("no home folder")
    return os.path.join(home, "spillscan", name)


def remember(name: str, file: str, value: object) -> None:
    """Keep a value that JSON has for the next run, where that can be."""
    import json

    with contextlib.suppress(OSError, RuntimeError):  # a home that is read-only, or none
        folder = kept(name)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        draft = os.path.join(folder, f"{file}.{os.getpid()}")
        with open(draft, "wb") as written:
            written.write(b"%08x%b" % (crc32(data := json.dumps(value).encode()), data))
        os.replace(draft, os.path.join(folder, file))


def remembered(name: str, file: str) -> Any:
    """What :func:`remember` kept; ``None`` where there is nothing, or it is damaged."""
    import json

    with contextlib.suppress(OSError, RuntimeError, ValueError):
        with open(os.path.join(kept(name), file), "rb") as written:
            data = written.read()
        if int(data[:8], 16) == crc32(data[8:]):
            return json.loads(data[8:])
    return None


def hold(descriptor: int) -> None:
    """Let others see that the process lives which writes this file. A file system without locks shows nothing."""
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_held(path: str) -> bool | None:
    """Whether the process lives that writes the draft ``path``; ``None`` where that is not known."""
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
    """Delete drafts, by their names, whose process was killed."""
    with contextlib.suppress(OSError):
        names = filter(is_draft, os.listdir(folder or os.curdir))
        for path in [os.path.join(folder, name) for name in names]:
            if time.time() - os.stat(path).st_mtime >= older_than_seconds and is_held(path) is False:
                os.unlink(path)
