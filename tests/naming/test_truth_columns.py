"""Truth tables of short names: what sets names apart, what is left out, and what letters stand for. Typed by hand."""

from __future__ import annotations

import random

import pytest

from spillscan.naming import Names, columns
from spillscan.naming.columns import CUT, DIFFERING
from spillscan.naming.families import Spelling, _listed
from spillscan.naming.tree import NameParser


@pytest.mark.parametrize(
    ("level", "names", "expected"),
    [
        (DIFFERING, ["ns::alpha"], ["alpha"]),
        (DIFFERING, ["a::alpha", "b::beta"], ["alpha", "beta"]),
        (DIFFERING, ["a::alpha", "b::alpha"], ["a::alpha", "b::alpha"]),
        (CUT, ["alpha_kernel_f32"], ["alpha_kernel_f32"]),
        (CUT, ["alpha_kernel_f32", "beta_kernel_f32"], ["alpha", "beta"]),
        (CUT, ["alpha_kernel_f32", "beta_kernel_f32", "gamma_kernel_f32"], ["alpha", "beta", "gamma"]),
        (CUT, ["run_alpha_f32", "run_beta_f32"], ["alpha", "beta"]),
        (CUT, ["one", "other"], ["one", "other"]),
    ],
)
def test_the_least_that_sets_names_apart(level: int, names: list[str], expected: list[str]) -> None:
    assert columns.shortest(names, level) == dict(zip(names, expected, strict=True))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["f<float, 1>", "f<float, 2>"], ["f32"]),
        (["f<16x8, 1>", "f<16x8, 2>"], ["16x8"]),
        (["f<16, 1>", "f<16, 2>"], []),
        (["f<Matrix, 1>", "f<Matrix, 2>"], []),
        (["f<Max, 1>", "f<Max, 2>"], []),
        (["f<G<float, half>, 1>", "f<G<float, half>, 2>"], ["f32", "f16"]),
        (["f<G<float>, 1>", "f<H<float>, 2>"], []),
        (["f<float, float>", "f<float>"], ["f32"]),
        (["f<half>", "f<half, 3>"], ["f16"]),
        (["f<float<3>, 1>", "f<float<3>, 2>"], []),
    ],
)
def test_types_and_tiles_that_all_have(names: list[str], expected: list[str]) -> None:
    parser = NameParser()
    nodes = [parser.parsed(name.replace("16x8", "cute::tuple<cute::C<16>, cute::C<8>>")).node for name in names]
    assert columns.common(nodes) == expected


@pytest.mark.parametrize("first", ["A", "Z"])
def test_letters_are_said_to_be_of_whom_has_them(first: str) -> None:
    flags = [(a, b) for a in ("true", "false") for b in ("true", "false")]
    symbols = [f"void attention<ns::{first}<{size}>, 1>(int)" for size in (64, 128)]
    symbols += [f"void attention<ns::B<{size}, {a}, {b}>, 1>(int)" for size in (64, 128) for a, b in flags]
    names = Names(symbols)
    assert names.of(symbols[2], 20) == "attention<B<64,TT>>"
    assert names.legend(symbols, 20) == {"attention": "T, F of attention: arguments 2, 3 of B"}


def test_cut_names_fit_and_stay_apart() -> None:
    chance = random.Random(4)
    words = ["fused", "moe", "attention", "gemm", "backward", "paged", "kernel", "reduce"]
    for _ in range(40):
        bases = {"_".join(chance.sample(words, chance.randrange(1, 6))) for _ in range(3)}
        symbols = [
            f"void ns::{base}<ns::{'T' * chance.randrange(1, 12)}, {chance.randrange(10**6)}>(int)"
            for base in sorted(bases)
            for _ in range(chance.randrange(1, 5))
        ]
        names = Names(symbols)
        for width in range(16, 48):
            shown = names.at(width)
            assert len(set(shown.values())) == len(set(symbols))
            assert max(map(len, shown.values())) <= width, (width, shown)


@pytest.mark.parametrize(
    ("written", "head"),
    [
        ("std::true_type", "true"),
        ("cuda::std::false_type", "false"),
        ("true_type", "true"),
        ("cute::C<16>", "16"),
        ("std::integral_constant<int, 4>", "4"),
        ("cute::tuple<cute::C<16>, cute::C<8>>", "16x8"),
        ("ns::Op", "ns::Op"),
    ],
)
def test_constants_are_what_they_hold(written: str, head: str) -> None:
    (found,) = NameParser().parsed(f"f<{written}>").node.args
    assert (found.head, found.args) == (head, ())


@pytest.mark.parametrize(("long", "usual"), [(19, 1), (20, 9), (21, 9)])
def test_a_few_long_arguments_do_not_decide_how_a_family_is_spelled(long: int, usual: int) -> None:
    parser = NameParser()
    arguments = {parser.parsed(f"f<{n}>").node: ("long" if n < long else "", n) for n in range(100)}
    parts = {node: ((word * 2 + "x", ()),) for node, (word, _) in arguments.items()}
    found = Spelling(parts, DIFFERING)
    assert (found.longest, found.usual) == (9, usual)
    assert not found.distinct


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([2], "2"),
        ([2, 3], "2, 3"),
        ([2, 3, 4], "2 to 4"),
        ([1, 3, 4, 5, 7, 8], "1, 3 to 5, 7, 8"),
        ([4, 6, 8], "4, 6, 8"),
    ],
)
def test_numbers_of_arguments_in_words(numbers: list[int], words: str) -> None:
    assert _listed(numbers) == words


@pytest.mark.parametrize(
    ("before", "after", "rank", "expected"),
    [
        ([0, 1, 2], [0, 1, 2], 0, [False, False, False]),
        ([0, 0] + [1] * 7, [0, 1] + [2] * 7, 0, [True, True] + [False] * 7),
        ([0, 0] + [1] * 6, [0, 1] + [2] * 6, 0, None),
        ([0, 0, 0], [0, 0, 1], 2, [True, True, True]),
    ],
)
def test_who_needs_a_word(before: list[int], after: list[int], rank: int, expected: list[bool] | None) -> None:
    assert columns._split(before, after, rank) == expected
