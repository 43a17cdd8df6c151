"""Labelled texts of a function's resources and attributes, for comparison with another build's."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from spillscan.reading.binary import attributes
from spillscan.reading.binary.cubin import Cubin, Function

_DIMENSIONS = {
    attributes.MAX_THREADS: "launch bounds",
    attributes.REQNTID: "block shape",
    attributes.CTA_PER_CLUSTER: "cluster dimensions",
}
_OFFSETS = (0x1C, 0x1D, 0x25, 0x27, 0x28, 0x31)
"""Attributes that list byte offsets of instructions: exits, votes, groups of threads."""
_NAMED = {
    **_DIMENSIONS,
    0x0A: "parameters",
    0x17: "parameters",
    0x19: "parameters",
    attributes.MAXREG_COUNT: "register limit",
    0x0F: "external functions",
    0x1E: "call stack",
    0x3E: "explicit cluster",
    0x3F: "largest cluster",
    attributes.NUM_BARRIERS: "named barriers",
    **dict.fromkeys(_OFFSETS, "offsets of instructions"),
    **dict.fromkeys((0x34, 0x39), "targets of indirect branches and barriers"),
}
_IRRELEVANT = frozenset({attributes.CUDA_API_VERSION, attributes.ANNOTATIONS, 0x33, 0x3C})
"""Attributes that are not compared: toolkit version, spill annotations, statistics."""
_ALL = range(256)
_SHOWN_BYTES = 8
"""Longest value that a comparison shows; a longer one has only changed."""
UNKNOWN_ATTRIBUTE = "attribute 0x"


def attribute_texts(cubin: Cubin, function: Function) -> Iterator[tuple[str, str]]:
    """(label, value) pairs of one function's resources and attributes."""
    usage = function.usage
    yield "registers", str(usage.registers)
    yield "stack", f"{usage.stack_bytes}, {usage.cumulative_stack_bytes}"
    yield "shared memory", f"{usage.shared_bytes} bytes, aligned to {cubin.shared_alignment(function.section)}"
    yield "local memory", f"{usage.local_bytes} bytes"
    yield "named barriers", str(usage.barriers)
    if function.info is None:
        return
    values: dict[str, list[str]] = {}
    for attribute, value, payload in attributes.records(function.info, _ALL):
        if attribute in _IRRELEVANT:
            continue
        label = _NAMED.get(attribute, f"{UNKNOWN_ATTRIBUTE}{attribute:02x}")
        if attribute in _DIMENSIONS and len(payload) >= 12:
            text = "×".join(map(str, struct.unpack_from("<3I", payload)))
        elif attribute == 0x0F:  # symbol numbers
            numbers = struct.unpack(f"<{len(payload) // 4}I", payload[: len(payload) // 4 * 4])
            text = ", ".join(cubin.symbols.target(number).decode("utf-8", "backslashreplace") for number in numbers)
        elif attribute in _OFFSETS and payload and len(payload) % 4 == 0:
            text = ", ".join(f"{offset:#06x}" for (offset,) in struct.iter_unpack("<I", payload))
        elif attribute == 0x0A:  # the first word is a symbol number
            text = payload[4:].hex()
        else:
            mark = "#" if len(payload) > _SHOWN_BYTES else ""
            text = f"{mark}{payload.hex()}" if payload else str(value)
        values.setdefault(label, []).append(text)
    yield from ((label, ", ".join(texts)) for label, texts in sorted(values.items()))
