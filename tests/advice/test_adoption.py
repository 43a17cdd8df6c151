"""`init` and `doctor`, as a user runs them who has a repository and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from spillscan import scan
from spillscan.advice import jobs, trying
from spillscan.judging.policy.reading import layer
from spillscan.model.nodes import parse_yaml
from spillscan.model.patterns import matches
from spillscan.occupancy.launches import parse_launch, settled
from tests.builds.test_configured import PROJECT, needs_cmake
from tests.conftest import FIXTURES, ROOT, run
from tests.judging.baseline.support import kernel

HEAD = FIXTURES / "demo" / "head.log"
BOUNDED = FIXTURES / "binary" / "bounds-13.5.cubin.zst"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}


def spillscan(folder: Path, *arguments: str | Path) -> tuple[int, str]:
    done = run(*arguments, cwd=folder, env=ENVIRONMENT)
    assert b"Traceback" not in done.stderr
    return done.returncode, (done.stdout + done.stderr).decode()


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / ".github").mkdir()
    (tmp_path / "CMakeLists.txt").write_text("project(x LANGUAGES CUDA)\n")
    (tmp_path / ".gitlab-ci.yml").write_text("build:\n  script: [make]\n")
    (tmp_path / ".pre-commit-config.yaml").write_text("repos:\n  - repo: local\n    hooks: []\n")
    return tmp_path


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({"CMakeLists.txt": "", "Makefile": ""}, "CMake"),
        ({"CMakeLists.txt": "", "pyproject.toml": "requires = ['scikit-build-core']"}, "scikit-build"),
        ({"setup.py": "", "Makefile": ""}, "setuptools"),
        ({"MODULE.bazel": ""}, "Bazel"),
        ({"meson.build": "", "Makefile": ""}, "Meson"),
        ({"Makefile": ""}, "make"),
        ({"pyproject.toml": "[tool.ruff]"}, None),
    ],
)
def test_the_build_system(files: dict[str, str], name: str | None) -> None:
    found = jobs.build_system(files.get)
    assert (found.name if found else None) == name


@pytest.mark.parametrize("system", jobs.BUILD_SYSTEMS, ids=lambda system: system.name)
def test_jobs_of_every_build_system_stop_where_the_build_fails(system: jobs.BuildSystem) -> None:
    (job,) = yaml.safe_load(jobs.workflow(system))["jobs"].values()
    assert job["defaults"]["run"]["shell"] == "bash", "which has pipefail"
    scripts = [step["run"] for step in job["steps"] if "run" in step]
    (pipeline,) = yaml.safe_load(jobs.pipeline_job(system)).values()
    assert pipeline["script"][0] == "set -eo pipefail"
    for text in (*scripts, *pipeline["script"]):
        subprocess.run(["bash", "-n", "-c", text], check=True)
    built = "\n".join(system.commands)
    assert any(built in text for text in scripts)
    assert any(built in text for text in pipeline["script"])
    assert system.inputs in scripts[-1]
    assert system.inputs in pipeline["script"][-1]
    (hooked,) = yaml.safe_load(jobs.hook(system))[0]["hooks"][0]["args"]
    assert hooked == f"{built}\nspillscan check {system.inputs}\n", "nothing that was built before is judged"


STAGES = (
    ("stages: [build, test]", None),
    ("stages: [build, deploy]", "deploy"),
    ("stages: []", None),
    ("image: debian", None),
    (".all: &all [check]\nstages: *all", "check"),
    ("spec: {inputs: {}}\n---\nstages: [lint]", "lint"),
    ("job: {script: [!reference [.setup, script]]}\nstages: [lint]", "lint"),
)
"""A pipeline, and the stage that its new job names: of those that are there one must be."""


@pytest.mark.parametrize(("pipeline", "stage"), STAGES)
def test_the_new_job_of_a_pipeline_is_of_a_stage_that_it_has(pipeline: str, stage: str | None) -> None:
    job = yaml.safe_load(jobs.pipeline_job(jobs.BUILD_SYSTEMS[0], pipeline))["spillscan"]
    assert (job.get("stage"), job["needs"], job["inherit"]) == (stage, [], {"default": False})


SCRIPTS = (
    (".all: &all\n  script: [make]\nspillscan:\n  script: [make, spillscan check build.log]", ["script"]),
    ("a: {<<: 1, script: &do [spillscan check x]}\nb: {script: *do}", ["script"]),
    ("a: {script: [!reference [.b, script], spillscan check x]}", ["script"]),
    ("jobs: {a: {steps: [{uses: x}, {name: Gate, run: spillscan check x}]}}", ["Gate"]),
    ("a: &a [*a, spillscan]\nspillscan: {script: [*a, spillscan check x]}", ["script"]),
    ("\n".join(f"k{at}: &k{at} [{', '.join([f'*k{at - 1}'] * 9)}]" if at else "k0: &k0 [x]" for at in range(19))
     + "\na: {script: [*k18, spillscan check x]}", ["script"]),
)  # fmt: skip
"""Pipelines as others write them, the last of 9^18 items if aliases were written out; and the steps of our job."""


@pytest.mark.parametrize(("pipeline", "names"), SCRIPTS)
def test_the_steps_of_our_job_beside_what_others_write(pipeline: str, names: list[str]) -> None:
    assert [name for name, _ in trying.steps(pipeline, "p.yaml")] == names


def test_nothing_is_written_unless_the_user_agrees(repository: Path) -> None:
    before = tree(repository)
    status, said = spillscan(repository, "init", HEAD)
    assert status == 0
    assert "+++ spillscan.yaml" in said
    assert "nothing is written; --yes writes it" in said
    assert tree(repository) == before


def test_what_is_written_is_a_gate(repository: Path) -> None:
    assert spillscan(repository, "init", HEAD, "--yes")[0] == 0
    written = tree(repository)
    assert {*written} >= {"spillscan.yaml", "spillscan-baseline.jsonl", ".github/workflows/spillscan.yml"}
    status, said = spillscan(repository, "check", HEAD)
    assert (status, said.splitlines()[-1]) == (0, "baseline: 2 outstanding (pass as recorded)")
    assert yaml.safe_load(written[".gitlab-ci.yml"]).keys() == {"build", "spillscan"}
    repos = yaml.safe_load(written[".pre-commit-config.yaml"])["repos"]
    assert [hook["id"] for repo in repos for hook in repo["hooks"]] == ["spillscan"]
    for again in range(2):
        status, said = spillscan(repository, "init", HEAD, "--yes")
        assert status == 0
        assert said.count("stays as it is") == 5, again
        assert tree(repository) == written


@pytest.mark.parametrize(
    ("remote", "said", "written"),
    [
        ("https://github.com/a/b", "", ".github/workflows/spillscan.yml"),
        ("git@gitlab.example.org:a/b", "", ".gitlab-ci.yml"),
        ("https://example.org/a/b", "no CI service is known here", ""),
    ],
)
def test_the_service_of_the_remote(remote: str, said: str, written: str, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text(f'[remote "origin"]\n\turl = {remote}\n')
    status, text = spillscan(tmp_path, "init", HEAD, "--yes")
    assert status == 0
    assert ("no CI service is known here" in text) == bool(said)
    assert "how this was built is not known: `spillscan run -- COMMAND`" in text  # a log does not say
    jobs_there = {path for path in tree(tmp_path) if path.endswith(".yml") or ".github" in path}
    assert jobs_there == ({written} if written else set())


@pytest.mark.parametrize(
    ("remote", "here", "branch"),
    [("devel/2.x", "gate", "devel/2.x"), ("", "master", "master"), ("", "gate", "main"), ("a, b", "gate", "main")],
)
def test_the_branch_of_the_remote(remote: str, here: str, branch: str, tmp_path: Path) -> None:
    (tmp_path / ".github").mkdir()
    origin = tmp_path / ".git" / "refs" / "remotes" / "origin"
    origin.mkdir(parents=True)
    (tmp_path / ".git" / "HEAD").write_text(f"ref: refs/heads/{here}\n")
    if remote:
        (origin / "HEAD").write_text(f"ref: refs/remotes/origin/{remote}\n")
    assert spillscan(tmp_path, "init", HEAD, "--yes")[0] == 0
    text = (tmp_path / jobs.WORKFLOW).read_text()
    assert yaml.safe_load(text)[True]["push"]["branches"] == [branch]  # "on" is true to YAML 1.1
    assert f"`--baseline-from origin/{branch}`" in text


def test_a_policy_of_ones_own_gets_the_baseline_and_keeps_the_rest(repository: Path) -> None:
    (repository / "spillscan.yml").write_text("max_registers: 200  # ours\n")
    spillscan(repository, "init", HEAD, "--yes")
    assert (repository / "spillscan.yml").read_text() == (
        "max_registers: 200  # ours\nbaseline: spillscan-baseline.jsonl\n"
    )
    assert not (repository / "spillscan.yaml").exists()
    assert spillscan(repository, "check", HEAD)[0] == 0


def test_half_a_build_is_not_adopted(repository: Path) -> None:
    before = tree(repository)
    status, _ = spillscan(repository, "init", FIXTURES / "ptxas" / "broken-13.0.log", "--yes")
    assert status == 2
    assert tree(repository) == before


def test_the_launch_map_holds_what_is_known_and_names_the_rest(repository: Path) -> None:
    spillscan(repository, "init", HEAD, "--yes")
    path = repository / "spillscan.yaml"
    text = path.read_text()
    assert "kernels: []" in text
    filled = text.replace("kernels: []", "kernels:").replace("\n#  ", "\n  ")
    assert filled.count("\n  - {match: ") == 4
    path.write_text(filled)
    assert "\n    min_blocks" not in filled
    status, said = spillscan(repository, "check", HEAD, "--set", "min_blocks_per_sm=1")
    assert (status, "unknown-blocks" in said) == (0, False)


def test_launches_that_are_given_stand_in_the_policy(repository: Path) -> None:
    assert spillscan(repository, "init", HEAD, "--yes", "--launch", "gemm*=256,1024", "--launch", "rotate=64")[0] == 0
    text = (repository / "spillscan.yaml").read_text()
    entries = {entry["match"]: entry["launch"] for entry in yaml.safe_load(text)["kernels"]}
    assert entries == {
        "gemm*": {"threads_per_block": 256, "dynamic_shared_bytes": 1024},
        "rotate": {"threads_per_block": 64},
    }
    assert "threads_per_block: 64" in (repository / "spillscan-baseline.jsonl").read_text()
    assert text.count("#  - {match: ") == 2, "softmax and gather are still open"
    assert spillscan(repository, "check", HEAD, "--set", "min_blocks_per_sm=1", "--kernel", "gemm*")[0] == 0


def test_what_kernels_say_themselves_is_not_said_again(tmp_path: Path) -> None:
    """Bounds that the source changes later count then; a launch in the policy would win over them."""
    spillscan(tmp_path, "init", BOUNDED, "--yes")
    text = (tmp_path / "spillscan.yaml").read_text()
    bounded = [each for each in scan([str(BOUNDED)]).kernels if settled(each, None) is not None]
    assert bounded
    assert yaml.safe_load(text)["kernels"] == []
    patterns = re.findall(r'match: "([^"]+)"', text)
    assert not [pattern for pattern in patterns for each in bounded if matches(each, pattern)]


@pytest.mark.parametrize("name", ['a"b', "a\n- x: 1", "a: b #c", "*[x]?", "\u202ex", "{{}}", "_Z1fIXadL_Z1gEEEvv", ""])
def test_no_name_can_act_in_the_policy(name: str) -> None:
    kernels = [kernel(name), kernel("_Z4gemmPf")]
    text = jobs.policy(kernels, True, [parse_launch("gemm=64")])
    for written in (text, text.replace("\n#  ", "\n  ")):
        found = layer(parse_yaml(written, "p.yaml"))
        assert {*found.settings} == {"baseline"}
        assert all(entry.match and entry.launch for entry in found.entries)


@pytest.mark.skipif(os.name != "posix", reason="a terminal")
@pytest.mark.parametrize(("answer", "written"), [(b"y\n", True), (b"n\n", False), (b"\n", False)])
def test_it_asks_a_person(tmp_path: Path, answer: bytes, written: bool) -> None:
    ours, theirs = os.openpty()
    os.write(ours, answer)
    command = [sys.executable, "-m", "spillscan", "init", str(HEAD)]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, stdin=theirs, capture_output=True, check=False)
    assert done.returncode == 0
    assert b"write these 2 files? [y/N]" in done.stdout
    assert (tmp_path / "spillscan.yaml").exists() == (tmp_path / "spillscan-baseline.jsonl").exists() == written


# ---- doctor --------------------------------------------------------------------------------------------------------


def test_doctor_says_what_is_missing_and_what_it_costs(repository: Path) -> None:
    status, said = spillscan(repository, "doctor", HEAD)
    assert status == 1
    for lack in (
        "nothing says how 12 of 12 kernels (softmax: 4, gemm: 4, gather: 2, rotate: 2) are launched",
        "no baseline",
        "runs spillscan",
        "no source file of 2 of 12 kernels (gemm)",
    ):
        assert lack in said


def test_doctor_is_content_with_what_init_wrote_and_a_launch_map(tmp_path: Path) -> None:
    log = FIXTURES / "demo" / "base.log"
    spillscan(tmp_path, "init", log, "--yes")
    status, said = spillscan(tmp_path, "doctor", log, "--launch", "*=128,0")
    assert (status, said.splitlines()[-1]) == (0, "nothing is missing in 10 kernels")
    assert said.startswith("nothing says what the build was to compile")


@pytest.mark.parametrize(
    ("log", "lack"),
    [
        (FIXTURES / "hostile" / "nothing.log", "no ptxas or nvlink report"),
        (FIXTURES / "parallel" / "13.0" / "capture-8.log.gz", "a parallel build tore the log"),
    ],
)
def test_doctor_knows_what_a_log_lacks(tmp_path: Path, log: Path, lack: str) -> None:
    status, said = spillscan(tmp_path, "doctor", log)
    assert status == 1
    assert lack in said


def test_doctor_knows_code_that_is_not_linked(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    report = (FIXTURES / "ptxas" / "calls-c-13.0.log").read_bytes()
    log.write_bytes(b"nvcc -dc -Xptxas -v calls.cu -o calls.o\n" + report)
    status, said = spillscan(tmp_path, "doctor", log)
    assert status == 1
    assert "are final only after the link" in said


def test_doctor_reads_the_jobs(tmp_path: Path) -> None:
    job = tmp_path / ".github" / "workflows" / "ci.yml"
    job.parent.mkdir(parents=True)
    job.write_text("steps:\n- run: make 2>&1 | tee build.log\n- run: spillscan check --baseline-from origin/main\n")
    _, said = spillscan(tmp_path, "doctor", HEAD)
    assert "ci.yml: a build that fails before a pipe passes" in said
    assert "ci.yml: --baseline-from needs the history" in said
    job.write_text(jobs.workflow(jobs.BUILD_SYSTEMS[-1]))
    _, said = spillscan(tmp_path, "doctor", HEAD)
    assert ".github" not in said


def test_doctor_knows_a_baseline_of_an_older_release(tmp_path: Path) -> None:
    spillscan(tmp_path, "init", HEAD, "--yes")
    path = tmp_path / "spillscan-baseline.jsonl"
    subprocess.run(["sed", "-i", "s/, figures: {[^}]*}//", str(path)], check=True)
    assert "has no figures of 12 kernels" in spillscan(tmp_path, "doctor", HEAD)[1]
    path.write_text(path.read_text().replace("records: 2", "records: 1"))
    older = "spillscan-baseline.jsonl is of an older release, which did not record the toolkit"
    assert older in spillscan(tmp_path, "doctor", HEAD)[1]
    path.write_text(path.read_text().replace("records: 1", 'toolkits: ["12.4.131"]\nrecords: 2'))
    assert older not in (said := spillscan(tmp_path, "doctor", BOUNDED)[1])
    assert "this build is of CUDA 13.5.37, spillscan-baseline.jsonl records what 12.4.131 compiled" in said


@needs_cmake
def test_doctor_compares_the_job_with_the_build(repository: Path) -> None:
    (repository / ".git").mkdir()
    (repository / "CMakeLists.txt").write_text(PROJECT)
    command = ["cmake", "-B", "build", "-DBACKEND=ON", "-DCAPABILITY=80;90"]
    subprocess.run(command, cwd=repository, check=True, capture_output=True)
    shutil.copy(BOUNDED, repository / "build")
    assert spillscan(repository, "init", "build", "--yes")[0] == 0
    assert ".github" not in spillscan(repository, "doctor", "build")[1]
    path = repository / jobs.WORKFLOW
    text = path.read_text()
    assert "container: nvidia/cuda:13.5.0-devel" in text
    path.write_text(text.replace("-DBACKEND=ON ", "").replace("13.5.0", "12.9.1"))
    _, said = spillscan(repository, "doctor", "build")
    assert f"{jobs.WORKFLOW} is of CUDA 12.9, spillscan-baseline.jsonl records what 13.5.37 compiled" in said
    assert "this build is of CUDA" not in said
    assert f"{jobs.WORKFLOW} builds without -DBACKEND=ON, with which this build was made" in said
    assert f"{jobs.WORKFLOW} compiles with CUDA 12.9, this build is of 13.5" in said


@pytest.mark.parametrize(
    ("hook", "lack"),
    [
        ("{id: spillscan, args: [build/]}", True),
        ("{id: spillscan, entry: spillscan check, args: [build/]}", True),
        ("{id: spillscan, entry: bash -c, args: [make && spillscan check build/]}", False),
        ("{id: other}", False),
    ],
)
def test_doctor_reads_the_hooks(hook: str, lack: bool, tmp_path: Path) -> None:
    (tmp_path / jobs.HOOKS).write_text(f"repos:\n- repo: local\n  hooks: [{hook}]\n")
    assert ("the hook judges the objects that are there" in spillscan(tmp_path, "doctor", HEAD)[1]) is lack
