"""The sections of a cubin by what they hold and whose they are. Their names are compared as numbers, all together: a
library has tens of thousands.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spillscan.binary.elf import Elf

EXECUTABLE = 4
"""Flag of a section that holds code."""


def _number(text: bytes) -> int:
    return int.from_bytes(text, "little")


_TEXT, _INFO, _CONSTANT, _SHARED, _LOCAL = map(_number, (b".text.", b".nv.info", b".nv.cons", b".nv.shar", b".nv.loca"))
_TEXT_MASK = np.uint64(_number(b"\xff" * len(b".text.")))
_BYTE, _THREE, _FOUR = np.uint64(0xFF), np.uint64(0xFFFFFF), np.uint64(0xFFFFFFFF)
_REST_OF_CONSTANT, _DOT = _number(b"tant"), ord(".")


Banks = tuple[tuple[int, int], ...]


class Sections(NamedTuple):
    """What belongs to each code section; columns are by its number, zero where it has none of that kind."""

    text: NDArray[np.int64]
    """Numbers of the code sections, ascending."""
    infos: NDArray[np.int64]
    """Number of ``.nv.info.NAME``."""
    shared_bytes: NDArray[np.uint64]
    """Of ``.nv.shared.NAME``."""
    local_bytes: NDArray[np.uint64]
    """Of ``.nv.local.NAME``."""
    banks: dict[int, Banks]
    """(bank, bytes) of each ``.nv.constantBANK.NAME``, by number."""


def of(elf: Elf) -> Sections:
    """The sections of a cubin. Which code section another belongs to, its ``sh_info`` says."""
    heads, tails = elf.letters(0), elf.letters(8)
    owners, sizes = elf.sections["info"], elf.sections["size"]
    owned = owners < len(owners)

    def column(mine: NDArray[np.bool_], values: NDArray[Any]) -> NDArray[Any]:
        found = np.zeros(len(owners), values.dtype)
        found[owners[mine & owned]] = values[mine & owned]
        return found

    code = ((heads & _TEXT_MASK) == _TEXT) & (elf.sections["flags"] & np.uint64(EXECUTABLE) != 0)
    dotted = tails & _BYTE == _DOT
    constant = np.flatnonzero((heads == _CONSTANT) & (tails & _FOUR == _REST_OF_CONSTANT))
    return Sections(
        np.flatnonzero(code),
        column((heads == _INFO) & dotted, np.arange(len(owners))),
        column(heads == _SHARED, sizes),
        column(heads == _LOCAL, sizes),
        _banks(
            (tails[constant] >> np.uint64(32) & _THREE).tolist(), owners[constant].tolist(), sizes[constant].tolist()
        ),
    )


def _banks(numbers: list[int], owners: list[int], sizes: list[int]) -> dict[int, Banks]:
    """``numbers``: what stands behind ``.nv.constant``, three letters. The module's own banks have no dot."""
    banks: dict[int, Banks] = {}
    for number, owner, size in zip(numbers, owners, sizes, strict=True):
        bank = _BANKS.get(number & 0xFFFF, _BANKS.get(number))
        if bank is not None:
            banks[owner] = (*banks.get(owner, ()), (bank, size))
    return banks


_BANKS = {_number(b"%d." % bank): bank for bank in range(100)}
