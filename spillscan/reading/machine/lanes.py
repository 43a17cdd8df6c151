"""What the 32 lanes of a warp hold in one register, and what instructions make of it.

A value is one that all lanes share, of which some low bits may be known to be zero, and one number a lane that is added
to it (affine values: Collange, Defour and Zhang, 2009). Sums are taken modulo 2^32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

LANES = 32
WORD = 1 << 32
ALL_KNOWN = 32
"""Bits of a value that nothing is left unknown of."""


class Lanes(NamedTuple):
    """The value of a register in each lane."""

    table: tuple[int, ...]
    """What is added to the shared part, by lane; modulo 2^32."""
    bits: int
    """How many low bits of the shared part are known to be zero; 32: all of it."""

    @property
    def shared(self) -> bool:
        """All lanes hold the same."""
        return len({*self.table}) == 1


ANY = Lanes((0,) * LANES, 0)
"""One value for all lanes, of which nothing is known."""
NUMBERS = tuple(range(LANES))


def constant(value: int) -> Lanes:
    """The same number in all lanes."""
    return Lanes((value % WORD,) * LANES, ALL_KNOWN)


class Shape(NamedTuple):
    """How the lanes of a warp are spread over a block."""

    width: int
    """Threads of a row, ``blockDim.x``: a power of two below 32; 32: a multiple of it, or all of a block that has one
    row; 0: any."""

    def identity(self, special: int) -> Lanes | None:
        """Of a special register by its number."""
        if special == _LANE:
            return Lanes(NUMBERS, ALL_KNOWN)
        if special in (_TID_X, _TID_X + 1, _TID_X + 2) and not self.width:
            return None
        if special == _TID_X:
            bits = ALL_KNOWN if self.width < LANES else 5
            return Lanes(tuple(lane % self.width for lane in NUMBERS), bits)
        if special == _TID_X + 1 and self.width < LANES:
            rows = LANES // self.width
            return Lanes(tuple(lane // self.width for lane in NUMBERS), rows.bit_length() - 1)
        return ANY if special in _OF_WARPS or special in (_TID_X + 1, _TID_X + 2) else None


_LANE, _TID_X = 0x00, 0x21
_OF_WARPS = frozenset((0x25, 0x26, 0x27, 0x88, 0x8A))
"""Block, and its place in a cluster."""
EVERY = 0
WIDTHS = (EVERY, 32, 16, 8)
"""Threads of a row that are looked at; 0: what is known of any block."""


def settled(table: Iterable[int], bits: int) -> Lanes:
    """In one form: what lanes share is left out as far as it is unknown."""
    table = tuple(table)
    first = table[0] >> bits << bits if bits < ALL_KNOWN else 0
    return Lanes(tuple((each - first) % WORD for each in table), bits)


def _zeros(number: int) -> int:
    """Low bits that are zero, 32 at most."""
    return min((number & -number).bit_length() - 1, ALL_KNOWN) if number else ALL_KNOWN


def added(one: Lanes, other: Lanes) -> Lanes:
    """The sum."""
    return settled(map(sum, zip(one.table, other.table, strict=True)), min(one.bits, other.bits))


def times(value: Lanes, factor: int) -> Lanes:
    """A multiple."""
    bits = min(value.bits + _zeros(factor), ALL_KNOWN) if factor % WORD else ALL_KNOWN
    return settled((each * factor for each in value.table), bits)


def multiplied(one: Lanes, other: Lanes) -> Lanes | None:
    """The product, where one is known or all lanes share both."""
    for factor, value in ((one, other), (other, one)):
        if factor.bits == ALL_KNOWN and factor.shared:
            return times(value, factor.table[0])
    if one.bits == other.bits == ALL_KNOWN:
        return Lanes(tuple(a * b % WORD for a, b in zip(one.table, other.table, strict=True)), ALL_KNOWN)
    if one.shared and other.shared:
        known = min(one.bits + _zeros(other.table[0]), other.bits + _zeros(one.table[0]), one.bits + other.bits)
        return settled([one.table[0] * other.table[0]] * LANES, min(known, ALL_KNOWN))
    return None


def either(one: Lanes | None, other: Lanes | None) -> Lanes | None:
    """What is known where all lanes hold the one, or all the other."""
    if one is None or other is None:
        return None
    apart = {(a - b) % WORD for a, b in zip(one.table, other.table, strict=True)}
    if len(apart) > 1:
        return None
    return settled(one.table, min(one.bits, other.bits, _zeros(apart.pop())))


def logical(table: int, sources: Sequence[Lanes]) -> Lanes | None:
    """A LOP3: bits whose values are known in every lane, below such that all lanes share."""
    bits = min(each.bits for each in sources)
    for each in sources:  # above these, what is added must be the same in all lanes
        if len({value >> bits for value in each.table}) > 1:
            return None
    found = []
    for lane in NUMBERS:
        a, b, c = (each.table[lane] for each in sources)
        value = 0
        for row in range(8):
            if table >> row & 1:
                value |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        found.append(value % WORD)
    kept = [each & (1 << bits) - 1 for each in found] if bits < ALL_KNOWN else found
    if bits < ALL_KNOWN and _clears(table, sources, bits):
        return Lanes(tuple(found), ALL_KNOWN)
    return settled(kept, bits)


def _clears(table: int, sources: Sequence[Lanes], bits: int) -> bool:
    """Whether all bits from one on are known: by those sources whose bits are, whatever the others hold."""
    known = [each.bits == ALL_KNOWN for each in sources]
    for at in range(bits, ALL_KNOWN):
        rows = {
            table >> row & 1
            for row in range(8)
            if all(
                not sure or each.table[0] >> at & 1 == row >> 2 - place & 1
                for place, (sure, each) in enumerate(zip(known, sources, strict=True))
            )
        }
        if len(rows) > 1:
            return False
    return True


def shifted_right(value: Lanes, by: int, *, signed: bool) -> Lanes | None:
    """A shift by a constant."""
    if value.bits == ALL_KNOWN:
        wide = [each - WORD if signed and each >> 31 else each for each in value.table]
        return Lanes(tuple((each >> by) % WORD for each in wide), ALL_KNOWN)
    if value.shared:
        return ANY
    if value.bits < by or max(value.table) >> value.bits:
        return None
    return settled((each >> by for each in value.table), value.bits - by)
