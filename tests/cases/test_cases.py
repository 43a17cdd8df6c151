"""Cases: small inputs in the folders next to this file, each with the right answer.

``make test`` runs those that need no compiler; ``make oracle`` runs all.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.conftest import COMMAND, run, sized

HERE = Path(__file__).resolve().parent
WITHOUT_COMPILER = ["baseline-fifo", "baseline-link", "baseline-submodule", "output-fifo", "pyproject-endless"]
BUILDS = sized(WITHOUT_COMPILER, sorted(path.stem for path in (HERE / "run").glob("*.sh")))


@pytest.mark.parametrize("log", sorted((HERE / "reports").glob("*.log")), ids=lambda path: path.stem)
def test_a_report_as_people_paste_it(log: Path) -> None:
    want = json.loads(log.with_suffix(".expected.json").read_text(encoding="utf-8"))
    checked = run("check", "--config", "none", log.name, *want.get("options", ()), cwd=log.parent)
    said = (checked.stdout + checked.stderr).decode()
    assert checked.returncode in want["exit"], said
    assert re.search(want.get("must", ""), said), said
    assert not (want.get("must_not") and re.search(want["must_not"], said)), said
    if not want.keys() & {"kernels", "count"}:
        return
    kernels = json.loads(run("scan", "--config", "none", log.name, "-f", "json", cwd=log.parent).stdout)["kernels"]
    named = {each["symbol"] for each in want.get("kernels", ()) if each["symbol"]}
    for each in want.get("kernels", ()):
        assert any(_agrees(kernel, each, named) for kernel in kernels), (each, kernels)
    assert len(kernels) == want.get("count", len(kernels))


def _agrees(kernel: dict[str, Any], want: dict[str, Any], named: set[str]) -> bool:
    """Whether a record has the figures that are wanted of a symbol, or of a record that none of the names has."""
    if kernel["symbol"] != want["symbol"] if want["symbol"] else kernel["symbol"] in named:
        return False
    if "arch" in want and kernel["arch"] != want["arch"]:
        return False
    figures = want.keys() - {"symbol", "arch"}
    return all(kernel["usage"].get(name) == want[name] for name in figures)


@pytest.mark.parametrize("name", BUILDS)
def test_a_build_and_its_gate(name: str) -> None:
    _right([str(HERE / "run.sh"), f"run/{name}."])


@pytest.mark.parametrize("folder", sized(["pairs", "accuracy"], ["pairs", "accuracy", "adopt"]))
def test_a_set_with_its_own_script(folder: str, tmp_path: Path) -> None:
    script, program = [str(HERE / folder / "run.sh")], tmp_path / "spillscan"
    if folder == "pairs":  # one call after the other, by a shell that hands descriptors down
        _right(script, forked.program(program), program)
    else:
        _right(script)


def _right(script: list[str], line: int | None = None, program: Path = COMMAND) -> None:
    """Whether a script finds each of its cases right, with a program that waits for calls or the installed one."""
    environment, passed = {**os.environ, "S": str(program), "JOBS": "1"}, () if line is None else (line,)
    words = ["bash", *script]
    done = subprocess.run(words, env=environment, pass_fds=passed, capture_output=True, text=True, check=False)
    last = re.search(r"(\d+) of (\d+) right\s*$", done.stdout)
    assert last, done.stdout + done.stderr
    assert last[1] == last[2] != "0", done.stdout
