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
from spillscan.reading.binary.operand_text import UNKNOWN, Table, number, part, table
from tests.conftest import FIXTURES, ROOT, read_text
from tests.forked import shebang

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

TABLES = sorted(ROOT.glob("spillscan/reading/binary/operands/sm_*.json"))


def rows(path: Path) -> Iterator[tuple[str, str]]:
    """Our text and the disassembly's of each instruction."""
    arch = int(re.search(r"sm_(\d+)", path.name)[1])  # type: ignore[index]
    for function in read_text(path).split("Function : ")[1:]:
        found = ROW.findall(function)
        words = b"".join(int(high + low, 16).to_bytes(16, "little") for _, low, high in found)
        said = Code(CodeText(number=arch, words=zlib.compress(words))).texts
        yield from zip(said, (re.sub(r"\s+,", ",", re.sub(r"\s+", " ", text)) for text, _, _ in found), strict=True)


@pytest.mark.parametrize("path", [each for each in DUMPS if "13.5" in each.name], ids=lambda path: path.name)
def test_the_text_is_nvdisasm_s_or_unknown(path: Path) -> None:
    pairs = [*rows(path)]
    unknown = [said for said, _ in pairs if UNKNOWN in said]
    assert [pair for pair in pairs if pair[0] != pair[1] and UNKNOWN not in pair[0]] == []
    assert len(unknown) <= len(pairs) / 25, unknown


@pytest.mark.parametrize(("arch", "said"), [(101, "EXIT ?"), (120, "EXIT P0")])
def test_operands_without_a_table_are_a_question_mark(arch: int, said: str) -> None:
    word = (0x94D | 7 << 12).to_bytes(16, "little")
    assert Code(CodeText(number=arch, words=zlib.compress(word))).texts == [said]


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


def test_a_table_contains_only_derived_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FIXTURES))
    import operands
    from maker.opcodes import real

    nvdisasm = tmp_path / "nvdisasm"
    nvdisasm.write_text(PRINTING)
    nvdisasm.chmod(0o755)
    code = real.Code()
    code.words[0xF8C] = {(0xFFFF7F8C | at << 40, 1 << 24) for at in (0, 8, 24)}
    derivation = operands.Derivation(89, nvdisasm, {89: code})
    for name, value in (("TABLES", tmp_path), ("COMBINED", 1), ("ROUNDS", 1), ("FRESH", 60)):
        monkeypatch.setattr(operands, name, value)
    derived = {f"{opcode:03x}": forms for opcode, (forms, _, _) in derivation.derived([0xF8C]).items()}
    operands.write("sm_89", {"code": [], "asked": derivation.ask.asked, "words": 3, "not_alike": {}}, derived)
    said = Table(json.loads((tmp_path / "sm_89.json").read_text())["opcodes"])[0xF8C]
    assert said is not None

    def text(low: int, high: int) -> str:
        word = 0xF8C | low << 16 | high << 64
        return f"{said.modifiers(word, -1)} {said.operands(word, -1)}"

    assert text(0x2900_0805, 1 << 24) == ".POPC.INC.32 R5, [R8+0x29]"
    assert text(0xFF00_0004, 1 << 10) == ".ARRIVE.64 R4, [R0+0xff]", "two bits are turned, as no real word has them"
    assert text(0x0907, 1 << 24 | 1 << 12 | 1) == ".POPC.INC.32 R7, [R9], R1", "of few words: as where it has many"
    assert UNKNOWN in text(0x0907, 1 << 24 | 1 << 30), "as no word has it that nvdisasm knows"


PRINTING = f"""{shebang()}\
import struct, sys

with open(sys.argv[-1], "rb") as file:
    words = [*enumerate(struct.iter_unpack("<QQ", file.read()))]
named = {{1 << 24: ".POPC.INC.32", 1 << 10: ".ARRIVE.64"}}
bits = 1 << 24 | 1 << 10 | ((1 << 11) - 1) << 27
bad = [at for at, (low, high) in words if low & 0xFFF != 0xF8C or high & bits not in named]
if bad:
    sys.exit("\\n".join(f"nvdisasm error   : Illegal instruction at address 0x{{16 * at:08x}}" for at in bad))
register = lambda number: "RZ" if number & 255 == 255 else f"R{{number & 255}}"
for at, (low, high) in words:
    offset = f"+{{low >> 40:#x}}" if low >> 40 else ""
    more = f", {{register(high)}}" if high >> 12 & 1 else ""
    operands = f"{{register(low >> 16)}}, [{{register(low >> 24)}}{{offset}}]{{more}}"
    print(f"/*{{16 * at:04x}}*/  ATOMS{{named[high & bits]}} {{operands}} ;  /* 0x{{low:016x}} */")
    print(f"   /* 0x{{high:016x}} */")
"""
"""Stands for nvdisasm: knows one opcode."""
