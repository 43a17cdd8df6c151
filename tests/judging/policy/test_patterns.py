"""Globs: what they match, and that the fast matcher finds the same as one by one."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spillscan import scan
from spillscan.judging.policy.effective import Layer, Matcher, Override, Policy
from spillscan.judging.policy.reading import from_options
from spillscan.model import Kernel, KernelKey, Usage
from spillscan.model.patterns import compiled, matches, names_of, text_of
from spillscan.model.symbols import spellings
from spillscan.output.errors import UsageError
from tests.conftest import FIXTURES

GEMM = "_ZN5model4gemmILi8EEEvPKfS2_Pfi"
LETTERS = st.text(alphabet="ab<>:_ []!-^\\", max_size=6)
GLOBS = st.lists(st.one_of(st.sampled_from(["*", "?", "[ab]", "[!a]", "[]", "[", "a", "b", "ab", "::"]), LETTERS)).map(
    "".join
)


def kernel(symbol: str, arch: str | None = "sm_90a", unit: str = "") -> Kernel:
    return Kernel(key=KernelKey(symbol=symbol, arch=arch, unit=unit), role="entry", usage=Usage())


def fits(pattern: str, *names: str) -> bool:
    return compiled(pattern).fits(text_of(names), names)


@given(GLOBS, st.lists(LETTERS, min_size=1, max_size=3))
def test_globs_match_as_in_fnmatch(pattern: str, names: list[str]) -> None:
    assert fits(pattern, *names) == any(fnmatchcase(name, pattern) for name in names)


@pytest.mark.parametrize("pattern", [f"{'*a' * 40}*c", "*[a]?" * 20 + "c"])
def test_no_pattern_takes_more_time_than_its_name_has_letters(pattern: str) -> None:
    """With backtracking, the shortest of these takes years."""
    assert not fits(pattern, "a" * 70_000)


@example([("a::?b", "", "")], [("c::a::bb", None, "")])
@example([("model::gemm<?>", "", "")], [(GEMM, None, "")])
@given(
    st.lists(
        st.tuples(GLOBS.filter(bool), st.sampled_from(["", "sm_9*", "sm_80"]), st.sampled_from(["", "*.o"])), max_size=6
    ),
    st.lists(
        st.tuples(LETTERS.filter(bool), st.sampled_from([None, "sm_80", "sm_90a"]), st.sampled_from(["", "a.o"])),
        max_size=6,
    ),
)
def test_the_matcher_equals_single_matches(
    entries: list[tuple[str, str, str]], keys: list[tuple[str, str | None, str]]
) -> None:
    known = [
        Override(match=(match,), arch=(arch,) if arch else (), unit=(unit,) if unit else ())
        for match, arch, unit in entries
    ]
    matcher = Matcher(known)
    used: list[Override] = []
    kernels = [kernel(*key) for key in keys]
    for each, (symbol, arch, unit) in zip(kernels, keys, strict=True):
        naive = [
            entry
            for entry in known
            if any(fnmatchcase(name, entry.match[0]) for name in spellings(symbol))
            and (not entry.arch or fnmatchcase(arch or "", entry.arch[0]))
            and (not entry.unit or fnmatchcase(unit, entry.unit[0]))
        ]
        assert matcher.entries(matcher.mask(each)) == naive
        used += naive
    idle = [entry for entry, _ in Policy((Layer(entries=tuple(known)),)).unused(kernels)]
    assert idle == [entry for entry in known if not any(entry is each for each in used)]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (GEMM, True),
        ("gemm", True),
        ("gemm<8>", True),
        ("model::gemm<8>", True),
        ("model::*", True),
        ("gemm<*", True),
        ("*gemm*", True),
        ("void model::gemm<8>(float const*, float const*, float*, int)", True),
        ("gemm<4>", False),
        ("gem", False),
        ("GEMM", False),
        ("*gemm<4>*", False),
    ],
)
def test_a_kernel_matches_by_all_its_names(pattern: str, found: bool) -> None:
    assert matches(kernel(GEMM), pattern) == found


def test_a_demangled_log_matches_by_the_same_names() -> None:
    name = "void model::gemm<8>(float const*, float const*, float*, int)"
    assert set(spellings(name)) >= {"model::gemm<8>", "gemm<8>", "gemm"}


def test_short_and_full_names_are_among_the_spellings() -> None:
    for each in scan([FIXTURES / "nvcc", FIXTURES / "demo"]).kernels:
        assert {each.key.symbol, each.name, each.short_name} <= set(spellings(each.key.symbol))


def test_a_name_of_several_lines_is_one_name() -> None:
    assert names_of("a\nb") == ("a b",)
    assert not matches(kernel("a\nb"), "a")


def test_a_regular_expression_is_refused() -> None:
    with pytest.raises(UsageError, match="regular expressions are not supported"):
        compiled("re:gemm(")


def test_a_launch_that_the_change_sets_counts_for_new_kernels_alone() -> None:
    launching = Policy((from_options({}, (), ("*=256",)),))
    policy = Policy((), of_new=launching, is_known=lambda each: each.key.symbol == "old")
    assert policy.launch_of(kernel("old")) is None
    launch = policy.launch_of(kernel("new"))
    assert launch is not None
    assert (launch.threads_per_block, launch.dynamic_shared_bytes) == (256, 0)
