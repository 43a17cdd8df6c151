"""A build held against the figures that a baseline keeps: what `diff` finds between two builds, `check` finds here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from spillscan.commands._baseline import Gate, others_than
from spillscan.judging.baseline.file import parse, text_of
from spillscan.judging.baseline.model import Baseline
from spillscan.judging.baseline.recording import Since, since
from spillscan.judging.compare.pairing import comparison
from spillscan.judging.policy import Policy
from spillscan.judging.policy.reading import from_options
from spillscan.judging.rules import check, check_changes, recorded_as
from spillscan.model import Build, Kernel, LaunchBounds, Usage
from spillscan.model.units import Unit
from spillscan.reports.report import Report
from tests.conftest import FIXTURES, run
from tests.judging.baseline.support import build, kernel, pruned, written

BASE, HEAD = FIXTURES / "effects" / "base.log", FIXTURES / "effects" / "head.log"
LAUNCHED = Policy((from_options({}, (), ("*=256",)),))


def sized(of: Kernel, **figures: int | None) -> Kernel:
    return replace(of, usage=replace(of.usage, **figures))  # type: ignore[arg-type]


def became(now: Build, baseline: Baseline, policy: Policy | None = None) -> Since:
    policy = policy or Policy()
    judgement = check(now, policy)
    return since(now, now, baseline, policy, judgement.findings, judgement.undecided)


def rules(of: Since) -> Sequence[str]:
    return sorted(each.rule for each in of.worse)


# ---- as diff finds it ----------------------------------------------------------------------------------------------

REGISTERS = st.sampled_from([None, 16, 32, 33, 40, 64, 72, 128, 255])
SHARED = st.sampled_from([0, 1024, 48 << 10])
SPILLS = st.tuples(*[st.sampled_from([0, 8, 64])] * 2)
KERNELS = st.dictionaries(
    st.sampled_from(["_Z1aPf", "_Z1bPf", "_ZN1n1cEPf"]), st.tuples(REGISTERS, SHARED, SPILLS), min_size=1
)


def made(kernels: dict[str, tuple[int | None, int, tuple[int, int]]]) -> Build:
    return build(
        *(
            sized(kernel(symbol, spills, registers=registers), shared_bytes=shared, barriers=1)
            for symbol, (registers, shared, spills) in kernels.items()
        )
    )


@given(KERNELS, KERNELS, st.booleans())
def test_it_is_what_diff_finds(before: dict, after: dict, launched: bool) -> None:  # type: ignore[type-arg]
    after = {symbol: figures for symbol, figures in after.items() if symbol in before} or before
    policy = LAUNCHED if launched else Policy()
    base, head = made(before), made(after)
    text = text_of(written(base, policy=policy))
    changes = [each for each in comparison(base, head, policy).changes if each.before and each.after]
    spilling = {each.kernel.key.symbol for each in check(head, policy).findings}
    wanted = sorted(
        (each.kernel.key.symbol, each.rule, each.message)
        for each in check_changes(changes, policy).findings
        if each.severity != "note" and not (recorded_as(each.rule) == "spill" and each.kernel.key.symbol in spilling)
    )
    found = became(head, parse(text, "b.yaml"), policy)
    assert sorted((each.kernel.key.symbol, each.rule, each.message) for each in found.worse) == wanted
    lost = {symbol for symbol in after if before[symbol][0] is not None and after[symbol][0] is None}
    assert {each.kernel.key.symbol for each in found.undecided} == lost


# ---- blocks --------------------------------------------------------------------------------------------------------


def test_lost_blocks_fail_where_the_launch_is_known(tmp_path: Path) -> None:
    path = tmp_path / "b.yaml"
    assert run("baseline", "write", BASE, "-o", path, "--launch", "*=256").returncode == 0
    assert run("check", BASE, "--baseline", path, "--launch", "*=256").returncode == 0
    result = run("check", HEAD, "--baseline", path, "--launch", "*=256")
    assert result.returncode == 1
    said = result.stdout.decode()
    assert (
        "sums (sm_90) loses blocks/SM: 8 → 5 on sm_90 at 256 threads, limited by registers [blocks-lost, worse]" in said
    )
    assert "pick" not in said, "nothing that only got better, and no note"
    assert run("baseline", "write", HEAD, "-o", path, "--launch", "*=256").returncode == 0
    assert run("check", HEAD, "--baseline", path, "--launch", "*=256").returncode == 0


def test_a_launch_that_the_policy_no_longer_says_is_as_it_was_recorded() -> None:
    lean, greedy = (build(sized(kernel(registers=64), shared_bytes=size)) for size in (0, 96 << 10))
    baseline = written(lean, policy=LAUNCHED)
    assert rules(became(greedy, baseline, LAUNCHED)) == ["blocks-lost"]
    assert rules(became(greedy, baseline)) == ["blocks-lost"]
    assert rules(became(greedy, written(lean))) == [], "shared memory alone is a note where the launch is unknown"


def test_another_block_size_of_the_code_leaves_the_blocks_open() -> None:
    def bounded(threads: int, registers: int) -> Build:
        bounds = LaunchBounds(max_threads=threads)
        return build(replace(kernel(registers=registers), launch_bounds=bounds, dynamic_shared=False))

    baseline = written(bounded(256, 64))
    assert rules(became(bounded(256, 72), baseline)) == ["blocks-lost"]
    assert rules(became(bounded(128, 72), baseline)) == ["register-growth"], "the blocks of two launches say nothing"


# ---- registers, spills ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (64, 72, ["register-growth"]),
        (48, 100, ["register-growth"]),
        (65, 72, []),
        (72, 64, []),
        (64, 64, []),
        (None, 64, []),
    ],
)
def test_registers_in_steps(before: int | None, after: int, found: list[str]) -> None:
    assert rules(became(build(kernel(registers=after)), written(build(kernel(registers=before))))) == found


def test_registers_that_are_not_reported_any_more_are_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "b.yaml"
    log, unlinked = FIXTURES / "ptxas" / "calls-13.0.log", tmp_path / "head.log"
    report = (FIXTURES / "ptxas" / "calls-c-13.0.log").read_bytes()
    unlinked.write_bytes(b"nvcc -dc -Xptxas -v calls.cu -o calls.o\n" + report)
    run("baseline", "write", log, "-o", path)
    assert run("check", log, "--baseline", path).returncode == 0
    spills_aside = ("--set", "max_spill_bytes=none", "--set", "max_spill_growth_bytes=none")
    result = run(
        "check", unlinked, "--baseline", path, "--accept", "fewer-kernels", "--accept", "not-comparable", *spills_aside
    )
    assert result.returncode == 2, result.stdout
    assert b"relocatable code is not linked in the head" in result.stdout + result.stderr
    assert b"[unknown-registers]" in result.stdout + result.stderr


def test_growth_below_a_limit_is_growth() -> None:
    """A limit says what any kernel may spill; that one spills now which did not is a change for the worse."""
    limits = Policy((from_options({"max_spill_bytes": "96"}, (), ()),))
    baseline = written(build(kernel()), policy=limits)
    assert rules(became(build(kernel(spills=(8, 8))), baseline, limits)) == ["spill"]
    tolerant = Policy((from_options({"max_spill_bytes": "96", "max_spill_growth_bytes": "16"}, (), ()),))
    assert rules(became(build(kernel(spills=(8, 8))), baseline, tolerant)) == []


def test_it_is_said_once() -> None:
    baseline = written(build(kernel()))
    assert rules(became(build(kernel(spills=(8, 8))), baseline)) == [], "the rule of builds says it"


def test_policies_and_suppressions_hold(tmp_path: Path) -> None:
    path = tmp_path / "b.yaml"
    launch = ("--launch", "*=256")
    run("baseline", "write", BASE, "-o", path, *launch)
    off = ("--severity", "blocks-lost=off", "--set", "max_spill_bytes=none", "--set", "max_spill_growth_bytes=none")
    assert run("check", HEAD, "--baseline", path, *launch, *off).returncode == 0
    result = run("check", HEAD, "--baseline", path, *launch, *off[2:], "--accept", "blocks-lost=sums")
    assert result.returncode == 0, result.stdout
    assert b"1 suppressed" in result.stdout


# ---- which kernel --------------------------------------------------------------------------------------------------


def test_each_copy_is_held_to_one_of_its_own() -> None:
    def copies(*registers: int) -> Build:
        return build(*(kernel(registers=each, unit=f"{unit}.o") for unit, each in enumerate(registers)))

    assert rules(became(copies(128, 64), written(copies(64, 128)))) == []
    assert rules(became(copies(64, 64, 64), written(copies(64, 64)))) == []
    assert rules(became(copies(64, 72), written(copies(64, 64)))) == ["register-growth"]
    assert rules(became(copies(64, 128, 128), written(copies(64, 128)))) == ["register-growth"], (
        "a further one, to the least"
    )


def test_a_renamed_kernel_carries_its_figures() -> None:
    def called(name: str, registers: int) -> Build:
        return build(*(kernel(f"_ZN6solver{len(name)}{name}ILi{n}EEEvPfi", registers=registers) for n in (1, 2)))

    baseline = written(called("relax_columns", 64))
    assert rules(became(called("relax_columns_v2", 128), baseline)) == ["register-growth"] * 2


@pytest.mark.parametrize(
    ("renamed", "spills", "state"),
    [
        ([("gemm", "mul")], 16, "known"),
        ([("g*", "m*")], 16, "new"),  # names no kernel of the build
        ([("gemm", "mul")], 24, "worse"),
        ([("gemm", "other")], 16, "new"),  # a kernel that the baseline has
        ([], 16, "new"),
    ],
)
def test_a_stated_rename_carries_recorded_findings(renamed: list[tuple[str, str]], spills: int, state: str) -> None:
    def called(name: str, spills: int) -> Build:
        return build(kernel(name, (spills, spills)), kernel("other", (16, 16)))

    now, policy = called("mul", spills), Policy((from_options({}, (), (), (), renamed),))
    held = Gate("b.jsonl", written(called("gemm", 16)), policy).judge(check(now, policy).findings, now, now)
    (found,) = {each.baseline_state for each in held.findings if each.kernel.name == "mul" and each.rule == "spill"}
    assert found == state


def test_stale_records_are_listed(tmp_path: Path) -> None:
    text = BASE.read_text().replace("'relax'", "'relax_v2'").replace("for relax", "for relax_v2")
    head = re.sub(
        r"(.*'sums'.*\n(?:.*\n){4})", lambda match: match[1].replace("sums", "y").replace("Used ", "Used 1"), text
    )
    (tmp_path / "new.log").write_text(head)
    assert run("baseline", "write", BASE, "-o", tmp_path / "b.yaml").returncode == 0
    result = run("check", "new.log", "--baseline", "b.yaml", cwd=tmp_path)
    said = (result.stdout + result.stderr).decode()
    assert result.returncode == 1
    assert "replaced by other kernels: 2 kernels (relax (sm_90), sums (sm_90)) of b.yaml;" in said, said


NOTED = "not recorded: {}; what gets worse of them is not seen"
SIZED = "_Z6kernelILi{}EEvPfii"


@pytest.mark.parametrize(
    ("why", "now", "said"),
    [
        ("as recorded", [kernel(SIZED.format(8))], ""),
        ("another instance", [kernel(SIZED.format(each)) for each in (8, 16)], "1 kernel (kernel<16> (sm_90a))"),
        ("another arch", [kernel(SIZED.format(8)), kernel(SIZED.format(8), arch="sm_120")],
         "1 kernel (kernel<8> (sm_120))"),
        ("renamed", [kernel(SIZED.format(8).replace("6kernel", "9kernel_v2"))], "1 kernel (kernel_v2<8> (sm_90a))"),
        ("what cannot be judged is not recorded, and is a gap", [
            kernel(SIZED.format(8)), kernel("_Z4gemmPf", None)], ""),
        ("device functions are known by their findings", [
            kernel(SIZED.format(8)), kernel("_Z4helpPf", role="function")], ""),
    ],
)  # fmt: skip
def test_kernels_that_are_not_recorded_are_named(why: str, now: list[Kernel], said: str) -> None:
    gate = Gate("b.yaml", written(build(kernel(SIZED.format(8)))), Policy())
    judgement = check(build(*now), Policy())
    held = gate.judge(judgement.findings, build(*now), build(*now), undecided=judgement.undecided)
    notes = {each.code: each.message for each in gate.issues(held, build(*now))}
    assert notes.get("unrecorded-kernels", "").startswith(NOTED.format(said) if said else ""), why
    assert ("unrecorded-kernels" in notes) is bool(said), why
    assert gate.report(Report(kind="check", build=build(*now)), held).of_baseline == gate.issues(held, build(*now))
    own = gate._replace(own=written(build(*now)))
    assert not own.judge([], build(*now), build(*now), undecided=judgement.undecided).unknown, "the change records it"


@pytest.mark.parametrize(
    ("recorded", "now", "others"),
    [
        ((), ("13.0.88",), []),
        (("13.0.88",), ("13.0.88",), []),
        (("12.6",), ("12.6.85",), []),
        (("12.6.85",), ("12.6", "12.60.1"), ["12.60.1"]),
        (("12.9.86", "13.0.88"), ("13.0.88", "13.1.80"), ["13.1.80"]),
        (("13.0.88",), (), []),
    ],
)
def test_another_toolkit_than_the_recorded_one(
    recorded: tuple[str, ...], now: tuple[str, ...], others: list[str]
) -> None:
    assert others_than(recorded, now) == others
    of = Build(kernels=(kernel(),), units=tuple(Unit(version=each) for each in recorded))
    text = text_of(written(of))
    assert parse(text, "b.yaml").toolkits == recorded
    assert text_of(parse(text, "b.yaml")) == text
    gate = Gate("b.yaml", parse(text, "b.yaml"), Policy())
    after = Build(kernels=(kernel(),), units=tuple(Unit(version=each) for each in now))
    notes = [each.message for each in gate.issues(gate.judge([], after, after), after) if each.code == "other-toolkit"]
    assert [note.partition(" compiled this build")[0] for note in notes] == [f"CUDA {each}" for each in others]


def test_releases_are_reported_once() -> None:
    units = tuple(Unit(version=each) for each in ("12.6", "", "12.6.85", "9.0", "12.6.85"))
    assert Build(units=units).toolkits == ("9.0", "12.6.85")


def test_a_selection_holds_only_what_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "b.yaml"
    run("baseline", "write", BASE, "-o", path, "--launch", "*=256")
    arguments = ("--baseline", path, "--launch", "*=256", "--kernel")
    assert run("check", HEAD, *arguments, "stage").returncode == 0
    assert run("check", HEAD, *arguments, "sums").returncode == 1


# ---- the file ------------------------------------------------------------------------------------------------------


def test_prune_lowers_and_raises_nothing() -> None:
    old = written(build(kernel(registers=64)))
    assert rules(became(build(kernel(registers=64)), pruned(build(kernel(registers=40)), old))) == ["register-growth"]
    assert pruned(build(kernel(registers=72)), old) == old
    unknown = build(replace(kernel(), usage=Usage(spill_store_bytes=0, spill_load_bytes=0)))
    assert pruned(unknown, old) == old
    assert written(unknown, old) == old, "what this input does not report stays recorded"
