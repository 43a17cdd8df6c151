"""Counted nouns and figures with their bounds; no text of the product makes its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from spillscan.output.nouns import between, count, listed, size
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (count(0, "kernel"), "0 kernels"),
        (count(1, "kernel"), "1 kernel"),
        (count(13_354, "kernel"), "13,354 kernels"),
        (count(1, "more family", "more families"), "1 more family"),
        (count(2, "kernel is", "kernels are"), "2 kernels are"),
        (listed(["a", "b"], -1), "a, b"),
        (listed(["a", "b"], 1_055), "a, b and 1,055 more"),
        (between(304, 304, " B"), "304 B"),
        (between(4, 16_096, " B"), "4 to 16,096 B"),
        (size(16_096), "16,096 B"),
        (size(-512, "+"), "-512 B"),
        (size((1 << 20) - 1), "1,048,575 B"),
        (size(1 << 20), "1 MiB"),
        (size(1023 << 20), "1,023 MiB"),
        (size(1 << 30), "1 GiB"),
    ],
)
def test_values(said: str, wanted: str) -> None:
    assert said == wanted


_NOUNS = re.compile(
    r" (?:(?:more|other|earlier|spill|device) )*(?:kernels|functions|families|files|findings|builds|places|slots"
    r"|lines|rows|units|sources|modules|stores|loads|issues|notes|errors|entries|copies|steps|archs|points|instructions|changes)\b"
)
"""Numbers that may be one, or over a thousand."""


def _by_hand(text: str) -> Iterator[tuple[int, str]]:
    """(line, text) of numbers before a noun in the plural that :func:`count` did not make."""
    for node in ast.walk(ast.parse(text)):
        for value, behind in zip(node.values, node.values[1:], strict=False) if isinstance(node, ast.JoinedStr) else ():
            if isinstance(value, ast.FormattedValue) and isinstance(behind, ast.Constant):
                shown = ast.unparse(value)
                number = (value.format_spec is not None and ":," in shown) or "{len(" in shown
                if number and _NOUNS.match(str(behind.value)):
                    yield value.lineno, f"{shown}{behind.value}"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('f"{len(names)} more kernels"', True),
        ('f"{number:,} findings"', True),
        ('f"{count(number, noun)} of them"', False),
        ('f"{name} kernels"', False),
        ('f"{number:,} B"', False),
    ],
)
def test_numbers_next_to_nouns_are_found(source: str, found: bool) -> None:
    assert bool(list(_by_hand(source))) is found


def test_nouns_are_counted_in_one_place() -> None:
    paths = sorted((ROOT / "spillscan").rglob("*.py"))
    assert [(path.name, *each) for path in paths for each in _by_hand(path.read_text(encoding="utf-8"))] == []
