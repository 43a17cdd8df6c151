"""Opcode tables: data with evidence, and no code that two mnemonics share."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from spillscan.model.code import CLASS_OF
from spillscan.reading.binary.tables import Table, table
from spillscan.reading.binary.window import Window
from tests.conftest import FIXTURES, ROOT
from tests.forked import shebang
from tests.reading.binary.support import FOLDER, counted, dumped, scanned

FILES = sorted((ROOT / "spillscan" / "reading" / "binary" / "opcodes").glob("sm_*.json"))
STORE, LOAD, BRANCH = "387", "983", "947"


def document(path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_table_has_evidence(path: Path) -> None:
    held = document(path)
    evidence = held["evidence"]
    assert isinstance(evidence, dict)
    assert held["arch"] == path.stem
    assert re.fullmatch(r"V[\d.]+", evidence["nvdisasm"])
    assert evidence["asked_of_these"] + evidence["asked_made_up"] > 1000
    opcodes = held["opcodes"]
    assert isinstance(opcodes, dict)
    assert sum(entry[2] for entry in opcodes.values()) <= evidence["instructions"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_local_memory_and_branches_have_the_decoders_fields(path: Path) -> None:
    held = Table(document(path))
    names = {name: held.ranks[int(code, 16)] for name, code in (("STL", STORE), ("LDL", LOAD), ("BRA", BRANCH))}
    if held.wide:
        assert {name: held.names[rank] for name, rank in names.items()} == {name: name for name in names}
    assert held.store >= 0
    assert held.load >= 0
    assert "BRA" in held.names
    known = sum(name in CLASS_OF for name in held.names)
    assert known > 0.7 * len(held.names)


def test_architectures_with_one_encoding_share_a_table() -> None:
    shared, own = table(52), table(50)
    assert shared is not None
    assert own is not None
    assert shared.names == own.names
    assert table(37) is None
    sys.path.insert(0, str(FIXTURES))
    from maker.opcodes.layout import KIN

    for number, kin in KIN.items():
        assert {held.arch for each in kin if (held := table(each))} == {f"sm_{number}"}


def test_selectors_tell_mnemonics_apart_that_share_a_code() -> None:
    held = Table(
        {
            "arch": "sm_100",
            "word_bits": 128,
            "selectors": [76],
            "opcodes": {"210": [["IADD3", "IADD", 76], "dabc", 7], "947": ["BRA", "", 1]},
        }
    )
    words = np.array([0x210, 0, 0x210, 1 << 12, 0x947, 1 << 12, 0x210, 1 << 13, 0x111, 1 << 12], "<u8")
    (found,) = counted([Window(words.tobytes())], held, 100)
    assert found.opcodes == (("BRA", 1), ("IADD", 1), ("IADD3", 2), ("unknown 0x111", 1))
    assert found.unknown == 1


def test_several_selectors_tell_one_code_apart() -> None:
    name = [["UTCHMMA", ["UTCIMMA", "UTCQMMA", 73], 72], "UTCOMMA", 63]
    opcodes = {"5ea": [name, "", 1], "947": ["BRA", "", 1]}
    held = Table({"arch": "sm_100", "word_bits": 128, "selectors": [63, 72, 73], "opcodes": opcodes})
    words = [(0x5EA, 0), (0x5EA, 1 << 8), (0x5EA, 3 << 8), (0x5EA | 1 << 63, 0), (0x947 | 1 << 63, 1 << 8)]
    (found,) = counted([Window(np.array(words, "<u8").tobytes())], held, 100)
    assert found.opcodes == (("BRA", 1), ("UTCHMMA", 1), ("UTCIMMA", 1), ("UTCOMMA", 1), ("UTCQMMA", 1))
    assert not found.unknown


def test_bits_are_found_that_tell_mnemonics_apart() -> None:
    sys.path.insert(0, str(FIXTURES))
    from maker.opcodes.asking import Row
    from maker.opcodes.layout import WIDE
    from maker.opcodes.naming import Naming

    naming = Naming(WIDE)
    names = {0: "UTCHMMA", 1 << 72: "UTCIMMA", 3 << 72: "UTCQMMA", 1 << 63: "UTCOMMA"}
    for bits, name in names.items():
        for other in (0, 1 << 80):
            word = 0x5EA | bits | other
            naming.add([Row(name, "", b" gdesc[UR4]", (word & (1 << 64) - 1, word >> 64))])
    naming.add(
        [
            Row("MOV", "", b" R8, R4", (0x202 | 8 << 16 | 4 << 32, 0)),
            Row("MOV", "", b" R4, RZ", (0x202 | 4 << 16 | 255 << 32, 0)),
            Row("MOV", "", b" R4, R16", (0x202 | 4 << 16 | 16 << 32, 0)),
        ]
    )
    naming.add([Row("MOV", "", b" RZ, R12", (0x202 | 255 << 16 | 12 << 32, 0))], real=True)
    entries, left_out = naming.entries(Counter({0x202: 3}))
    assert entries["5ea"][0] == [["UTCHMMA", ["UTCIMMA", "UTCQMMA", 73], 72], "UTCOMMA", 63]
    assert entries["202"] == ["MOV", "db", 3]
    assert not left_out


RARE = sorted(path.stem for name in ("operands", "multicast") for path in FOLDER.glob(f"{name}-sm_*.cubin"))


@pytest.mark.parametrize("name", RARE)
def test_rare_codes_have_the_names_of_the_disassembly(name: str) -> None:
    (function,), issues = scanned((FOLDER / f"{name}.cubin").read_bytes())
    (theirs,) = dumped(FIXTURES / "sass" / f"{name}.sass")
    assert not issues
    assert function.stats.opcodes == theirs.stats.opcodes
    assert {"IDP", "LDGMC"} & dict(theirs.stats.opcodes).keys()


def test_of_two_bits_that_change_together_the_first_tells() -> None:
    sys.path.insert(0, str(FIXTURES))
    from maker.opcodes.asking import Row
    from maker.opcodes.layout import WIDE
    from maker.opcodes.naming import Naming

    naming = Naming(WIDE)
    names = {0: "UTCHMMA", 3 << 72: "UTCQMMA", 1 << 63: "UTCOMMA"}
    for bits, name in names.items():
        for other in (0, 1 << 80):
            word = 0x5EA | bits | other
            naming.add([Row(name, "", b" gdesc[UR4]", (word & (1 << 64) - 1, word >> 64))])
    entries, left_out = naming.entries(Counter())
    assert entries["5ea"][0] == [["UTCHMMA", "UTCQMMA", 72], "UTCOMMA", 63]
    assert not left_out


def test_a_word_that_stops_nvdisasm_costs_no_other(tmp_path: Path) -> None:
    sys.path.insert(0, str(FIXTURES))
    from maker.opcodes.asking import Disassembler

    nvdisasm = tmp_path / "nvdisasm"
    nvdisasm.write_text(STOPPING)
    nvdisasm.chmod(0o755)
    ask = Disassembler(nvdisasm, ["sm_60", "sm_61"])
    words = [(code << 51, 0) for code in range(9)]
    rows = list(ask.rows(words))
    assert sorted(row.word[0] >> 51 for row in rows) == [0, 1, 2, 4, 5, 6, 7]
    assert {row.mnemonic for row in rows if row.word[0] >> 51 == 7} == {"KIN"}
    assert ask.asked == 9


STOPPING = f"""{shebang()}\
import struct, sys

