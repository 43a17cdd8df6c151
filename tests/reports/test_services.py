"""What a CI service says of a request adds to reports: links, and annotations of what was changed first."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from spillscan.reports.render import addresses, base_of, changed, shown
from tests.conftest import FIXTURES, ROOT, run
from tests.services import git

GITHUB = {
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "o/r",
    "GITHUB_SHA": "abc",
    "GITHUB_RUN_ID": "7",
}
GITLAB = {"CI_PROJECT_URL": "https://git.example/o/r", "CI_COMMIT_SHA": "abc", "CI_JOB_URL": "https://git.example/j/7"}


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, ("", "")),
        (GITHUB, ("https://github.com/o/r/blob/abc/", "https://github.com/o/r/actions/runs/7")),
        (GITLAB, ("https://git.example/o/r/-/blob/abc/", "https://git.example/j/7")),
        ({"GITHUB_REPOSITORY": "o/r"}, ("", "")),
        (GITHUB | {"GITHUB_SHA": "a)b `c"}, ("", "https://github.com/o/r/actions/runs/7")),
    ],
)
def test_where_a_service_shows_files_and_runs(environment: dict[str, str], found: tuple[str, str]) -> None:
    assert addresses(environment) == found


@pytest.mark.parametrize(
    ("environment", "base"),
    [
        ({}, ""),
        ({"GITHUB_BASE_REF": ""}, ""),  # of a push
        ({"GITHUB_BASE_REF": "main"}, "origin/main"),
        ({"CI_MERGE_REQUEST_DIFF_BASE_SHA": "abc"}, "abc"),
    ],
)
def test_what_a_request_is_to_be_merged_into(environment: dict[str, str], base: str) -> None:
    assert base_of(environment) == base


@pytest.mark.parametrize(
    ("diff", "found"),
    [
        ("", {}),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", {"x": {1: True}}),
        ("+++ b/a b\t\n@@ -1,2 +3,2 @@ f\n x\n-y\n+z\n", {"a b": {3: False, 4: True}}),
        (
            "+++ b/x\n@@ -1,0 +5,2 @@\n+++ b/no\n+@@ -1 +9 @@\n@@ -9 +11 @@\n-+++ b/no\n+c\n",
            {"x": dict.fromkeys((5, 6, 11), True)},
        ),
        ("+++ b/x\n@@ -3,2 +2,0 @@\n-a\n-b\n--- a/y\n+++ b/y\n@@ -0,0 +1 @@\n+a\n", {"y": {1: True}}),
        ("+++ b/x\n@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n", {"x": {1: False, 2: False, 3: True}}),
    ],
)
def test_lines_that_a_diff_shows(diff: str, found: dict[str, dict[int, bool]]) -> None:
    assert shown(diff) == found


@pytest.fixture
def request_of(tmp_path: Path) -> Path:
    """A branch with a change at the end of a file of twelve kernels, all of which spill."""
    kernels = "".join(f"__global__ void k{number}() {{\n\n}}\n" for number in range(12))
    (tmp_path / "k.cu").write_text(kernels)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "all")
    git(tmp_path, "update-ref", "refs/remotes/origin/main", "HEAD")
    (tmp_path / "k.cu").write_text(kernels + "// more\n")
    git(tmp_path, "commit", "-qam", "more")
    log = "".join(
        f"ptxas info    : Compiling entry function '_Z{len(f'k{number}')}k{number}v' for 'sm_90'\n"
        f"ptxas info    : Function properties for _Z{len(f'k{number}')}k{number}v\n"
        f"    8 bytes stack frame, {8 * (20 - number)} bytes spill stores, 8 bytes spill loads\n"
        "ptxas info    : Used 32 registers, used 0 barriers, 8 bytes cumulative stack size\n"
        for number in range(12)
    )
    (tmp_path / "k.log").write_text(log)
    return tmp_path


def test_what_a_request_changed_is_annotated_first(request_of: Path) -> None:
    def places(**variables: str) -> list[str]:
        own = os.environ | {"PYTHONPATH": str(ROOT), **variables}
        done = run("check", "k.log", "-f", "github", cwd=request_of, env=own)
        assert done.returncode == 1, done.stderr
        return re.findall(r"^::error file=k\.cu,line=(\d+),", done.stdout.decode(), re.M)

    assert places()[0] == "1", "the worst"
    assert places(GITHUB_BASE_REF="main")[:2] == ["34", "1"], "the last kernel stands in the diff's context"
    assert places(GITHUB_BASE_REF="none")[0] == "1", "a shallow clone"
    assert not changed(str(request_of / "none"), "main")("k.cu")


def test_links_of_a_comment(request_of: Path) -> None:
    own = os.environ | {"PYTHONPATH": str(ROOT), **GITHUB}
    done = run("check", "k.log", "-f", "markdown", cwd=request_of, env=own)
    said = done.stdout.decode()
    assert "[`k.cu:1`](https://github.com/o/r/blob/abc/k.cu#L1)" in said
    assert "[`spill`](https://spillscan.readthedocs.io/en/latest/rules/#spill)" in said
    assert "[this run](https://github.com/o/r/actions/runs/7)" in said
    shutil.copy(FIXTURES / "demo" / "head.log", request_of.parent / "elsewhere.log")
    done = run("check", "../elsewhere.log", "-f", "markdown", cwd=request_of, env=own)
    assert "blob/abc" not in done.stdout.decode(), "what the repository does not have has no link"
