"""The trade-off drawn, no wider than asked."""

from __future__ import annotations

import pytest

from spillscan.advice.sweep import curves
from spillscan.advice.sweep.model import Curve
from spillscan.output.terminal import Style
from spillscan.reports import sweep as report
from tests.advice.sweep.support import point

POINTS = curves.mark([point(122, 16), point(72, 24), point(72, 24, spills=8), point(40, 48, spills=900, loops=400)])
CURVE = Curve(input="k.ptx", symbol="k", arch="sm_90", toolkit="1.0", points=POINTS)


@pytest.mark.parametrize("width", [60, 80, 160])
@pytest.mark.parametrize("plain", [False, True])
def test_a_line_for_each_register_count(width: int, plain: bool) -> None:
    whole = list(report.text([CURVE], Style(width=width, ascii_only=plain), plot=True))
    start = next(at for at, line in enumerate(whole) if line.startswith("  regs"))
    lines = whole[start : whole.index("", start)]
    assert [line.split()[0] for line in lines] == ["regs", "122", "*", "*"]
    assert [line.split()[1] for line in lines[2:]] == ["72", "40"]
    assert max(map(len, lines)) <= width
    assert plain == "".join(lines).isascii()
    assert lines[2].endswith(" 0 B"), "the best of its count"


def test_one_point_is_no_curve() -> None:
    curve = Curve(input="", symbol="k", arch="sm_90", toolkit="", points=POINTS[:1])
    assert not [line for line in report.text([curve], Style(), plot=True) if line.startswith("  regs")]
