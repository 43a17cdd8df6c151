"""Where files lie that are no code: what the package carries, and what may be kept for the next run."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from spillscan.errors import SpillscanError


@cache
def shipped(name: str) -> Path:
    """A folder inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parent
    for candidate in (package / name, package.parent / name):
        if candidate.is_dir():
            return candidate
    raise SpillscanError(f"the folder {name} is missing from this installation", "install spillscan again")


def kept(name: str) -> Path:
    """By the XDG base directory specification: ``$XDG_CACHE_HOME/spillscan/NAME``, else below ``~/.cache``."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".cache") / "spillscan" / name
