"""Files that other programs load, as docs/build.md shows them: VS Code and pytest."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.conftest import FIXTURES, ROOT, run

DOCUMENT = (ROOT / "docs" / "build.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}


def example(language: str) -> str:
    (text,) = re.findall(f"```{language}\n(.*?)```", DOCUMENT, re.S)
    return str(text)


# ---- VS Code -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["demo/head.log", "effects", "ptxas/spill-13.0.log"])
def test_the_problem_matcher_reads_checks_output(name: str) -> None:
    (task,) = json.loads(example("json"))["tasks"]
    pattern = task["problemMatcher"]["pattern"]
    done = run(*task["command"].split()[1:-1], f"fixtures/{name}", cwd=ROOT)
    lines = [line for line in done.stdout.decode().splitlines() if re.search(": (error|warning|note): ", line)]
    assert lines
    for line in lines:
        found = re.search(pattern["regexp"], line)
        assert found, line
        assert (ROOT / found[pattern["file"]]).is_file()
        assert int(found[pattern["line"]]) > 0
        assert found[pattern["severity"]] in ("error", "warning", "note")
        assert f"[{found[pattern['code']]}" in found[pattern["message"]]


# ---- pytest --------------------------------------------------------------------------------------------------------


def pytest_says(folder: Path, *words: str) -> tuple[int, str]:
    """Status and output of pytest on the example, with the plugin alone."""
    (folder / "test_kernels.py").write_text(example("python"))
    plugin = PROJECT["project"]["entry-points"]["pytest11"]["spillscan"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", plugin, "-p", "no:cacheprovider", *words],
        cwd=folder,
        env=ENVIRONMENT | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_fixture_of_pytest_is_the_build(tmp_path: Path) -> None:
    shutil.copy(FIXTURES / "demo" / "base.log", tmp_path)
    head = str(FIXTURES / "demo" / "head.log")
    status, said = pytest_says(tmp_path, "--spillscan-build", head)
    assert (status, "gemm<8> (sm_90a) spills 304 B stores" in said) == (1, True)
    status, said = pytest_says(tmp_path)
    assert (status, "no build: pass --spillscan-build" in said) == (1, True), "nothing was seen"
    status, said = pytest_says(tmp_path, "--spillscan-build", "none.log")
    assert (status, "spillscan: " in said, "Traceback" in said) == (1, True, False)
    (tmp_path / "pytest.ini").write_text("[pytest]\nspillscan_build = base.log\n")
    (tmp_path / "below").mkdir()
    status, said = pytest_says(tmp_path / "below", "-c", "../pytest.ini", ".")
    assert status == 0, said
