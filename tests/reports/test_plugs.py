"""Files that teams add to their services, run as far as possible without the services."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import FIXTURES, ROOT
from tests.services import Machine

ACTION = ROOT / ".github" / "actions" / "spillscan"
DEMO = FIXTURES / "demo"


def action() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ACTION / "action.yml").read_text())
    return document


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    return Machine(tmp_path, checkout, context={"github": {}})


def judge(machine: Machine, **inputs: str) -> tuple[int, dict[str, str], str]:
    """Run the action's steps with GitHub's environment: (exit status, outputs, output of the last step)."""
    status, outputs = machine.action(inputs)
    return status, outputs, machine.steps[-1].said


def test_nothing_of_the_users_is_put_into_a_shells_text() -> None:
    for step in action()["runs"]["steps"]:
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"


def test_the_action_annotates_summarises_and_fails(machine: Machine) -> None:
    status, outputs, said = judge(machine, inputs=f"{DEMO / 'head.log'}\n")
    assert (status, outputs["status"]) == (1, "1"), said
    assert said.count("::error ") == 2
    assert "gemm<8>" in machine.summary
    assert len(json.loads(Path(outputs["json"]).read_text())["findings"]) == 2
    assert json.loads(Path(outputs["sarif"]).read_text())["version"] == "2.1.0"
    assert Path(outputs["markdown"]).read_text() in machine.summary


def test_the_action_compares(machine: Machine) -> None:
    status, outputs, said = judge(machine, inputs=str(DEMO / "base.log"), before=str(DEMO / "base.log"))
    assert (status, outputs["status"]) == (0, "0"), said
    assert "::error" not in said


def test_the_action_never_passes_on_nothing(machine: Machine) -> None:
    (machine.checkout / "empty.log").write_text("all is well\n")
    status, outputs, _ = judge(machine, inputs="empty.log")
    assert (status, outputs["status"], outputs["json"]) == (2, "2", "")
    assert "could not check" in machine.summary


@pytest.mark.parametrize(
    "arguments", ["--set max_spill_bytes=9999 --top 3", "--set\nmax_spill_bytes=9999\n--kernel 'gemm*'\n"]
)
def test_arguments_on_one_line_or_several(machine: Machine, arguments: str) -> None:
    status, _, said = judge(machine, inputs=str(DEMO / "head.log"), arguments=arguments)
    assert status == 0, said


@pytest.mark.parametrize(
    "inputs",
    [
        {"inputs": "$(touch owned)\n`touch owned`; x", "arguments": "--top\n3"},
        {"inputs": "x", "arguments": "$(touch owned) ; touch owned"},
        {"inputs": "x", "arguments": "it's"},
    ],
)
def test_hostile_inputs_are_words_not_code(machine: Machine, inputs: dict[str, str]) -> None:
    assert judge(machine, **inputs)[0] == 2
    assert not (machine.checkout / "owned").exists()


def test_the_gitlab_template_names_reports_that_exist() -> None:
    *_, (job,) = (each.values() for each in yaml.safe_load_all((ROOT / ".gitlab" / "spillscan.yml").read_text()))
    command = job["script"][-1]
    written = dict(re.findall(r"-f (\w+):(\S+)", command))
    assert job["artifacts"]["reports"] == {"codequality": written["gitlab"], "junit": written["junit"]}


@pytest.mark.parametrize("hook", yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text()), ids=lambda h: h["id"])
def test_the_hook_runs_the_gate(hook: dict[str, Any], tmp_path: Path) -> None:
    shutil.copy(DEMO / "head.log", tmp_path / "build.log")
    words = hook["entry"].split()
    assert words[0] == "spillscan"
    done = subprocess.run(
        [sys.executable, "-m", *words, "build.log"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert hook["pass_filenames"] is False
