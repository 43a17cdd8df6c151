"""Baselines in real git repositories: what merges, what does not, and the baseline of the merge base."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from spillscan.judging.baseline.file import Baseline, parse, text_of
from tests.conftest import FIXTURES, ROOT, run
from tests.judging.baseline.support import build, kernel, written

BASE, HEAD = FIXTURES / "demo" / "base.log", FIXTURES / "demo" / "head.log"
NAME = "spillscan-baseline.jsonl"
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
        f"spillscan: {NAME}:{line}: unresolved merge conflict; keep the lines that you want of either side\n"
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
    (repository / NAME).write_text(changed + changed.partition("\n")[2])
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


SPILLS = "accept:\n- {rule: spill, reason: r}\n"
LAUNCH = "kernels:\n- match: '*'\n  launch: {threads_per_block: 1024}\n"


@pytest.mark.parametrize(
    ("why", "base", "own", "options", "status"),
    [
        ("its own limits", "", "max_spill_bytes: none\n", (), 1),
        ("its own severities", "", "severity: {spill: off}\n", (), 1),
        ("its own entries of accept", "", SPILLS, (), 1),
        ("entries of accept of the merge base", SPILLS, "", (), 0),
        (
            "limits of the merge base",
            "max_spill_bytes: none\nmax_spill_growth_bytes: none\n",
            "max_spill_bytes: 0\n",
            (),
            0,
        ),
        ("its own fail_on", "", "fail_on: never\n", (), 1),
        ("options of the job", "", "", ("--severity", "spill=off"), 0),
        ("a policy at another place", "", "", ("--config", "other.yaml"), 1),
        ("its own launch of known kernels", SPILLS, LAUNCH, (), 0),
    ],
)
def test_what_counts_of_a_change(
    why: str, base: str, own: str, options: tuple[str, ...], status: int, repository: Path
) -> None:
    """Only figures of the first kernel are recorded; the rest is new."""
    write(repository, BASE)
    policy = repository / "spillscan.yaml"
    named = f"baseline: {NAME}\nmax_register_growth: none\n"
    policy.write_text(named + base)
    commit(repository)
    git(repository, "switch", "-qc", "feature")
    policy.write_text(named + own)
    (repository / "other.yaml").write_text("max_spill_bytes: none\n")
    commit(repository)
    words = ("--baseline-from", "main", *options, *(("--baseline", NAME) if "--config" in options else ()))
    result = run("check", HEAD, *words, cwd=repository, env=ENVIRONMENT)
    assert result.returncode == status, (why, result.stdout, result.stderr)


def test_launches_of_a_change_count_for_its_new_kernels(repository: Path) -> None:
    policy, log, whole = repository / "spillscan.yaml", repository / "half.log", BASE.read_text()
    report = (
        "ptxas info    : Compiling entry function '_Z3newPf' for 'sm_80'\n"
        "ptxas info    : Function properties for _Z3newPf\n"
        "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 80 registers, 360 bytes cmem[0]\n"
    )
    log.write_text(whole + report)
    write(repository, BASE)
    policy.write_text(f"baseline: {NAME}\n")
    commit(repository)
    policy.write_text(f"baseline: {NAME}\n{LAUNCH}")
    result = run("check", log, "--baseline-from", "HEAD", cwd=repository, env=ENVIRONMENT)
    assert result.returncode == 1
    assert [line for line in result.stdout.decode().splitlines() if "[launch-fails" in line and "new (sm_80)" in line]
    assert result.stdout.count(b"[launch-fails") == 1


@pytest.mark.parametrize("way", ["link", "folder", "submodule", "climbing", "absolute"])
def test_ways_out_of_the_repository_are_refused(way: str, repository: Path, tmp_path: Path) -> None:
    write(tmp_path, HEAD)
    (repository / "a").write_text("x")
    place = "b.jsonl"
    if way == "link":
        (repository / place).symlink_to(tmp_path / NAME)
    elif way == "folder":
        (repository / "out").symlink_to(tmp_path)
        place = f"out/{NAME}"
    elif way == "submodule":
        inner = repository / "sub"
        inner.mkdir()
        git(inner, "init", "-q")
        write(inner, HEAD)
        commit(inner)
        place = f"sub/{NAME}"
    else:
        place = f"../{NAME}" if way == "climbing" else str(tmp_path / NAME)
    commit(repository)
    result = run("check", HEAD, "--baseline", place, "--baseline-from", "HEAD", cwd=repository, env=ENVIRONMENT)
    assert result.returncode == 2, result.stdout
    assert result.stderr.count(b"\n") == 1
    words = {"link": b"link out of", "folder": b"link out of", "submodule": b"submodule"}
    assert words.get(way, b"outside of the repository") in result.stderr


def test_a_link_within_the_repository_is_followed_as_it_was(repository: Path) -> None:
    write(repository, BASE)
    (repository / "b.jsonl").symlink_to(NAME)
    commit(repository)
    write(repository, HEAD)
    result = run("check", HEAD, "--baseline", "b.jsonl", "--baseline-from", "HEAD", cwd=repository, env=ENVIRONMENT)
    assert result.returncode == 1


def test_a_first_baseline_counts_and_says_so(repository: Path) -> None:
    (repository / "a").write_text("x")
    commit(repository)
    write(repository, HEAD)
    result = check(repository, "--baseline-from", "HEAD")
    assert result.returncode == 0
    assert b"the merge base with HEAD has neither policy nor baseline: this change's own files count\n" in result.stderr


def test_a_policy_of_the_change_names_the_baseline_of_the_merge_base(repository: Path) -> None:
    write(repository, BASE)
    commit(repository)
    write(repository, HEAD)
    (repository / "spillscan.yaml").write_text(f"baseline: {NAME}\n")
    result = run("check", HEAD, "--baseline-from", "HEAD", cwd=repository, env=ENVIRONMENT)
    assert result.returncode == 1, result.stderr
    assert b"neither policy nor baseline" not in result.stderr


def test_what_git_cannot_tell_is_one_line(change: Path, tmp_path: Path) -> None:
    def refusal(folder: Path, *arguments: str | Path) -> str:
        result = check(folder, *arguments)
        assert result.returncode == 2
        assert result.stdout == b""
        line = result.stderr.decode()
        assert line.count("\n") == 1
        return line

    assert "git knows no 'origin/none' here; git fetch it" in refusal(change, "--baseline-from", "origin/none")
    assert "'--output=x' is not a git revision" in refusal(change, "--baseline-from=--output=x")
    assert "is not a git revision" in refusal(change, "--baseline-from", "")
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
    (nowhere / "spillscan.yaml").write_text("baseline: gone.jsonl\n")
    commit(nowhere)
    result = run("check", HEAD, "--baseline-from", "HEAD", cwd=nowhere, env=ENVIRONMENT)
    assert result.returncode == 2
    assert b"has no gone.jsonl; merge the baseline first" in result.stderr


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
    file.write_text(good.replace("spillscan-baseline 1", "spillscan-baseline 9"))
    commit(repository)
    file.write_text(good)
    result = check(repository, "--baseline-from", "HEAD")
    assert result.returncode == 2
    assert b":1: format 'spillscan-baseline 9'; this spillscan reads 'spillscan-baseline 1'" in result.stderr


def test_no_git(change: Path, tmp_path: Path) -> None:
    result = run(
        *("check", HEAD, "--baseline", NAME, "--baseline-from", "main"),
        cwd=change,
        env=ENVIRONMENT | {"PATH": str(tmp_path)},
    )
    assert result.returncode == 2
    assert result.stderr == b"spillscan: --baseline-from: cannot run git: No such file or directory\n"
