"""Text of an instruction: modifiers and operands as nvdisasm prints them, for Turing and later.

The tables (``operands/*.json``) are derived by ``fixtures/operands.py`` from nvdisasm's output for machine words. They
have two forms per opcode, for its modifiers and its operands. A form is one of:

- a text with fields in braces
- ``[form if false, form if true, condition]``
- ``{"all": [form, …]}``: forms to concatenate

A condition is the number of a bit, or ``81.3``: all of 3 bits from bit 81 on are set; with suffix ``z`` none is, with
``p`` exactly one, with ``i`` only the lowest. A field is a kind and the places of its bits, lowest first: ``R24`` or
``x32.32``, with a width after the point if the kind has none, and with ``*2`` to shift it by 2. ``?`` stands for text
that no observed word determines, and for fields in the bits of guard and schedule.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from spillscan.reading.binary.tables import document

Form = str | list[Any] | dict[str, Any]
Part = Callable[[int, int], str]
"""Prints a word, given the word and its branch target."""

WIDTHS = {"R": 8, "P": 3, "Q": 3, "B": 4, "S": 3, "f": 32, "d": 32, "h": 16, "b": 16}
"""Width of a field by its kind: registers, predicates, uniform predicates, convergence barriers, scoreboards; floats of
32 bits, of 64 (upper half only), of 16 (IEEE and bfloat16)."""
_NAMES = {"R": ("R", "RZ"), "P": ("P", "PT"), "Q": ("UP", "UPT"), "U": ("UR", "URZ")}
_FIELD = re.compile(r"\{([A-Za-z])([\d.+*]*)\}")
_SPECIAL = {"inf": "+INF", "-inf": "-INF", "-0": "-0.0"}
UNKNOWN = "?"
_BARRED = ((1 << 4) - 1 << 12) | ((1 << 17) - 1 << 105) & ~(1 << 109)
"""Bits of the guard and of the schedule: operands there were derived from too few words."""
_LONG = 1e9
"""Magnitude from which nvdisasm prints all digits and an exponent."""


class Text(NamedTuple):
    """Printers of one opcode."""

    modifiers: Part
    operands: Part


def number(kind: str, bits: int, width: int) -> str:
    """Printed value of a field. ``bits``: its unsigned value. Byte offsets of 0 and empty sets of barriers are not
    printed; kind ``m`` is such a set after other operands, ``M`` one alone."""
    if kind in _NAMES:
        name, none = _NAMES[kind]
        return none if bits == (1 << width) - 1 else f"{name}{bits}"
    if kind in "mM":
        named = ",".join(str(bit) for bit in reversed(range(width)) if bits >> bit & 1)
        return f"{', ' * (kind == 'm')}{{{named}}}" * bool(bits)
    if kind in "BS":
        return f"{'SB' if kind == 'S' else 'B'}{bits}"
    if kind in "sO":
        bits -= (bits >> width - 1) << width
    if kind in "oO":
        return f"+{bits:#x}" if bits else ""
    return _real(kind, bits) if kind in "fdhb" else f"{bits:#x}"


def _real(kind: str, bits: int) -> str:
    value: float
    if kind == "d":
        (value,) = struct.unpack("<d", (bits << 32).to_bytes(8, "little"))
        quiet = bits >> 19 & 1
    elif kind == "h":
        (value,) = struct.unpack("<e", bits.to_bytes(2, "little"))
        quiet = bits >> 9 & 1
    else:
        single = bits << 16 if kind == "b" else bits
        (value,) = struct.unpack("<f", single.to_bytes(4, "little"))
        quiet = single >> 22 & 1
    if math.isnan(value):
        sign = bits >> WIDTHS[kind] - 1
        return f"{'-' if sign else '+'}{'QNAN' if quiet else 'SNAN'}"
    text = f"{value:.20e}" if abs(value) >= _LONG else f"{value:.20g}"
    return _SPECIAL.get(text, text)


def pieces(field: str, kind: str) -> list[tuple[int, int]]:
    """Lowest bit and width of each piece of a field."""
    found = []
    for piece in field.split("+"):
        at, _, width = piece.partition(".")
        found.append((int(at), int(width or WIDTHS[kind])))
    return found


def bits_of(word: int, places: list[tuple[int, int]]) -> int:
    """Value of the bits at ``places`` of a word, lowest piece first."""
    value = shift = 0
    for at, width in places:
        value |= (word >> at & (1 << width) - 1) << shift
        shift += width
    return value


def part(form: Form) -> Part:
    """Printer of a form."""
    if isinstance(form, dict):
        parts = [part(each) for each in form["all"]]
        return lambda word, target: "".join(each(word, target) for each in parts)
    if isinstance(form, list):
        no, yes, condition = part(form[0]), part(form[1]), form[2]
        at, _, behind = str(condition).partition(".")
        width, test = behind.rstrip("zpi"), behind[-1:]
        mask, low = (1 << int(width or 1)) - 1 << int(at), 1 << int(at)
        if mask & _BARRED:
            return lambda word, target: UNKNOWN
        if test == "p":
            return lambda word, target: (yes if (word & mask).bit_count() == 1 else no)(word, target)
        wanted = {"z": 0, "i": low}.get(test, mask)
        return lambda word, target: (yes if word & mask == wanted else no)(word, target)
    found = _FIELD.split(form)
    if len(found) == 1:
        return lambda word, target: form
    return lambda word, target: _filled(found, word, target)


def _filled(found: list[str], word: int, target: int) -> str:
    text = [found[0]]
    for kind, field, behind in zip(found[1::3], found[2::3], found[3::3], strict=True):
        if kind == "t":
            text.append(f"{target:#x}")
        else:
            scaled, _, shift = field.partition("*")
            places, scale = pieces(scaled, kind), int(shift or 0)
            barred = any((1 << width) - 1 << at & _BARRED for at, width in places)
            value, width = bits_of(word, places) << scale, sum(width for _, width in places) + scale
            text.append(UNKNOWN if barred else number(kind, value, width))
        text.append(behind)
    return "".join(text)


SHARED = {80: 86, 87: 86, 88: 86, 86: 89, 103: 100, 121: 120}
"""Architectures that extend or override the table of another."""


class Table(dict[int, Text | None]):
    """Printers by opcode; ``None`` if unknown."""

    def __init__(self, forms: dict[str, list[Form]]) -> None:
        super().__init__()
        self._forms = forms

    def __missing__(self, opcode: int) -> Text | None:
        forms = self._forms.get(f"{opcode:03x}")
        text = self[opcode] = None if forms is None else Text(part(forms[0]), part(forms[1]))
        return text


@cache
def table(number: int) -> Table:
    """Table of an architecture; empty if none was derived."""
    return Table(_forms(number))


def _forms(number: int) -> dict[str, list[Form]]:
    own: dict[str, list[Form]] = (document("operands", number) or {}).get("opcodes", {})
    return _forms(SHARED[number]) | own if number in SHARED else own
