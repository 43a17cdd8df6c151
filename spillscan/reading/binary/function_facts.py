"""All that a cubin says of one function, but for its name and source lines: of two for which that is equal, the same is
stated.
"""

from __future__ import annotations

import os

from msgspec import Struct
from xxhash import xxh3_128_digest

from spillscan.model import Role
from spillscan.model.code import Maker
from spillscan.reading.binary.attributes import FunctionInfo
from spillscan.reading.binary.cubin import Cubin, Function, Resources
from spillscan.reading.binary.references import References

FIRST_WITH_ANNOTATIONS = (12, 6)
"""ptxas 12.6.20, the first 12.6 of all, writes the address of every spill into the cubin; 12.5.82 does not."""
Spills = tuple[int, ...] | None
"""Offsets of annotated instructions; ``None`` where the toolkit writes no annotations."""


class Facts(Struct, frozen=True, gc=False, cache_hash=True):
    """Those of one function."""

    number: int
    """Of its architecture."""
    role: Role
    final: bool | None
    """``False``: the device linker still has to link it."""
    resources: Resources
    references: References | None
    info: FunctionInfo
    """What its attributes say."""
    spills: Spills
    parts: tuple[tuple[int, str], ...]
    """Where callees begin in its code, and their symbols."""
    digest: str
    """See :meth:`~spillscan.reading.binary.cubin.Cubin.own_digest`."""
    code: bytes
    """Stands for its machine code."""
    code_bytes: int
    maker: Maker | None
    """What wrote its cubin."""


_SEED = int.from_bytes(os.urandom(8), "little")
"""Of what stands for machine code: so that nobody can write other code for which the same stands."""


def facts_of(cubin: Cubin, function: Function) -> Facts:
    """Raises :class:`~spillscan.reading.binary.window.DamageError`."""
    info = cubin.info_of(function)
    return Facts(
        cubin.number,
        function.role,
        False if cubin.relocatable else None,
        function.resources,
        cubin.references.get(function.section),
        info,
        spills_of(info, cubin.toolkit.version),
        tuple(cubin.parts_of(function).items()),
        cubin.own_digest(function),
        xxh3_128_digest(function.code.whole, _SEED),
        function.code.size,
        cubin.maker,
    )


def spills_of(info: FunctionInfo, version: tuple[int, ...]) -> Spills:
    """Annotated spills of a function. Where it has none, its own record of the toolkit says whether that one writes
    them, else the ``version`` of what wrote its cubin."""
    if info.spills is not None:
        return info.spills
    if info.toolkit is not None:
        version = info.toolkit // 10, info.toolkit % 10
    return () if version[:2] >= FIRST_WITH_ANNOTATIONS else None
