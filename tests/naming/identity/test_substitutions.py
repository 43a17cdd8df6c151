"""Renames planted in real builds: nothing that is stated as a fact is wrong, and nearly all are found."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from spillscan import scan
from spillscan.model import Kernel
from spillscan.naming.identity import candidates
from spillscan.naming.identity.pairs import paired
from tests.conftest import FIXTURES
from tests.naming.identity import generator
from tests.naming.identity.test_pairs import coded, kernel
from tests.oracle.renames_oracle import planted, reported

LARGE = FIXTURES / "large" / "kernels5000-13.0.log.zst"


PLANTED = ("function", "prefix", "namespace", "both", "argument", "split", "siblings")


@pytest.mark.parametrize("changing", [False, True], ids=["figures kept", "figures changed"])
@pytest.mark.parametrize("kind", PLANTED)
def test_planted_renames(kind: str, changing: bool) -> None:
    kernels = [e for e in scan([str(LARGE)]).kernels if e.role == "entry" and e.key.symbol.startswith("_ZN")][::2]
    counts = reported(*planted(kernels, kind, changing, random.Random(1)))
    assert (counts["renamed"] > 100) == (kind not in ("split", "siblings"))
    assert counts["sure wrong"] == 0
    assert counts["sure right"] >= 0.98 * counts["renamed"]


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


def digested(name: str, digest: str) -> Kernel:
    found = coded(kernel(name), 5)
    assert found.sass is not None
    return replace(found, sass=replace(found.sass, digest=digest))


@pytest.mark.parametrize(
    ("why", "head", "pairs"),
    [
        ("two names have changed places", "yx", {("_Z3onePf", "_Z3twoPf"), ("_Z3twoPf", "_Z3onePf")}),
        ("one has become like another", "xx", set()),
        ("nothing has moved", "xy", set()),
        ("one changed, and has what the other had", "zx", set()),
    ],
)
def test_names_that_changed_places(why: str, head: str, pairs: set[tuple[str, str]]) -> None:
    names = ("_Z3onePf", "_Z3twoPf")
    sides = [[digested(*each) for each in zip(names, digests, strict=True)] for digests in ("xy", head)]
    found = paired(*sides)
    assert {(match.before.key.symbol, match.after.key.symbol) for match in found.renamed} == pairs, why
    assert len(found.same) + len(found.doubtful) + len(found.renamed) == 2


def test_equal_code_of_other_arguments_is_no_rename() -> None:
    """The arguments do not change the code: the instance that is gone is not the one that is new."""
    base = [digested("_Z3oldILi1EEvPf", "x"), digested("_Z4keptILi1EEvPf", "y")]
    head = [digested("_Z3newILi2EEvPf", "x"), digested("_Z3newILi1EEvPf", "z"), digested("_Z4keptILi1EEvPf", "y")]
    facts = [each for each in paired(base, head).renamed if each.evidence.one_of is None]
    assert [match.after.key.symbol for match in facts if match.evidence.kind == "code"] == []


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
    def expected(text: str) -> set[tuple[tuple[str, ...], tuple[str, ...]]]:
        found = candidates._WORD.findall(text)
        return {(tuple(found[:at]), tuple(found[at + n :])) for n in (0, 1, 2) for at in range(len(found) + 1 - n)}

    text = "scan_by_key"
    assert candidates._WORD.findall(text) == ["scan", "_", "by", "_", "key"]
    found = list(candidates._runs((text,)))
    assert len(found) == 3 * 5
    assert len(set(found)) == len(expected(text))
    for other in ("scan_of_key", "scan_key", "key_by_scan", "scan_by_name_key", "scan__key"):
        assert len({*found} & {*candidates._runs((other,))}) == len(expected(text) & expected(other)), other
    assert all(isinstance(digest, int) for key in found for digest in key), "what is left is not copied for each"
