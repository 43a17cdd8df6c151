"""Findings and entries of a baseline: a table of facts, and properties of all builds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from spillscan.judging.baseline.comparing import within
from spillscan.judging.baseline.file import Baseline, parse, text_of
from spillscan.judging.baseline.recording import metrics_of, prune
from spillscan.judging.compare.pairing import comparison
from spillscan.judging.policy.effective import Policy
from spillscan.judging.policy.reading import from_options
from spillscan.judging.rules import check, check_changes, recorded_as
from spillscan.judging.verdict import BaselineResult
from spillscan.model import Advisory, Build, Kernel, LaunchBounds, Origin
from tests.judging.baseline.support import build, judged, kernel, limited, pruned, recorded, sized, written

TABLE = yaml.safe_load((Path(__file__).parent / "states.yaml").read_text(encoding="utf-8"))
WARNED = Advisory(kind="spill_warning", text="spills", severity="warning")


def made(
    number: int, name: str = "_Z1gPf", shared: int = 0, bounds: int = 0, final: bool | None = None, **facts: Any
) -> Kernel:
    """A kernel of the table."""
    warned, usage, file = facts.pop("warned", False), facts.pop("usage", {}), facts.pop("file", "")
    found = replace(sized(kernel(name, **{"unit": f"{number}.o", **facts}), shared_bytes=shared, **usage), final=final)
    found = replace(found, origins=(Origin(input=file, format="binary"),) if file else ())
    if bounds:
        found = replace(found, launch_bounds=LaunchBounds(max_threads=bounds), dynamic_shared=False)
    return replace(found, advisories=(WARNED,)) if warned else found


def policy_of(options: dict[str, Any]) -> Policy:
    lists = {name: [options[name]] if name in options else [] for name in ("severity", "launch", "accept", "renamed")}
    texts = {name: str(value) for name, value in options.items() if name not in lists}
    return Policy((from_options(texts, *lists.values()),))


@pytest.mark.parametrize(("role", "final", "has"), [("entry", None, 1), ("entry", False, 0), ("function", False, 1)])
def test_registers_that_the_link_decides_are_not_recorded(role: Any, final: bool | None, has: int) -> None:
    metrics = metrics_of(replace(kernel(), role=role, final=final))
    assert ("registers" in metrics, "spill_store_bytes" in metrics) == (has, True)


def test_a_value_without_a_limit_must_be_0() -> None:
    assert [within({"loads": each}, {}) for each in (0, 1)] == [True, False]


def told(result: BaselineResult) -> list[str]:
    """States of findings and entries, as the table writes them."""
    found = [f"{each.baseline_state} {each.rule}" for each in result.findings]
    found += [f"{each.state} {each.rule or each.name}" for each in result.unmatched]
    found += [f"undecided {each.rule.id}" for each in result.undecided]
    return sorted([*found, *("renamed" for _ in result.renamed)])


@pytest.mark.parametrize(("why", "was", "then", "now", "later", "found"), TABLE, ids=[row[0] for row in TABLE])
def test_state(why: str, was: Any, then: Any, now: Any, later: Any, found: list[str]) -> None:
    before, after = (build(*(made(number, **each) for number, each in enumerate(each))) for each in (was, now))
    baseline = parse(text_of(written(before, policy=policy_of(then))), "b.jsonl")
    result = judged(after, baseline, policy_of(then if later is None else later))
    assert told(result) == sorted(found), why
    assert [each.baseline_state in ("new", "worse") for each in result.open] == [True] * len(result.open)


def test_a_worse_finding_names_the_record() -> None:
    baseline = written(build(kernel(spills=(8, 4))))
    assert judged(build(kernel(spills=(9, 4))), baseline).findings[0].message.endswith("; baseline: loads 4, stores 8")
    unknown = replace(kernel(spills=None), advisories=(WARNED,))
    assert "not comparable with the baseline: " in judged(build(unknown), baseline).findings[0].message
    one, other = (f"_ZN1n{len(name)}{name}ILi{{}}EEEvv" for name in ("relax", "relax_v2"))
    before, after = (build(*(kernel(each.format(n), (8, 8)) for n in (1, 2))) for each in (one, other))
    messages = [each.message for each in judged(after, written(before)).findings]
    assert [message.partition("; ")[2] for message in messages] == [
        f"renamed from n::relax<{number}>, baseline: loads 8, stores 8" for number in (1, 2)
    ]


# ---- properties ---------------------------------------------------------------------------------------------------

BYTES = st.integers(0, 3).map(lambda n: 8 * n)
KERNELS = st.dictionaries(
    st.tuples(st.sampled_from(["_Z1aPf", "_Z1bPf", "_ZN1n1cEPf", 'main: "x" # {y}']), st.sampled_from(["sm_80", None])),
    st.tuples(st.tuples(BYTES, BYTES), st.integers(1, 255)),
    min_size=1,
)
LIMITS = limited(max_spill_bytes=0, max_registers=128, max_register_growth="none", max_spill_growth_bytes="none")


def of(kernels: Any) -> Build:
    return build(
        *(kernel(name, spills, registers=registers, arch=arch) for (name, arch), (spills, registers) in kernels.items())
    )


@given(KERNELS)
def test_a_written_baseline_passes_and_is_rewritten_unchanged(kernels: Any) -> None:
    text = text_of(written(of(kernels), policy=LIMITS))
    again = parse(text, "b.jsonl")
    result = judged(of(kernels), again, LIMITS)
    assert set(told(result)) <= {"known spill", "known registers"}
    assert text_of(written(of(kernels), again, LIMITS)) == text
    assert text_of(pruned(of(kernels), again, LIMITS)) == text
    assert text_of(written(of(dict(reversed(kernels.items()))), policy=LIMITS)) == text


@given(KERNELS, KERNELS)
def test_nothing_worse_passes(before: Any, after: Any) -> None:
    result = judged(of(after), written(of(before), policy=LIMITS), LIMITS)
    failing = {(each.kernel.key.symbol, each.kernel.key.arch, each.rule) for each in result.open}
    for key, ((stores, loads), registers) in after.items():
        if key in before or not any(
            name == key[0] for name, _ in before
        ):  # an unknown arch is that of a same-named kernel
            (spilled, used) = before.get(key, ((0, 0), 0))
            assert ((*key, "spill") in failing) == (stores > spilled[0] or loads > spilled[1])
            assert ((*key, "registers") in failing) == (registers > max(used, 128))


@given(KERNELS, KERNELS)
def test_prune_adds_and_raises_nothing(before: Any, after: Any) -> None:
    old = written(of(before), policy=LIMITS)
    new = pruned(of(after), old, LIMITS)
    assert set(new.entries) <= set(old.entries)
    for identity, entry in new.entries.items():
        (now,), (then,) = entry.copies, old.entries[identity].copies
        assert within(now.metrics, then.metrics)
        assert all(within(values, then.rules[rule]) for rule, values in now.rules.items())
    ours, theirs = (judged(of(after), baseline, LIMITS) for baseline in (old, new))
    assert Counter(each.fingerprint for each in ours.open) == Counter(each.fingerprint for each in theirs.open)
    assert not {"fixed", "stale"} & {each.state for each in theirs.unmatched}


SIZES = st.tuples(
    st.sampled_from([None, 16, 32, 33, 40, 64, 72, 128, 255]),
    st.sampled_from([0, 1024, 48 << 10]),
    st.tuples(*[st.sampled_from([0, 8, 64])] * 2),
)
BUILDS = st.dictionaries(st.sampled_from(["_Z1aPf", "_Z1bPf", "_ZN1n1cEPf"]), SIZES, min_size=1)


@given(BUILDS, BUILDS, st.booleans())
def test_regressions_are_those_of_diff(before: Any, after: Any, launched: bool) -> None:
    after = {symbol: values for symbol, values in after.items() if symbol in before} or before
    policy = limited(*["*=256"] * launched)
    base, head = (
        build(
            *(
                sized(kernel(symbol, spills, registers=registers), shared_bytes=shared, barriers=1)
                for symbol, (registers, shared, spills) in kernels.items()
            )
        )
        for kernels in (before, after)
    )
    failing = {(each.kernel.key.symbol, recorded_as(each.rule)) for each in check(head, policy).findings}
    wanted = sorted(
        (each.kernel.key.symbol, each.rule, each.message)
        for each in check_changes(comparison(base, head, policy).changes, policy).findings
        if each.severity != "note" and (each.kernel.key.symbol, recorded_as(each.rule)) not in failing
    )
    result = judged(head, parse(text_of(written(base, policy=policy)), "b.jsonl"), policy)
    found = [each for each in result.findings if each.baseline_state == "worse" and "; baseline: " not in each.message]
    assert sorted((each.kernel.key.symbol, each.rule, each.message) for each in found) == wanted
    lost = {symbol for symbol in after if before[symbol][0] is not None and after[symbol][0] is None}
    assert {each.kernel.key.symbol for each in result.undecided} == lost


# ---- what is recorded ---------------------------------------------------------------------------------------------


def test_undecided_kernels_and_unmeasured_findings_are_not_recorded() -> None:
    made = recorded(build(kernel("_Z1aPf", None), kernel("_Z1bPf")))
    assert [identity.symbol for identity in made.baseline.entries] == ["_Z1bPf"]
    assert [each.key.symbol for each in made.undecided] == ["_Z1aPf"]
    warned = recorded(build(replace(kernel(spills=None), advisories=(WARNED,))))
    assert [each.rule for each in warned.unmeasured] == ["spill"]


def test_values_that_are_not_reported_now_stay_recorded() -> None:
    known = written(build(kernel(spills=(8, 8))))
    for unsure in (build(kernel(spills=None)), build(kernel(spills=None, registers=None))):
        assert (written(unsure, known), pruned(unsure, known)) == (known, known)


def test_device_functions_are_recorded_if_they_have_findings() -> None:
    whole = build(kernel("_Z1kPf"), kernel("_Z1fPf", (8, 8), role="function"), kernel("_Z1gPf", role="function"))
    baseline = written(whole)
    assert [(each.symbol, each.function) for each in baseline.entries] == [("_Z1kPf", False), ("_Z1fPf", True)]
    assert [*written(build(kernel("_Z1fPf", role="function")), baseline).entries] == [*baseline.entries][:1]


@pytest.mark.parametrize(("now", "later"), [(40, ["worse register-growth"]), (72, [])])
def test_prune_lowers_and_raises_nothing(now: int, later: list[str]) -> None:
    old: Baseline = written(build(kernel(registers=64)))
    assert told(judged(build(kernel(registers=64)), pruned(build(kernel(registers=now)), old))) == later


@pytest.mark.parametrize(("archs", "left"), [((), ["_Z1aPf"]), (("sm_80",), ["_Z1aPf", "_Z1cPf"])])
def test_prune_removes_missing_kernels_of_its_archs(archs: tuple[str, ...], left: list[str]) -> None:
    here, gone, other = kernel("_Z1aPf", arch="sm_80"), kernel("_Z1bPf", arch="sm_80"), kernel("_Z1cPf", arch="sm_90")
    new = prune(build(here), (), written(build(here, gone, other)), Policy(), archs)
    assert [identity.symbol for identity in new.entries] == left


def test_a_large_required_block_is_read_back() -> None:
    bounds = LaunchBounds(required_threads=2048)
    baseline = written(build(replace(kernel(), launch_bounds=bounds)))
    assert parse(text_of(baseline), "b.jsonl") == baseline
