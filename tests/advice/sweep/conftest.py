"""One sweep by the real ptxas, shared."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.conftest import run as command

Sweep = Callable[..., "subprocess.CompletedProcess[str]"]


def run(*words: str | Path, folder: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """`spillscan sweep`, with no toolkit but that of the packages and those that are named."""
    variables = os.environ | {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", **environment}
    for name in ("CUDA_HOME", "CUDA_PATH"):
        variables.pop(name, None)
    done = command("sweep", *words, cwd=folder, env=variables)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def curves(*words: str | Path, **keywords: Any) -> list[dict[str, Any]]:
    """Its JSON."""
    done = run(*words, "-f", "json", **keywords)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["curves"]
    return found


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that tests of one worker share."""
    return tmp_path_factory.mktemp("sweeps")
