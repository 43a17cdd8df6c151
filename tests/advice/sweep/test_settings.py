"""How points are written."""

from __future__ import annotations

import pytest

from spillscan.advice.sweep.axes import settings_of
from spillscan.advice.sweep.model import DEFAULT_CAPS
from spillscan.output.errors import UsageError


def test_defaults() -> None:
    assert [setting.label for setting in settings_of(None, [], [])] == [
        "as is",
        *(f"cap {cap}" for cap in reversed(DEFAULT_CAPS)),
    ]
    assert [setting.label for setting in settings_of([], [], [])] == ["as is"]
    assert [setting.label for setting in settings_of(None, ["64"], [])] == ["as is", "64"]


def test_each_point_once_in_one_order() -> None:
    reported = settings_of(["32, 64", "64"], ["256x4,128,128X8"], ["40"])
    assert [setting.label for setting in reported] == [
        "as is",
        "cap 64",
        "cap 32",
        "128",
        "128x8",
        "256x4",
        "maxnreg 40",
    ]
    assert [setting.source for setting in reported][3:] == [
        "__launch_bounds__(128)",
        "__launch_bounds__(128, 8)",
        "__launch_bounds__(256, 4)",
        "__maxnreg__(40)",
    ]


@pytest.mark.parametrize(
    ("caps", "bounds", "says"),
    [
        (["0"], [], "register count"),
        (["256"], [], "register count"),
        (["９"], [], "register count"),
        (["-1"], [], "register count"),
        ([], ["1025x1"], "1,024"),
        ([], ["0x1"], "1,024"),
        ([], ["128x33"], "33 blocks"),
        ([], ["128x0"], "0 blocks"),
        ([], ["x"], "are not launch bounds"),
    ],
)
def test_nonsense_is_refused(caps: list[str], bounds: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        settings_of(caps, bounds, [])
