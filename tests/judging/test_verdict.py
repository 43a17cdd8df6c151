"""The verdict: findings first, then what may hide something that is judged, then what is accepted on record."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from spillscan import scan
from spillscan.judging import rules
from spillscan.judging.policy.effective import Policy
from spillscan.judging.policy.reading import from_options
from spillscan.judging.verdict import gaps_of, verdict
from spillscan.model import Build, Gap, Hidden, Issue, Launch, LaunchBounds, Origin, Rule, Severity, Usage
from spillscan.model.gaps import KINDS
from tests.conftest import FIXTURES, run
from tests.reporting import kernel


def policy(*accepted: str, fail_on: str = "error", **options: str) -> Policy:
    return Policy((from_options({"fail_on": fail_on, **options}, (), (), accepted),))


def gaps(build: Build, held: Policy) -> list[Gap]:
    outcome = rules.check(build, held)
    needs = rules.needed(outcome.terms, "build", held.fail_on)
    return list(gaps_of(build, outcome.undecided, needs, held))


def test_archs_that_the_policy_names_are_to_be_served() -> None:
    build = scan(str(FIXTURES / "binary" / "linked-13.5.so.zst"))
    assert gaps(build, policy()) == []
    assert [gap.code for gap in gaps(build, policy(require_archs="sm_120"))] == ["arch-required"]


TABLE = [
    # why, fail_on, severities of findings, gaps, accepted gaps, too large; status, failing findings, gaps left
    ("nothing", "error", (), (), (), False, 0, 0, ()),
    ("a finding", "error", ("error",), (), (), False, 1, 1, ()),
    ("less severe findings", "error", ("warning", "note"), (), (), False, 0, 0, ()),
    ("a finding as severe as fail_on", "warning", ("warning", "note"), (), (), False, 1, 1, ()),
    ("a note", "note", ("note",), (), (), False, 1, 1, ()),
    ("a gap", "error", (), ("truncated",), (), False, 2, 0, ("truncated",)),
    ("a gap and a note", "error", ("note",), ("truncated",), (), False, 2, 0, ("truncated",)),
    ("a finding before a gap", "error", ("error",), ("truncated",), (), False, 1, 1, ("truncated",)),
    ("an accepted gap", "error", (), ("truncated",), ("truncated",), False, 0, 0, ()),
    ("another accepted gap", "error", (), ("truncated",), ("unreadable",), False, 2, 0, ("truncated",)),
    ("one of two accepted", "error", (), ("truncated", "unreadable"), ("truncated",), False, 2, 0, ("unreadable",)),
    ("an accepted gap excuses no finding", "error", ("error",), ("truncated",), ("truncated",), False, 1, 1, ()),
    ("a file too large", "error", (), (), (), True, 1, 0, ()),
    ("too large before a gap", "error", (), ("truncated",), (), True, 1, 0, ("truncated",)),
    ("never, a finding", "never", ("error",), (), (), False, 0, 0, ()),
    ("never, a gap that is shown", "never", (), ("truncated",), (), False, 0, 0, ("truncated",)),
    ("never, too large", "never", (), (), (), True, 0, 0, ()),
]


@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_status(row: Any) -> None:
    _, fail_on, severities, codes, accepted, oversized, status, failing, left = row
    found = [rules.finding(Rule(id="made-up", severity=severity), "m", kernel("k")) for severity in severities]
    hidden = [Gap(code=code, message="m", hides=("spills",)) for code in codes]
    outcome = verdict(found, hidden, policy(*accepted, fail_on=fail_on), oversized=oversized)
    assert (outcome.status, len(outcome.failing)) == (status, failing)
    assert tuple(gap.code for gap in outcome.gaps) == left
    assert {gap.code for gap in outcome.accepted} == {*codes} - {*left}


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ((), 2),
        (("--set", "max_registers=40"), 1),
        (("--accept", "unknown-blocks"), 0),
        (("--fail-on", "never"), 0),
        (("--severity", "blocks-per-sm=warning"), 0),
    ],
)
def test_undecided_kernels_are_named_by_family_in_every_outcome(arguments: tuple[str, ...], status: int) -> None:
    log = FIXTURES / "demo" / "base.log"
    for form in ("text", "markdown", "github")[: 3 if status == 2 else 1]:
        result = run("check", log, "--set", "min_blocks_per_sm=2", "--launch", "gemm*=256", "-f", form, *arguments)
        assert result.returncode == status
        output = result.stdout.decode().replace("`", "")
        assert re.search(r"6 kernels \(\S*softmax: 4, \S*rotate: 2\): min_blocks_per_sm needs the block size", output)


@pytest.mark.parametrize("what", ["spills", "registers", "stack", "shared", "code", "launch", "kernels"])
def test_only_checked_data_counts(what: Hidden) -> None:
    issue = Issue(code="unknown-line", message="m", hides=(what,))
    build = Build(kernels=(kernel("k"),), issues=(issue,))
    assert bool(gaps(build, policy())) == (what in ("spills", "kernels")), "by default, a build's spills are judged"
    limits = policy(max_registers="99", max_stack_bytes="99", max_shared_bytes="99", min_blocks_per_sm="1")
    judged = ("spills", "registers", "stack", "shared", "launch", "kernels")
    found = [gap for gap in gaps(build, limits) if gap.code == "unknown-line"]
    assert bool(found) == (what in judged)


@pytest.mark.parametrize(("severity", "counts"), [("note", False), ("warning", True), ("error", True)])
def test_strict_counts_all_but_notes(severity: Severity, counts: bool) -> None:
    issue = Issue(code="unknown-clause", message="m", severity=severity)
    build = Build(kernels=(kernel("k"),), issues=(issue,))
    assert not gaps(build, policy())
    assert bool(gaps(build, Policy((from_options({}, strict=True),)))) == counts


def test_one_unknown_kernel_among_many_is_a_gap() -> None:
    unknown = replace(kernel("unknown"), usage=Usage(registers=8))
    build = Build(kernels=(*(kernel(f"k{number}") for number in range(9)), unknown))
    (gap,) = gaps(build, policy())
    assert (gap.code, gap.hides, gap.kernel) == ("unknown-spills", ("spills",), unknown)
    assert not gaps(build, policy(max_spill_bytes="none")), "nothing needs it"


def test_an_acceptance_covers_its_kind_and_pattern_only() -> None:
    vendor, ours = (replace(kernel(name), usage=Usage()) for name in ("vendor_gemm", "our_gemm"))
    build = Build(kernels=(vendor, ours))
    held = policy("unknown-spills=vendor_*", "truncated")
    outcome = verdict((), gaps(build, held), held)
    assert [gap.kernel for gap in outcome.gaps] == [ours]
    assert [(gap.kernel, gap.accepted) for gap in outcome.accepted] == [(vendor, "--accept unknown-spills=vendor_*")]


def test_an_input_is_accepted_by_its_path() -> None:
    gap = Gap(code="unreadable", message="m", hides=("kernels",), origin=Origin(input="third_party/x.log"))
    assert policy("unreadable=third_party/*").acceptance(gap).accepted
    assert policy("unreadable=src/*").acceptance(gap).accepted is None


def test_every_kind_that_hides_something_can_be_accepted() -> None:
    for code, hides in KINDS.items():
        if hides:
            gap = Gap(code=code, message="m", hides=hides)
            assert policy(code).acceptance(gap).accepted


@pytest.mark.parametrize(
    ("own", "terms"),
    [
        ({}, 1),
        ({"launch": Launch(threads_per_block=64)}, 2),
        ({"launch_bounds": LaunchBounds(max_threads=64)}, 2),
        ({"dynamic_shared": True}, 1),
        ({"launch_bounds": LaunchBounds(max_threads=64), "dynamic_shared": False}, 2),
    ],
)
def test_unknown_kernels_get_the_terms_shared_by_all(own: dict[str, Any], terms: int) -> None:
    """All but those that say something of their launch are one."""
    every = [*(kernel(name) for name in "abc"), *(replace(kernel(name), **own) for name in "de")]
    every.append(replace(every[-1], launch=Launch(threads_per_block=32)))
    held = policy()
    groups = held.by_terms(every)
    assert [held.terms_of(each) is found for found, some in groups for each in some] == [True] * len(every)
    assert len(groups) == terms + 1
