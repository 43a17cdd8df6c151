"""Machine instructions: name, register operands, and the rest of the word; and the address of those that access local
memory, STL and LDL, as machine words encode it and as a disassembly prints it."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from spillscan.model.local import AddressForm
from spillscan.reading import grammar

FILES = "RPUQ"
"""General registers, predicates, uniform registers, uniform predicates."""
_FILE = 256
BARRIERS = _FILE * len(FILES)
"""The number of convergence barrier B0; barriers and scoreboards are numbered like registers."""
SCOREBOARDS = BARRIERS + _FILE
"""The number of scoreboard 0."""
FIXED: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("P2R", "R2P"), (_FILE, 8)),
    **dict.fromkeys(("UP2UR", "UR2UP"), (3 * _FILE, 8)),
    **dict.fromkeys(("DEPBAR", "SYNCS"), (SCOREBOARDS, 6)),
    **dict.fromkeys(("BMOV", "WARPSYNC"), (BARRIERS, 16)),
}
"""By mnemonic: (first, count) of the registers that it may access without a field for them; they keep their names."""


class Instruction(NamedTuple):
    """One instruction."""

    name: str
    """Mnemonic; empty if unknown."""
    word: int
    """All 128 bits."""
    rest: int
    """The word without registers, convergence barriers and scoreboards."""
    key: tuple[int, str]
    """(word without registers, branch target and schedule; reference without numbers of objects)."""
    reference: str
    """Objects that a relocation places in it, or that it reads from constant banks."""
    registers: tuple[int, ...]
    """Registers read and written, by field: 256 times the index of the file plus the number; negative for the constant
    register of a file. Convergence barriers and the scoreboards that it sets follow."""
    waits: int
    """Mask of the scoreboards that it waits for."""
    known: bool
    """Whether tables describe all of its registers."""
    target: int | None
    """Byte offset of its branch target, or of the point of reconvergence."""
    guard: int | None
    """Predicate that decides whether it is executed."""


WIDTHS = (1, 1, 2, 2, 4, 8, 16, 32)
"""Bytes by the width field of the machine word: U8, S8, U16, S16, 32, 64, 128; 256 by analogy."""
_BY_MODIFIER = {b"U8": 1, b"S8": 1, b"U16": 2, b"S16": 2, b"64": 8, b"128": 16, b"256": 32}
"""Bytes by modifier; an access without one of these moves one register."""
REGISTER_BYTES = 4
STORE, LAST_USE, ANNOTATION = b"STL", b"LU", b"SpillRefill"
"""Opcode of stores, modifier of a last use, and remark of a spill in a disassembly."""
_STACK, _ANY, _NO_REGISTER = 1, 0, 255
"""Numbers of base registers: the stack pointer, one for all others, and RZ."""
_OFFSET_BITS = 24
"""Bits of the address offset in a machine word."""


class Access(NamedTuple):
    """One STL or LDL instruction, without its place."""

    store: bool
    """STL if true, else LDL."""
    bytes: int
    form: AddressForm
    slot: int | None
    """Offset from the stack pointer; ``None`` for other addresses."""
    last_use: bool
    predicated: bool
    annotated: bool
    """Whether ptxas marked it as a spill."""
    register: int
    """Register that it stores, or loads into; 255 for none."""


@lru_cache(maxsize=1 << 16)
def of_word(fields: int, register: int, store: bool, predicated: bool, annotated: bool) -> Access:
    """An access from the ``fields`` of its machine word, from the lowest bit on: base register (8 bits), zeros, whether
    there is a uniform register (bit 16), width (3 bits), last use, and from bit 24 on the signed offset."""
    form = _form(fields & 0xFF, uniform=bool(fields >> 16 & 1))
    slot = fields >> 24 if form == "stack" else None
    last_use = bool(fields >> 20 & 1) and not store  # there is no STL.LU: the bit belongs to another field
    return Access(store, WIDTHS[fields >> 17 & 7], form, slot, last_use, predicated, annotated, register)


@lru_cache(maxsize=1 << 15)
def of_text(guard: bytes, opcode: bytes, modifiers: bytes, operands: bytes, note: bytes) -> Access:
    """An access from the fields of its line: ``LDL``, ``.LU.64``, `` R4, [R1+0x10]``."""
    store, parts = opcode == STORE, modifiers.split(b".")
    width = next((_BY_MODIFIER[part] for part in parts if part in _BY_MODIFIER), REGISTER_BYTES)
    form, slot = _address(operands)
    moved = operands.rpartition(b",")[2] if store else operands.partition(b",")[0]
    digits = moved.strip().partition(b".")[0][1:]
    register = min(int(digits), _NO_REGISTER) if digits.isdigit() and len(digits) <= 3 else _NO_REGISTER
    last_use = LAST_USE in parts and not store
    return Access(store, width, form, slot, last_use, bool(guard), ANNOTATION in note, register)


def _address(operands: bytes) -> tuple[AddressForm, int | None]:
    """Form of the address in the operands, and its offset from the stack pointer."""
    match = grammar.line("address").search(operands)
    if match is None:
        return "unknown", None
    base = match["base"].split(b".")[0] if match["base"] else b""
    form = _form(_STACK if base == b"R1" else _ANY if base else _NO_REGISTER, uniform=bool(match["uniform"]))
    if form != "stack":
        return form, None
    slot = int(match["offset"].lstrip(b"+"), 16) if match["offset"] else 0
    return (form, slot) if slot.bit_length() <= _OFFSET_BITS else ("unknown", None)  # no instruction encodes it


def _form(base: int, *, uniform: bool) -> AddressForm:
    if uniform:
        return "uniform" if base == _NO_REGISTER else "register+uniform"
    if base == _STACK:
        return "stack"
    return "absolute" if base == _NO_REGISTER else "register"
