"""Every kind of issue is declared, and every declared kind is used."""

from __future__ import annotations

import ast
from pathlib import Path

from spillscan.model import Issue
from spillscan.model.gaps import KINDS

PRODUCT = Path(__file__).resolve().parents[2] / "spillscan"


def test_a_code_that_is_made_is_declared() -> None:
    used = {
        keyword.value.value
        for path in PRODUCT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Issue"
        for keyword in node.keywords
        if keyword.arg == "code" and isinstance(keyword.value, ast.Constant)
    }
    assert used
    assert used <= KINDS.keys()


def test_an_issue_hides_what_its_kind_declares_unless_it_overrides_that() -> None:
    assert Issue(code="unread-spill-warning", message="m").hidden == ("spills",)
    assert Issue(code="unread-spill-warning", message="m", hides=()).hidden == ()
