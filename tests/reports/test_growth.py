"""Writing a report takes linear time: calls are counted at n, 2n and 4n, for every format."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import get_args

import pytest

from spillscan.model import Build, Issue, Kernel, Origin
from spillscan.reports import formats
from spillscan.reports.report import Kind, Report
from tests.conftest import sized
from tests.counting import MOST_GROWTH, growth
from tests.reporting import kernel, pairs, rendered, report_of

SIZE = 60
"""More than a page shows without JavaScript: below that it grows by another law."""
STEP = sized(6, 1)
"""Of so many families one is met by a kind of report; its neighbours by the next."""

FAMILIES: dict[str, Callable[[int], list[Kernel]]] = {
    "kernels that spill": lambda n: [kernel(f"_Z4kernILi{at}EEvv", 8 * at) for at in range(n)],
    "kernels of one name": lambda n: [kernel("_Z4kernv", 8) for _ in range(n)],
    "units": lambda n: [kernel("_Z4kernv", 8, origins=(Origin(input=f"d{at}/a.cu", line=at + 1),)) for at in range(n)],
    "namespaces": lambda n: [kernel(f"_ZN{len(f'n{at}')}n{at}1kEv", 4) for at in range(n)],
    "arguments": lambda n: [kernel(f"_Z1kI{'i' * (1 + at % 20)}Li{at}EEvv", 4) for at in range(n)],
    "messages that are no names": lambda n: [kernel(f"<b>::error::{at}|`*_", 4) for at in range(n)],
}


@cache
def report(kind: Kind, family: str, size: int) -> Report:
    return report_of(kind, FAMILIES[family](size), () if kind == "scan" else FAMILIES[family](size))


@pytest.mark.parametrize("name", formats.names())
def test_many_kernels(name: str) -> None:
    slow = {}
    for at, kind in enumerate(kind for each, kind in pairs() if each == name):
        for family in list(FAMILIES)[at % STEP :: STEP]:
            found = growth(lambda size, of=(kind, family): rendered(name, report(*of, size)), SIZE)  # type: ignore[misc]
            if found > MOST_GROWTH:
                slow[f"{kind}: {family}"] = round(found, 2)
    assert not slow


@pytest.mark.parametrize("kind", get_args(Kind))
def test_judging_and_pairing(kind: Kind) -> None:
    most = sized(70, 300)
    found = {family: growth(lambda size, of=family: report.__wrapped__(kind, of, size), most) for family in FAMILIES}  # type: ignore[misc]
    assert {family: growth for family, growth in found.items() if growth > MOST_GROWTH} == {}


@pytest.mark.parametrize("name", formats.names())
def test_many_and_long_issues(name: str) -> None:
    def issues(size: int) -> None:
        some = tuple(
            Issue(code="torn-line", message=f"line {at} of <b>", origin=Origin(input="a.log", line=at + 1))
            for at in range(size)
        )
        rendered(name, Report(kind="scan", build=Build(kernels=(kernel("k", 4),), issues=some)))

    def text(size: int) -> None:
        message = "<a href=x>`|*" * size
        rendered(
            name,
            Report(kind="scan", build=Build(kernels=(kernel("k", 4),), issues=(Issue(code="x", message=message),))),
        )

    assert growth(issues, SIZE) <= MOST_GROWTH
    assert growth(text, SIZE) <= MOST_GROWTH
