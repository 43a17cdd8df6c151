"""What a build was to compile, and what came of it: one :class:`Unit` for each compilation of device code."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

State = Literal["done", "failed", "killed", "unfinished", "not-begun", "unknown"]
"""How a compilation ended; ``unfinished``: it began, and nothing says that it ended; ``unknown``: nothing says whether
it began."""


class Unit(Struct, frozen=True, kw_only=True):
    """One compilation of device code, from one source (or one command) to one object."""

    source: str = ""
    """Its first source, as seen from where spillscan runs; empty where nothing says."""
    object: str = ""
    """The file that it writes, likewise; empty where nothing says."""
    record: str = ""
    """The record file that says what came of it, likewise."""
    folder: str = ""
    """Where its command runs."""
    command: tuple[str, ...] = ()
    """Its command line, response files expanded; empty where nothing says."""
    version: str = ""
    """The release of its compiler, as it says itself: ``13.0.88``; empty where nothing says."""
    state: State = "unknown"
    """How it ended."""
    status: int | None = None
    """Its exit status, below 0 the signal that ended it; ``None`` where nothing says."""
    digests: tuple[tuple[str, str], ...] = ()
    """(path, SHA-256) of each source when it was compiled; the path as its command says it."""
    reported: bool | None = None
    """Whether its compiler said what kernels use; ``None`` where nothing says."""
    evidence: tuple[str, ...] = ()
    """What says that it was to be compiled, and what came of it: ``record``, ``run``, ``build.ninja`` …"""

    @property
    def files(self) -> tuple[str, ...]:
        """What its kernels may be read from: its source (what ``run`` kept), its object, and its record."""
        return tuple(filter(None, (self.source, self.object, self.record)))

    @property
    def name(self) -> str:
        """What people call it: its source, else its object."""
        return self.source or self.object or "a compilation"
