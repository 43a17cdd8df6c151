"""The fuzzer's corpus, and a short run of the fuzzer itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, sized
from tests.reading.binary.test_hostile import survives

CORPUS = sorted((Path(__file__).parent / "corpus" / "binary").iterdir())
RUNS = sized(300, 200_000)


def test_the_corpus_is_survived() -> None:
    read = [survives(path.read_bytes()) for path in CORPUS]
    assert sum(bool(found) for found, _ in read) > 10
    assert sum(bool(issues) for _, issues in read) > 10


@pytest.mark.oracle
def test_a_short_run_of_the_fuzzer(tmp_path: Path) -> None:
    pytest.importorskip("atheris")
    for path in CORPUS[-20:]:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    command = [sys.executable, "-m", "tests.fuzz.binary_fuzz", str(tmp_path), f"-runs={RUNS}", "-seed=1"]
    command += [f"-artifact_prefix={tmp_path}/", "-rss_limit_mb=4096"]  # a child's peak begins with its parent's
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-3000:]
    assert f"Done {RUNS} runs".encode() in done.stderr
