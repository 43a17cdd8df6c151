"""Instructions that move control, some or all of a function."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillscan.reading.binary.decode import LOAD, OTHER, Decoded, _reconverging, kinds_of, moves_of
from spillscan.reading.binary.tables import Table, table
from spillscan.reading.binary.window import Window
from spillscan.reading.binary.words import Code
from spillscan.reading.machine.flow import Kind


def opcodes(number: int) -> Table:
    found = table(number)
    assert found is not None
    return found


def text(number: int, words: int, seed: int) -> Code:
    """Random words, most of them of what moves control."""
    held, chance = opcodes(number), np.random.default_rng(seed)
    data = chance.integers(0, 1 << 63, words + 4, np.int64)
    codes = chance.choice((kinds_of(held) < LOAD).nonzero()[0], len(data)) & held.mask
    chosen = data & ~0xFFF | codes if held.wide else data & (1 << 51) - 1 | codes << 51
    data = np.where(chance.random(len(data)) < 0.8, chosen, data)
    window = Window(data.tobytes(), 32, 8 * words)
    return Decoded(window, held, number).code


@pytest.mark.parametrize("number", [52, 75, 90, 120])
@given(words=st.integers(0, 90), seed=st.integers(0, 1 << 16))
def test_some_are_read_as_all_are(number: int, words: int, seed: int) -> None:
    code = text(number, words, seed)
    kinds = kinds_of(opcodes(number)).take(code.codes)
    rows = (kinds < LOAD).nonzero()[0]
    odd = np.arange(1, len(rows), 2)
    assert moves_of(code, rows[odd], kinds[rows[odd]]) == moves_of(code, rows, kinds[rows])[1::2]


def test_a_relative_target_makes_a_call_near() -> None:
    """CALL.REL holds where it goes; CALL.ABS and a call by register are of other codes."""
    kinds = kinds_of(opcodes(90))
    assert kinds[0x944] == Kind.CALL
    assert (kinds == Kind.CALL).sum() == 1
    assert (kinds == Kind.FAR_CALL).any()
    assert kinds[0xFFF] == OTHER


@pytest.mark.parametrize("number", [75, 90, 120])
def test_warps_continue_at_the_last_target_of_their_barrier_if_ahead(number: int) -> None:
    """BSSY sets, BSYNC waits; the upper half of the low byte has the barrier, in four bits."""
    chance = np.random.default_rng(number)
    seen = 0
    for _ in range(60):
        rows = 12
        words = chance.integers(0, 1 << 62, 2 * rows + 4, np.int64)
        chosen = chance.choice([0x945, 0x941, 0x918], rows)
        barriers, steps = chance.choice([0, 1, 16, 17], rows), chance.integers(-2, 12, rows) * 4
        lows = chosen | barriers << 16 | (steps & 0x3FFFFFFF) << 34
        words[: 2 * rows : 2] = lows
        words[1 : 2 * rows : 2] = (steps >> 30) & 0x3FFFF
        code = Decoded(Window(words.tobytes(), 0, 16 * rows), opcodes(number), number).code
        expected: list[tuple[int, int]] = []
        opened: dict[int, int] = {}
        for row, (opcode, barrier, step) in enumerate(
            zip(chosen.tolist(), barriers.tolist(), steps.tolist(), strict=True)
        ):
            if opcode == 0x945:
                opened[barrier % 16] = 16 * row + 16 + 4 * step
            elif opcode == 0x941 and opened.get(barrier % 16, -1) > 16 * row + 16:
                expected.append((16 * row, opened[barrier % 16]))
        found = _reconverging(code)  # type: ignore[arg-type]
        assert [each[:2] for each in found] == expected
        seen += len(expected)
    assert seen > 20
