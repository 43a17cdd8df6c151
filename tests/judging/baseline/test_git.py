"""Baselines in real git repositories: what merges, what does not, and the baseline of the merge base."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from spillscan.judging.baseline.file import parse, text_of
from spillscan.judging.baseline.model import Baseline
from tests.conftest import FIXTURES, ROOT, run
from tests.judging.baseline.support import build, kernel, written

BASE, HEAD = FIXTURES / "demo" / "base.log", FIXTURES / "demo" / "head.log"
NAME = "spillscan-baseline.yaml"
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.invalid",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.invalid",
    "PYTHONPATH": str(ROOT),
}

FAMILIES = {
    family: [f"_Z{len(family) + 1}{family}{n}Pf" for n in range(8)] for family in ("copy", "gemm", "scan", "sort")
}
COMMON = [symbol for symbols in FAMILIES.values() for symbol in symbols]


def git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=folder, env=ENVIRONMENT, capture_output=True, check=False)


def commit(folder: Path, message: str = "change") -> None:
    assert git(folder, "add", "-A").returncode == 0
    assert git(folder, "commit", "-qm", message).returncode == 0


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    assert git(folder, "init", "-q", "-b", "main").returncode == 0
    return folder


# ---- merges --------------------------------------------------------------------------------------------------------


def baseline_of(symbols: Iterable[str], spilling: Iterable[str] = (), spills: tuple[int, int] = (8, 8)) -> Baseline:
    worse = set(spilling)
    return written(
        build(
            *(
                kernel(each, spills if each in worse else (0, 0), arch=arch)
                for each in symbols
                for arch in ("sm_80", "sm_90")
            )
        )
    )


def merged(repository: Path, base: Baseline, ours: Baseline, theirs: Baseline) -> tuple[int, str]:
    """(exit status of git merge, the file as it then is)."""
    file = repository / NAME
    file.write_text(text_of(base))
    commit(repository)
    git(repository, "switch", "-qc", "theirs")
    file.write_text(text_of(theirs))
    commit(repository)
    git(repository, "switch", "-q", "main")
    file.write_text(text_of(ours))
    commit(repository)
    return git(repository, "merge", "-q", "theirs").returncode, file.read_text()


def test_both_sides_add_kernels(repository: Path) -> None:
    ours, theirs = ["_Z5gemm8Pf", "_Z5gemm9Pf"], ["_Z5sort8Pf"]
    status, text = merged(repository, baseline_of(COMMON), baseline_of(COMMON + ours), baseline_of(COMMON + theirs))
    assert status == 0
    assert text == text_of(baseline_of(COMMON + ours + theirs))


def test_one_side_removes_and_the_other_adds(repository: Path) -> None:
    rest = [symbol for symbol in COMMON if symbol not in FAMILIES["scan"]]
    status, text = merged(repository, baseline_of(COMMON), baseline_of(rest), baseline_of([*COMMON, "_Z5copy8Pf"]))
    assert status == 0
    assert text == text_of(baseline_of([*rest, "_Z5copy8Pf"]))


def test_both_sides_record_findings(repository: Path) -> None:
    ours, theirs = ["_Z5gemm2Pf"], ["_Z5scan6Pf", "_Z5sort1Pf"]
    status, text = merged(repository, baseline_of(COMMON), baseline_of(COMMON, ours), baseline_of(COMMON, theirs))
    assert status == 0
    assert text == text_of(baseline_of(COMMON, ours + theirs))


def test_one_side_adopts_and_the_other_suppresses(repository: Path) -> None:
    base, ours = baseline_of(COMMON), baseline_of(COMMON, ["_Z5gemm2Pf"])
    suppression = '- {kernel: "x*", rule: spill, reason: r, until: 2030-01-01}'
    theirs = Baseline(
        entries=base.entries, preamble=base.preamble.replace("suppressions: []", f"suppressions:\n{suppression}")
    )
    status, text = merged(repository, base, ours, theirs)
    assert status == 0
    both = parse(text, NAME)
    assert both.entries == ours.entries
    assert len(both.suppressions) == 1


def test_both_sides_change_one_entry(repository: Path) -> None:
    status, text = merged(
        repository,
        baseline_of(COMMON, ["_Z5gemm2Pf"], (8, 8)),
        baseline_of(COMMON, ["_Z5gemm2Pf"], (16, 8)),
        baseline_of(COMMON, ["_Z5gemm2Pf"], (24, 8)),
    )
    assert status == 1
    result = run("check", HEAD, "--baseline", NAME, cwd=repository, env=ENVIRONMENT)
    assert result.returncode == 2
    line = text[: text.index("<<<<<<<")].count("\n") + 1
    assert result.stderr.decode() == (
        f"spillscan: {NAME}:{line}: a merge conflict is not resolved; every line below `kernels:` is independent: "
        "keep the lines that you want of either side\n"
    )


def test_a_union_of_both_sides_is_reported(repository: Path) -> None:
    """`merge=union` joins what two branches add at one place, and leaves an entry twice that both changed."""
    (repository / ".gitattributes").write_text(f"{NAME} merge=union\n")
    added = merged(
        repository, baseline_of(["_Z1aPf"]), baseline_of(["_Z1aPf", "_Z1bPf"]), baseline_of(["_Z1aPf", "_Z1cPf"])
    )
    assert added[0] == 0
    assert parse(added[1], NAME).entries == baseline_of(["_Z1aPf", "_Z1bPf", "_Z1cPf"]).entries
    changed = text_of(baseline_of(["_Z1aPf"], ["_Z1aPf"], (16, 8)))
    (repository / NAME).write_text(changed.replace("kernels:\n", "kernels:\n" + changed.split("kernels:\n")[-1]))
    result = run("check", HEAD, "--baseline", NAME, cwd=repository, env=ENVIRONMENT)
    assert result.returncode == 2
    assert b"appears twice" in result.stderr


# ---- the baseline of the merge base --------------------------------------------------------------------------------


@pytest.fixture
def change(repository: Path) -> Path:
    """A branch that spills, and whose own baseline excuses that; `main` has moved on meanwhile."""
    write(repository, BASE)
    commit(repository)
    git(repository, "switch", "-qc", "feature")
    write(repository, HEAD)
    commit(repository)
    git(repository, "switch", "-q", "main")
    (repository / "other").write_text("x")
    commit(repository)
    git(repository, "switch", "-q", "feature")
    return repository


def write(folder: Path, log: Path) -> None:
    assert run("baseline", "write", log, cwd=folder, env=ENVIRONMENT).returncode == 0


def check(folder: Path, *arguments: str | Path, log: Path = HEAD) -> subprocess.CompletedProcess[bytes]:
    return run("check", log, "--baseline", NAME, *arguments, cwd=folder, env=ENVIRONMENT)


def test_a_change_cannot_excuse_itself(change: Path) -> None:
    assert check(change).returncode == 0
    result = check(change, "--baseline-from", "main")
    assert result.returncode == 1
    assert result.stdout.count(b"[spill, new]") == 2
    diff = run(
        *("diff", BASE, HEAD, "--fail-on", "policy", "--baseline", NAME, "--baseline-from", "main"),
        cwd=change,
        env=ENVIRONMENT,
    )
    assert diff.returncode == 1


def test_it_works_from_a_folder_below(change: Path) -> None:
    below = change / "ci"
    below.mkdir()
    result = run("check", HEAD, "--baseline", f"../{NAME}", "--baseline-from", "main", cwd=below, env=ENVIRONMENT)
    assert result.returncode == 1, result.stderr


def test_kernels_that_the_change_pruned_are_not_missed(repository: Path) -> None:
    write(repository, HEAD)
    commit(repository)
    git(repository, "switch", "-qc", "feature")
    spills_alone = ("--set", "max_register_growth=none")
    gone = check(repository, "--baseline-from", "main", *spills_alone, log=BASE)
    assert gone.returncode == 2, "kernels vanished, and nothing says on purpose"
    assert run("baseline", "prune", BASE, cwd=repository, env=ENVIRONMENT).returncode == 0
    assert check(repository, "--baseline-from", "main", *spills_alone, log=BASE).returncode == 0


def test_a_change_can_renew_no_suppression_but_mend_it(repository: Path) -> None:
    write(repository, BASE)
    file = repository / NAME
    suppressed = 'suppressions:\n- {kernel: "gemm", rule: spill, reason: r, until: 2026-01-31}\n'
    file.write_text(file.read_text().replace("suppressions: []\n", suppressed))
    commit(repository)
    git(repository, "switch", "-qc", "feature")
    day = ("--today", "2026-02-01")
    file.write_text(file.read_text().replace("2026-01-31", "2026-03-31"))
    assert check(repository, "--baseline-from", "main", *day).returncode == 1
    assert check(repository, "--baseline-from", "main", *day, log=BASE).returncode == 0
    file.write_text(file.read_text().replace("2026-03-31", "2026-01-31"))
    assert check(repository, "--baseline-from", "main", *day, log=BASE).returncode == 1


def test_what_git_cannot_tell_is_one_line(change: Path, tmp_path: Path) -> None:
    def refusal(folder: Path, *arguments: str | Path) -> str:
        result = check(folder, *arguments)
        assert result.returncode == 2
        assert result.stdout == b""
        line = result.stderr.decode()
        assert line.count("\n") == 1
        return line

    assert "git knows no 'origin/none' here; git fetch it" in refusal(change, "--baseline-from", "origin/none")
    assert "'--output=x' is not a git ref" in refusal(change, "--baseline-from=--output=x")
    assert "is not a git ref" in refusal(change, "--baseline-from", "")
    git(change, "switch", "-q", "--orphan", "apart")
    write(change, HEAD)
    commit(change)
    assert "have no merge base; they have no common history" in refusal(change, "--baseline-from", "main")
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    (nowhere / NAME).write_bytes((change / NAME).read_bytes())
    assert "is in no git repository" in refusal(nowhere, "--baseline-from", "main")
    assert git(nowhere, "init", "-q").returncode == 0
    assert "HEAD has no commit yet" in refusal(nowhere, "--baseline-from", "main")
    commit(nowhere)
    assert "has no ci/b.yaml; bring the baseline in" in _absent(nowhere)
    result = run("check", HEAD, "--baseline-from", "main", cwd=change, env=ENVIRONMENT)
    assert result.returncode == 2
    assert b"--baseline-from without --baseline" in result.stderr


def _absent(folder: Path) -> str:
    (folder / "ci").mkdir()
    arguments = ("check", HEAD, "--baseline", "ci/b.yaml", "--baseline-from", "HEAD")
    result = run(*arguments, cwd=folder, env=ENVIRONMENT)
    assert result.returncode == 2
    return result.stderr.decode()


def test_a_shallow_clone_is_reported(change: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    url = change.as_uri()
    assert git(tmp_path, "clone", "-q", "--depth", "1", "--no-single-branch", url, str(clone)).returncode == 0
    result = check(clone, "--baseline-from", "origin/main")
    assert result.returncode == 2
    assert b"this clone is shallow: fetch more of the history first" in result.stderr


def test_a_broken_baseline_at_the_merge_base_is_reported(repository: Path) -> None:
    write(repository, BASE)
    file = repository / NAME
    good = file.read_text()
    file.write_text(good.replace("version: 1", "version: 9"))
    commit(repository)
    file.write_text(good)
    result = check(repository, "--baseline-from", "HEAD")
    assert result.returncode == 2
    assert b":4: version 9; this spillscan reads version 1" in result.stderr


def test_no_git(change: Path, tmp_path: Path) -> None:
    result = run(
        *("check", HEAD, "--baseline", NAME, "--baseline-from", "main"),
        cwd=change,
        env=ENVIRONMENT | {"PATH": str(tmp_path)},
    )
    assert result.returncode == 2
    assert result.stderr == b"spillscan: --baseline-from: cannot run git: No such file or directory\n"
