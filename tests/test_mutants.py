"""The tool that plants faults: what it may change, what it leaves alone, and that its list of equivalents is no older
than the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

from tests import mutants


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("x = 1", ["1 to 2"]),
        ("class A(B, frozen=True, size=3):\n    x: int = 4", ["4 to 5"]),
        ("def f(a: Literal[3]) -> Literal[4]:\n    return a < 5", ["Lt to LtE", "5 to 6"]),
        ("@lru_cache(maxsize=3)\ndef f(): ...", []),
        ("if TYPE_CHECKING:\n    x = 1", []),
        ("x = 'a' + 'b'", []),
        ("x = a and not b", ["and to or", "not left out"]),
    ],
)
def test_what_runs_is_changed_and_what_declares_is_not(source: str, changes: list[str]) -> None:
    found = [words for _, words in mutants._sites(ast.parse(source))]
    assert sorted(found) == sorted(changes)


def test_each_change_is_one_of_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    path = tmp_path / "x.py"
    path.write_text("def f(a):\n    return a + 1 if a < 2 else min(a, 3)\n")
    texts = {mutants.mutated(path, mutant.number) for mutant in mutants.possible(path)}
    assert len(texts) == len(mutants.possible(path)) == 6
    assert ast.unparse(ast.parse(path.read_text())) not in texts


def test_each_equivalent_is_one_of_the_code_and_has_a_reason() -> None:
    listed = yaml.safe_load(mutants.EQUIVALENT.read_text(encoding="utf-8"))
    modules = {path: path.read_text(encoding="utf-8") for path in (mutants.ROOT / "spillscan").rglob("*.py")}
    for entry in listed:
        expression = entry["pattern"].partition(": ")[2] if "pattern" in entry else re.escape(entry["text"])
        line = re.compile(rf"^\s*(?:{expression})$", re.MULTILINE)
        places = [path for path, text in modules.items() if line.search(text)]
        assert any(mutants.is_equivalent(each, [entry]) for path in places for each in mutants.possible(path)), entry
        assert entry["reason"]


def test_without_a_reason_nothing_is_equivalent() -> None:
    mutant = mutants.Mutant("a.py", 1, 0, "1 to 2", "x = 1")
    whole = {"path": "a.py", "text": "x = 1", "change": "1 to 2", "reason": "because"}
    assert mutants.is_equivalent(mutant, [whole])
    assert mutants.is_equivalent(mutant, [{"pattern": r"\d to \d: x = .*", "reason": "because"}])
    for name in whole:
        assert not mutants.is_equivalent(mutant, [{**whole, name: ""}])
        if name != "path":
            assert not mutants.is_equivalent(mutant, [{key: value for key, value in whole.items() if key != name}])
    assert not mutants.is_equivalent(mutant, [{"pattern": "x = 1", "reason": "because"}])
