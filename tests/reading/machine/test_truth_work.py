"""Truth table of what one instruction does and moves, and of bank conflicts against a count by hand."""

from __future__ import annotations

from random import Random

import pytest

from spillscan.reading.machine import operands

FLOPS = {
    1: "DADD DMUL FADD FADD32I FMUL FMUL32I FHADD FSWZADD MUFU",
    2: "DFMA FADD2 FFMA FFMA32I FHFMA FMUL2 HADD2 HADD2_32I HMUL2 HMUL2_32I",
    4: "FFMA2 HFMA2 HFMA2_32I QADD4 QMUL4",
    8: "QFMA4",
    0: "MOV IADD3 FSETP F2F BRA",
}
"""A fused multiply-add is two operations; packed ones are for each of their halves or quarters."""


@pytest.mark.parametrize(("opcode", "flops"), [(each, flops) for flops, row in FLOPS.items() for each in row.split()])
def test_operations_of_an_opcode(opcode: str, flops: int) -> None:
    assert operands.of(opcode, b"") == (flops, None, 0)


@pytest.mark.parametrize(
    ("opcode", "modifiers", "flops"),
    [
        ("DMMA", b".884", 16),  # 2 · 8 · 8 · 4 over 32 threads
        ("HMMA", b".1684.F32", 32),
        ("HMMA", b".1688.F32", 64),
        ("HMMA", b".16816.F32", 128),
        ("QMMA", b".16832.F32", 256),
        ("QMMA", b".16864.F32", 512),
        ("HMMA", b".16816.F32.SP", None),
        ("HMMA", b".884.F32.STEP3", None),
        ("HMMA", b".888", None),
        ("HGMMA", b".64x8x16.F32", 128),  # over 128 threads
        ("HGMMA", b".64x256x16.F32", 4096),
        ("QGMMA", b".64x256x32.F32", 8192),
        ("QGMMA", b"", None),
        ("IMMA", b".16864.S8.S8", 0),
        ("BMMA", b".88128.XOR.POPC", 0),
    ],
)
def test_operations_of_a_matrix_instruction(opcode: str, modifiers: bytes, flops: int | None) -> None:
    assert operands.of(opcode, modifiers) == (flops, None, 0)


SPACES = {
    "global": "LDG STG LD ST ATOM ATOMG RED REDG LDGSTS",
    "shared": "LDS STS ATOMS",
    "local": "LDL STL",
}
WIDTHS = {
    b"": 4,
    b".E": 4,
    b".U8": 1,
    b".S8": 1,
    b".U16": 2,
    b".S16": 2,
    b".32": 4,
    b".64": 8,
    b".E.128.STRONG": 16,
    b".256": 32,
}


@pytest.mark.parametrize(("opcode", "space"), [(each, space) for space, row in SPACES.items() for each in row.split()])
def test_bytes_of_an_access(opcode: str, space: str) -> None:
    for modifiers, moved in WIDTHS.items():
        assert operands.of(opcode, modifiers) == (0, space, moved)


UNSIZED = "UBLKCP UTMALDG UTMASTG UTMAREDG LDGMC SULD SUST TEX TXD TLD4"


@pytest.mark.parametrize("opcode", UNSIZED.split())
def test_texts_that_do_not_say_how_many_bytes(opcode: str) -> None:
    assert operands.of(opcode, b".128") == (0, "global", None)


@pytest.mark.parametrize(
    ("number", "banks", "reads"),
    [*((number, 4, 1) for number in (50, 52, 53, 60, 61, 62)), *((number, 2, 2) for number in (70, 72, 75))],
)
def test_conflicts_are_counted_by_banks(number: int, banks: int, reads: int) -> None:
    """Distinct registers of a bank, without those that the reuse cache holds for the same place."""
    chance = Random(number)
    seen = set[bool]()
    for _ in range(300):
        before = [(chance.randrange(9), chance.random() < 0.5) for _ in range(3)]
        now = [chance.randrange(9) for _ in range(chance.randrange(1, 4))]
        reader = operands.OperandReader(f"sm_{number}")
        reader.instruction(0, b"", b"FFMA", b"", _listed(20, before))
        first = len(reader.conflicts)
        reader.instruction(16, b"", b"FFMA", b"", _listed(21, [(register, False) for register in now]))
        read = {register for place, register in enumerate(now) if before[place] != (register, True)}
        expected = any(sum(register % banks == bank for register in read) > reads for bank in range(banks))
        assert (len(reader.conflicts) > first) == expected, (before, now)
        seen.add(expected)
    assert seen == {True, False}


def _listed(result: int, registers: list[tuple[int, bool]]) -> bytes:
    words = [f"R{register}{'.reuse' if kept else ''}" for register, kept in registers]
    return f" R{result}, {', '.join(words)}".encode()


def test_the_sums_of_a_function_are_unknown_from_the_first_that_is() -> None:
    reader = operands.OperandReader("sm_90")
    for opcode, modifiers in ((b"FFMA", b""), (b"FADD", b""), (b"LDG", b".64"), (b"LDG", b""), (b"STS", b".128")):
        reader.instruction(0, b"", opcode, modifiers, b" R0")
    found = reader.result([])
    assert (found.flops, found.global_bytes, found.shared_bytes) == (3, 12, 16)
    reader.instruction(0, b"", b"TEX", b"", b" R0")
    reader.instruction(0, b"", b"LDG", b"", b" R0")
    reader.instruction(0, b"", b"QUUX", b"", b" R0")
    found = reader.result([])
    assert (found.flops, found.global_bytes, found.shared_bytes) == (None, None, 16)
