"""Sections of a cubin that belong to functions, each by the number of its function's code section."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spillscan.reading.binary.elf import Elf
from spillscan.reading.binary.window import Window

CODE = b".text."
"""What stands before a function's name in that of its section."""
_ALLOCATED, _EXECUTABLE = 2, 4
_OWNER = 0xFFFFFF
_BANKS = frozenset({0, 1, 2, 4, 14, 16})
"""Those that belong to functions (CUDA 4 to 13; in public wheels 0 and 2 alone)."""
_TEXT, _INFO, _CONSTANT, _SHARED, _LOCAL = (
    int.from_bytes(head, "little") for head in (CODE, b".nv.info", b".nv.cons", b".nv.shar", b".nv.loca")
)
"""How the names of sections begin, as :attr:`Elf.heads` has it."""
_TEXT_MASK = (1 << 8 * len(CODE)) - 1


class Sections(NamedTuple):
    """Code sections, and what belongs to each, by its number."""

    text: list[int]
    infos: dict[int, Window]
    shared: dict[int, tuple[int, int]]
    """Bytes, and their alignment."""
    local: dict[int, int]
    banks: dict[int, list[tuple[int, int]]]
    """(bank, bytes)."""
    constants: dict[int, list[int]]
    """Sections of the constants that the compiler gave it; its parameters (bank 0) are empty in a file."""
    strange: int = 0
    """Sections of memory that belong to functions, and are called as none of these."""


def sections_of(elf: Elf) -> Sections:
    """Those of one cubin; of several of one kind for a function the last, but for constant banks."""
    heads, owners, sizes = elf.heads, elf.owners, elf.sizes

    def named(head: int) -> list[int]:
        found: list[int] = (heads == head).nonzero()[0].tolist()
        return found

    executable = elf.sections["flags"] & _EXECUTABLE != 0
    text = ((heads & _TEXT_MASK == _TEXT) & executable).nonzero()[0]
    memory = (elf.sections["flags"] & (_ALLOCATED | _EXECUTABLE)) == _ALLOCATED
    owned = int(np.isin(elf.sections["info"][memory] & _OWNER, text).sum())
    banks: dict[int, list[tuple[int, int]]] = {}
    constants: dict[int, list[int]] = {}
    of_banks: list[int] = []
    for index in named(_CONSTANT):
        bank = _bank(elf.letters(index, len(b".nv.constant"), len(b"16.")))
        if bank in _BANKS:
            of_banks.append(index)
        if bank is not None:
            banks.setdefault(owners[index], []).append((bank, sizes[index]))
        if bank != 0:
            constants.setdefault(owners[index], []).append(index)
    shared, local = named(_SHARED), named(_LOCAL)
    alignments = elf.sections["align"][shared].tolist()
    return Sections(
        text.tolist(),
        {
            owners[index]: elf.window.part(elf.offsets[index], sizes[index], ".nv.info")
            for index in named(_INFO)
            if elf.begins(index, b".nv.info.")
        },
        {owners[index]: (sizes[index], alignment) for index, alignment in zip(shared, alignments, strict=True)},
        {owners[index]: sizes[index] for index in local},
        banks,
        constants,
        owned - int(np.isin(elf.sections["info"][[*shared, *local, *of_banks]] & _OWNER, text).sum()),
    )


def _bank(letters: bytes) -> int | None:
    """The number in the name of a function's constant bank; ``None`` where it is none."""
    bank, dot, _ = letters.partition(b".")
    return int(bank) if dot and bank.isdigit() else None
