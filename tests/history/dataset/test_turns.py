"""Turns that are planted into a long history are found in their build, and noise is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from spillscan.history.dataset.turns import shifts
from tests.conftest import sized
from tests.history.dataset.nightly import Nightly, judged, reported


@pytest.mark.parametrize("machine", [False, True])
def test_planted_turns_are_named_with_their_build(machine: bool, tmp_path: Path) -> None:
    """A small history; `python -m tests.oracle.turns_oracle` has large ones."""
    made = Nightly(20261126 + machine, *sized((40, 10), (80, 20)))
    made.plant(sized(8, 24), machine=machine)
    made.write(tmp_path)
    assert judged(made, tmp_path) == ([], [], [])


def test_noise_is_no_turn(tmp_path: Path) -> None:
    made = Nightly(7, *sized((50, 10), (100, 24)))
    made.write(tmp_path)
    assert reported(tmp_path).turns == set()


@pytest.mark.parametrize(
    ("values", "first"),
    [
        ([10.0] * 20, []),
        ([10.0] * 10 + [13.0] * 10, [10]),
        ([10.0] * 10 + [30.0] + [10.0] * 10, []),
        ([10.0] * 9 + [11.0, 13.0] + [13.0] * 9, [10]),
        ([10.0] * 10 + [10.2] * 10, []),
        ([10.0] * 17 + [20.0] * 3, [17]),
        ([10.0] * 18 + [20.0] * 2, []),
        ([10.0] * 10 + [20.0] * 10 + [10.0] * 10, [10, 20]),
        ([10.0] * 5, []),
    ],
)
def test_shifts(values: list[float], first: list[int]) -> None:
    assert sorted(shift.first for shift in shifts(values, 5)) == first
