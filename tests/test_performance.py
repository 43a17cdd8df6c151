"""The table of docs/internals/performance.md, as the bench writes it."""

from __future__ import annotations

from tests.benchmarks.table import HEAD, Figure, kept

PAGE = f"# Speed\n\n{HEAD}\n|---|---|--:|\n\nrest\n"
FIRST, SECOND = Figure("scan", "grep", 2.5, 3), Figure("dump", "mawk", 120.4, 100, least=True)


def test_bars_are_met_from_their_side() -> None:
    assert FIRST.met
    assert SECOND.met
    assert not SECOND._replace(ratio=99).met


def test_a_version_is_a_column_and_a_work_a_row() -> None:
    once = kept(PAGE, [FIRST], "1")
    twice = kept(once, [SECOND, FIRST._replace(ratio=1.5)], "2")
    assert [line for line in twice.splitlines() if line.startswith("| ")][1:] == [
        "| dump | mawk | ≥ 100 | – | 120 |",
        "| scan | grep | ≤ 3 | 2.50 | 1.50 |",
    ]
    assert twice.endswith("\n\nrest\n")
    assert kept(twice, [], "3")[-40:].count("–") == 1


def test_what_is_measured_again_replaces_its_figure_alone() -> None:
    once = kept(PAGE, [SECOND, FIRST], "1")
    assert kept(once, [FIRST], "1").splitlines()[-4:-2] == [
        "| scan | grep | ≤ 3 | 2.50 |",
        "| dump | mawk | ≥ 100 | 120 |",
    ]
    assert kept(once, [SECOND, FIRST._replace(ratio=1.5)], "1") == once.replace("2.50", "1.50")
