"""What one STL or LDL touches: how many bytes, and by which kind of address; in words, and as one number.

A column of numbers is small and quick, and few of them are distinct. The parts of a number, from the lowest bit on:
base register (8 bits), address not understood, 7 bits of zero, whether there is a uniform address register, width (3
bits, see :data:`WIDTHS`), last use, store, predicated, annotated, and the signed offset.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from spillscan.dumps import terminals
from spillscan.model.code import AddressForm

WIDTHS = (1, 1, 2, 2, 4, 8, 16, 32)
"""Bytes by the width field of the machine word: U8, S8, U16, S16, 32, 64, 128; 256 by analogy."""

_BY_MODIFIER = {b"U8": 1, b"S8": 1, b"U16": 2, b"S16": 2, b"64": 8, b"128": 16, b"256": 32}
"""Bytes; an access without one of these moves one register."""

REGISTER_BYTES = 4

LAST_USE = b"LU"

STACK_POINTER = b"R1"

_OFFSET_BITS = 24
"""Of an address in a machine word."""

BASE, UNIFORM, LAST_USE_BIT, STORE, PREDICATED, ANNOTATED = 0xFF, 1 << 16, 1 << 20, 1 << 21, 1 << 22, 1 << 23
"""Parts of the number."""
WIDTH_AT = 17
"""Its lowest bit that belongs to the width."""
_NOT_UNDERSTOOD, _OFFSET_AT = 1 << 8, 24
_STACK, _NO_BASE = 1, 255
_FORMS: dict[AddressForm, int] = {
    "stack": _STACK,
    "register": 0,
    "absolute": _NO_BASE,
    "register+uniform": UNIFORM,
    "uniform": UNIFORM | _NO_BASE,
    "unknown": _NOT_UNDERSTOOD,
}
"""Numbers of addresses; of the registers that may be a base, one stands for all."""


class Target(NamedTuple):
    """What an access touches, as far as its text tells."""

    bytes: int
    form: AddressForm
    slot: int | None
    last_use: bool


class Access(NamedTuple):
    """What one access says of itself."""

    store: bool
    """STL, else LDL."""
    predicated: bool
    annotated: bool
    """ptxas marked it as a spill."""
    target: Target


def number(access: Access) -> int:
    """An access as a number."""
    bytes_, form, slot, last_use = access.target
    found = _FORMS[form] | WIDTHS.index(bytes_) << WIDTH_AT | (slot or 0) << _OFFSET_AT
    found |= last_use * LAST_USE_BIT | access.store * STORE
    return found | access.predicated * PREDICATED | access.annotated * ANNOTATED


@lru_cache(maxsize=1 << 16)
def access(number: int) -> Access:
    """What a number says."""
    store = bool(number & STORE)
    base, slot = number & BASE, None
    form: AddressForm
    if number & _NOT_UNDERSTOOD:
        form = "unknown"
    elif number & UNIFORM:
        form = "uniform" if base == _NO_BASE else "register+uniform"
    elif base == _STACK:
        form, slot = "stack", number >> _OFFSET_AT
    else:
        form = "absolute" if base == _NO_BASE else "register"
    last_use = bool(number & LAST_USE_BIT) and not store  # there is no STL.LU: the bit is another field's
    target = Target(WIDTHS[number >> WIDTH_AT & 7], form, slot, last_use)
    return Access(store, bool(number & PREDICATED), bool(number & ANNOTATED), target)


@lru_cache(maxsize=1 << 16)
def target(modifiers: bytes, operands: bytes) -> Target:
    """Read ``.LU.64`` and `` R4, [R1+0x10]``."""
    parts = modifiers.split(b".")
    width = next((_BY_MODIFIER[part] for part in parts if part in _BY_MODIFIER), REGISTER_BYTES)
    match = terminals.line("address").search(operands)
    if match is None:
        return Target(width, "unknown", None, LAST_USE in parts)
    base, uniform, offset = match["base"], match["uniform"], match["offset"]
    register = base.split(b".")[0] if base else None
    slot = None
    form: AddressForm
    if uniform:
        form = "register+uniform" if register else "uniform"
    elif register == STACK_POINTER:
        slot = int(offset.lstrip(b"+"), 16) if offset else 0
        if slot.bit_length() > _OFFSET_BITS:  # no instruction holds it
            return Target(width, "unknown", None, LAST_USE in parts)
        form = "stack"
    else:
        form = "register" if register else "absolute"
    return Target(width, form, slot, LAST_USE in parts)
