"""The text of instructions, as machine words have it, against what cuobjdump prints of the same words."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from spillscan.model.code import CodeText
from spillscan.reading.binary.instructions import Code
from spillscan.reading.binary.operand_text import UNKNOWN, number, part, table
from tests.conftest import ROOT, read_text
from tests.reading.binary.test_sums import DUMPS, ROW

TABLES = sorted(ROOT.glob("spillscan/reading/binary/operands/sm_*.json"))


def rows(path: Path) -> Iterator[tuple[str, str]]:
    """What is said of each instruction of a dump, and what the dump says."""
    arch = int(re.search(r"sm_(\d+)", path.name)[1])  # type: ignore[index]
    for function in read_text(path).split("Function : ")[1:]:
        found = ROW.findall(function)
        words = b"".join(int(high + low, 16).to_bytes(16, "little") for _, low, high in found)
        said = Code(CodeText(number=arch, words=zlib.compress(words))).said
        yield from zip(said, (re.sub(r"\s+,", ",", re.sub(r"\s+", " ", text)) for text, _, _ in found), strict=True)


@pytest.mark.parametrize("path", [each for each in DUMPS if "13.5" in each.name], ids=lambda path: path.name)
def test_the_text_is_nvdisasm_s_or_unknown(path: Path) -> None:
    pairs = [*rows(path)]
    unknown = [said for said, _ in pairs if UNKNOWN in said]
    assert [pair for pair in pairs if pair[0] != pair[1] and UNKNOWN not in pair[0]] == []
    assert len(unknown) <= len(pairs) / 25, unknown


def test_nothing_is_read_from_the_bits_of_guard_and_schedule() -> None:
    assert part("{R16}, {P12}, {P87}")(1 << 16, 0) == "R1, ?, P0"
    assert part("{x104.2}")(0, 0) == part(["", ".X", 118])(0, 0) == "?"
    assert part(["", ".reuse", 109])(1 << 109, 0) == ".reuse"


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_tables_print_the_words_that_they_were_derived_from(path: Path) -> None:
    evidence = json.loads(path.read_text())["evidence"]
    assert sum(evidence["not_alike"].values()) <= evidence["words"] / 500
    assert table(int(path.stem[3:]))[0xFFF] is None, "no word has this opcode"


@pytest.mark.parametrize(
    ("kind", "bits", "width", "text"),
    [
        ("R", 255, 8, "RZ"),
        ("Q", 3, 3, "UP3"),
        ("O", 0xFFFFF8, 24, "+-0x8"),
        ("o", 0, 24, ""),
        ("s", 0xFFFFFFFF, 32, "-0x1"),
        ("f", 0x3F800000, 32, "1"),
        ("f", 0xFF800000, 32, "-INF"),
        ("f", 0x7FFFFFFF, 32, "+QNAN"),
        ("d", 0x43380000, 32, "6.75539944105574400000e+15"),
        ("h", 0x8000, 16, "-0.0"),
    ],
)
def test_values_are_printed_as_nvdisasm_does(kind: str, bits: int, width: int, text: str) -> None:
    assert number(kind, bits, width) == text
