"""Compilations of a build: one :class:`Unit` per compilation of device code."""

from __future__ import annotations

from msgspec import Struct


class Unit(Struct, frozen=True, kw_only=True):
    """One compilation of device code, from one source to one object."""

    source: str = ""
    """First source, relative to spillscan's working directory; empty if unknown."""
    object: str = ""
    """File that it writes, likewise; empty if unknown."""
    command: tuple[str, ...] = ()
    """Command line, with response files expanded; empty if unknown."""
    version: str = ""
    """Compiler release, as the compiler reports it: ``13.0.88``; empty if unknown."""
    done: bool = False
    """Whether it ended well."""

    @property
    def files(self) -> tuple[str, ...]:
        """Files from which its kernels may be read."""
        return tuple(filter(None, (self.source, self.object)))

    @property
    def name(self) -> str:
        """Name for people: its source, else its object."""
        return self.source or self.object or "a compilation"
