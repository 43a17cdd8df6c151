"""The same instructions as cuobjdump prints them and as nvdisasm's JSON has them, typed by hand: both say the same."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from spillscan.model.code import SassFunction
from spillscan.reading.dumps.cuobjdump import Dump
from spillscan.reading.dumps.nvdisasm import JsonDisassembly
from tests.reading.dumps.test_cuobjdump import END, HEAD, row

Row = tuple[str, str, str]
"""Guard, opcode with its modifiers, operands."""

CODE: dict[str, list[Row]] = {
    "nothing local": [("", "IADD3", "R2, R3, R4, RZ")],
    "by the stack pointer": [("", "STL.64", "[R1+0x8], R4"), ("", "LDL.64", "R4, [R1+0x8]")],
    "under a predicate": [("@!P0", "STL", "[R1], R4"), ("@P1", "LDL", "R4, [R1]")],
    "a frame": [("", "IADD3", "R1, R1, -0x20, RZ"), ("", "STL", "[R1+0x1c], R4"), ("", "LDL", "R4, [R1+0x1c]")],
    "the address of an array": [
        ("", "IADD3", "R1, R1, -0x20, RZ"),
        ("", "IMAD.IADD", "R6, R1, 0x1, R5"),
        ("", "STL", "[R6], R4"),
        ("", "STL", "[R1+0x8], R9"),
        ("", "LDL", "R4, [R1+0x8]"),
    ],
    "the address is given away": [
        ("", "MOV", "R4, R1"),
        ("", "CALL.REL.NOINC", "`(other)"),
        ("", "STL", "[R1+0x8], R9"),
        ("", "LDL", "R9, [R1+0x8]"),
    ],
    "the address goes into memory": [
        ("", "STG.E", "desc[UR4][R2.64], R1"),
        ("", "STL", "[R1+0x8], R9"),
        ("", "LDL", "R9, [R1+0x8]"),
    ],
}


def of_text(rows: list[Row]) -> list[SassFunction]:
    text = [f"{guard} {opcode} {operands}".strip() for guard, opcode, operands in rows]
    body = b"".join(row(16 * at, each) for at, each in enumerate(text))
    return [each for each in Dump([HEAD + body + END], "dump") if isinstance(each, SassFunction)]


def of_document(symbol: str, rows: list[Row]) -> list[SassFunction]:
    instructions = [
        {"opcode": opcode}
        | ({"predicate": guard} if guard else {})
        | ({"operands": operands.replace(", ", ",")} if operands else {})
        for guard, opcode, operands in rows
    ]
    function = {"function-name": symbol, "start": 0, "length": 16 * len(rows), "sass-instructions": instructions}
    head = {"SM": {"version": {"major": 8, "minor": 0}}}
    text = json.dumps([head, [function]], separators=(",", ":")).encode()
    return [each for each in JsonDisassembly([text], "dump") if isinstance(each, SassFunction)]


@pytest.mark.parametrize("why", CODE)
def test_both_say_the_same_of_local_memory(why: str) -> None:
    rows = [*CODE[why], ("", "EXIT", "")]
    (text,) = of_text(rows)
    (document,) = of_document(text.symbol, rows)
    assert document.stats.opcodes == text.stats.opcodes
    found, wanted = ([replace(each, line=0) for each in one.stats.local.accesses] for one in (document, text))
    assert found == wanted
    assert bool(wanted) == any(opcode[:3] in ("STL", "LDL") for _, opcode, _ in rows)
