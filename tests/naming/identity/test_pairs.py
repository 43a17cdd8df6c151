"""Pairing: nothing lost, nothing paired across archs or roles, the same however the kernels are ordered."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from spillscan.model import Kernel
from spillscan.naming.pairs import Pair, pair
from tests.naming.identity import generator
from tests.naming.identity.test_truth_pairing import TABLE
from tests.reporting import kernel


def keys(pairs: list[Pair]) -> set[tuple[object, ...]]:
    return {(p.before and (p.before.key, p.before.usage), p.after and (p.after.key, p.after.usage)) for p in pairs}


def test_order_and_direction_do_not_matter() -> None:
    case, rng = generator.make(5, templates=60), random.Random(3)
    first = keys(pair(case.base, case.head))
    for _ in range(3):
        rng.shuffle(case.base)
        rng.shuffle(case.head)
        assert keys(pair(case.base, case.head)) == first
    assert {(after, before) for before, after in keys(pair(case.head, case.base))} == first


builds = st.lists(
    st.builds(
        kernel,
        st.sampled_from(sorted(TABLE["symbols"].values())) | st.sampled_from(("void f<{lambda(int)#1}>(float*)",)),
        registers=st.integers(30, 33),
        arch=st.sampled_from(("sm_80", "sm_90")),
        unit=st.sampled_from(("", "a.o", "b.o")),
        role=st.sampled_from(("entry", "function")),
    ),
    max_size=14,
)


@given(builds, builds)
def test_each_kernel_once(base: list[Kernel], head: list[Kernel]) -> None:
    pairs = pair(base, head)
    assert sorted(id(p.before) for p in pairs if p.before) == sorted(map(id, base))
    assert sorted(id(p.after) for p in pairs if p.after) == sorted(map(id, head))
    for before, after, _ in pairs:
        if before and after:
            assert before.key.arch == after.key.arch
            assert (before.role == "function") == (after.role == "function")


@given(builds)
def test_a_build_does_not_differ_from_itself(build: list[Kernel]) -> None:
    pairs = pair(build, list(reversed(build)))
    assert all(before and after and before.usage == after.usage and not renamed for before, after, renamed in pairs)
