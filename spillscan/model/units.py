"""Compilations that a build was to do, and their results: one :class:`Unit` per compilation of device code."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

State = Literal["done", "failed", "killed", "unfinished", "not-begun", "unknown"]
"""Result of a compilation.

``unfinished``: it began, and no end is recorded; ``unknown``: it is unknown whether it began.
"""


class Unit(Struct, frozen=True, kw_only=True):
    """One compilation of device code, from one source (or one command) to one object."""

    source: str = ""
    """First source, relative to spillscan's working directory; empty if unknown."""
    object: str = ""
    """File that it writes, likewise; empty if unknown."""
    record: str = ""
    """Record file with its result, likewise."""
    folder: str = ""
    """Working directory of its command."""
    command: tuple[str, ...] = ()
    """Command line, with response files expanded; empty if unknown."""
    version: str = ""
    """Compiler release, as the compiler reports it: ``13.0.88``; empty if unknown."""
    state: State = "unknown"
    """Result of the compilation."""
    status: int | None = None
    """Exit status, negative for the signal that ended it; ``None`` if unknown."""
    digests: tuple[tuple[str, str], ...] = ()
    """(path, SHA-256) of each source when it was compiled; paths as in its command."""
    reported: bool | None = None
    """Whether its compiler reported the resources of kernels; ``None`` if unknown."""
    evidence: tuple[str, ...] = ()
    """Sources of what is known about it: ``record``, ``run``, ``build.ninja`` …"""

    @property
    def files(self) -> tuple[str, ...]:
        """Files from which its kernels may be read: its source (kept by ``run``), its object, and its record."""
        return tuple(filter(None, (self.source, self.object, self.record)))

    @property
    def name(self) -> str:
        """Name for people: its source, else its object."""
        return self.source or self.object or "a compilation"
