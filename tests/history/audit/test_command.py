"""`spillscan history audit`: labels, exit codes, what it prints."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from spillscan.cli import main
from spillscan.history.audit import Summary
from spillscan.history.audit.messages import FileOutcome
from spillscan.history.dataset import open_dataset
from tests.conftest import FIXTURES, sized

DEMO = FIXTURES / "demo"


def audit(*arguments: object) -> int:
    return main(["history", "audit", "--jobs", "1", *map(str, arguments)])


def test_build_after_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    assert audit(DEMO / "base.log", "--dataset", data, "--label", "v1", "--meta", "branch=main") == 0
    assert capsys.readouterr().out == f"1 file read: 10 kernels, {(DEMO / 'base.log').stat().st_size:,} B\n"
    assert audit(DEMO / "head.log", "--dataset", data, "--label", "v2") == 2
    assert f"{data} holds v1; add v2 to it with --append" in capsys.readouterr().err
    assert audit(DEMO / "head.log", "--dataset", data, "--label", "v2", "--append") == 0
    assert "12 kernels (2 spill)" in capsys.readouterr().out
    assert audit(DEMO / "base.log", "--dataset", data, "--label", "v1") == 0, "the same build needs no --append"
    assert capsys.readouterr().out == "0 files read: 0 kernels, 0 B\n1 file finished before\n"
    commits = [json.loads(path.read_text()) for path in data.rglob("*.json")]
    assert [each["meta"] for each in commits if each["label"] == "v1"] == [{"branch": "main"}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--label", "v1"], "no INPUT for the label v1"),
        (["x", "--label", "v1", "--label", "v2"], "2 labels for the same inputs; say --label LABEL=INPUT for each"),
        (["x", "--label", "v1", "--meta", "oops"], "--meta oops is not a pair; write --meta KEY=VALUE"),
        (["x", "--label", ""], "'' is not a label"),
        (["/no/where", "--label", "v1"], "there is no /no/where"),
    ],
)
def test_calls_that_are_wrong(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit(*arguments, "--dataset", tmp_path / "data") == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_nothing_understood_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("nothing\n")
    assert audit(tmp_path / "notes.txt", "--dataset", tmp_path / "data", "--label", "v1") == 2
    said = capsys.readouterr()
    assert said.out == "0 files read: 0 kernels, 0 B\n1 file skipped: 1 no build output\n"
    assert said.err.startswith("spillscan: nothing in 1 file was understood; ")


def test_it_does_not_pass_where_a_file_was_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "build.log").write_bytes((DEMO / "base.log").read_bytes())
    (tree / "cut\x1b[2J.o").write_bytes(b"\x7fELF" + bytes(60))
    options = (tree, "--dataset", tmp_path / "data", "--label", "v1")
    assert audit(*options) == 2
    assert "\x1b" not in capsys.readouterr().out, "a file's name does not act in a terminal"
    assert audit(*options) == 2, "also where it failed before"
    assert "1 file could not be read; " in capsys.readouterr().err
    assert audit(*options, "--accept", "unreadable=*/cut*") == 0
    capsys.readouterr()
    assert audit(*options, "--retry-failed", "--exclude", "cut*") == 0
    assert "1 excluded" in capsys.readouterr().out


def test_the_summary_and_dataset_info_count_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    shutil.copy(DEMO / "head.log", tree / "build.log")
    shutil.copy(FIXTURES / "ptxas" / "limits-13.5.log", tree / "failed.log")
    (tree / "cut.o").write_bytes(b"\x7fELF" + bytes(60))
    options = (tree, "--dataset", tmp_path / "data", "--label", "v1")
    assert audit(*options) == 2
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("2 files read: 17 kernels (2 spill), ")
    assert said[1] == "1 file failed:"
    assert said[3] == "1 gap: 1 build-failed"
    assert main(["history", "dataset", "info", "--dataset", str(tmp_path / "data"), "-f", "json"]) == 0
    (info,) = json.loads(capsys.readouterr().out)
    figures = {name: info[name] for name in ("files", "kernels", "spilling", "failed", "gaps")}
    assert figures == {"files": 3, "kernels": 17, "spilling": 2, "failed": 1, "gaps": 1}

    for _ in range(2):  # what was read before hides what it hid
        assert audit(*options) == 2
        said = capsys.readouterr()
        assert "1 file could not be read and what was read has gaps: build-failed; " in said.err
        assert "1 gap: 1 build-failed" in said.out
    assert audit(*options, "--accept", "build-failed=*/failed.log", "--accept", "unreadable=*.o") == 0
    assert audit(*options, "--accept", "build-failed=*/other.log", "--accept", "unreadable=*.o") == 2


def test_strict_counts_what_hides_nothing_too(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    log.write_text((DEMO / "base.log").read_text() + "ptxas warning : The moon is full\n")
    options = (log, "--dataset", tmp_path / "data", "--label", "v1")
    assert audit(*options) == 0
    assert audit(*options, "--strict") == 2


def test_an_audit_that_sees_no_kernel_does_not_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "build.log"
    log.write_text("ptxas info    : 0 bytes gmem\n" * 40)
    for _ in range(2):
        assert audit(log, "--dataset", tmp_path / "data", "--label", "v1") == 2
        assert "what was read has gaps: no-kernel" in capsys.readouterr().err
    assert audit(log, "--dataset", tmp_path / "data", "--label", "v1", "--accept", "no-kernel") == 0


def test_a_build_that_left_no_kernel_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "night2.log").write_text("a.h:22:10: fatal error: b.h: No such file or directory\n")
    options = (tmp_path / "night2.log", DEMO / "base.log", "--each", "--dataset", tmp_path / "data")
    assert audit(*options) == 2
    said = capsys.readouterr()
    assert "no kernel was read of 1 build: night2" in said.out
    assert "what was read has gaps: no-kernel" in said.err


def test_builds_stand_in_the_order_in_which_they_are_given(tmp_path: Path) -> None:
    names = ("night9", "night1", "night5", "night3")
    for at, name in enumerate(names):  # the first takes longest
        (tmp_path / f"{name}.log").write_bytes((DEMO / "base.log").read_bytes() * (sized(60, 200) if at == 0 else 1))
    logs = [tmp_path / f"{name}.log" for name in names]
    data = tmp_path / "data"
    assert audit(*logs, "--each", "--dataset", data, "--jobs", "2") == 0
    assert tuple(build.label for build in open_dataset(str(data)).builds) == names


def test_the_summary_folds_what_failed() -> None:
    summary = Summary()
    for number in range(30):
        summary.count(FileOutcome(label="v1", uri=f"{number:02}.o", state="failed", reason="damaged"))
    assert summary.text(2).splitlines() == [
        "0 files read: 0 kernels, 0 B",
        "30 files failed:",
        "  00.o: damaged",
        "  01.o: damaged",
        "  … 28 more (--all shows them)",
    ]


def git(folder: Path, *words: str, date: str = "2026-01-01T00:00:00Z") -> str:
    """What git says in a repository of a test."""
    who = {f"GIT_{role}_{what}": "A B <a@b>" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    known = os.environ | who | {"GIT_COMMITTER_DATE": date, "GIT_CONFIG_GLOBAL": os.devnull}
    return subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True, text=True, env=known).stdout


def test_a_past_is_brought_along_in_one_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each file a build of its own; its date and place are those of the commit that it is called by."""
    git(tmp_path, "init", "-q")
    for number in range(3):
        # the clock of the second commit was wrong: the order of the commits is not that of their dates
        date = f"2026-01-0{(2, 1, 3)[number]}T00:00:00Z"
        git(tmp_path, "commit", "-q", "--allow-empty", "-m", f"change {number}", date=date)
        git(tmp_path, "tag", f"v1.{number}")
        (tmp_path / f"v1.{number}.log").write_bytes((DEMO / "base.log").read_bytes())
    logs = sorted(tmp_path.glob("*.log"))
    data = tmp_path / "data"
    assert audit(*logs, "--each", "--git", tmp_path, "--dataset", data, "--meta", "branch=main") == 0
    assert capsys.readouterr().out.startswith("3 files read: 30 kernels")
    builds = open_dataset(str(data)).builds
    assert [build.label for build in builds] == ["v1.1", "v1.0", "v1.2"]
    assert [build.meta["commits"] for build in builds] == ["2", "1", "3"]
    assert builds[0].meta["commit"] == git(tmp_path, "rev-parse", "v1.1").strip()
    assert {build.meta["branch"] for build in builds} == {"main"}
    assert builds[2].meta["subject"] == "change 2"
    (tmp_path / "unknown.log").write_bytes(b"")
    for words, message in (
        ((tmp_path / "unknown.log", "--each", "--git", tmp_path), "git knows no commit 'unknown'"),
        ((logs[0], tmp_path / "sub" / ".." / logs[0].name, "--each"), "are both called v1.0"),
        ((logs[0], "--each", "--label", "x"), "--each takes labels from the names of INPUTs"),
        ((logs[0], "--label", "x", "--git", data / "none"), "is in no git repository"),
        ((logs[0],), "nothing says what the build is called"),
    ):
        assert audit(*words, "--dataset", tmp_path / "other") == 2
        assert message in capsys.readouterr().err


