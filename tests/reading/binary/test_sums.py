"""Sums, as machine words have them, against what cuobjdump prints of the same words."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from spillscan.model.code import CodeText
from spillscan.reading.binary.instructions import Code
from spillscan.reading.machine.instruction import FILES, Instruction
from tests.conftest import FIXTURES, read_text

PREFIXES = ("R", "P", "UR", "UP")
OPCODE = re.compile(r"U?(?:IADD3|IMAD|MOV|SHF|LEA)\b|VIADD\b")
ROW = re.compile(
    r"^\s+/\*[0-9a-f]{4,}\*/\s+(.*?)(?:\s+[&?].*?)?\s*;\s+/\* 0x([0-9a-f]{16}) \*/"
    r"\s*\n\s+/\* 0x([0-9a-f]{16}) \*/",
    re.M,
)
DUMPS = [
    path
    for path in sorted((FIXTURES / "sass").glob("cuobjdump-*.sass.zst"))
    if int(re.search(r"sm_(\d+)", path.name)[1]) >= 75  # type: ignore[index]
]
Said = tuple[frozenset[tuple[object, int]], int]
"""Times each operand is added, and a constant; modulo 2^32."""
_PREDICATE = re.compile(r"!?U?P(?:\d|T)")
_LEFT = re.compile(r"SHF\.L(?:\.W)?\.U32")


class Total:
    """A sum in the making, of operands by name."""

    def __init__(self) -> None:
        self.times: Counter[object] = Counter()
        self.constant = 0

    def add(self, operand: str, times: int) -> None:
        """``R1``, ``-R1``, ``~R1`` (it is -R1 - 1), ``0x10``, ``c[0x0][0x28]``."""
        if operand[0] in "-~":
            self.constant -= times * (operand[0] == "~")
            operand, times = operand[1:], -times
        if operand.startswith("0x"):
            self.constant += times * int(operand, 16)
        elif operand not in ("RZ", "URZ"):
            self.times[operand] += times

    def multiply(self, one: str, other: str) -> None:
        """A product."""
        if other.lstrip("-").startswith("0x"):
            self.add(one, int(other, 16))
        elif not {"RZ", "URZ"} & {one, other}:
            self.times["product", *sorted((one, other))] += 1

    def carry(self, predicate: str) -> None:
        """``P0``, ``!P0``: one or nothing; ``PT``: one; ``!PT``: nothing."""
        if predicate in ("PT", "UPT"):
            self.constant += 1
        elif predicate not in ("!PT", "!UPT"):
            self.times["carry", predicate] += 1

    def said(self) -> Said:
        """What it is."""
        modulus = 1 << 32
        times = {key: each % modulus for key, each in self.times.items()}
        return frozenset((key, each) for key, each in times.items() if each), self.constant % modulus


def of_text(text: str) -> Said | None:
    """The sum that an instruction leaves, as its text has it; ``None``: none that the product is to know."""
    text = re.sub(r"^@!?U?P\w+\s+", "", text).replace(".reuse", "")
    name, _, rest = text.partition(" ")
    kind, *parts = name.removeprefix("U").split(".")
    _, *operands = [each.strip() for each in rest.split(",")]
    general = [at for at, each in enumerate(operands) if not _PREDICATE.fullmatch(each)]
    values, carries = [operands[at] for at in general], operands[general[-1] + 1 :] if general else []
    found = Total()
    if (kind == "MOV" and not parts) or (kind == "VIADD" and not parts) or (kind == "IADD3" and parts in ([], ["X"])):
        for each in values:
            found.add(each, 1)
    elif kind == "IMAD" and not {*parts} & {"WIDE", "HI"}:
        found.multiply(values[0], values[1])
        found.add(values[2], 1)
    elif kind == "LEA" and not parts and len(values) == 3:
        found.add(values[0], 1 << int(values[2], 16))
        found.add(values[1], 1)
    elif _LEFT.fullmatch(name.removeprefix("U")) and values[1].startswith("0x") and int(values[1], 16) < 32:
        found.add(values[0], 1 << int(values[1], 16))
    else:
        return None
    for each in carries:
        found.carry(each)
    return found.said()


def of_word(each: Instruction, text: str) -> Said | None:
    """The product's sum, of operands as a text names them."""
    if each.sum is None:
        return None
    found = Total()
    for at, times in each.sum.terms:
        found.add(named(each.read[at]), times)
    if each.sum.product is not None:
        found.multiply(*(named(each.read[at]) for at in each.sum.product))
    for at, negated in each.sum.carries:
        found.carry("!" * negated + named(each.read[at]))
    banks = re.findall(r"c\[0x(\w+)\]\[(-?0x\w+)\]", text)
    for word, times in each.sum.banks:
        assert [(int(bank, 16), int(offset, 16) & 0xFFFF) for bank, offset in banks] == [
            (word >> 22 & 31, (word >> 6) & 0xFFFF)
        ]
        found.add(f"c[0x{banks[0][0]}][{banks[0][1]}]", times)
    found.constant += each.sum.constant
    return found.said()


def named(register: int) -> str:
    """``R3``, ``UPT``."""
    file = register // 256 if register >= 0 else -1 - register
    return f"{PREFIXES[file]}{register % 256 if register >= 0 else 'Z' if FILES[file] in 'RU' else 'T'}"


def rows(path: Path) -> Iterator[tuple[Instruction, str]]:
    """What a dump prints of words that may be sums, and what the product has of them."""
    number = int(re.search(r"sm_(\d+)", path.name)[1])  # type: ignore[index]
    found = [match for match in ROW.findall(read_text(path)) if OPCODE.search(match[0])]
    words = b"".join(int(low, 16).to_bytes(8, "little") + int(high, 16).to_bytes(8, "little") for _, low, high in found)
    code = Code(CodeText(number=number, words=zlib.compress(words)), one_module=True)
    yield from zip(code.instructions, (text for text, _, _ in found), strict=True)


@pytest.mark.parametrize("path", DUMPS, ids=lambda path: path.name)
def test_sums_are_what_the_text_says(path: Path) -> None:
    said: Counter[bool] = Counter()
    for each, text in rows(path):
        found = of_word(each, text)
        if found is not None:
            assert found == of_text(text), text
        said[found is not None] += of_text(text) is not None
    assert said[True] >= 0.9 * said.total()
    assert said.total() > 20
