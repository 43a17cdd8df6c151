"""Baselines in git: what merges, what a change may alter, and paths that lead out of the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from spillscan.judging.baseline.file import Baseline, parse, text_of
from tests.conftest import FIXTURES, run
from tests.judging.baseline.support import ENVIRONMENT, build, commit, git, kernel, written

BASE, HEAD = FIXTURES / "demo" / "base.log", FIXTURES / "demo" / "head.log"
NAME = "spillscan-baseline.jsonl"
COMMON = [f"_Z5{family}{number}Pf" for family in ("copy", "gemm", "scan", "sort") for number in range(8)]
CONFLICT = "unresolved merge conflict; keep the lines you want from each side\n"


def baseline_of(symbols: list[str], spills: int = 0) -> Baseline:
    """Baseline of some kernels, of which `gemm2` spills."""
    kernels = [kernel(each, (spills, 8) if spills and each == "_Z5gemm2Pf" else (0, 0)) for each in symbols]
    return written(build(*kernels))


def spillscan(folder: Path, *words: str | Path) -> tuple[int, str]:
    done = run(*words, cwd=folder, env=ENVIRONMENT)
    return done.returncode, (done.stdout + done.stderr).decode()


@pytest.mark.parametrize(
    ("ours", "theirs", "result"),
    [
        ((["_Z5gemm8Pf", "_Z5gemm9Pf"], 0), (["_Z5sort8Pf"], 0), (["_Z5gemm8Pf", "_Z5gemm9Pf", "_Z5sort8Pf"], 0)),
        (([], 8), (["_Z5copy8Pf"], 0), (["_Z5copy8Pf"], 8)),
        (([], 16), ([], 24), None),
    ],
)
def test_git_merges_by_line(
    ours: tuple[list[str], int], theirs: tuple[list[str], int], result: tuple[list[str], int] | None, repository: Path
) -> None:
    file = repository / NAME
    for branch, (more, spills) in (("main", ([], 0)), ("theirs", theirs), ("ours", ours)):
        git(repository, "switch", "-q", *(() if branch == "main" else ("-c", branch, "main")))
        file.write_text(text_of(baseline_of([*COMMON, *more], spills)))
        commit(repository)
    status = git(repository, "merge", "-q", "theirs").returncode
    if result is not None:
        assert (status, file.read_text()) == (0, text_of(baseline_of([*COMMON, *result[0]], result[1])))
        return
    line = file.read_text().partition("<<<<<<<")[0].count("\n") + 1
    assert spillscan(repository, "check", HEAD, "--baseline", NAME) == (2, f"spillscan: {NAME}:{line}: {CONFLICT}")


def test_a_union_of_both_sides_is_reported(repository: Path) -> None:
    """`merge=union` leaves an entry twice that both sides changed."""
    text = text_of(baseline_of(COMMON))
    (repository / NAME).write_text(text + text.partition("\n")[2])
    assert ": duplicate: " in spillscan(repository, "check", HEAD, "--baseline", NAME)[1]
    assert parse(text, NAME) == baseline_of(COMMON)


SPILLS = "accept:\n- {rule: spill, reason: r}\n"
LAUNCH = "kernels:\n- match: '*'\n  launch: {threads_per_block: 1024}\n"
ALLOWED = "max_spill_bytes: none\nmax_spill_growth_bytes: none\n"


@pytest.mark.parametrize(
    ("why", "base", "own", "options", "status"),
    [
        ("its own limits", "", "max_spill_bytes: none\n", (), 1),
        ("its own severities", "", "severity: {spill: off}\n", (), 1),
        ("its own entries of accept", "", SPILLS, (), 1),
        ("entries of accept of the merge base", SPILLS, "", (), 0),
        ("limits of the merge base", ALLOWED, "max_spill_bytes: 0\n", (), 0),
        ("its own fail_on", "", "fail_on: never\n", (), 1),
        ("options of the job", "", "", ("--severity", "spill=off"), 0),
        ("a policy at another place", "", "", ("--config", "other.yaml"), 1),
        ("its own launch of known kernels", SPILLS, LAUNCH, (), 0),
    ],
)
def test_parts_of_a_change_that_count(
    why: str, base: str, own: str, options: tuple[str, ...], status: int, repository: Path
) -> None:
    spillscan(repository, "baseline", "write", BASE)
    policy = repository / "spillscan.yaml"
    named = f"baseline: {NAME}\nmax_register_growth: none\n"
    policy.write_text(named + base)
    commit(repository)
    policy.write_text(named + own)
    (repository / "other.yaml").write_text("max_spill_bytes: none\n")
    words = ("--baseline-from", "HEAD", *options, *(("--baseline", NAME) if "--config" in options else ()))
    done = spillscan(repository, "check", HEAD, *words)
    assert done[0] == status, (why, done)


def test_launches_of_a_change_count_for_its_new_kernels(repository: Path) -> None:
    policy, log = repository / "spillscan.yaml", repository / "half.log"
    report = (
        "ptxas info    : Compiling entry function '_Z3newPf' for 'sm_80'\n"
        "ptxas info    : Function properties for _Z3newPf\n"
        "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 80 registers, 360 bytes cmem[0]\n"
    )
    log.write_text(BASE.read_text() + report)
    spillscan(repository, "baseline", "write", BASE)
    policy.write_text(f"baseline: {NAME}\n")
    commit(repository)
    policy.write_text(f"baseline: {NAME}\n{LAUNCH}")
    status, output = spillscan(repository, "check", log, "--baseline-from", "HEAD")
    assert (status, output.count("[launch-fails")) == (1, 1)
    assert [line for line in output.splitlines() if "[launch-fails" in line and "new (sm_80)" in line]


@pytest.mark.parametrize("way", ["link", "folder", "submodule", "climbing", "absolute"])
def test_paths_out_of_the_repository_are_refused(way: str, repository: Path, tmp_path: Path) -> None:
    spillscan(tmp_path, "baseline", "write", HEAD)
    (repository / "a").write_text("x")
    place = {"link": "b.jsonl", "folder": f"out/{NAME}", "submodule": f"sub/{NAME}", "climbing": f"../{NAME}"}.get(
        way, str(tmp_path / NAME)
    )
    (repository / "b.jsonl").symlink_to(tmp_path / NAME)
    (repository / "out").symlink_to(tmp_path)
    inner = repository / "sub"
    inner.mkdir()
    git(inner, "init", "-q")
    spillscan(inner, "baseline", "write", HEAD)
    commit(inner)
    commit(repository)
    status, output = spillscan(repository, "check", HEAD, "--baseline", place, "--baseline-from", "HEAD")
    words = {"link": "has an absolute target", "folder": "has an absolute target", "submodule": "submodule"}
    assert (status, output.count("\n")) == (2, 1)
    assert words.get(way, "is outside the repository") in output


def test_places_without_a_merge_base(repository: Path, tmp_path: Path) -> None:
    nowhere, clone, below = tmp_path / "nowhere", tmp_path / "clone", repository / "ci"
    for folder in (nowhere, below):
        folder.mkdir()
    call = ("check", HEAD, "--baseline", NAME, "--baseline-from", "main")
    assert "git finds no work tree here" in spillscan(nowhere, *call)[1]
    assert "HEAD has no commit yet" in spillscan(repository, *call)[1]
    spillscan(repository, "baseline", "write", BASE)
    commit(repository)
    (below / "x").write_text("x")
    commit(repository)
    assert spillscan(below, "check", HEAD, "--baseline", f"../{NAME}", "--baseline-from", "main")[0] == 1
    git(repository, "switch", "-qc", "feature", "HEAD~1")
    (repository / "y").write_text("y")
    commit(repository)
    git(tmp_path, "clone", "-q", "--depth", "1", "--no-single-branch", repository.as_uri(), str(clone))
    status, output = spillscan(clone, "check", HEAD, "--baseline", NAME, "--baseline-from", "origin/main")
    assert (status, "no common commit in this shallow clone; fetch the whole history" in output) == (2, True)
    done = run(*call, cwd=repository, env=ENVIRONMENT | {"PATH": str(tmp_path)})
    assert done.stderr == b"spillscan: --baseline-from: cannot run git: No such file or directory\n"
