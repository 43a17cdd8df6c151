"""What instructions say besides their opcodes, and that every format says the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from spillscan.model.code import Operands, SassFunction
from spillscan.reading.dumps.cuobjdump import Dump
from spillscan.reading.machine import operands as banks
from spillscan.reading.machine import operands as work
from tests.reading.dumps.support import FIXTURES, content, cut, dumps
from tests.reading.dumps.test_cuobjdump import END, HEAD, row


def functions(data: bytes, size: int = 4096) -> list[SassFunction]:
    dump = Dump(cut(data, size), "dump", lambda symbol: True)
    return [item for item in dump if isinstance(item, SassFunction)]


def read(arch: str, *texts: str) -> Operands:
    head = HEAD.replace(b"sm_80", arch.encode())
    (function,) = functions(head + b"".join(row(16 * index, text) for index, text in enumerate(texts)) + END)
    assert function.stats.operands
    return function.stats.operands


def logged_registers(release: str) -> dict[tuple[str, str], int]:
    found, key = {}, ("", "")
    for line in (FIXTURES / f"ptxas-{release}.log").read_text().splitlines():
        words = line.split("'")
        if "Compiling entry function" in line:
            key = (words[1], words[3])
        elif " Used " in line:
            found[key] = int(line.split(" Used ")[1].split()[0])
    return found


@pytest.mark.parametrize("path", dumps(), ids=lambda path: path.name)
def test_no_register_is_named_that_was_not_allocated(path: Path) -> None:
    release = path.name.split("-")[-1].split(".sass")[0]
    reported = logged_registers(release) if "fatbin" not in path.name else {}
    for function in functions(content(path)):
        operands = function.stats.operands
        assert operands is not None
        allocated = reported.get((function.symbol, function.arch or ""))
        if allocated is not None and operands.highest_register is not None:
            assert 0 <= allocated - 1 - operands.highest_register <= 8
        assert (operands.bank_conflicts is None) == (banks.rule(function.arch) is None)


@pytest.mark.parametrize("path", dumps()[:6], ids=lambda path: path.name)
def test_pieces_of_any_size_say_the_same(path: Path) -> None:
    assert functions(content(path)) == functions(content(path), 256) == functions(content(path), 1 << 20)


def test_they_are_read_only_where_wanted() -> None:
    dump = Dump([content(dumps()[0])], "dump", operands=lambda symbol: symbol == "plain")
    found = {item.symbol: item.stats.operands for item in dump if isinstance(item, SassFunction)}
    assert found["plain"] is not None
    assert [symbol for symbol, operands in found.items() if operands] == ["plain"]


def test_highest_registers() -> None:
    found = read("sm_80", "@!P3 IMAD R7, R12.reuse, UR5, R255", "UIADD3 UR9, UR4, URZ, URZ", "BRA `(.L_R31)", "EXIT")
    assert (found.highest_register, found.highest_uniform_register, found.highest_predicate) == (255, 9, 3)
    assert read("sm_80", "EXIT").highest_register is None


@pytest.mark.parametrize(
    ("arch", "texts", "conflicts"),
    [
        ("sm_75", ["FFMA R1, R2, R4, R6"], 1),
        ("sm_75", ["FFMA R1, R2, R4, R5"], 0),
        ("sm_75", ["FFMA R1, R2, R2, R4"], 0),
        ("sm_75", ["FFMA R1, -R2, |R4|, c[0x0][0x160]"], 0),
        ("sm_75", ["FADD R0, R2.reuse, R5", "FFMA R1, R2, R4, R6"], 0),
        ("sm_75", ["FADD R0, R5, R2.reuse", "FFMA R1, R2, R4, R6"], 1),
        ("sm_75", ["FADD R0, R2.reuse, R5", "NOP", "FFMA R1, R2, R4, R6"], 1),
        ("sm_75", ["IMAD.WIDE R2, R4, R6, R8"], 0),
        ("sm_75", ["DFMA R2, R4, R6, R8"], 0),
        ("sm_75", ["IADD3 R1, P0, PT, R2, R4, R6"], 1),
        ("sm_61", ["FFMA R1, R2, R6, R5"], 1),
        ("sm_61", ["FFMA R1, R2, R3, R5"], 0),
        ("sm_61", ["ISETP.GE.AND P0, PT, R4, R8, PT"], 1),
        ("sm_61", ["FADD R4, R8, R9"], 0),
    ],
)
def test_bank_conflicts(arch: str, texts: list[str], conflicts: int) -> None:
    found = read(arch, *texts, "EXIT").bank_conflicts
    assert found is not None
    assert sum(count for _, count in found) == conflicts


def test_banks_that_nobody_has_published() -> None:
    for arch in ("sm_80", "sm_90a", "sm_120"):
        assert read(arch, "FFMA R1, R2, R4, R6", "EXIT").bank_conflicts is None


def test_conflicts_have_a_depth() -> None:
    found = read("sm_75", "FFMA R1, R2, R4, R6", "FFMA R1, R2, R4, R6", "@P0 BRA 0x10", "EXIT").bank_conflicts
    assert found == ((1, 1), (0, 1))


@pytest.mark.parametrize(
    ("opcode", "modifiers", "flops", "space", "moved"),
    [
        ("FFMA", b".FTZ", 2, None, 0),
        ("HFMA2", b".MMA", 4, None, 0),
        ("HMMA", b".16816.F32.BF16", 128, None, 0),
        ("HMMA", b".1688.F32.TF32", 64, None, 0),
        ("HMMA", b".884.F32.F32.STEP0", None, None, 0),
        ("HMMA", b".SP.16832.F32", None, None, 0),
        ("QMMA", b".16832.F32.E4M3.E4M3", 256, None, 0),
        ("QMMA", b".16864.F32.E2M1.E2M1", 512, None, 0),
        ("DMMA", b".1684", 32, None, 0),
        ("DMMA", b".1688", 64, None, 0),
        ("DMMA", b".16816", 128, None, 0),
        ("HGMMA", b".F32", None, None, 0),
        ("QGMMA", b".64x8x32.F32.E4M3.E4M3", 256, None, 0),
        ("HGMMA", b".64x128x16.F32", 2048, None, 0),
        ("DMMA", b".884", 16, None, 0),
        ("UTCHMMA", b"", None, None, 0),
        ("IMMA", b".16832.S8.S8", 0, None, 0),
        ("QUUX", b"", None, None, 0),
        ("LDG", b".E.128.CONSTANT", 0, "global", 16),
        ("STG", b".E.U8", 0, "global", 1),
        ("LDS", b".U.64", 0, "shared", 8),
        ("LDG", b".E", 0, "global", 4),
        ("LDG", b".E.S8", 0, "global", 1),
        ("LDG", b".E.U16", 0, "global", 2),
        ("LDG", b".E.S16", 0, "global", 2),
        ("LDG", b".E.ENL2.256", 0, "global", 32),
        ("STL", b".128", 0, "local", 16),
        ("LDL", b"", 0, "local", 4),
        ("TEX", b".LL", 0, "global", None),
        ("UTMALDG", b".2D", 0, "global", None),
    ],
)
def test_work(opcode: str, modifiers: bytes, flops: int | None, space: str | None, moved: int | None) -> None:
    assert work.of(opcode, modifiers) == (flops, space, moved)


@pytest.mark.parametrize(
    ("flops", "opcodes"),
    [
        (0, "IADD3 MOV BRA IMAD ISETP LOP3"),
        (1, "DADD DMUL FADD FADD32I FMUL FMUL32I FSWZADD MUFU"),
        (2, "DFMA FFMA FFMA32I FADD2 FMUL2 HADD2 HADD2_32I HMUL2 HMUL2_32I"),
        (4, "FFMA2 HFMA2 HFMA2_32I"),
    ],
)
def test_floating_point_work_of_one_thread(flops: int, opcodes: str) -> None:
    assert {opcode: work.of(opcode, b"").flops for opcode in opcodes.split()} == dict.fromkeys(opcodes.split(), flops)


def test_intensity() -> None:
    """y = a·x + y: two operations for twelve bytes."""
    (plain,) = [f for f in functions(content(dumps()[0])) if f.symbol == "plain"]
    assert plain.stats.operands
    assert (plain.stats.operands.flops, plain.stats.operands.global_bytes) == (2, 12)
    assert plain.stats.operands.arithmetic_intensity == pytest.approx(1 / 6)
    assert read("sm_80", "FADD R1, R2, R3", "EXIT").arithmetic_intensity is None
