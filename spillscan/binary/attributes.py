"""What ``.nv.info`` sections say: registers, stack, launch bounds, barriers, spill annotations.

A record is ``u8 format, u8 attribute, u16 value or length`` and, in format 4, that many bytes. Numbers are those that
``cuobjdump -elf`` names (EIATTR_…); checked record by record against its listing.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterator
from typing import NamedTuple

import numpy as np

from spillscan.binary.window import DamageError, Window

MAX_THREADS, REQNTID = 0x05, 0x10
FRAME_SIZE, MIN_STACK_SIZE, REGCOUNT = 0x11, 0x12, 0x2F
CUDA_API_VERSION, NUM_BARRIERS, ANNOTATIONS = 0x37, 0x4C, 0x55
SPILL = 1
"""Kind of an annotation: SpillRefill. The other kinds have never been seen in a cubin."""

_SIZED = 4
_DIMENSIONS = struct.Struct("<3I")
_PER_FUNCTION = frozenset({FRAME_SIZE, MIN_STACK_SIZE, REGCOUNT})
_TELLING = frozenset({MAX_THREADS, REQNTID, NUM_BARRIERS, CUDA_API_VERSION, ANNOTATIONS})
"""Attributes that :func:`of_function` reads."""


class FunctionInfo(NamedTuple):
    """What the records of one function say; ``None``: no such record."""

    max_threads: tuple[int, int, int] | None = None
    """``.maxntid``: most threads in each dimension."""
    required_threads: tuple[int, int, int] | None = None
    """``.reqntid``: threads in each dimension."""
    barriers: int | None = None
    """Named barriers."""
    toolkit: int | None = None
    """CUDA API version times ten: 126."""
    spills: tuple[int, ...] | None = None
    """Offsets of annotated instructions, ascending."""


NOTHING = FunctionInfo()


def records(section: Window, wanted: Container[int]) -> Iterator[tuple[int, int, bytes]]:
    """(attribute, value, payload) of each record of ``wanted`` attributes; the payload of formats 1 to 3 is empty."""
    at, data = 0, section.copy(0, section.size, ".nv.info")
    end = len(data)
    while at + 4 <= end:
        form, attribute, value = data[at], data[at + 1], data[at + 2] | data[at + 3] << 8
        at += 4
        if form == _SIZED:
            if at + value > end:
                raise DamageError(f".nv.info attribute {attribute:#x} of {value} bytes breaks off", section.start + at)
            if attribute in wanted:
                yield attribute, value, data[at : at + value]
            at += value
        elif not 1 <= form <= 3:
            raise DamageError(f".nv.info record of unknown format {form}", section.start + at)
        elif attribute in wanted:
            yield attribute, value, b""


def of_module(section: Window) -> dict[int, dict[int, int]]:
    """Figures by attribute and symbol number: registers and stack sizes of every function."""
    found: dict[int, dict[int, int]] = {attribute: {} for attribute in _PER_FUNCTION}
    if section.size % 12 == 0:
        table = section.array(np.dtype("<u4"), section.size // 4, 0, ".nv.info").reshape(-1, 3)
        heads = table[:, 0]
        if ((heads & 0xFFFF00FF) == 0x00080004).all():  # nothing but pairs of symbol and value
            numbers = (heads >> 8) & 0xFF
            for attribute, values in found.items():
                rows = table[numbers == attribute]
                values.update(zip(rows[:, 1].tolist(), rows[:, 2].tolist(), strict=True))
            return found
    for attribute, _, payload in records(section, _PER_FUNCTION):
        if len(payload) == 8:
            found[attribute][int.from_bytes(payload[:4], "little")] = int.from_bytes(payload[4:], "little")
    return found


def of_function(section: Window) -> FunctionInfo:
    """What the section of one function says."""
    threads: dict[int, tuple[int, int, int]] = {}
    barriers: int | None = None
    toolkit: int | None = None
    spills: tuple[int, ...] | None = None
    for attribute, value, payload in records(section, _TELLING):
        if attribute == NUM_BARRIERS:
            barriers = value & 0xFF
        elif attribute == CUDA_API_VERSION and len(payload) >= 4:
            toolkit = int.from_bytes(payload[:4], "little")
        elif attribute in (MAX_THREADS, REQNTID) and len(payload) >= 12:
            threads[attribute] = _DIMENSIONS.unpack_from(payload)
        elif attribute == ANNOTATIONS:
            pairs = np.frombuffer(payload, "<u4", len(payload) // 8 * 2).reshape(-1, 2)
            spills = (*(spills or ()), *pairs[pairs[:, 0] == SPILL, 1].tolist())
    return FunctionInfo(threads.get(MAX_THREADS), threads.get(REQNTID), barriers, toolkit, spills)
