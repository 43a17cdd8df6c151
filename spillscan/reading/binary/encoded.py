"""GPU code that stands in text: as base64, as hexadecimal digits, as numbers of an array (``bin2c``, what
``nvcc --keep`` leaves), as a string with escapes. It is known by the first bytes of cubins and fat binaries.
"""

from __future__ import annotations

import binascii
import re
from codecs import escape_decode
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from spillscan.reading.binary import elf, fatbin
from spillscan.reading.binary.window import Budget, Window

_LEAST_BYTES = 64
"""A cubin's header, and more than any fat binary of use takes less of."""
_MACHINE_AT = 18


class _Form(NamedTuple):
    """A way to write bytes."""

    hints: tuple[bytes, ...]
    """One of these stands where it is used: found sooner than the rest."""
    beginning: re.Pattern[bytes]
    """How GPU code begins."""
    run: re.Pattern[bytes]
    """What may stand in it."""
    decode: Callable[[bytes], bytes]
    """The bytes; may raise ``ValueError``."""


def _of_base64(text: bytes) -> bytes:
    letters = re.sub(rb"\\n|[^A-Za-z0-9+/]", b"", text)
    return binascii.a2b_base64(letters[: len(letters) // 4 * 4])


def _of_hex(text: bytes) -> bytes:
    digits = re.sub(rb"\s", b"", text)
    return bytes.fromhex(digits[: len(digits) // 2 * 2].decode("ascii"))


_NUMBER = re.compile(rb"0[xX]([0-9a-fA-F]{1,16})|(?<![\w.])(\d{1,20})(?!\w)")


def _of_numbers(text: bytes) -> bytes:
    """Numbers of as many bytes as the first one takes."""
    numbers = [int(each[1], 16) if each[1] else int(each[2]) for each in _NUMBER.finditer(text)]
    width = 1 if numbers[0] < 1 << 8 else 4 if numbers[0] < 1 << 32 else 8
    try:
        return np.array(numbers, np.dtype(f"<u{width}")).tobytes()
    except OverflowError as error:
        raise ValueError("a number of more bytes than the first") from error


def _of_string(text: bytes) -> bytes:
    joined = re.sub(rb'"\s*"', b"", text)
    decoded, _ = escape_decode(joined)
    return bytes(decoded)


_NUMBERS = re.compile(rb"[0-9a-fA-FxXuUlLqQdn.,\s\"\\]+")
_ARRAY = (
    rb"0[xX]7[fF]\W{1,8}0[xX]45\W{1,8}0[xX]4[cC]\W{1,8}0[xX]46\b"
    rb"|0[xX]50\W{1,8}0[xX][eE][dD]\W{1,8}0[xX]55\W{1,8}0[xX][bB][aA]\b"
)
_FORMS = (
    _Form(
        (b"f0VMRgIBA", b"UO1VugEAEA"),
        re.compile(rb"f0VMRgIBA|UO1VugEAEA"),
        re.compile(rb"[A-Za-z0-9+/\s\"'\\]+={0,2}"),
        _of_base64,
    ),
    _Form((b"0x7f", b"0x7F", b"0X7F", b"0x50", b"0X50"), re.compile(_ARRAY), _NUMBERS, _of_numbers),
    _Form(
        (b"464c457f", b"464C457F", b"ba55ed50", b"BA55ED50"),
        re.compile(rb"0[xX][0-9a-fA-F]{0,8}(?:464[cC]457[fF]|[bB][aA]55[eE][dD]50)\b"),
        _NUMBERS,
        _of_numbers,
    ),
    _Form(
        (b"127,", b"80,"),
        re.compile(rb"\b(?:127,\s{0,4}69,\s{0,4}76,\s{0,4}70|80,\s{0,4}237,\s{0,4}85,\s{0,4}186)\b"),
        _NUMBERS,
        _of_numbers,
    ),
    _Form(
        (b"7f454c460201", b"7F454C460201", b"50ed55ba", b"50ED55BA"),
        re.compile(rb"7[fF]454[cC]460201|50[eE][dD]55[bB][aA]01001000"),
        re.compile(rb"[0-9a-fA-F\s]+"),
        _of_hex,
    ),
    _Form(
        (b"\\x7fELF", b"\\177ELF", b'\\x7f"', b"\\x7F", b"P\\xed", b"P\\355"),
        re.compile(rb"\\(?:x7[fF]|177)(?:\"\s{0,4}\")?ELF|P\\(?:x[eE][dD]|355)U"),
        re.compile(rb"(?:[^\\\n\"']|\\[^\n]|\"\s*\"|(?<=[^\s,;)])'(?![\s,;)]))+"),
        _of_string,
    ),
)


def images(window: Window, budget: Budget) -> Iterator[tuple[int, bytes]]:
    """(where it stands, its bytes) of whatever begins as a cubin or a fat binary does. Raises
    :class:`~spillscan.reading.binary.window.DamageError` where it is more than the limits allow."""
    for form in _FORMS:
        if all(window.find(hint) < 0 for hint in form.hints):
            continue
        text, at = window.whole, 0
        while (found := form.beginning.search(text, at)) is not None:
            run = form.run.match(text, found.start())
            at = run.end() if run is not None else found.end()
            at = max(at, found.end())
            data = b""
            with suppress(ValueError):
                data = form.decode(text[found.start() : at].tobytes())
            if _is_code(data):
                budget.take(len(data), at - found.start(), window.start + found.start())
                yield found.start(), data


def _is_code(data: bytes) -> bool:
    if len(data) < _LEAST_BYTES:
        return False
    if data.startswith(elf.MAGIC):
        return int.from_bytes(data[_MACHINE_AT : _MACHINE_AT + 2], "little") == elf.MACHINE_CUDA
    return data.startswith(fatbin.BEGINNING)
