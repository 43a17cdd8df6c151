"""Texture, surface and sampler references: symbols of their own kinds, which relocations of constant bank 0 name.

Equal to what ptxas prints up to sm_89. From sm_90 on it prints none, and the relocations name no symbols. Objects that
a kernel is given (bindless) are no references: they stand in no cubin, and there is no figure.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spillscan.reading.binary.elf import Elf

LAST_ARCH = 89
_TEXTURE, _SAMPLER, _SURFACE = 10, 11, 12
"""Kinds of symbols."""
_BANK = b".rel.nv.constant0."
_REL = np.dtype([("offset", "<u8"), ("info", "<u8")])


class References(NamedTuple):
    """How many of each a function names."""

    textures: int
    surfaces: int
    samplers: int


def by_section(elf: Elf, symbols: NDArray[Any], number: int) -> dict[int, References]:
    """By code section; functions without references are left out. ``number``: of the architecture."""
    kinds = symbols["info"] & 15
    if number > LAST_ARCH or not ((kinds >= _TEXTURE) & (kinds <= _SURFACE)).any():
        return {}
    owners = elf.owners
    found: dict[int, References] = {}
    for index, name in enumerate(elf.names):
        if not name.startswith(_BANK) or owners[index] >= len(owners):
            continue
        table = elf.contents(index)
        relocations = table.array(_REL, table.size // _REL.itemsize, 0, "relocations")
        named = np.unique(relocations["info"] >> 32)
        counts = np.bincount(kinds[named[named < len(kinds)].astype(np.int64)], minlength=16).tolist()
        if any(counts[_TEXTURE : _SURFACE + 1]):
            found[owners[owners[index]]] = References(counts[_TEXTURE], counts[_SURFACE], counts[_SAMPLER])
    return found
