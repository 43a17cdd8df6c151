"""Live registers: the dataflow against a naive one, the tables against what nvdisasm printed (fixtures with -plr)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from spillscan import scan
from spillscan.cli import main
from spillscan.reading.binary.pressure import pressures
from spillscan.reading.binary.records import cubins
from spillscan.reading.binary.tables import registers
from spillscan.reading.machine.flow import Branch, Flow, Kind, Move
from spillscan.reading.machine.liveness import Effects, Graph, live
from tests.conftest import FIXTURES, ROOT, read_any, sized
from tests.reading.binary.support import stored

NOTHING: list[Branch] = []


def sets(rows: list[set[int]]) -> list[int]:
    return [sum(1 << register for register in row) for row in rows]


def naive(
    read: list[set[int]], written: list[set[int]], guarded: list[bool], successors: list[list[int]]
) -> list[set[int]]:
    """By instruction: R1 where control leaves."""
    before: list[set[int]] = [set() for _ in read]
    changed = True
    while changed:
        changed = False
        for row in reversed(range(len(read))):
            behind = set().union(*(before[way] for way in successors[row])) if successors[row] else {1}
            found = (behind - (set() if guarded[row] else written[row])) | read[row]
            changed = changed or found != before[row]
            before[row] = found
    return before


@pytest.mark.parametrize("seed", range(sized(4, 400)))
def test_dataflow(seed: int) -> None:
    chance = random.Random(seed)
    size = chance.randint(2, 400)
    read, written = (
        [{chance.choice((1, 2, 3, 70, 254)) for _ in range(chance.randint(0, 2))} for _ in range(size)] for _ in "rw"
    )
    guarded = [chance.random() < 0.2 for _ in range(size)]
    successors = [[row + 1] if row + 1 < size else [] for row in range(size)]
    moves = []
    for row in sorted(chance.sample(range(size), size // 8)):
        target, conditional = chance.randrange(size), chance.random() < 0.7
        if target == row:
            continue
        moves.append((row * 16, target * 16, int(Kind.JUMP), conditional))
        successors[row] = [target, *(successors[row] if conditional else [])]
    flow = Flow([Move(*each) for each in moves], last=16 * (size - 1), kernel=True)
    effects = Effects(sets(read), sets(written), guarded, [False] * size)
    found = live(effects, Graph(flow, NOTHING, size, function=False))
    expected = naive(read, written, guarded, successors)
    for row in range(size):
        assert found.sets[row] == sets([expected[row] | written[row]])[0], row
    assert found.counts == [len(expected[row] | written[row]) for row in range(size)]
    assert not found.at_least


@pytest.mark.parametrize("target", [112, 5, 40, 111, 1 << 20])
def test_code_between_instructions_begins_with_the_second(target: int) -> None:
    """An unnamed callee begins one Maxwell word after the exit before it; damaged code jumps anywhere."""
    ways_out = Move(3 * 16, -1, Kind.EXIT, False), Move(5 * 16, -1, Kind.RETURN, False)
    flow = Flow([*ways_out, Move(7 * 16, target, Kind.JUMP, False)], last=7 * 16, kernel=True)
    assert list(flow.entries) == [3 * 16 + 8]
    graph = Graph(flow, NOTHING, 8, function=False)
    assert sum(graph.ends) - sum(graph.begins) == 8
    assert graph.begins == sorted(graph.begins)
    effects = Effects(sets([{2}] * 8), [0] * 8, [False] * 8, [False] * 8)
    found = live(effects, graph)
    assert all(each >> 2 & 1 for each in found.sets)


def test_the_peak_equals_nvdisasms() -> None:
    dump = read_any(FIXTURES / "sass" / "nvdisasm-plr-sm_100a-13.5.sass.zst").functions
    shown = {each.symbol: each.stats.live_peak.registers for each in dump if each.stats.live_peak}
    data = stored("sass-sm_100a-13.5.cubin")
    compared = 0
    for cubin in {id(cubin): cubin for cubin, _ in cubins(data, list(shown))}.values():
        for function, found in pressures(cubin):
            if function.symbol in shown and not cubin.parts_of(function):  # it marks all that callees write at calls
                assert not found.peak.at_least
                assert found.peak.registers == shown[function.symbol], function.symbol
                compared += 1
    assert compared >= 4


def test_unknown_instructions_give_a_lower_bound() -> None:
    table = registers(90)
    assert table is not None
    nop = int.from_bytes(bytes.fromhex("18790000000000000000000000c00f00"), "little")
    effects = table.effects([nop, 0xFEE, nop])
    assert effects.unknown == [False, True, False]
    found = live(effects, Graph(Flow([], last=32, kernel=True), NOTHING, 3, function=False))
    assert found.at_least


TABLES = sorted(ROOT.glob("spillscan/reading/binary/registers/sm_*.json"))


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_each_table_is_sound(path: Path) -> None:
    table = registers(int(path.stem.removeprefix("sm_")))
    assert table is not None
    # IADD3 R4, R5, R6, R7 reads three registers and writes one, on every architecture
    effects = table.effects([0x000FE20007FFE0070000000605047210])
    assert [bin(each) for (each,) in (effects.written, effects.read)] == [bin(1 << 4), bin(7 << 5)]


def test_scan_has_a_column_for_them(capsys: pytest.CaptureFixture[str]) -> None:
    place = str(FIXTURES / "binary" / "roles-kept-sm_90a-13.5.cubin.zst")
    assert main(["scan", place]) == 0
    assert "live" not in capsys.readouterr().out.splitlines()[0].split()
    assert main(["scan", place, "--with", "live"]) == 0
    head, *rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    peaks = {kernel.key.symbol: kernel.sass.live_peak for kernel in scan(place, live=True).kernels if kernel.sass}
    shown = {row[0]: row[head.index("live") - len(head)] for row in rows if row and row[0] in peaks}
    assert shown == {symbol: f"{'≥' * peak.at_least}{peak.registers}" for symbol, peak in peaks.items() if peak}
    assert len(shown) == 4


@pytest.mark.parametrize("number", [86, 87, 88, 89, 121])
def test_kin_of_an_architecture_have_its_tables_of_predicates(number: int) -> None:
    assert registers(number) is not None
    assert all(registers(number, file) is not None for file in "PUQ")
