"""Entries of ``accept``: which findings and gaps they accept, and until when."""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import FIXTURES, run

HEAD = FIXTURES / "demo" / "head.log"
"""gemm<8> spills on sm_80 and sm_90a."""


def on(day: str) -> dict[str, str] | None:
    """The environment of a run on that day; empty: today."""
    seconds = datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp() if day else 0
    return {**os.environ, "SOURCE_DATE_EPOCH": f"{seconds:.0f}"} if day else None


def check(folder: Path, entry: str, day: str) -> tuple[int, list[tuple[str, str | None]], list[str]]:
    """(exit status, (arch, state) of each finding, codes of policy issues)."""
    (folder / "spillscan.yaml").write_text(f"accept:\n- {{{entry}}}\n")
    done = run("check", HEAD, "-f", "json", cwd=folder, env=on(day))
    document: Any = json.loads(done.stdout)
    found = [(each["arch"], each.get("baseline_state")) for each in document["findings"]]
    codes = [each["code"] for each in document["issues"]]
    return done.returncode, sorted(found), [each for each in codes if "accept" in each or each == UNUSED]


BOTH = [("sm_80", "suppressed"), ("sm_90a", "suppressed")]
UNUSED = "policy-names-nothing"
NONE = [("sm_80", None), ("sm_90a", None)]


@pytest.mark.parametrize(
    ("entry", "day", "status", "found", "issues"),
    [
        ("rule: spill, reason: r", "", 0, BOTH, []),
        ("rule: spill, reason: r, kernel: 'gemm<8>'", "", 0, BOTH, []),
        ("rule: spill, reason: r, kernel: '*model::gemm*'", "", 0, BOTH, []),
        ("rule: spill, reason: r, kernel: softmax", "", 1, NONE, [UNUSED]),
        ("rule: stack, reason: r", "", 1, NONE, [UNUSED]),
        ("gap: truncated, reason: r", "", 1, NONE, [UNUSED]),
        ("rule: blocks-traded, reason: r", "", 1, NONE, []),
        ("rule: spill, reason: r, arch: sm_9*", "", 1, [("sm_80", None), ("sm_90a", "suppressed")], []),
        ("rule: spill, reason: r, until: 2030-01-31", "2030-01-01", 0, BOTH, []),
        ("rule: spill, reason: r, until: 2030-01-31", "2030-01-24", 0, BOTH, ["accept-expires"]),
        ("rule: spill, reason: r, until: 2030-01-31", "2030-01-31", 0, BOTH, ["accept-expires"]),
        ("rule: spill, reason: r, until: 2030-01-31", "2030-02-01", 1, NONE, ["accept-expired"]),
    ],
)
def test_findings(entry: str, day: str, status: int, found: Any, issues: Any, tmp_path: Path) -> None:
    assert check(tmp_path, entry, day) == (status, found, issues)


@pytest.mark.parametrize("what", ["rule: spill", "gap: truncated"])
def test_an_entry_that_ended_is_named(what: str, tmp_path: Path) -> None:
    (tmp_path / "spillscan.yaml").write_text(f"accept:\n- {{{what}, reason: r, until: 2030-01-31}}\n")
    output = run("check", HEAD, cwd=tmp_path, env=on("2030-02-01")).stderr.decode()
    assert f"the `accept` entry for {what.partition(': ')[2]} with kernel '*' expired on 2030-01-31 (r)" in output


def test_by_option(tmp_path: Path) -> None:
    assert run("check", HEAD, "--accept", "spill=gemm*", cwd=tmp_path).returncode == 0
    assert run("check", HEAD, "--accept", "spill=softmax", cwd=tmp_path).returncode == 1


@pytest.mark.parametrize(
    ("inputs", "rename", "noted"),
    [
        ("check head.log", "a=b", True),
        ("check head.log --baseline b.jsonl", "model::gemm<*>=model::gone<*>", True),
        ("diff old.log head.log", "model::gone<*>*=model::gemm<*>*", False),
        ("diff old.log head.log", "model::gemm<*>*=model::gone<*>*", True),
    ],
)
def test_renames_that_pair_nothing_are_noted(inputs: str, rename: str, noted: bool, tmp_path: Path) -> None:
    (tmp_path / "head.log").write_bytes(HEAD.read_bytes())
    (tmp_path / "old.log").write_bytes(HEAD.read_bytes().replace(b"4gemm", b"4gone"))
    run("baseline", "write", "head.log", "-o", "b.jsonl", cwd=tmp_path)
    done = run(*inputs.split(), "--rename", rename, cwd=tmp_path)
    assert (b"pairs no removed kernel with an added one" in done.stderr) is noted


def test_accepted_findings_are_not_recorded(tmp_path: Path) -> None:
    (tmp_path / "spillscan.yaml").write_text("accept:\n- {rule: spill, reason: r, until: 2030-01-31}\n")
    run("baseline", "write", HEAD, cwd=tmp_path, env=on("2030-01-01"))
    call = ("check", HEAD, "--baseline", "spillscan-baseline.jsonl")
    assert run(*call, cwd=tmp_path, env=on("2030-01-01")).returncode == 0
    assert run(*call, cwd=tmp_path, env=on("2030-03-01")).stdout.count(b"[spill, new]") == 2