def test_a_table_says_what_builds_there_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "builds.csv"
    base, head = DEMO / "base.log", DEMO / "head.log"
    table.write_text(f"label,input,time,branch\nv2,{head},2026-02-02,main\nv1,{base},2026-01-01,\n\n")
    assert audit("--dataset", tmp_path / "data", "--meta", table, "--meta", "branch=side") == 0
    capsys.readouterr()
    assert [(build.label, build.meta) for build in open_dataset(str(tmp_path / "data")).builds] == [
        ("v1", {"time": "2026-01-01", "branch": "side"}),
        ("v2", {"time": "2026-02-02", "branch": "main"}),
    ]
    assert audit(base, "--label", "v3", "--append", "--dataset", tmp_path / "data", "--meta", table) == 2
    assert "no line of the table is about v3" in capsys.readouterr().err
    for text, message in (
        ("name,time\nv1,2026", "must name a column `label`"),
        ("", "must name a column `label`"),
        ("label,time\nv1", "row 2 has 1 cell, the first line 2"),
        ("label,time\nv1,yesterday", "v1: time 'yesterday' is not a date"),
        ("label,time\n,2026-01-01", "row 2 has no label"),
        ("label,branch\nv1,a\nv1,b", "row 3 says another branch of v1"),
        ('label,branch\nv1,"a', "is not CSV"),
    ):
        table.write_text(text)
        assert audit(base, "--label", "v1", "--dataset", tmp_path / "other", "--meta", table) == 2
        assert message in capsys.readouterr().err


def test_a_failed_file_keeps_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cut.o").write_bytes(b"\x7fELF" + bytes(60))
    call = (DEMO / "base.log", tmp_path / "cut.o", "--dataset", tmp_path / "data", "--label", "v1")
    assert audit(*call) == 2
    (reason,) = [line for line in capsys.readouterr().out.splitlines() if "cut.o" in line]
    assert audit(*call) == 2
    assert f"{reason} (as before; --retry-failed tries again)" in capsys.readouterr().out
