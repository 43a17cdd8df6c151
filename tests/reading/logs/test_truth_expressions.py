"""What regular expressions made of the grammars capture: a terminal once, and nothing that repeats."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spillscan.reading.expressions import RegexWriter
from spillscan.reading.grammar import lexer
from tests.conftest import ROOT

GRAMMARS = sorted(path.stem for path in Path(ROOT / "grammars").glob("*.lark"))


@pytest.mark.parametrize("name", GRAMMARS)
def test_what_repeats_is_not_captured(name: str) -> None:
    of = RegexWriter(lexer(name))._expansions
    for rule, expansions in of.items():
        if any(each and each[0].name == rule for each in expansions):
            found = RegexWriter(lexer(name)).rule(rule)
            assert found.endswith(")+")
            assert "(?P<" not in found, rule
            assert re.compile(found).fullmatch("") is None
