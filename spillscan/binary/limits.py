"""How much a file may make of itself: bounds on what is decompressed and how deep containers nest."""

from __future__ import annotations

from dataclasses import dataclass

from spillscan.binary.window import DamageError

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds for one input. A genuine fatbin member shrinks to a tenth, rarely to a two-hundredth (zstd)."""

    ratio: int = 128
    """Most bytes that one stored byte may become."""
    free_bytes: int = 64 * MIB
    """What any input, and each of its members, may become whatever its size."""
    member_bytes: int = 4096 * MIB
    """Largest decompressed member of a container."""
    total_bytes: int = 1 << 40
    """Most bytes decompressed from one input."""
    depth: int = 6
    """Most containers inside each other: a wheel in a zip with a static library with an object with a fatbin is 5."""
    members: int = 1 << 17
    """Most members of all containers of one input."""
    free_functions: int = 1 << 16
    """Functions that any input may hold, whatever its size."""
    bytes_per_function: int = 32
    """Beyond these: stored bytes of the input that one function takes at least."""


DEFAULT = Limits()
"""Of any input, where nobody says otherwise."""


class Budget:
    """What is left of the limits while one input is read. Its errors name the option that raises the limit."""

    def __init__(self, limits: Limits, input_bytes: int) -> None:
        self.limits = limits
        self._left = min(limits.total_bytes, limits.free_bytes + limits.ratio * input_bytes)
        self._members = limits.members

    def room(self, stored: int, offset: int) -> int:
        """Most bytes that ``stored`` compressed bytes may become now; raises where that is nothing."""
        room = self._room(stored)
        if room <= 0:
            raise self.excess(stored, offset)
        return room

    def excess(self, stored: int, offset: int, size: int | None = None) -> DamageError:
        """What to say where ``stored`` bytes become more than :meth:`room`; ``size``: as many as they claim."""
        limits = self.limits
        option = f"--max-unpack-ratio {limits.ratio}"
        if limits.member_bytes <= self._room(stored):
            option = f"--max-member-mib {limits.member_bytes // MIB}"
        claim = "it decompresses to" if size is None else f"{stored} bytes claim to become {size}:"
        return DamageError(f"{claim} more than {option} allows", offset)

    def take(self, size: int, stored: int, offset: int) -> None:
        """Account for a member of ``size`` bytes; raises where that is too much."""
        if size > self.room(stored, offset):
            raise self.excess(stored, offset, size)
        self._left -= size

    def enter(self, depth: int, offset: int) -> None:
        """Account for a container or member; raises where they are too many or too deep."""
        self._members -= 1
        if self._members < 0:
            raise DamageError(f"it holds more than --max-members {self.limits.members}", offset)
        if depth > self.limits.depth:
            raise DamageError(f"containers nest deeper than --max-nesting {self.limits.depth}", offset)

    def _room(self, stored: int) -> int:
        limits = self.limits
        return min(limits.member_bytes, self._left, limits.free_bytes + limits.ratio * stored)
