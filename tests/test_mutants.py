"""The tool that plants faults: what it may change, what it leaves alone, and that its list of equivalents is no older
than the code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import yaml

from tests import mutants, reaching


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("x = 1", ["1 to 2"]),
        ("class A(B, frozen=True, size=3):\n    x: int = 4", ["4 to 5"]),
        ("def f(a: Literal[3]) -> Literal[4]:\n    return a < 5", ["Lt to LtE", "5 to 6"]),
        ("@lru_cache(maxsize=3)\ndef f(): ...", []),
        ("TYPE_CHECKING = False\nif TYPE_CHECKING:\n    x = 1", []),
        ("T = TypeVar('T', covariant=True)\nc = zip(a, b, strict=True)", []),
        ("x = 'a' + 'b'", []),
        ('"""4 B"""\nx = f"{n:,} B"', ["B to KiB"]),
        ("def f(a):\n    if a.b:\n        note(a)", ["condition turned round", "call left out"]),
        ("x = a and not b", ["and to or", "not left out"]),
    ],
)
def test_running_code_is_mutated_and_declarations_are_not(source: str, changes: list[str]) -> None:
    found = [words for _, (words, _) in mutants._sites(ast.parse(source))]
    assert sorted(found) == sorted(changes)


def test_each_change_is_one_of_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    path = tmp_path / "x.py"
    path.write_text("def f(a):\n    return a + 1 if a < 2 else min(a, 3)\n")
    texts = {mutants.mutated(path, mutant.number) for mutant in mutants.possible(path)}
    assert len(texts) == len(mutants.possible(path)) == 6
    assert ast.unparse(ast.parse(path.read_text())) not in texts


def test_each_listed_mutant_is_one_of_the_code() -> None:
    listed = yaml.safe_load(mutants.EQUIVALENT.read_text(encoding="utf-8"))
    planted = [mutant for family in mutants.FAMILIES for mutant in mutants.planted(family)]
    for entry in listed:
        assert any(mutants.is_equivalent(mutant, [entry]) for mutant in planted), entry


def test_each_family_has_its_share_of_fixed_and_of_fresh_mutants() -> None:
    families = [*mutants.FAMILIES]
    fixed, fresh = mutants.chosen(1, mutants.FIXED, mutants.FRESH, families)
    assert len(fixed) + len(fresh) >= 400
    again, others = mutants.chosen(2, mutants.FIXED, mutants.FRESH, families)
    assert again == fixed
    assert others != fresh


def test_the_one_test_that_goes_another_way_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaching, "ROOT", tmp_path)
    (tmp_path / "x.py").write_text("def f(a):\n    if a:\n        return 1\n    return 2\n")
    usual = [(f"tests/test_a.py::test_{number}", 0.1, {"x.py": [2, 4]}) for number in range(9)]
    other = ("tests/test_b.py::test_other", 0.9, {"x.py": [2, 3], "y.py": [*range(99)]})
    assert reaching.Reached([*usual, other]).nearest("x.py", 2, 1.1) == [other[0], usual[0][0], usual[1][0]]


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
