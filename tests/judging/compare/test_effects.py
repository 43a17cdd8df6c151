"""Severity of changes: equal builds give none, a worse value never a lower one, unknown is never equal."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from spillscan.judging import rules
from spillscan.judging.compare.effects import effects
from spillscan.judging.compare.metrics import metrics_of
from spillscan.judging.compare.pairing import comparison, diff
from spillscan.judging.policy.effective import Policy
from spillscan.model import (
    SEVERITIES,
    Advisory,
    Build,
    Change,
    Finding,
    Kernel,
    KernelKey,
    Launch,
    Usage,
    at_least,
)
from spillscan.model.code import SassStats
from spillscan.model.local import LocalAccess, LocalTraffic
from spillscan.model.metrics import find_metric
from spillscan.occupancy.launches import LaunchMap, parse_launch

ARCHES = ("sm_75", "sm_80", "sm_86", "sm_90a", "sm_100", "sm_120")
LAUNCHES = [None, *(parse_launch(f"*={launch}") for launch in ("32", "96", "256", "512,16384", "1024"))]
WORSENED = (
    "registers",
    "stack_bytes",
    "cumulative_stack_bytes",
    "spill_store_bytes",
    "spill_load_bytes",
    "local_bytes",
    "shared_bytes",
    "barriers",
)


def launch_map(entry: tuple[str, object] | None) -> LaunchMap:
    return LaunchMap(() if entry is None else (entry,))  # type: ignore[arg-type]


def regressions(changes: Sequence[Change]) -> list[Finding]:
    return [*rules.check_changes(changes, Policy()).findings]


def undecided_changes(changes: Sequence[Change], fail_on: str) -> list[tuple[Kernel, str]]:
    found = rules.check_changes(changes, Policy()).undecided
    return [(each.kernel, each.reason) for each in found if at_least(each.severity, fail_on)]


amount = st.one_of(st.just(0), st.integers(0, 24), st.integers(0, 4000))


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    return Usage(
        registers=draw(st.integers(8, 255)),
        stack_bytes=draw(amount),
        cumulative_stack_bytes=draw(amount),
        spill_store_bytes=draw(amount),
        spill_load_bytes=draw(amount),
        local_bytes=draw(amount),
        shared_bytes=draw(st.one_of(st.just(0), st.integers(0, 49152))),
        constant_bytes=draw(st.none() | st.just(((0, 380),)) | st.just(((0, 412), (2, 16)))),
        barriers=draw(st.integers(0, 16)),
    )


accesses = st.builds(
    LocalAccess,
    address=st.just(0),
    line=st.none(),
    store=st.booleans(),
    bytes=st.sampled_from((4, 8, 16)),
    form=st.just("stack"),
    slot=st.just(0),
    last_use=st.booleans(),
    predicated=st.just(False),
    kind=st.sampled_from(("spill", "array", "frame", "unknown")),
    depth=st.integers(0, 3),
    part=st.just(0),
)
stats = st.builds(
    SassStats,
    instructions=st.just(100),
    code_bytes=st.just(1600),
    opcodes=st.just(()),
    local=st.builds(LocalTraffic, accesses=st.lists(accesses, max_size=6).map(tuple)),
    shared_spills=st.none() | st.integers(0, 4),
)
advisories = st.lists(
    st.sampled_from(("wgmma_serialized", "wgmma_wait_injected", "double_precision", "local_memory_warning")).map(
        lambda kind: Advisory(kind=kind, text=kind, severity="info")
    ),
    max_size=2,
).map(tuple)


@st.composite
def kernels(draw: st.DrawFn, symbol: str = "k", code: bool = False) -> Kernel:
    return Kernel(
        key=KernelKey(symbol=symbol, arch=draw(st.sampled_from(ARCHES))),
        role="entry",
        usage=draw(usages()),
        advisories=draw(advisories),
        sass=draw(stats) if code else None,
    )


@st.composite
def pairs(draw: st.DrawFn, code: bool = False) -> tuple[Kernel, Kernel]:
    """Two records of one kernel; often only one figure differs, as in life."""
    before = draw(kernels(code=code))
    after = replace(draw(kernels(code=code)), key=before.key)
    kept = draw(st.sets(st.sampled_from(WORSENED)))
    usage = replace(after.usage, **{name: getattr(before.usage, name) for name in kept})
    return before, replace(after, usage=usage)


def severity(before: Kernel, after: Kernel, launches: LaunchMap) -> int:
    """Rank of the most severe finding, or of what is not decided; -1 where there is none."""
    compared = comparison(Build(kernels=(before,)), Build(kernels=(after,)), launches)
    undecided = rules.check_changes((*compared.changes, *compared.unsettled), Policy()).undecided
    found = (*regressions(compared.changes), *undecided)
    return max((SEVERITIES.index(each.severity) for each in found), default=-1)


@given(st.lists(kernels(code=True), max_size=5), st.sampled_from(LAUNCHES), st.randoms(use_true_random=False))
def test_equal_builds_differ_in_nothing(
    same: list[Kernel], launch: tuple[str, object] | None, order: random.Random
) -> None:
    named = [replace(kernel, key=replace(kernel.key, symbol=f"k{at}")) for at, kernel in enumerate(same)]
    shuffled = order.sample(named, len(named))
    timed = [replace(kernel, compile_ms=float(at)) for at, kernel in enumerate(shuffled)]
    found = comparison(Build(kernels=tuple(named)), Build(kernels=tuple(timed)), launch_map(launch))
    assert found.changes == found.unsettled == ()


@given(pairs(), st.sampled_from(LAUNCHES), st.sampled_from(WORSENED), st.integers(1, 300))
def test_a_worse_value_never_lowers_the_severity(
    pair: tuple[Kernel, Kernel], launch: tuple[str, object] | None, name: str, more: int
) -> None:
    before, after = pair
    launches = launch_map(launch)
    worse = replace(after, usage=replace(after.usage, **{name: (getattr(after.usage, name) or 0) + more}))
    assert severity(before, worse, launches) >= severity(before, after, launches)
    # Nor does a better base.
    better = replace(before, usage=replace(before.usage, **{name: max(0, (getattr(before.usage, name) or 0) - more)}))
    assert severity(better, after, launches) >= severity(before, after, launches)


@given(pairs(code=True), accesses)
def test_another_local_memory_access_never_lowers_the_severity(
    pair: tuple[Kernel, Kernel], access: LocalAccess
) -> None:
    before, after = pair
    assert after.sass is not None
    local = LocalTraffic(accesses=(*after.sass.local.accesses, access))
    worse = replace(after, sass=replace(after.sass, local=local))
    assert severity(before, worse, LaunchMap()) >= severity(before, after, LaunchMap())


@given(pairs(code=True), st.sampled_from(LAUNCHES))
def test_an_improvement_is_shown_and_is_no_finding(
    pair: tuple[Kernel, Kernel], launch: tuple[str, object] | None
) -> None:
    one, other = pair
    least = {name: min(getattr(one.usage, name), getattr(other.usage, name)) for name in WORSENED}
    after = replace(one, usage=replace(one.usage, **least), advisories=())
    changes = diff(Build(kernels=(one,)), Build(kernels=(after,)), launch_map(launch))
    assert regressions(changes) == []
    assert bool(changes) == (one.usage != after.usage or any(a.kind != "local_memory_warning" for a in one.advisories))


@given(pairs(code=True))
def test_metrics_are_the_values_that_differ(pair: tuple[Kernel, Kernel]) -> None:
    before, after = pair
    found = comparison(Build(kernels=(before,)), Build(kernels=(after,)))
    (change,) = (*found.changes, *found.unsettled) or (None,)
    old, new = metrics_of(before), metrics_of(after)
    expected = {name: (old[name], new[name]) for name in old if None not in (old[name], new[name])}
    expected = {name: values for name, values in expected.items() if values[0] != values[1]}
    found = {name: values for name, *values in (change.metrics if change else ())}
    found = {name: tuple(values) for name, values in found.items() if not name.startswith(("constant", "footprint"))}
    assert found == expected
    assert all(find_metric(name).label for name in found)


@given(pairs(), st.sets(st.sampled_from(("registers", "spill_store_bytes", "spill_load_bytes"))), st.booleans())
def test_the_unknown_is_neither_equal_nor_different(pair: tuple[Kernel, Kernel], names: set[str], old: bool) -> None:
    before, after = pair
    missing = dict.fromkeys(names)
    if old:
        before = replace(before, usage=replace(before.usage, **missing))
    else:
        after = replace(after, usage=replace(after.usage, **missing))
    found = comparison(Build(kernels=(before,)), Build(kernels=(after,)))
    everything = (*found.changes, *found.unsettled)
    if names:
        (change,) = everything
        assert not names & {name for name, _, _ in change.metrics}
        assert names <= {name for name, _, _ in change.unknown}
    errors = [finding for finding in regressions(found.changes) if finding.severity == "error"]
    # An unknown value that might be worse is undecided, unless another is certainly worse.
    spilled = (after.usage.spill_store_bytes, after.usage.spill_load_bytes)
    decided = "registers" not in names and (
        not names or (old and not any(new for name, new in zip(SPILLS, spilled, strict=True) if name in names))
    )
    assert decided or errors or undecided_changes(everything, "error")
    assert not (decided and undecided_changes(everything, "error"))


SPILLS = ("spill_store_bytes", "spill_load_bytes")


@given(st.lists(pairs(), min_size=2, max_size=6), st.sampled_from(LAUNCHES))
def test_the_worst_comes_first(drawn: list[tuple[Kernel, Kernel]], launch: tuple[str, object] | None) -> None:
    base, head = (
        Build(kernels=tuple(replace(k, key=replace(k.key, symbol=f"k{at}")) for at, k in enumerate(side)))
        for side in zip(*drawn, strict=True)
    )
    changes = diff(base, head, launch_map(launch))

    def growth(change: object) -> int:
        return sum(
            max(0, (new or 0) - (old or 0))
            for name, old, new in change.metrics  # type: ignore[attr-defined]
            if name in SPILLS
        )

    grown = [growth(change) for change in changes]
    assert grown == sorted(grown, reverse=True)


# ---- single cases ---------------------------------------------------------------------------------------------------


def kernel(symbol: str = "k", arch: str | None = "sm_80", final: bool | None = None, **usage: int | None) -> Kernel:
    known = {"registers": 32, "stack_bytes": 0, "spill_store_bytes": 0, "spill_load_bytes": 0} | usage
    return Kernel(key=KernelKey(symbol=symbol, arch=arch), role="entry", usage=Usage(**known), final=final)  # type: ignore[arg-type]


def test_devices_are_those_asked_for() -> None:
    before, after = kernel(registers=40), kernel(registers=48)
    launches = LaunchMap((parse_launch("k=768"),))
    (own,) = effects(before, after, launches)
    assert (own.device, own.blocks) == ("sm_80", (2, 1))
    found = effects(before, after, launches, ("A100", "sm_86", "H100"))
    assert [(effect.device, effect.blocks) for effect in found] == [("A100", (2, 1)), ("sm_86", (2, 1))]
    change = diff(Build(kernels=(before,)), Build(kernels=(after,)), launches, ("A100", "sm_86"))[0]
    assert [m for m in change.metrics if m[0].startswith("resident_blocks")] == [
        ("resident_blocks[A100]", 2, 1),
        ("resident_blocks[sm_86]", 2, 1),
    ]


class Bounds:
    """Launches by the number of registers, as if from launch bounds."""

    def __init__(self, threads: dict[int | None, int]) -> None:
        self.threads = threads

    def launch_of(self, kernel: Kernel) -> Launch | None:
        threads = self.threads.get(kernel.usage.registers)
        return None if threads is None else Launch(threads_per_block=threads, source="bounds")


@pytest.mark.parametrize(
    ("threads", "expected"),
    [({40: 512, 72: 512}, (3, 1)), ({72: 512}, (3, 1)), ({40: 512}, (3, 1)), ({40: 256, 72: 512}, None), ({}, None)],
)
def test_changed_launch_bounds_leave_the_launch_open(
    threads: dict[int | None, int], expected: tuple[int, int] | None
) -> None:
    before, after = kernel(registers=40), kernel(registers=72)
    (effect,) = effects(before, after, Bounds(threads))
    assert effect.blocks == expected
    assert bool(effect.unknown) == (expected is None)
    found = rules.check_changes(
        diff(Build(kernels=(before,)), Build(kernels=(after,)), Bounds(threads)), Policy()
    ).findings
    assert [each.rule for each in found] == ["register-growth" if expected is None else "blocks-lost"]
    assert ("launch bounds" in found[0].message) == (expected is not None)


def test_unknown_barriers_may_leave_blocks_unknown() -> None:
    launches = LaunchMap((parse_launch("k=64"),))
    before = kernel(arch="sm_90", barriers=None)
    (few,) = effects(before, kernel(arch="sm_90", registers=30, barriers=2), launches)
    assert few.blocks == (32, 32), "two barriers bind nothing that one does not"
    (many,) = effects(before, kernel(arch="sm_90", registers=30, barriers=16), launches)
    assert many.resident_blocks == (None, 4)
    assert many.unknown


@pytest.mark.parametrize("shared", [None, 512])
def test_shared_memory_before_the_link_is_another_value(shared: int | None) -> None:
    """The linker places that of templates: ptxas prints none of it, or only a part."""
    whole, unlinked = kernel(registers=24, shared_bytes=2048), kernel(final=False, registers=24, shared_bytes=shared)
    for base, head in ((whole, unlinked), (unlinked, whole)):
        found = comparison(Build(kernels=(base,)), Build(kernels=(head,)))
        assert found.changes == ()
        (change,) = found.unsettled
        assert "shared_bytes" in {name for name, _, _ in change.unknown}
    assert metrics_of(kernel(registers=24))["shared_bytes"] == 0
    assert metrics_of(unlinked)["shared_bytes"] == shared
