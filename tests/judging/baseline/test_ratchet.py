"""What the ratchet holds: nothing worse than recorded passes, and what was recorded passes."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillscan.judging.baseline import recording
from spillscan.judging.baseline.file import parse, text_of
from spillscan.judging.baseline.judging import as_copies, compare
from spillscan.judging.baseline.model import Figures
from spillscan.judging.policy import Policy
from spillscan.model import Advisory, Build
from tests.judging.baseline.support import build, copies, judged, kernel, limited, pruned, recorded, states, written

BYTES = st.integers(0, 3).map(lambda n: 8 * n)
SPILLS = st.tuples(BYTES, BYTES)
KERNELS = st.dictionaries(
    st.tuples(st.sampled_from(["_Z1aPf", "_Z1bPf", "_ZN1n1cEPf", 'main: "x" # {y}']), st.sampled_from(["sm_80", None])),
    st.tuples(SPILLS, st.integers(1, 255)),
    min_size=1,
)
LIMITS = limited(max_spill_bytes=0, max_registers=128)


def made(kernels: dict[tuple[str, str | None], tuple[tuple[int, int], int]]) -> Build:
    return build(
        *(
            kernel(symbol, spills, registers=registers, arch=arch)
            for (symbol, arch), (spills, registers) in kernels.items()
        )
    )


@pytest.mark.parametrize(
    ("before", "after", "state"),
    [
        ((0, 0), (8, 0), "new"),
        ((8, 8), (8, 8), "known"),
        ((8, 8), (9, 8), "worse"),
        ((8, 8), (0, 9), "worse"),
        ((8, 8), (9, 0), "worse"),
        ((8, 8), (8, 7), "better"),
        ((8, 8), (0, 1), "better"),
    ],
)
def test_states(before: tuple[int, int], after: tuple[int, int], state: str) -> None:
    verdict = judged(copies([after]), written(copies([before])))
    assert states(verdict) == [state]
    assert bool(verdict.open) == (state in ("new", "worse"))
    assert verdict.fixed == verdict.stale == ()
    if state == "worse":
        assert "recorded: loads 8, stores 8" in verdict.findings[0].message


def test_figures_of_copies_are_recorded_where_each_has_some() -> None:
    one, other, unknown = kernel(spills=(8, 8)), kernel(spills=(4, 4)), kernel(spills=None, registers=None)
    assert len(recording.recorded([one, other], None, Policy())[0]) == 2
    assert recording.recorded([one, unknown], None, Policy())[0] == ()


def test_fixed_and_stale() -> None:
    baseline = written(build(kernel("_Z1aPf", (8, 8)), kernel("_Z1bPf", (8, 8))))
    verdict = judged(build(kernel("_Z1aPf"), kernel("_Z1cPf")), baseline)
    assert [each.name for each in verdict.fixed] == ["a"]
    assert [(each.name, each.rule) for each in verdict.stale] == [("b", "spill")]
    assert verdict.fewer == (), "as many kernels as before: one was replaced"


@given(KERNELS)
def test_what_was_written_passes_and_is_written_again_the_same(kernels: dict) -> None:  # type: ignore[type-arg]
    baseline = written(made(kernels), policy=LIMITS)
    text = text_of(baseline)
    again = parse(text, "b.yaml")
    assert again == baseline
    verdict = judged(made(kernels), again, LIMITS)
    assert not verdict.open
    assert (verdict.fixed, verdict.stale, verdict.fewer, verdict.unreported) == ((), (), (), ())
    assert text_of(written(made(kernels), again, LIMITS)) == text
    assert text_of(pruned(made(kernels), again, LIMITS)) == text
    backwards = made(dict(reversed(kernels.items())))
    assert text_of(written(backwards, policy=LIMITS)) == text


@given(KERNELS, KERNELS)
def test_nothing_worse_passes(before: dict, after: dict) -> None:  # type: ignore[type-arg]
    verdict = judged(made(after), written(made(before), policy=LIMITS), LIMITS)
    failing = {(f.kernel.key.symbol, f.kernel.key.arch, f.rule) for f in verdict.open}
    for key, ((stores, loads), registers) in after.items():
        was = before.get(key)
        spilled = was[0] if was else (0, 0)
        assert ((*key, "spill") in failing) == (stores > spilled[0] or loads > spilled[1])
        accepted = max(was[1] if was else 0, 128)
        assert ((*key, "registers") in failing) == (registers > accepted)


@given(KERNELS, KERNELS)
def test_prune_adds_and_raises_nothing(before: dict, after: dict) -> None:  # type: ignore[type-arg]
    old = written(made(before), policy=LIMITS)
    new = pruned(made(after), old, LIMITS)
    assert set(new.entries) <= set(old.entries)
    for identity, entry in new.entries.items():
        for rule, kept in entry.recorded.items():
            assert None not in compare(list(kept), old.entries[identity].recorded[rule])
    ours, theirs = (judged(made(after), baseline, LIMITS) for baseline in (old, new))
    assert Counter(map(_key, ours.open)) == Counter(map(_key, theirs.open)), "what passed still does, what failed still"
    assert (theirs.fixed, theirs.stale) == ((), ())


def _key(finding: object) -> object:
    return finding.fingerprint  # type: ignore[attr-defined]


# ---- copies in several translation units ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "worse"),
    [
        ([(8, 8)] * 3, [(8, 8)] * 3, 0),
        ([(8, 8)] * 3, [(8, 8)] * 5, 0),  # one header more places: each copy is as it was
        ([(8, 8)] * 3, [(8, 8)], 0),
        ([(8, 8), (0, 0)], [(0, 0), (8, 8)], 0),
        ([(8, 8), (0, 0)], [(8, 8), (4, 0)], 1),  # the clean copy spills now
        ([(8, 8), (0, 0)], [(8, 8), (8, 8)], 1),
        ([(8, 8), (0, 0)], [(8, 8), (0, 0), (8, 8)], 1),  # a further copy is held to the best
        ([(8, 0), (0, 8)], [(0, 0), (8, 8)], 1),
        ([(8, 0), (0, 8)], [(0, 8), (0, 0)], 0),
    ],
)
def test_copies(before: list[tuple[int, int]], after: list[tuple[int, int]], worse: int) -> None:
    assert states(judged(copies(after), written(copies(before)))).count("worse") == worse


@given(st.lists(SPILLS, min_size=1, max_size=5), st.lists(SPILLS, min_size=1, max_size=5))
def test_copies_against_every_pairing(before: list[tuple[int, int]], after: list[tuple[int, int]]) -> None:
    accepted = as_copies([_figures(each) for each in before])
    now = [_figures(each) for each in after]
    least = tuple((name, min(dict(each)[name] for each in accepted)) for name, _ in accepted[0])
    places = [*accepted, *[least] * (len(now) - len(accepted))]
    possible = any(
        all(value <= dict(place)[name] for figures, place in zip(now, order, strict=False) for name, value in figures)
        for order in permutations(places, len(now))
    )
    assert (None not in compare(now, accepted)) == possible


def _figures(spills: tuple[int, int]) -> Figures:
    return ("loads", spills[1]), ("stores", spills[0])


# ---- what is not known ---------------------------------------------------------------------------------------------


def test_undecided_kernels_are_not_recorded() -> None:
    unsure = build(kernel("_Z1aPf", None), kernel("_Z1bPf"))
    made = recorded(unsure)
    assert [identity.symbol for identity in made.baseline.entries] == ["_Z1bPf"]
    assert [each.key.symbol for each in made.undecided] == ["_Z1aPf"]
    assert states(judged(build(kernel("_Z1aPf", (8, 8))), made.baseline)) == ["new"]


def test_figures_that_are_not_reported_now_stay_recorded() -> None:
    known = written(copies([(8, 8)]))
    unsure = build(kernel(spills=None))
    assert written(unsure, known) == known
    assert pruned(unsure, known) == known
    verdict = judged(unsure, known)
    assert [each.rule for each in verdict.unreported] == ["spill"]
    assert verdict.fixed == ()


def test_a_finding_without_figures_is_never_excused() -> None:
    warned = build(_warned(kernel(spills=None)))
    made = recorded(warned)
    assert [each.rule for each in made.unmeasured] == ["spill"]
    assert states(judged(warned, made.baseline)) == ["new"]
    known = written(copies([(8, 8)]))
    verdict = judged(warned, known)
    assert states(verdict) == ["worse"]
    assert "cannot be compared" in verdict.findings[0].message


def _warned(of):  # type: ignore[no-untyped-def]
    from msgspec.structs import replace

    return replace(of, advisories=(Advisory(kind="spill_warning", text="spills", severity="warning"),))


def test_device_functions_are_recorded_where_they_have_findings() -> None:
    whole = build(kernel("_Z1kPf"), kernel("_Z1fPf", (8, 8), role="function"), kernel("_Z1gPf", role="function"))
    baseline = written(whole)
    assert [(each.symbol, each.function) for each in baseline.entries] == [("_Z1kPf", False), ("_Z1fPf", True)]
    inlined = judged(build(kernel("_Z1kPf")), baseline)
    assert inlined.fewer == (), "a function that was inlined is no missing kernel"
    assert [each.name for each in inlined.stale] == ["f"]


# ---- fewer kernels -------------------------------------------------------------------------------------------------


def test_fewer_kernels() -> None:
    names = ["_Z1aPf", "_Z1bPf", "_Z1cPf"]
    whole = build(*(kernel(name, arch=arch) for name in names for arch in ("sm_80", "sm_90")))
    baseline = written(whole)
    one_arch = build(*(each for each in whole.kernels if each.key.arch == "sm_80"))
    assert [each.identity.arch for each in judged(one_arch, baseline).fewer] == ["sm_90"] * 3
    more = build(*one_arch.kernels, *(kernel(f"_Z1{x}Pf", arch="sm_80") for x in "xyz"))
    assert len(judged(more, baseline).fewer) == 3, "kernels of one arch make up for none of another"
    part = build(*whole.kernels[:-1])
    assert [(each.name, each.identity.arch) for each in judged(part, baseline).fewer] == [("c", "sm_90")]


def test_a_copy_that_is_gone_is_a_kernel_that_is_gone() -> None:
    """The unit that is not there may be the one that got worse."""
    baseline = written(copies([(8, 8), (0, 0), (0, 0)]))
    left = judged(copies([(0, 0), (0, 0)]), baseline)
    assert [each.name for each in left.fewer] == ["gemm, 1 of 3 copies"]
    assert judged(copies([(0, 0), (0, 0), (0, 0)]), baseline).fewer == (), "as many, and none is worse"
    replaced = build(*copies([(0, 0), (0, 0)]).kernels, kernel("_Z3newPf"))
    assert judged(replaced, baseline).fewer == (), "as many kernels as before: one was replaced"
    assert judged(copies([(0, 0)]), written(copies([(0, 0), (0, 0)]))).fewer == (), "equal ones are recorded once"
