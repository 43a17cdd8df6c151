"""One machine instruction: its name, the registers that it names, and the rest of its word."""

from __future__ import annotations

from typing import NamedTuple

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
"""By mnemonic: (first, how many) registers that it may name in a way that no field shows; they keep their names."""


class Instruction(NamedTuple):
    """One instruction."""

    name: str
    """The mnemonic; empty: unknown."""
    word: int
    """All 128 bits."""
    rest: int
    """The word without register fields and scoreboards; if unknown, without the bits of any register field."""
    key: tuple[int, str]
    """The word without registers, branch target and schedule; what it refers to, without numbers of objects."""
    reference: str
    """What is put into it, or read from constant banks."""
    read: tuple[int, ...]
    """Registers: 256 times the index of the file plus the number; below 0: the register that is always the same."""
    written: tuple[int, ...]
    """The same."""
    names: tuple[int, ...]
    """All of them, with barriers and scoreboards, in the order of the word's fields."""
    waits: int
    """Set of scoreboards that it waits for."""
    known: bool
    """Tables describe all of its registers."""
    target: int | None
    """Byte offset of where it goes, or where warps reconverge."""
    guard: int | None
    """Predicate that decides whether it is executed."""
    operands: tuple[tuple[int, ...], tuple[int, ...]]
    """First registers of the fields that it writes and that it reads, the guard left out."""
