"""Every workflow, pipeline and hook of the documents, step by step: red for a spill and lost blocks, green else."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from spillscan.advice import jobs
from spillscan.judging.baseline import file as baseline
from spillscan.judging.policy.reading import read
from tests.conftest import FIXTURES, ROOT, run
from tests.services import Machine, git

DEMO = FIXTURES / "effects"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"```yaml\n(# (?P<file>[\w./-]+)\n)?(?P<text>.*?)```", re.S)
POLICY = "launch: {threads_per_block: 256, dynamic_shared_bytes: 0}"
JOB = jobs.workflow(jobs.Job(commands=("cmake -B build", "cmake --build build"), install="spillscan"))


def blocks() -> Iterator[tuple[str, str, str]]:
    """(document and number, file, text) of each piece of YAML."""
    for path in DOCUMENTS:
        for number, match in enumerate(BLOCK.finditer(path.read_text(encoding="utf-8"))):
            yield f"{path.name}:{number}", match["file"] or "", match["text"]
    for path in sorted((ROOT / "docs" / "examples").glob("*.yml")):
        text = path.read_text(encoding="utf-8")
        yield path.name, text.split(maxsplit=2)[1], text.partition("\n")[2]


BLOCKS = list(blocks())


def of(file: str) -> list[Any]:
    return [pytest.param(text, id=where) for where, name, text in BLOCKS if name == file]


HOOKS = ".pre-commit-config.yaml"
GATES = [*of(".github/workflows/spillscan.yml"), pytest.param(JOB, id="init")]


def test_every_piece_of_yaml_is_run_or_read(tmp_path: Path) -> None:
    """A policy is marked by its first line, or parsed as one; there is no other YAML."""
    known = {jobs.WORKFLOW, ".github/workflows/spillscan-comment.yml", jobs.PIPELINE, HOOKS}
    for where, file, text in BLOCKS:
        if file in known:
            continue
        if "\nkernels:\n  _Z" in text:
            assert baseline.parse(text, where).entries
            continue
        place = tmp_path / "spillscan.yaml"
        place.write_text(text)
        assert read(str(place)), where


def change(text: str) -> str:
    """The build that loses blocks: registers of one kernel."""
    return text.replace("Used 32 registers, used 0 barriers", "Used 80 registers, used 0 barriers", 1)


def both(text: str) -> str:
    return spill(change(text))


def spill(text: str) -> str:
    old = "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"
    return text.replace(old, old.replace("0 bytes spill", "16 bytes spill"), 1)


@pytest.fixture(scope="module")
def adopted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that was adopted, in whose place a compiler's output is the source."""
    checkout = tmp_path_factory.mktemp("adopted")
    (checkout / "CMakeLists.txt").write_text("")
    (checkout / ".gitignore").write_text("*\n!kernels.cu\n!spillscan*.yaml\n!spillscan*.jsonl\n!CMakeLists.txt\n")
    shutil.copy(DEMO / "base.log", checkout / "kernels.cu")
    policy = f'baseline: spillscan-baseline.jsonl\nkernels:\n  - match: "*"\n    {POLICY}\n'
    (checkout / "spillscan.yaml").write_text(policy)
    written = ("baseline", "write", "kernels.cu")
    assert run(*written, cwd=checkout, env=os.environ | {"PYTHONPATH": str(ROOT)}).returncode == 0
    git(checkout, "init", "-q")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "adopted")
    git(checkout, "update-ref", "refs/remotes/origin/main", "HEAD")
    return checkout


@pytest.fixture
def machine(tmp_path: Path, adopted: Path) -> Machine:
    """A runner with a checkout of it."""
    return Machine(tmp_path, Path(shutil.copytree(adopted, tmp_path / "checkout")))


def pull_request(machine: Machine, edit: Callable[[str], str]) -> None:
    """Another branch with another source."""
    git(machine.checkout, "clean", "-fdxq")
    git(machine.checkout, "switch", "-qC", "change", "main")
    source = machine.checkout / "kernels.cu"
    text = edit(source.read_text())
    if text != source.read_text():
        source.write_text(text)
        git(machine.checkout, "commit", "-qam", "change")


def on(machine: Machine) -> dict[str, Any]:
    return {"vars": {"DATASET": str(machine.folder / "data")}}


@pytest.mark.parametrize("workflow", GATES)
def test_a_gate_fails_for_regressions_only(machine: Machine, workflow: str) -> None:
    if "== 'push'" in workflow or "needs:" in workflow:  # what main leaves for pull requests
        assert machine.run(workflow, "push", **on(machine)) == 0, machine.steps
    for edit, status in ((str, 0), (both, 1)):
        pull_request(machine, edit)
        assert machine.run(workflow, **on(machine)) == status, machine.steps[-1].said
        said = "".join(step.said for step in machine.steps)
        assert said.count("::error ") == 2 * status, "the spill, and the lost blocks"


