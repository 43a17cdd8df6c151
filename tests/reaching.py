"""Tests that reach each line of some modules, and a run of a few of them: for :mod:`tests.mutants`.

Loaded by pytest as a plugin (``-p tests.reaching``), it notes the lines that each test reaches.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Collection, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
_MODULES, _ANSWER = "TESTS_REACHING_MODULES", "TESTS_REACHING_ANSWER"
INLINE = "TESTS_INLINE"
"""Set in the environment of a run whose commands are calls of functions, so that their lines are seen."""

Lines = dict[str, dict[int, list[str]]]
"""Tests of each line of each module, the most particular first."""


def tests_by_line(folders: Sequence[str], modules: Collection[str], keep: Path | None, workers: int) -> Lines:
    """Tests that reach each line of modules; from ``keep``, if it is there."""
    if keep is not None and keep.exists():
        known = json.loads(keep.read_text())
        return {path: {int(line): tests for line, tests in lines.items()} for path, lines in known.items()}
    found: Lines = defaultdict(lambda: defaultdict(list))
    weight: Counter[str] = Counter()
    with ThreadPoolExecutor(workers) as pool:
        for answer in pool.map(lambda folder: _reached(folder, modules), folders):
            for test, path, lines in answer:
                weight[test] += len(lines)
                for line in lines:
                    found[path][line].append(test)
    for lines_of in found.values():
        for tests in lines_of.values():
            tests.sort(key=lambda test: (weight[test], test))
    if keep is not None:
        keep.write_text(json.dumps(found))
    return found


def _reached(folder: str, modules: Collection[str]) -> Iterator[tuple[str, str, list[int]]]:
    """(test, module, lines) of a folder of tests."""
    with tempfile.TemporaryDirectory() as place:
        answer = Path(place, "answer")
        environment = {_MODULES: json.dumps(sorted(modules)), _ANSWER: str(answer)}
        _pytest(ROOT, ["-p", "tests.reaching", "--ignore", "tests/reports/browser", folder], environment).wait()
        with answer.open() as lines:
            for line in lines:
                yield tuple(json.loads(line))


def passes(place: Path, tests: Sequence[str], seconds: float) -> bool:
    """Whether tests pass in a copy of the tree, in time."""
    process = _pytest(place, ["-x", *tests], {"PYTHONDONTWRITEBYTECODE": "1"})
    try:
        return process.wait(seconds) in (0, 5)  # 5: none of these tests is there
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return False


def _pytest(place: Path, words: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """A run of pytest as a group of processes of its own."""
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *words]
    everything = {**os.environ, "PYTHONPATH": str(place), INLINE: "1", **environment}
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=place, env=everything, stdout=quiet, stderr=quiet, start_new_session=True)


# ---- the plugin ------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Note the lines that a test reaches, those of its fixtures with it."""
    from coverage import Coverage

    modules = json.loads(os.environ[_MODULES])
    coverage = Coverage(data_file=None, include=[str(ROOT / module) for module in modules], config_file=False)
    coverage.start()
    try:
        return (yield)
    finally:
        coverage.stop()
        data = coverage.get_data()
        with open(os.environ[_ANSWER], "a") as answer:
            for file in data.measured_files():
                path = Path(file).relative_to(ROOT).as_posix()
                answer.write(json.dumps([item.nodeid, path, data.lines(file)]) + "\n")
