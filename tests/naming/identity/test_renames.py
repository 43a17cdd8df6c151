"""Renames: what a substitution explains one to one is paired, all else was added and removed."""

from __future__ import annotations

import random

import pytest

from spillscan import scan
from spillscan.model import Kernel
from spillscan.naming.pairs import paired
from tests.conftest import FIXTURES, sized
from tests.naming.identity import generator
from tests.naming.identity.test_truth_pairing import kernel_of
from tests.oracle.renames_oracle import planted, reported
from tests.reporting import kernel

LARGE = FIXTURES / "large" / "kernels5000-13.0.log.zst"
PLANTED = {"function": 1.0, "prefix": 1.0, "namespace": 0.5, "both": 0.8, "argument": 1.0, "split": 0, "siblings": 0}
"""The least share of planted renames that is found: half of the libraries in that log are alike in all but the name."""
WIDTHS = (64, 96, 128)


@pytest.mark.parametrize(
    "changing", sized([True], [False, True]), ids=lambda changing: f"figures {'changed' if changing else 'kept'}"
)
@pytest.mark.parametrize(("kind", "share"), PLANTED.items())
def test_planted_renames(kind: str, share: float, changing: bool) -> None:
    kernels = [e for e in scan([str(LARGE)]).kernels if e.role == "entry" and e.key.symbol.startswith("_ZN")][::2]
    counts = reported(*planted(kernels, kind, changing, random.Random(1), gone=0))
    assert counts["sure wrong"] == 0
    assert counts["sure right"] >= share * counts["renamed"]
    assert bool(counts["renamed"]) == bool(share)


def test_generated_renames() -> None:
    right = 0
    for seed in range(20):
        case = generator.make(seed)
        for match in paired(case.base, case.head).renamed:
            assert match.after.key.symbol in case.truth[match.before.key.symbol, match.before.key.arch or ""]
            right += 1
    assert right > 2_600


def digested(name: str) -> Kernel:
    """A kernel, whose machine code has the digest after ``@``."""
    symbol, _, digest = name.partition("@")
    return kernel_of(f"a symbol={symbol} code={digest}")[1]


ROWS = {
    "two functions with one rule": ("gemm_old conv_old", "gemm_new conv_new", "old → new", 2),
    "C names, one word": (
        " ".join(f"flash_sm{arch}_hdim{width}" for arch in (80, 90) for width in WIDTHS),
        " ".join(f"fa3_sm{arch}_hdim{width}" for arch in (80, 90) for width in WIDTHS),
        "flash → fa3",
        6,
    ),
    "one name alone": ("gemm_old", "gemm_new", None, 0),
    "one name of equal code": ("gemm_old@x", "gemm_new@x", "gemm_old → gemm_new", 1),
    "two candidates": ("a<1> a<2>", "b<1> b<2> c<1> c<2>", None, 0),
    "an instance is left": ("a<1> a<2> a<3>", "b<1> b<2>", None, 0),
    "an argument added": ("f<1>() f<2>()", "f<1,true>() f<2,true>()", "argument true added", 2),
    "an argument removed": ("_Z1fILi1ELb1EEvPf", "_Z1fILi1EEvPf", "argument true gone", 1),
    "an argument of two values": ("_Z1fILi1EEvPf", "_Z1fILi1ELb1EEvPf _Z1fILi1ELb0EEvPf", None, 0),
    "another argument": ("_Z1fILi1EEvPf", "_Z1fILi2EEvPf", None, 0),
    "parameters": ("_Z1fPf _Z1gPf", "_Z1fPfi _Z1gPf", "parameters of f changed", 1),
    "a namespace": ("_ZN1a1fEPf _ZN1a1gEPf", "_ZN2bc1fEPf _ZN2bc1gEPf", "a → bc", 2),
    "a scope more": ("_ZN1a1fEPf _ZN1a1gEPf", "_ZN1a6detail1fEPf _ZN1a6detail1gEPf", "detail:: added", 2),
    "a type of arguments": ("_Z1fI2OpEvPT_ _Z1gI2OpEvPT_", "_Z1fI3MulEvPT_ _Z1gI3MulEvPT_", "Op → Mul", 2),
    "a type that was there": ("f<Op>() g<Op>() h<Mul>()", "f<Mul>() g<Mul>() h<Mul>()", None, 0),
    "words in front": ("_Z1fILi1EEvPf _Z1fILi2EEvPf", "_Z4my_fILi1EEvPf _Z4my_fILi2EEvPf", "my_ added", 2),
    "exchanged names": ("one@x two@y", "one@y two@x", None, 0),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "rule", "explains"), ROWS.values(), ids=ROWS)
def test_substitutions(old: str, new: str, rule: str | None, explains: int) -> None:
    found = paired([*map(digested, old.split())], [*map(digested, new.split())]).renamed
    assert [(match.evidence.rule, match.evidence.explains) for match in found] == [(rule, explains)] * explains


STATED = {
    "plain names": ("alpha=two", "alpha(float*)→two(float*)"),
    "a star": ("al*(float*)=tw*(float*)", ""),
    "scopes": ("a::*=b::*", "a::f(float*)→b::f(float*)"),
    "no such kernel": ("alpha=three", ""),
}


@pytest.mark.parametrize(("text", "expected"), STATED.values(), ids=STATED)
def test_stated_renames(text: str, expected: str) -> None:
    base = [kernel(name) for name in ("_Z5alphaPf", "_Z4gammPf", "_ZN1a1fEPf")]
    head = [kernel(name) for name in ("_Z3onePf", "_Z3twoPf", "_ZN1b1fEPf")]
    old, _, new = text.partition("=")
    found = paired(base, head, stated=[(old, new)]).renamed
    assert ", ".join(f"{each.before.name}→{each.after.name}" for each in found) == expected
    assert {each.evidence.kind for each in found} <= {"stated"}


def test_many_names_take_little() -> None:
    """4,000 instances and 4,000 renamed ones: each with each would be 16 million."""
    ours = [kernel(f"_ZN2ns5scaleILi{number}EEEvPf") for number in range(4_000)]
    theirs = [kernel(f"_ZN2ns5scaleILi{number}ELb1EEEvPf") for number in range(4_000)]
    assert len(paired(ours, theirs).renamed) == 4_000