with open(sys.argv[-1], "rb") as file:
    words = [word for (word,) in struct.iter_unpack("<Q", file.read())]
codes = [(8 * at, word, word >> 51) for at, word in enumerate(words) if at % 4 and word != 0x50B0000000070F00]
if any(code == 3 for _, _, code in codes):
    sys.exit("nvdisasm fatal   : More than one pattern matched during decoding: classes a and b at address 0x00000000")
bad = [at for at, _, code in codes if code > (7 if "SM61" in sys.argv else 6)]
if bad:
    sys.exit("\\n".join(f"nvdisasm error   : Illegal instruction at address 0x{{at:08x}}" for at in bad))
for at, word, code in codes:
    print(f"/*{{at:04x}}*/  {{'KIN' if code == 7 else 'OWN'}} R1, R2 ;  /* 0x{{word:016x}} */")
"""
"""Stands for an old nvdisasm: stops at code 3, knows codes to 6, of sm_61 to 7."""


def test_neighbours_become_a_range_and_are_read_again() -> None:
    sys.path.insert(0, str(FIXTURES))
    from maker.opcodes.naming import ranges

    entries: dict[str, list[object]] = {
        "100": ["A", "d", 1],
        "101": ["A", "d", 2],
        "102": ["B", "", 4],
        "104": ["B", "", 8],
    }
    joined = ranges(entries)
    assert joined == {"100-101": ["A", "d", 3], "102": ["B", "", 4], "104": ["B", "", 8]}
    held = Table({"arch": "sm_50", "word_bits": 64, "selectors": [], "opcodes": joined})
    assert [held.names[held.ranks[code]] for code in (0x100, 0x101, 0x102, 0x104)] == ["A", "A", "B", "B"]
    assert held.ranks[0x103] == held.unknown
