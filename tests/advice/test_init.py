"""`init`: files that it writes, jobs that repeat recorded commands, and its trial in a clean clone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from spillscan.advice import jobs
from spillscan.builds import RUN_FILE
from spillscan.builds.record import BuildRecord, Run, encoded
from spillscan.cli import main
from tests.conftest import FIXTURES, ROOT, run
from tests.services import git

HEAD = FIXTURES / "demo" / "head.log"
SPEC = ("--install", "git+https://example.com/spillscan@abc")
CMAKE = (("cmake", "-B", "build", "-DX=a b"), ("cmake", "--build", "build"))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    shutil.copy(HEAD, "build.log")
    return tmp_path


def recorded(folder: Path, *commands: tuple[str, ...], place: str = "") -> None:
    runs = tuple(Run(command=each, folder=str(folder / place), status=0) for each in commands)
    (folder / RUN_FILE).write_text(encoded(BuildRecord(runs=runs)))


def test_files(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "build.log", "--build", "make -j4", *SPEC, "--launch", "gemm*=256,1024"]) == 2
    out, err = capfd.readouterr()
    assert "fill in <IMAGE>" in err
    assert err.splitlines()[-1].startswith("spillscan: exit status 2: .github/workflows/spillscan.yml is incomplete")
    files = ("spillscan.yaml", ".github/workflows/spillscan.yml", ".gitignore", "spillscan-baseline.jsonl")
    assert out.splitlines()[-1] == f"next: git add {' '.join(files)}"
    policy = yaml.safe_load(Path("spillscan.yaml").read_text())
    assert policy["baseline"] == "spillscan-baseline.jsonl"
    assert policy["kernels"] == [{"match": "gemm*", "launch": {"threads_per_block": 256, "dynamic_shared_bytes": 1024}}]
    assert out.splitlines()[-2] == "blocks/SM of 8 kernels not checked: set their block sizes in spillscan.yaml"
    assert Path(".gitignore").read_text() == "spillscan-build.json\n"
    workflow = Path(files[1])
    steps = {
        step.get("name"): step.get("run") for step in yaml.safe_load(workflow.read_text())["jobs"]["kernels"]["steps"]
    }
    assert steps["Build"] == "spillscan run -- make -j4\n"
    assert f"pip install --quiet '{SPEC[1]}'" in steps["Install"]
    assert "${GITHUB_BASE_REF:+--baseline-from" in steps["Gate"]
    workflow.write_text(workflow.read_text().replace("<IMAGE>", "cuda").replace(f"'{SPEC[1]}'", "<SPILLSCAN>"))
    before = {name: Path(name).read_text() for name in files}
    assert main(["init", "build.log", "--build", "ninja"]) == 2
    assert {name: Path(name).read_text() for name in files} == before
    err = capfd.readouterr().err
    assert "spillscan.yml does not run `spillscan run -- ninja`; add it, or delete the file" in err
    assert re.search(r"spillscan.yml:20: fill in <SPILLSCAN>: .*--install SPEC", err)
    assert main(["init", "build.log", "--build", "make -j4", *SPEC]) == 0
    assert f"'{SPEC[1]}'" in workflow.read_text()


def test_committed_files_need_no_step(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path(".gitignore").write_text("*.o")
    git(project, "init", "-q")
    words = ["init", "build.log", "--build", "make", *SPEC, "--launch", "*=256"]
    for status in (2, 0):
        assert main(words) == status
        out = capfd.readouterr().out
        assert ("next: git add" in out, ".gitignore extended" in out) == (status == 2, status == 2)
        assert "blocks/SM" not in out
        Path(jobs.WORKFLOW).write_text(Path(jobs.WORKFLOW).read_text().replace("<IMAGE>", "cuda"))
        git(project, "add", "spillscan.yaml", "spillscan-baseline.jsonl", ".gitignore", jobs.WORKFLOW)
        git(project, "commit", "-qm", "one", "--allow-empty")


def test_unlinked_registers_are_accepted_with_a_reason(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    report = (FIXTURES / "ptxas" / "calls-c-13.0.log").read_text()
    Path("build.log").write_text(f"nvcc -dc -Xptxas -v calls.cu -o calls.o\n{report}")
    assert main(["init", "build.log", "--build", "make", *SPEC]) == 2
    assert "fill in <IMAGE>" in capfd.readouterr().err
    (accepted,) = yaml.safe_load(Path("spillscan.yaml").read_text())["accept"]
    assert accepted["gap"] == "registers-not-final"
    assert accepted["reason"]
    assert Path("spillscan-baseline.jsonl").exists()
    assert main(["check", "build.log"]) == 0
    unchecked = [
        line for line in capfd.readouterr().out.splitlines() if line.startswith("not checked: final registers")
    ]
    assert len(unchecked) == 1


@pytest.mark.parametrize(
    ("commands", "place", "lines"),
    [
        (CMAKE, "", ["spillscan run -- cmake -B build '-DX=a b'", "spillscan run -- cmake --build build"]),
        ((("make",), ("make",)), "", ["spillscan run -- make"]),
        ((("make",),), "sub dir", ["spillscan run -- bash -c 'cd '\"'\"'sub dir'\"'\"' && make'"]),
    ],
)
def test_recorded_commands(commands: Any, place: str, lines: list[str], project: Path) -> None:
    recorded(project, *commands, place=place)
    assert main(["init", "build.log", RUN_FILE, *SPEC]) == 2
    (step,) = (
        step["run"]
        for step in yaml.safe_load(Path(jobs.WORKFLOW).read_text())["jobs"]["kernels"]["steps"]
        if step.get("name") == "Build"
    )
    assert step.splitlines() == lines


def test_a_shell_command(project: Path) -> None:
    assert main(["init", "build.log", "--build", "make 2>&1 | tee log", *SPEC]) == 2
    assert "spillscan run -- bash -c 'make 2>&1 | tee log'" in Path(jobs.WORKFLOW).read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no build is recorded; run `spillscan run -- COMMAND`"),
        (["-", "--build", "make"], "no build is recorded; run `spillscan run -- COMMAND`"),
        (["build.log"], "no input records a build command; pass --build COMMAND"),
    ],
)
def test_what_is_missing(words: list[str], says: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", *words]) == 2
    assert capsys.readouterr().err.startswith(f"spillscan: {says}")
    assert not Path("spillscan.yaml").exists()


@pytest.mark.parametrize(
    ("text", "kept", "stage"),
    [("", "", None), ("build:\n  script: [make]\n", "build:", None), ("stages: [build, lint]\n", "stages:", "lint")],
)
def test_gitlab(text: str, kept: str, stage: str | None, project: Path) -> None:
    Path(jobs.PIPELINE).write_text(text or "# none\n")
    for _ in range(2):
        assert main(["init", "build.log", "--build", "make", *SPEC]) == 2
    found = yaml.safe_load(Path(jobs.PIPELINE).read_text())
    assert Path(jobs.PIPELINE).read_text().count("spillscan:\n") == 1
    assert kept in Path(jobs.PIPELINE).read_text()
    assert found["spillscan"].get("stage") == stage
    assert "spillscan run -- make" in found["spillscan"]["script"][4]


@pytest.mark.parametrize(
    ("direct", "spec"),
    [
        (None, "spillscan==1.2"),
        ({"url": "https://x/r", "vcs_info": {"vcs": "git", "commit_id": "abc"}}, "git+https://x/r@abc"),
        ({"url": "https://x/s.whl", "archive_info": {}}, "https://x/s.whl"),
        ({"url": "file:///home/me/spillscan", "dir_info": {"editable": True}}, ""),
        ({"url": "file:///tmp/s.whl", "archive_info": {}}, ""),
        ({"url": "file:///srv/r", "vcs_info": {"vcs": "git", "commit_id": "abc"}}, ""),
    ],
)
def test_origin_of_this_copy(direct: Any, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Installed:
        version = "1.2"

        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return None if direct is None else json.dumps(direct)

    monkeypatch.setattr(jobs, "distribution", lambda name: Installed())
    assert jobs.installed_from() == spec


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
@pytest.mark.oracle
def test_the_job_is_tried_in_a_clean_clone(project: Path) -> None:
    """A build that passes; then one that needs a file that is not committed."""
    Path("build.log").unlink()
    Path("a.cu").write_text("__global__ void k(float* o) { o[threadIdx.x] = 1; }\n")
    Path("Makefile").write_text("a.o: a.cu\n\tnvcc -arch=sm_90 -c a.cu -o a.o\n")
    git(project, "init", "-q")
    git(project, "add", "a.cu", "Makefile")
    git(project, "commit", "-qm", "one")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    assert run("run", "--", "make", env=environment, cwd=project).returncode == 0
    run("init", *SPEC, env=environment, cwd=project)
    workflow = project / jobs.WORKFLOW
    workflow.write_text(workflow.read_text().replace("<IMAGE>", "cuda"))
    done = run("init", "--try", *SPEC, env=environment, cwd=project)
    output = done.stdout.decode()
    assert done.returncode == 0, output + done.stderr.decode()
    assert output.count(": passed") == 2
    subprocess.run(["git", "rm", "-q", "--cached", "a.cu"], check=True)
    git(project, "commit", "-qm", "two")
    done = run("init", "--try", *SPEC, env=environment, cwd=project)
    assert done.returncode == 1
    assert "No rule to make target 'a.cu'" in done.stdout.decode()


def test_no_program_of_a_folder_is_run(project: Path) -> None:
    Path("tools").mkdir()
    for name in ("cmake", "nvcc", "ninja"):
        Path("tools", name).write_text("#!/bin/sh\ntouch ran\n")
        Path("tools", name).chmod(0o755)
    entry = f"CMAKE_COMMAND:INTERNAL={project}/tools/cmake\nCMAKE_CUDA_COMPILER:FILEPATH={project}/tools/nvcc\n"
    Path("CMakeCache.txt").write_text(entry)
    main(["init", ".", "--build", "make", *SPEC])
    assert not Path("ran").exists()
