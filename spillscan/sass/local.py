"""What one STL or LDL touches: how many bytes, and by which kind of address."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from spillscan.sass import terminals
from spillscan.sass.model import AddressForm

WIDTHS = {b"U8": 1, b"S8": 1, b"U16": 2, b"S16": 2, b"64": 8, b"128": 16, b"256": 32}
"""Bytes by modifier; an access without one of these moves one register."""

REGISTER_BYTES = 4

LAST_USE = b"LU"

STACK_POINTER = b"R1"


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


@lru_cache(maxsize=1 << 16)
def target(modifiers: bytes, operands: bytes) -> Target:
    """Read ``.LU.64`` and `` R4, [R1+0x10]``."""
    parts = modifiers.split(b".")
    width = next((WIDTHS[part] for part in parts if part in WIDTHS), REGISTER_BYTES)
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
        form = "stack"
        slot = int(offset.lstrip(b"+"), 16) if offset else 0
    else:
        form = "register" if register else "absolute"
    return Target(width, form, slot, LAST_USE in parts)
