"""What teams plug into their services, run as far as it runs without them."""

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

ACTION = ROOT / ".github" / "actions" / "spillscan"
DEMO = FIXTURES / "demo"


def action() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ACTION / "action.yml").read_text())
    return document


def judge(folder: Path, **inputs: str) -> tuple[subprocess.CompletedProcess[str], dict[str, str], str]:
    """The action's step with GitHub's environment: (how it ended, its outputs, the job's summary)."""
    commands = folder / "bin"
    commands.mkdir()
    (commands / "spillscan").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m spillscan "$@"\n')
    (commands / "spillscan").chmod(0o755)
    step = next(step for step in action()["runs"]["steps"] if step.get("id") == "judge")
    given = {name.replace("-", "_").upper(): spec.get("default", "") for name, spec in action()["inputs"].items()}
    given |= {name.upper(): value for name, value in inputs.items()}
    assert set(given) < set(step["env"])
    output, summary = folder / "output", folder / "summary"
    summary.write_text("what an earlier step said\n")
    environment = os.environ | given | {
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "ACTION": str(ACTION),
        "RUNNER_TEMP": str(folder),
        "GITHUB_OUTPUT": str(output),
        "GITHUB_STEP_SUMMARY": str(summary),
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    outputs = dict(line.split("=", 1) for line in output.read_text().splitlines()) if output.exists() else {}
    return done, outputs, summary.read_text()


def test_nothing_of_the_users_is_put_into_a_shells_text() -> None:
    for step in action()["runs"]["steps"]:
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"


def test_the_action_annotates_summarises_and_fails(tmp_path: Path) -> None:
    done, outputs, summary = judge(tmp_path, inputs=f"{DEMO / 'head.log'}\n")
    assert done.returncode == 1, done.stderr
    assert outputs["status"] == "1"
    assert done.stdout.count("::error ") == 2
    assert summary.startswith("what an earlier step said\n")
    assert "gemm<8>" in summary
    assert len(json.loads(Path(outputs["json"]).read_text())["findings"]) == 2
    assert json.loads(Path(outputs["sarif"]).read_text())["version"] == "2.1.0"
    assert Path(outputs["markdown"]).read_text() in summary


def test_the_action_compares(tmp_path: Path) -> None:
    done, outputs, _ = judge(tmp_path, inputs=str(DEMO / "base.log"), before=str(DEMO / "base.log"))
    assert (done.returncode, outputs["status"]) == (0, "0"), done.stderr
    assert "::error" not in done.stdout


def test_the_action_never_passes_on_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.log").write_text("all is well\n")
    done, outputs, summary = judge(tmp_path, inputs=str(tmp_path / "empty.log"))
    assert (done.returncode, outputs) == (2, {"status": "2"})
    assert "could not judge" in summary


def test_hostile_inputs_are_words_not_code(tmp_path: Path) -> None:
    done, _, _ = judge(tmp_path, inputs=f"$(touch {tmp_path}/owned)\n`touch {tmp_path}/owned`; x", arguments="--top\n3")
    assert done.returncode == 2
    assert not (tmp_path / "owned").exists()


def test_the_gitlab_template_names_reports_that_exist() -> None:
    job = yaml.safe_load((ROOT / ".gitlab" / "spillscan.yml").read_text())[".spillscan"]
    command = job["script"][-1]
    written = dict(re.findall(r"-f (\w+):(\S+)", command))
    assert job["artifacts"]["reports"] == {"codequality": written["gitlab"], "junit": written["junit"]}


def test_the_gitlab_job_runs(tmp_path: Path) -> None:
    job = yaml.safe_load((ROOT / ".gitlab" / "spillscan.yml").read_text())[".spillscan"]
    script = job["script"][-1].replace("spillscan check", f'"{sys.executable}" -m spillscan check', 1)
    environment = os.environ | {
        "SPILLSCAN_INPUTS": str(DEMO / "head.log"), "SPILLSCAN_ARGUMENTS": "", "PYTHONPATH": str(ROOT)
    }  # fmt: skip
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert done.returncode == 1
    assert len(json.loads((tmp_path / "gl-code-quality-report.json").read_text())) == 2
    assert (tmp_path / "spillscan-junit.xml").read_bytes().startswith(b"<?xml")


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
