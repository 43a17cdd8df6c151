"""Machine instructions: name, register operands, and the rest of the word."""

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
"""By mnemonic: (first, count) of the registers that it may access without a field for them; they keep their names."""


class Instruction(NamedTuple):
    """One instruction."""

    name: str
    """Mnemonic; empty if unknown."""
    word: int
    """All 128 bits."""
    rest: int
    """The word without register fields and scoreboards; if unknown, without the bits of any register field."""
    key: tuple[int, str]
    """(word without registers, branch target and schedule; reference without numbers of objects)."""
    reference: str
    """Objects that a relocation places in it, or that it reads from constant banks."""
    read: tuple[int, ...]
    """Registers read: 256 times the index of the file plus the number; negative for the constant register of a file."""
    written: tuple[int, ...]
    """Registers written, in the same form."""
    names: tuple[int, ...]
    """Registers read and written, convergence barriers included, then scoreboards."""
    waits: int
    """Mask of the scoreboards that it waits for."""
    known: bool
    """Whether tables describe all of its registers."""
    target: int | None
    """Byte offset of its branch target, or of the point of reconvergence."""
    guard: int | None
    """Predicate that decides whether it is executed."""