@pytest.mark.oracle
@pytest.mark.parametrize("workflow", GATES)
def test_a_build_that_fails_is_a_job_that_fails(machine: Machine, workflow: str) -> None:
    machine.build_status = 3
    assert machine.run(workflow, **on(machine)) == 3
    assert machine.steps[-1].status == 3, "nothing runs after it"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="rights: only root can give files away")
def test_a_checkout_of_another_user(machine: Machine) -> None:
    """In a container, git fails without safe.directory."""
    text = JOB.replace("${GITHUB_BASE_REF:+", "").replace('$GITHUB_BASE_REF"}', 'main"')
    pull_request(machine, change)
    subprocess.run(["chown", "-R", "12345", str(machine.checkout)], check=True)
    assert machine.run(text) == 1, machine.steps[-1].said
    assert "blocks-lost" in machine.steps[-1].said
    (machine.folder / "home" / ".gitconfig").unlink()
    assert machine.run(text.replace("git config --global", "true")) == 2, machine.steps[-1].said
    arguments = {"inputs": "build", "arguments": "--baseline-from origin/main"}
    assert machine.action(arguments)[0] == 1, machine.steps[-1].said


def test_the_comment_is_written_once_and_then_updated_in_its_place(machine: Machine) -> None:
    (comment,) = (text for _, file, text in BLOCKS if file.endswith("-comment.yml"))
    asked = {"event": {"workflow_run": {"event": "pull_request", "id": 1, "head_branch": "change"}}}
    github = {"event_name": "workflow_run", "token": "t", "repository": "o/r", **asked}
    for edit, said in ((both, "blocks-lost"), (str, "0 findings")):
        pull_request(machine, edit)
        machine.run(JOB)
        assert machine.run(comment, github=github) == 0, machine.steps[-1].said
        assert [*machine.comments] == ["1"]
        assert said.lower() in machine.comments["1"].lower()
    github["event"]["workflow_run"]["event"] = "push"
    machine.run(comment, github=github)
    assert machine.steps == [], "a push has no pull request"


@pytest.mark.parametrize("text", of(jobs.PIPELINE))
def test_pipelines_of_gitlab(machine: Machine, text: str) -> None:
    pipeline = yaml.safe_load(text)
    include = pipeline.pop("include", {})
    jobs = [job for job in pipeline.values() if {"script", "extends"} & {*job}]
    given = include[0]["inputs"] if isinstance(include, list) else {}
    included = component(**given)
    template = included.get(".spillscan")
    jobs += [] if template else included.values()
    whole = [{**template, **job, "variables": {**template["variables"], **job["variables"]}}
             if "extends" in job else job for job in jobs]  # fmt: skip
    for edit, status in ((str, 0), (both, 1)):
        pull_request(machine, edit)
        *before, last = [machine.script(job) for job in whole]
        assert ([*before], last) == ([0] * (len(whole) - 1), status), machine.steps[-1].said
        assert (machine.checkout / whole[-1]["artifacts"]["reports"]["junit"]).read_bytes().startswith(b"<?xml")
    machine.build_status = 3
    assert machine.script(whole[0]) == 3


def component(**given: str) -> dict[str, Any]:
    """Our template, as GitLab includes it with these inputs."""
    header, body = (ROOT / ".gitlab" / "spillscan.yml").read_text().split("\n---\n")
    inputs = yaml.safe_load(header)["spec"]["inputs"]
    assert {*given} <= {*inputs}
    values = {name: spec["default"] for name, spec in inputs.items()} | given
    included: dict[str, Any] = yaml.safe_load(
        re.sub(r"\$\[\[ inputs\.(\w+) \]\]", lambda match: values[match[1]], body)
    )
    return included


@pytest.mark.parametrize("text", of(HOOKS))
def test_hooks_of_pre_commit(machine: Machine, text: str) -> None:
    hooks = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    (used,) = (hook for repo in yaml.safe_load(text)["repos"] for hook in repo["hooks"])
    hook = {**hooks[used["id"]], **used}
    assert hook["pass_filenames"] is False
    assert re.search(hook["files"], "src/gemm.cu")
    for edit, status in ((str, 0), (both, 1)):
        pull_request(machine, edit)
        (machine.checkout / "build").mkdir()
        shutil.copy(machine.checkout / "kernels.cu", machine.checkout / "build" / "kernels.log")
        shutil.copy(machine.folder / "bin" / "spillscan-of-venv", machine.folder / "bin" / "spillscan")
        words = [*hook["entry"].split(), *hook["args"]]
        done = machine.runner(machine.environment()).step("hook", shlex.join(words))
        assert done.status == status, done.said
