"""Settings as options write them."""

from __future__ import annotations

import pytest

from spillscan.advice.sweep.settings import DEFAULT_LIMITS, parse_settings
from spillscan.output.errors import UsageError


@pytest.mark.parametrize(
    ("limits", "bounds", "labels", "last"),
    [
        ([], [], ["as is", *map(str, DEFAULT_LIMITS)], "__maxnreg__(32)"),
        (["64,96", "64"], [], ["as is", "64", "96"], "__maxnreg__(96)"),
        (["40"], ["256x4"], ["as is", "40", "256x4"], "__launch_bounds__(256, 4)"),
        ([], ["1024", "128x32"], ["as is", "1024", "128x32"], "__launch_bounds__(128, 32)"),
        ([], ["128x8", "128"], ["as is", "128x8", "128"], "__launch_bounds__(128)"),
    ],
)
def test_settings(limits: list[str], bounds: list[str], labels: list[str], last: str) -> None:
    found = parse_settings(limits, bounds)
    assert [each.label for each in found] == labels
    assert found[-1].source == last
    assert found[-1].attribute == f"__attribute__(({last.replace('__', '')}))".replace(" ((", "((")


@pytest.mark.parametrize(("limit", "bounds"), [
    *((each, "") for each in ("0", "256", "x", "-1", "9" * 5000, "٣", "1e2")),
    *(("", each) for each in ("1025", "0x4", "256x33", "256x0", "x4", "256,4", "٣x٤", "9" * 5000)),
])  # fmt: skip
def test_refused(limit: str, bounds: str) -> None:
    with pytest.raises(UsageError, match="--limits" if limit else "--bounds"):
        parse_settings([limit], [bounds.replace(",", "y")])
