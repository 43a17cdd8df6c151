"""Wavefronts and sectors of one access, against ncu's counters on an H200: 108 patterns of 32 lanes."""

from __future__ import annotations

import csv
import io

import pytest

from spillscan.reading.binary.requests import fewest_sectors, fewest_wavefronts, sectors, wavefronts
from tests.conftest import FIXTURES, ROOT, read_text

SHARED, GLOBAL = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
BESIDE = {"lds": 261, "sts": 1, "gld": 4}
"""What each launch takes beside the access: it fills shared memory; it begins; it reads where its lanes go."""


def measured() -> list[tuple[int, list[int], dict[str, int]]]:
    """Bytes a lane, where lanes go, and what the three kernels took for it."""
    size, *numbers = map(int, (ROOT / "tests" / "oracle" / "h200" / "lanes.txt").read_text().split())
    text = read_text(FIXTURES / "lanes" / "lanes.csv.zst")
    rows = list(csv.DictReader(io.StringIO(text[text.index('"ID"') :])))[1:]
    found = []
    for number in range(size):
        width, *offsets = numbers[33 * number : 33 * number + 33]
        taken = {}
        for row in rows[3 * number : 3 * number + 3]:
            name = row["Kernel Name"].removeprefix("void ")[:3]
            taken[name] = int(row[GLOBAL if name == "gld" else SHARED].replace(",", "")) - BESIDE[name]
        found.append((width, offsets, taken))
    return found


def test_what_lanes_take_is_what_was_measured() -> None:
    patterns = measured()
    assert len(patterns) == 108
    for width, lanes, taken in patterns:
        offsets = [lane - lanes[0] for lane in lanes]
        assert wavefronts(offsets, width, store=False) == (taken["lds"], taken["lds"]), (width, lanes)
        assert wavefronts(offsets, width, store=True) == (taken["sts"], taken["sts"]), (width, lanes)
        least, most = sectors(offsets, width)
        assert least <= taken["gld"] <= most, (width, lanes)
        begin = lanes[0] % 32  # which of the places it is
        assert taken["gld"] == len({(begin + offset) // 32 for offset in offsets}), (width, lanes)


@pytest.mark.parametrize(
    ("offsets", "size", "store", "expected", "why"),
    [
        ([0] * 32, 4, False, (1, 1, 1, 1), "all read one word"),
        (range(0, 128, 4), 4, False, (1, 1, 4, 4), "side by side"),
        (range(0, 256, 8), 4, False, (2, 1, 8, 4), "every second word: two of each second bank"),
        (range(0, 4096, 128), 4, False, (32, 1, 32, 4), "a column: all of one bank"),
        (range(0, 4224, 132), 4, False, (1, 1, 32, 4), "a padded column"),
        (range(0, 256, 8), 8, False, (2, 2, 8, 8), "wide ones take as many words"),
        ([lane % 8 * 128 + lane // 8 * 16 for lane in range(32)], 16, False, (8, 4, 16, 16), "loads all together"),
        ([lane % 8 * 128 + lane // 8 * 16 for lane in range(32)], 16, True, (32, 4, 16, 16), "stores by quarters"),
        (range(32), 1, False, (1, 1, 1, 1), "bytes of a few words"),
    ],
)
def test_what_lanes_take(
    offsets: list[int], size: int, store: bool, expected: tuple[int, int, int, int], why: str
) -> None:
    least = wavefronts(offsets, size, store=store)[0], sectors(offsets, size)[0]
    fewest = fewest_wavefronts(offsets, size), fewest_sectors(offsets, size)
    assert (least[0], fewest[0], least[1], fewest[1]) == expected, why
