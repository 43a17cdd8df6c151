"""A figure over several builds in one cell."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from spillscan.judging.compare.matrix import ABSENT, over_builds


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        ([["64", "0"]], ["64", "0"]),
        ([["64", "0"], ["64", "8"]], ["64", "0 → 8"]),
        ([["64", "0"], None], [f"64 → {ABSENT}", f"0 → {ABSENT}"]),
        ([None, ["64", "0"], ["72", "0"]], [f"{ABSENT} → 64 → 72", f"{ABSENT} → 0 → 0"]),
    ],
)
def test_over_builds(cells: Sequence[Sequence[str] | None], found: list[str]) -> None:
    assert over_builds(cells) == found
