"""Instructions of functions and of parts of them, against a count of one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillscan.reading.binary import decode
from spillscan.reading.binary.decode import Counts
from spillscan.reading.binary.tables import Table, table
from spillscan.reading.binary.window import Window
from tests.reading.binary.support import counted

SIZES = st.lists(st.tuples(st.integers(0, 90), st.integers(0, 5)), min_size=1, max_size=6)
"""Words of each function, and groups of words between it and the next."""


def opcodes(number: int) -> Table:
    found = table(number)
    assert found is not None
    return found


def functions(sizes: list[tuple[int, int]], group_words: int) -> list[Window]:
    """Functions of random words; every other word is of an opcode that tables know."""
    at, windows = 0, []
    for words, gap in sizes:
        windows.append((at, 8 * words))
        at += 8 * group_words * (-(-words // group_words) + gap)
    noise = np.random.default_rng(at).integers(0, 1 << 63, at // 8, np.int64)
    noise[::2] = noise[::2] & ~0xFFF | 0x983
    data = noise.tobytes()
    return [Window(data, start, size) for start, size in windows]


def by_hand(window: Window, held: Table, number: int) -> Counts:
    """One instruction after the other."""
    words = np.frombuffer(window.copy(0, window.size, "code"), "<u8").tolist()
    if held.wide:
        codes = [low & 0xFFF for low in words[: len(words) // 2 * 2 : 2]]
        for index, bit in enumerate(held.selectors.bits):
            chosen = [words[2 * row + bit // 64] >> bit % 64 & 1 for row in range(len(codes))]
            telling = [
                one if held.selectors.split[code & 0xFFF] else 0 for code, one in zip(codes, chosen, strict=True)
            ]
            codes = [code | one << (12 + index) for code, one in zip(codes, telling, strict=True)]
        last = 16 * len(codes)
    else:
        places = [place for place in range(len(words)) if place % 4]
        codes = [words[place] >> 51 for place in places]
        last = 8 * (places[-1] + 1) if places else 0
    ranks = [int(held.ranks[code]) for code in codes]
    known = sorted({rank for rank in ranks if rank != held.unknown})
    strange = [code & held.mask for code, rank in zip(codes, ranks, strict=True) if rank == held.unknown]
    found = [(held.names[rank], ranks.count(rank)) for rank in known]
    found += [(f"unknown 0x{code:03x}", strange.count(code)) for code in sorted(set(strange))]
    local = sum(held.names[rank] in ("STL", "LDL") for rank in ranks if rank != held.unknown)
    settings = sum(count for name, count in found if name == "USETMAXREG")
    may_share = bool(strange) or not held.private.issuperset(known)
    return Counts(len(codes), last, tuple(found), local, len(strange), settings, may_share)


@pytest.mark.parametrize("number", [50, 90, 100])
@given(sizes=SIZES)
def test_each_instruction_is_counted(number: int, sizes: list[tuple[int, int]]) -> None:
    held = opcodes(number)
    windows = functions(sizes, 2 if held.wide else 4)
    assert counted(windows, held, number) == [by_hand(window, held, number) for window in windows]


@pytest.mark.parametrize("number", [50, 90, 100])
@given(sizes=SIZES)
def test_a_part_is_as_the_function_alone(number: int, sizes: list[tuple[int, int]]) -> None:
    held = opcodes(number)
    step = 16 if held.wide else 32
    for window in functions(sizes, step // 8):
        if window.size > step:
            part = window.part(step, window.size - step, "part")
            found = decode.Decoded(window, held, number).counts(step, window.size)
            assert found == by_hand(part, held, number)


@pytest.mark.parametrize("number", [52, 61, 75, 90])
def test_offsets_outside_of_a_function_are_none_of_its_instructions(number: int) -> None:
    """STS and LDS among some offsets, by a look at each."""
    held = opcodes(number)
    step, group = (16, 1) if held.wide else (8, 4)
    (window,) = functions([(32, 0)], 2 if held.wide else 4)
    whole = decode.Decoded(window, held, number)
    places = [at for at in range(0, window.size, step) if group == 1 or at // step % group]
    shared = [bool(held.is_shared[rank]) for rank in whole.ranks]
    assert len(shared) == len(places)
    for offsets in ([], places, places[::2], [*places[:3], window.size, window.size + step], [-step, *places[-2:]]):
        expected = sum(one for at, one in zip(places, shared, strict=True) if at in offsets)
        assert whole.shared_among(offsets) == expected
