"""What one instruction does, as far as its text tells: floating-point operations, and bytes that it moves, per thread.

A fused multiply-add is two operations, a packed one twice as many; a matrix instruction divides its 2·m·n·k over its
threads. Conversions, comparisons, minima and the uniform datapath (once a warp) are no operations. Shapes are in the
modifiers: ``HMMA.16816`` is 16×8×16 for a warp, ``HGMMA.64x128x16`` for a warpgroup.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from spillscan.model import opcodes as mix

_FLOPS = {
    opcode: flops
    for flops, opcodes in {
        1: "DADD DMUL FADD FADD32I FMUL FMUL32I FHADD FSWZADD MUFU",
        2: "DFMA FADD2 FFMA FFMA32I FHFMA FMUL2 HADD2 HADD2_32I HMUL2 HMUL2_32I",
        4: "FFMA2 HFMA2 HFMA2_32I QADD4 QMUL4",
        8: "QFMA4",
    }.items()
    for opcode in opcodes.split()
}
_WARP, _WARPGROUP = 32, 128
_SHAPES = {
    b"884": (8, 8, 4),
    b"1684": (16, 8, 4),
    b"1688": (16, 8, 8),
    b"16816": (16, 8, 16),
    b"16832": (16, 8, 32),
    b"16864": (16, 8, 64),
}
"""Of a warp's matrix instructions, as printed; others are not told apart."""
_OTHER = re.compile(rb"\.(?:SP|STEP\d)\b")
"""Sparse; the steps of Volta's HMMA.884, which share one shape."""
_GROUP_SHAPE = re.compile(rb"\.(\d+)x(\d+)x(\d+)\b")
_WIDTHS = {b"U8": 1, b"S8": 1, b"U16": 2, b"S16": 2, b"64": 8, b"128": 16, b"256": 32}
_REGISTER_BYTES = 4
_SPACES = {
    opcode: space
    for space, opcodes in {
        "global": "LDG STG LD ST ATOM ATOMG RED REDG LDGSTS",
        "shared": "LDS STS ATOMS",
        "local": "LDL STL",
        "unsized": "UBLKCP UBLKRED UTMALDG UTMASTG UTMAREDG LDGMC SULD SUST TEX TEXS TLD TLD4 TLD4S TLDS TXD",
    }.items()
    for opcode in opcodes.split()
}
"""``unsized``: they access global memory; how many bytes, their text does not say."""
_INTEGER_TENSOR = frozenset({"BMMA", "IMMA", "IMMA_SP", "BGMMA", "IGMMA", "UTCIMMA", "UTCBAR", "UTCATOMSWS"})
_TOGETHER = frozenset({"HGMMA", "QGMMA"})


class Work(NamedTuple):
    """Per thread; ``None`` where the text does not tell."""

    flops: int | None
    space: str | None
    """``global`` (generic addresses too), ``shared`` or ``local``; ``None``: no access to memory that is counted."""
    bytes: int | None


@lru_cache(maxsize=1 << 14)
def of(opcode: str, modifiers: bytes) -> Work:
    """The work of ``FFMA`` with its modifiers ``.FTZ``."""
    if _SPACES.get(opcode) == "unsized":
        return Work(0, "global", None)
    if opcode in _SPACES:
        parts = modifiers.split(b".")
        width = next((_WIDTHS[part] for part in parts if part in _WIDTHS), _REGISTER_BYTES)
        return Work(0, _SPACES[opcode], width)
    if mix.OF.get(opcode) == "tensor" and opcode not in _INTEGER_TENSOR:
        return Work(_matrix(opcode, modifiers), None, 0)
    return Work(None if opcode not in mix.OF else _FLOPS.get(opcode, 0), None, 0)


def _matrix(opcode: str, modifiers: bytes) -> int | None:
    if opcode in _TOGETHER:
        match = _GROUP_SHAPE.search(modifiers)
        return 2 * int(match[1]) * int(match[2]) * int(match[3]) // _WARPGROUP if match else None
    shape = next((_SHAPES[part] for part in modifiers.split(b".") if part in _SHAPES), None)
    if shape is None or _OTHER.search(modifiers):
        return None
    rows, columns, depth = shape
    return 2 * rows * columns * depth // _WARP
