"""Links to the CI service in reports."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from spillscan.reports.render import addresses
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
def test_urls_of_files_and_runs(environment: dict[str, str], found: tuple[str, str]) -> None:
    assert addresses(environment) == found


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with a kernel that spills, and the log of its build."""
    git(tmp_path, "init", "-q")
    (tmp_path / "k.cu").write_text("__global__ void k() {}\n")
    (tmp_path / "k.log").write_text(
        "ptxas info    : Compiling entry function '_Z1kv' for 'sm_90'\n"
        "ptxas info    : Function properties for _Z1kv\n"
        "    8 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads\n"
        "ptxas info    : Used 32 registers, used 0 barriers, 8 bytes cumulative stack size\n"
    )
    return tmp_path


def test_links_of_a_comment(checkout: Path) -> None:
    own = os.environ | {"PYTHONPATH": str(ROOT), **GITHUB}
    done = run("check", "k.log", "-f", "markdown", cwd=checkout, env=own)
    output = done.stdout.decode()
    assert "[`k.cu:1`](https://github.com/o/r/blob/abc/k.cu#L1)" in output
    assert "[`spill`](https://spillscan.readthedocs.io/en/latest/rules/#spill)" in output
    assert "[this run](https://github.com/o/r/actions/runs/7)" in output
    shutil.copy(FIXTURES / "demo" / "head.log", checkout.parent / "elsewhere.log")
    done = run("check", "../elsewhere.log", "-f", "markdown", cwd=checkout, env=own)
    assert "blob/abc" not in done.stdout.decode(), "what the repository does not have has no link"
