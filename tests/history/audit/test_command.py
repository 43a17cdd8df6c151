"""`spillscan history audit`: labels, exit codes, what it prints."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spillscan.cli import main
from spillscan.history.audit import Summary, pool
from spillscan.history.audit.messages import FileOutcome
from spillscan.history.dataset import open_dataset
from tests.conftest import FIXTURES
from tests.services import git

DEMO = FIXTURES / "demo"


class Here(ThreadPoolExecutor):
    """Executor in this process, since new processes would only import everything again."""

    _processes: dict[int, object] | None = None

    def __init__(self, *_: object) -> None:
        super().__init__(1)


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "ProcessPoolExecutor", Here)


def audit(*arguments: object) -> int:
    return main(["history", "audit", "--jobs", "1", *map(str, arguments)])


def test_build_after_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    assert audit(DEMO / "base.log", "--dataset", data, "--label", "v1", "--meta", "branch=main") == 0
    assert capsys.readouterr().out == f"1 file read: 10 kernel records, {(DEMO / 'base.log').stat().st_size:,} B\n"
    assert audit(DEMO / "head.log", "--dataset", data, "--label", "v2") == 0
    assert "12 kernel records (2 spilling)" in capsys.readouterr().out
    assert audit(DEMO / "base.log", "--dataset", data, "--label", "v1") == 0
    assert capsys.readouterr().out == "0 files read: 0 kernel records, 0 B\n1 file already in the dataset\n"
    commits = [json.loads(path.read_text()) for path in data.rglob("*.json")]
    assert [each["meta"] for each in commits if each["label"] == "v1"] == [{"branch": "main"}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x", "--label", "v1", "--meta", "oops"], "--meta oops: key or value is missing; write --meta KEY=VALUE"),
        (["x", "--label", ""], "the label is empty"),
        (["/no/where", "--label", "v1"], "no such file: /no/where"),
        ([str(DEMO / "base.log"), "--label", "v1", "--meta", "time=soon"], "--meta time='soon' is not a date"),
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
    assert said.out == "0 files read: 0 kernel records, 0 B\n1 file skipped: no build output (1)\n"
    assert said.err.startswith("spillscan: no build log, disassembly or binary was read (1 file); ")


def test_it_does_not_pass_if_a_file_was_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "build.log").write_bytes((DEMO / "base.log").read_bytes())
    (tree / "cut\x1b[2J.o").write_bytes(b"\x7fELF" + bytes(60))
    options = (tree, "--dataset", tmp_path / "data", "--label", "v1")
    assert audit(*options) == 2
    assert "\x1b" not in capsys.readouterr().out, "a file's name does not act in a terminal"
    assert audit(*options) == 2, "a failed file is read again"
    assert "1 file could not be read [unreadable]; " in capsys.readouterr().err
    assert audit(*options, "--accept", "unreadable=*/cut*") == 0
    capsys.readouterr()
    assert audit(*options, "--exclude", "cut*") == 0
    assert "excluded (1)" in capsys.readouterr().out


def test_the_summary_and_history_count_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    shutil.copy(DEMO / "head.log", tree / "build.log")
    shutil.copy(FIXTURES / "ptxas" / "limits-13.5.log", tree / "failed.log")
    (tree / "cut.o").write_bytes(b"\x7fELF" + bytes(60))
    options = (tree, "--dataset", tmp_path / "data", "--label", "v1")
    assert audit(*options) == 2
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("2 files read: 17 kernel records (2 spilling), ")
    assert said[1] == "1 file failed:"
    assert said[3] == "1 gap: build-failed (1)"
    assert main(["history", "--dataset", str(tmp_path / "data"), "-f", "json"]) == 0
    (info,) = json.loads(capsys.readouterr().out)["builds"]
    figures = {name: info[name] for name in ("files", "kernels", "spilling", "failed", "gaps")}
    assert figures == {"files": 3, "kernels": 17, "spilling": 2, "failed": 1, "gaps": 1}

    for _ in range(2):  # what was read before hides what it hid
        assert audit(*options) == 2
        said = capsys.readouterr()
        assert "1 file could not be read [unreadable], incomplete input [build-failed]; " in said.err
        assert "1 gap: build-failed (1)" in said.out
    assert audit(*options, "--accept", "build-failed=*/failed.log", "--accept", "unreadable=*.o") == 0
    assert audit(*options, "--accept", "build-failed=*/other.log", "--accept", "unreadable=*.o") == 2


def test_a_log_and_its_object_are_one_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inputs = (FIXTURES / "ptxas" / "roles-kept-13.5.log", FIXTURES / "binary" / "roles-kept-sm_90a-13.5.cubin.zst")
    assert audit(*inputs, "--dataset", tmp_path / "data", "--label", "v1") == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("2 files read: 12 kernel records (6 spilling), ")
    assert said[1] == "after joining records of the same kernel: 8 kernels (4 spilling)"


def test_strict_counts_harmless_issues_too(tmp_path: Path) -> None:
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
        assert "incomplete input [no-kernel]" in capsys.readouterr().err
    assert audit(log, "--dataset", tmp_path / "data", "--label", "v1", "--accept", "no-kernel") == 0


def test_the_summary_folds_failures() -> None:
    summary = Summary()
    for number in range(30):
        summary.count(FileOutcome(label="v1", uri=f"{number:02}.o", state="failed", reason="damaged"))
    assert summary.text(2).splitlines() == [
        "0 files read: 0 kernel records, 0 B",
        "30 files failed:",
        "  00.o: damaged",
        "  01.o: damaged",
        "  … 28 more (--all shows them)",
    ]


def test_a_label_that_git_knows_has_its_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-01-02T00:00:00Z")
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "one")
    git(tmp_path, "tag", "v1.2")
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data"
    assert audit(DEMO / "base.log", "--dataset", data, "--label", "v1.2") == 0
    assert audit(DEMO / "head.log", "--dataset", data, "--label", "night", "--meta", "commit=v1.2") == 0
    assert audit(DEMO / "head.log", "--dataset", data, "--label", "v9", "--meta", "time=2026-01-01") == 0
    builds = open_dataset(str(data)).builds
    assert [build.label for build in builds] == ["v9", "night", "v1.2"]
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert [build.meta.get("commit") for build in builds] == [None, commit, commit]
    assert builds[1].time == builds[2].time
