"""Renames planted in real builds: nothing that is stated as a fact is wrong, and nearly all are found."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from msgspec.structs import replace

from spillscan import scan
from spillscan.model import Kernel
from spillscan.model.demangled import Function
from spillscan.model.symbols import demangle
from spillscan.naming.identity import candidates
from spillscan.naming.identity.pairs import paired
from tests.conftest import FIXTURES
from tests.naming.identity import generator
from tests.naming.identity.test_pairs import coded, kernel

LARGE = FIXTURES / "large" / "kernels5000-13.0.log.zst"


def _path(scope: str, base: str) -> str:
    return f"{len(scope)}{scope}{len(base)}{base}"


def _planted(kind: str, seed: int) -> tuple[list[Kernel], list[Kernel], dict[int, str]]:
    """(base, head, symbol after by id of the kernel before): three in ten functions renamed, one in twenty kernels gone
    and one in twenty new, half of the figures changed."""
    rng = random.Random(seed)
    kernels = [each for each in scan([str(LARGE)]).kernels if each.role == "entry"][::2]
    bases = sorted({Function(demangle(each.key.symbol)).base for each in kernels})
    renamed = {base: f"{word}_{number}" for number, (base, word) in enumerate(zip(
        rng.sample(bases, max(2, len(bases) * 3 // 10)), rng.sample(generator.WORDS, len(bases)), strict=False
    ))}  # fmt: skip
    base, head, truth = [], [], {}
    for each in kernels:
        after, name = each.key.symbol, Function(demangle(each.key.symbol))
        if name.scopes and name.base in renamed:
            scope, base_name = name.scopes[0], name.base
            new = {
                "function": _path(scope, renamed[base_name]),
                "suffix": _path(scope, f"{base_name}_v2"),
                "namespace": _path(f"{scope}_moved", base_name),
            }
            after = after.replace(_path(scope, base_name), new.get(kind, _path(scope, base_name)))
            if kind == "argument":
                after = re.sub(r"(I(?:[a-z]|Li\d+E)+)E", r"\1Lb1EE", after, count=1)
        fate = rng.random()
        usage = each.usage if rng.random() < 0.5 else generator.later(rng, each.usage)
        if fate >= 0.05:
            base.append(each)
        if fate < 0.95:
            head.append(replace(each, key=replace(each.key, symbol=after), usage=usage))
        if 0.05 <= fate < 0.95:
            truth[id(each)] = after
    return base, head, truth


@pytest.mark.parametrize("kind", ["function", "suffix", "namespace", "argument"])
def test_planted_renames(kind: str) -> None:
    base, head, truth = _planted(kind, 1)
    found = paired(base, head)
    renamed = sum(truth[id(each)] != each.key.symbol for each in base if id(each) in truth)
    states = Counter[str]()
    for match in found.renamed:
        right = truth.get(id(match.before)) == match.after.key.symbol
        states[f"{'sure' if match.evidence.one_of is None else 'open'} {'right' if right else 'wrong'}"] += 1
    assert renamed > 100
    assert states["sure wrong"] == 0
    assert states["sure right"] >= 0.98 * renamed


@pytest.mark.parametrize("seed", range(8))
def test_generated_renames_are_no_false_facts(seed: int) -> None:
    case = generator.make(seed)
    for match in paired(case.base, case.head).renamed:
        if match.evidence.one_of is None:
            key = match.before.key.symbol, match.before.key.arch or ""
            assert match.after.key.symbol in case.truth.get(key, ())


def test_a_prefix_of_names_without_types() -> None:
    """Fifteen kernels of C linkage: their names alone tell which is which, and none by its figures."""
    names = [f"{{}}_sm{arch}_hdim{width}" for arch in (80, 86, 89, 90, 100) for width in (64, 96, 128)]
    base = [kernel(name.format("flash"), 32 + 8 * (at * 7 % 11)) for at, name in enumerate(names)]
    head = [kernel(name.format("fa3"), 32 + 8 * (at * 5 % 13)) for at, name in enumerate(names)]
    found = paired(base, head).renamed
    assert {m.before.key.symbol.replace("flash", "fa3") == m.after.key.symbol for m in found} == {True}
    assert {(str(m.evidence.rule), m.evidence.explains, m.evidence.one_of) for m in found} == {
        ("flash → fa3", 15, None)
    }


ROWS = [
    ("one name alone is a guess", ["gemm_old"], ["gemm_new"], ("likeness", 1)),
    ("two names with one rule are a fact", ["gemm_old", "conv_old"], ["gemm_new", "conv_new"], ("substitution", None)),
]


@pytest.mark.parametrize(("why", "old", "new", "expected"), ROWS, ids=[row[0] for row in ROWS])
def test_what_is_a_fact(why: str, old: list[str], new: list[str], expected: tuple[str, int | None]) -> None:
    found = paired([kernel(name) for name in old], [kernel(name) for name in new]).renamed
    assert {(match.evidence.kind, match.evidence.one_of) for match in found} == {expected}, why


def test_equal_code_before_names() -> None:
    base = [coded(kernel("scale_old"), 5), coded(kernel("shift_old"), 9)]
    head = [coded(kernel("scale_new"), 9), coded(kernel("shift_new"), 5)]
    found = {(m.before.key.symbol, m.after.key.symbol): m.evidence.kind for m in paired(base, head).renamed}
    assert found == {("scale_old", "shift_new"): "code", ("shift_old", "scale_new"): "code"}


def test_a_rule_that_the_user_gives_goes_first() -> None:
    """Two functions are gone and two are new, with equal parameters: only the user knows which is which."""
    base = [kernel("_Z5alphaPf", 32), kernel("_Z4gammPf", 40)]
    head = [kernel("_Z3onePf", 64), kernel("_Z3twoPf", 24)]
    given = (("alpha", "two"), ("gamm", "one"))
    assert all(each.evidence.one_of is not None for each in paired(base, head).renamed)
    found = paired(base, head, given=given).renamed
    assert {(each.before.key.symbol, each.after.key.symbol) for each in found} == {
        ("_Z5alphaPf", "_Z3twoPf"),
        ("_Z4gammPf", "_Z3onePf"),
    }
    assert {(each.evidence.rule, each.evidence.one_of) for each in found} == {
        ("alpha → two", None),
        ("gamm → one", None),
    }
    assert not [each for each in paired(base, head, given=(("alpha", "three"),)).renamed if each.evidence.rule]


@pytest.mark.parametrize("text", ["scan", ""])
def test_a_name_of_one_word_has_no_run(text: str) -> None:
    assert list(candidates._runs((text,))) == []


def test_runs_are_all_of_two_words_at_most() -> None:
    text = "scan_by_key"
    found = candidates._WORD.findall(text)
    expected = {
        (tuple(found[:at]), tuple(found[at + size :])) for size in (0, 1, 2) for at in range(len(found) + 1 - size)
    }
    assert found == ["scan", "_", "by", "_", "key"]
    assert set(candidates._runs((text,))) == expected
    assert len(list(candidates._runs((text,)))) == 3 * len(found)
