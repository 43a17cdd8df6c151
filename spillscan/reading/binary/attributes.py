"""Attributes of a cubin's functions: records of the sections ``.nv.info`` (of the module), ``.nv.info.FUNCTION`` and
``.nv.compat``.

A record is ``u8 format, u8 attribute, u16 value or length``, followed in format 4 by that many bytes. Attribute numbers
are the EIATTR_… of ``cuobjdump -elf``, verified record by record against its listing.
"""

from __future__ import annotations

import struct
from collections.abc import Container
from functools import lru_cache
from typing import Any

from msgspec import Struct

from spillscan.model import Usage
from spillscan.model.code import MOST_REGISTERS
from spillscan.reading.binary.window import DamageError, Window

MAX_THREADS, REQNTID, CTA_PER_CLUSTER = 0x05, 0x10, 0x3D
FRAME_SIZE, MIN_STACK_SIZE, MAXREG_COUNT, REGCOUNT = 0x11, 0x12, 0x1B, 0x2F
CUDA_API_VERSION, NUM_BARRIERS, REG_RECONFIG, ANNOTATIONS = 0x37, 0x4C, 0x54, 0x55
SPILL = 1
"""Annotation kind SpillRefill; no other kind has been seen in a cubin."""

_SIZED = 4
_DIMENSIONS, _PAIR = struct.Struct("<3I"), struct.Struct("<2I")
"""Dimensions of a block or cluster; symbol number and value."""
_PER_FUNCTION = frozenset({FRAME_SIZE, MIN_STACK_SIZE, REGCOUNT})
_RECORD = struct.Struct("<BBH").unpack_from
"""Format, attribute, and payload size or value."""
_BOUNDS = {MAX_THREADS: "max_threads", REQNTID: "required_threads", CTA_PER_CLUSTER: "cluster_blocks"}
"""Fields of :class:`FunctionInfo` that are launch bounds, by attribute."""
_RELEVANT = frozenset({*_BOUNDS, MAXREG_COUNT, NUM_BARRIERS, CUDA_API_VERSION, REG_RECONFIG, ANNOTATIONS})
"""Attributes that :func:`of_function` reads."""


class FunctionInfo(Struct, frozen=True, gc=False, cache_hash=True):
    """Attributes of one function; ``None``: no such record."""

    max_threads: tuple[int, int, int] | None = None
    """``.maxntid``: maximum threads per dimension."""
    required_threads: tuple[int, int, int] | None = None
    """``.reqntid``: threads per dimension."""
    cluster_blocks: tuple[int, int, int] | None = None
    """``.reqnctapercluster``: blocks of a cluster per dimension."""
    barriers: int | None = None
    """Number of named barriers."""
    toolkit: int | None = None
    """CUDA API version times ten: 126."""
    spills: tuple[int, ...] | None = None
    """Offsets of annotated instructions, ascending."""
    sets_registers: bool = False
    """Whether its code sets the register count of its warps (``setmaxnreg``)."""
    register_limit: int | None = None
    """Register limit per thread that ptxas had, from launch bounds, ``__maxnreg__`` or ``-maxrregcount``; 255: the ISA
    maximum."""


NOTHING = FunctionInfo()


def records(section: Window, wanted: Container[int]) -> list[tuple[int, int, bytes]]:
    """(attribute, value, payload) of each record of ``wanted`` attributes; the payload of formats 1 to 3 is empty."""
    at, data = 0, section.copy(0, section.size, ".nv.info")
    end, last = len(data), len(data) - 4
    rows = []
    while at <= last:
        form, attribute, value = _RECORD(data, at)
        at += 4
        if form == _SIZED:
            if attribute in wanted:
                rows.append((attribute, value, data[at : at + value]))
            at += value
            if at > end:
                what = f".nv.info attribute {attribute:#x} of {value} bytes is truncated"
                raise DamageError(what, section.start + at - value)
        elif not 1 <= form <= 3:
            raise DamageError(f".nv.info record of unknown format {form}", section.start + at)
        elif attribute in wanted:
            rows.append((attribute, value, b""))
    return rows


def of_module(section: Window) -> dict[int, dict[int, int]]:
    """Register counts and stack sizes of every function, by attribute and symbol number."""
    by_attribute: dict[int, dict[int, int]] = {attribute: {} for attribute in _PER_FUNCTION}
    for attribute, _, payload in records(section, _PER_FUNCTION):
        if len(payload) == _PAIR.size:
            number, value = _PAIR.unpack(payload)
            by_attribute[attribute][number] = value
    return by_attribute


def of_function(section: Window) -> FunctionInfo:
    """Attributes in one function's section. If an attribute is repeated, the last one counts; annotations add up."""
    try:
        return _info(section.copy(0, section.size, ".nv.info"))
    except DamageError as error:
        raise DamageError(error.what, section.start + error.offset) from None


def barriers_of(usage: Usage, info: FunctionInfo) -> int:
    """Named barriers, from the flags of the function's section, else from its attributes."""
    return (info.barriers or 0) if usage.barriers is None else usage.barriers


@lru_cache(maxsize=1 << 12)
def _info(section: bytes) -> FunctionInfo:
    """Parse one section. Cached, since most functions of a library are repeated in each source that uses them."""
    found: dict[str, Any] = {}
    for attribute, value, payload in records(Window(section), _RELEVANT):
        if attribute == NUM_BARRIERS:
            found["barriers"] = value & 0xFF
        elif attribute == REG_RECONFIG:
            found["sets_registers"] = True
        elif attribute == MAXREG_COUNT:
            found["register_limit"] = value if 0 < value <= MOST_REGISTERS else None
        elif attribute == CUDA_API_VERSION and len(payload) >= 4:
            found["toolkit"] = int.from_bytes(payload[:4], "little")
        elif attribute in _BOUNDS and len(payload) >= 12:
            found[_BOUNDS[attribute]] = _DIMENSIONS.unpack_from(payload)
        elif attribute == ANNOTATIONS:
            pairs = _PAIR.iter_unpack(payload[: len(payload) // _PAIR.size * _PAIR.size])
            found["spills"] = (*found.get("spills", ()), *(offset for kind, offset in pairs if kind == SPILL))
    return FunctionInfo(**found)
