"""Notes of a gate on its baseline: kernels that only one of baseline and build has, and other toolkits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from spillscan.commands._baseline import Gate, others_than
from spillscan.judging.baseline.file import parse, text_of
from spillscan.judging.policy.effective import Policy
from spillscan.judging.rules import check
from spillscan.model import Build, Kernel
from spillscan.model.code import Maker, SassStats
from spillscan.reports.report import Report
from tests.conftest import FIXTURES, run
from tests.judging.baseline.support import build, kernel, written

BASE, HEAD = FIXTURES / "effects" / "base.log", FIXTURES / "effects" / "head.log"
SIZED = "_Z6kernelILi{}EEvPfii"


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ([kernel(SIZED.format(8))], ""),
        ([kernel(SIZED.format(each)) for each in (8, 16)], "1 kernel (kernel<16> (sm_90a))"),
        ([kernel(SIZED.format(8)), kernel(SIZED.format(8), arch="sm_120")], "1 kernel (kernel<8> (sm_120))"),
        ([kernel(SIZED.format(8).replace("6kernel", "9kernel_v2"))], "1 kernel (kernel_v2<8> (sm_90a))"),
        ([kernel(SIZED.format(8)), kernel("_Z4gemmPf", (8, 8))], ""),  # a finding, and not recorded
        ([kernel(SIZED.format(8)), kernel("_Z4gemmPf", None)], ""),  # a gap, and not recorded
    ],
)
def test_kernels_that_are_not_recorded_are_named(now: list[Kernel], said: str) -> None:
    gate, of = Gate("b.jsonl", written(build(kernel(SIZED.format(8)))), Policy()), build(*now)
    outcome = check(of, Policy())
    held = gate.apply(outcome.findings, of, of, undecided=outcome.undecided)
    notes = {each.code: each.message for each in gate.issues(held, of)}
    wanted = f"not in the baseline, so only limits apply: {said}" if said else ""
    assert notes.get("unrecorded-kernels", "").partition("; to record")[0] == wanted
    assert gate.report(Report(kind="check", build=of), held).of_baseline == gate.issues(held, of)
    own = gate._replace(own=written(of))
    assert not own.apply([], of, of, undecided=outcome.undecided).of("unknown"), "the change records it"


def test_replaced_kernels_are_listed(tmp_path: Path) -> None:
    text = BASE.read_text().replace("'relax'", "'relax_v2'").replace("for relax", "for relax_v2")
    head = re.sub(
        r"(.*'sums'.*\n(?:.*\n){4})", lambda match: match[1].replace("sums", "y").replace("Used ", "Used 1"), text
    )
    (tmp_path / "new.log").write_text(head)
    assert run("baseline", "write", BASE, "-o", tmp_path / "b.jsonl").returncode == 0
    result = run("check", "new.log", "--baseline", "b.jsonl", cwd=tmp_path)
    said = (result.stdout + result.stderr).decode()
    assert "not in this build: 2 kernels (relax (sm_90), sums (sm_90)) of b.jsonl;" in said, said


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
def test_another_toolkit_is_noted(recorded: tuple[str, ...], now: tuple[str, ...], others: list[str]) -> None:
    assert others_than(recorded, now) == others
    of, after = (_made_by(found) for found in (recorded, now))
    gate = Gate("b.jsonl", parse(text_of(written(of)), "b.jsonl"), Policy())
    notes = [each.message for each in gate.issues(gate.apply([], after, after), after) if each.code == "other-toolkit"]
    assert [note.partition(",")[0] for note in notes] == [f"this build uses CUDA {each}" for each in others]


def _made_by(releases: Sequence[str]) -> Build:
    makers = [Maker(tool="ptxas", version=each, options="") for each in releases]
    codes = [SassStats(instructions=1, code_bytes=16, opcodes=(), maker=each) for each in makers]
    return build(kernel(), *(replace(kernel(f"k{number}"), sass=each) for number, each in enumerate(codes)))
