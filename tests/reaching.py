"""Tests that reach each line of some modules, and a run of a few of them: for :mod:`tests.mutants`.

Loaded by pytest as a plugin (``-p tests.reaching``), it notes the lines that each test reaches.
"""

from __future__ import annotations

import ast
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import _lru_cache_wrapper, cache
from itertools import chain, takewhile, zip_longest
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
_MODULES, _ANSWER = "TESTS_REACHING_MODULES", "TESTS_REACHING_ANSWER"
INLINE = "TESTS_INLINE"
"""Set in the environment of a run whose commands are calls of functions, so that their lines are seen."""

PROCESSES = {
    "spillscan/builds/launcher.py": ("tests/builds/test_account.py", "tests/builds/test_run.py"),
    "spillscan/builds/pieces.py": ("tests/builds/test_account.py",),
    "spillscan/builds/run.py": ("tests/builds/test_account.py", "tests/builds/test_run.py"),
    "spillscan/cli.py": ("tests/commands/test_manners.py", "tests/commands/test_cli.py"),
}
"""Tests that start processes, in which no line is seen to be reached, by the module that they are for."""

_DEAR_SECONDS = 1.5


class Reached:
    """Tests that reach each line, and the time of each."""

    def __init__(self, answers: Iterable[Sequence[Any]]) -> None:
        """``answers``: (test, seconds, {module: lines}) of each."""
        self._tests: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
        self._seconds: dict[str, float] = {}
        self._lines: dict[str, set[tuple[str, int]]] = {}
        for test, seconds, modules in answers:
            self._seconds[test] = seconds
            self._lines[test] = {(path, line) for path, lines in modules.items() for line in lines}
            for path, lines in modules.items():
                for line in lines:
                    self._tests[path][line].append(test)

    def nearest(self, path: str, line: int, seconds: float) -> list[str]:
        """Tests of a line that take at most so long; if there are few, tests of its function and module, too."""
        tests = self._tests.get(path, {})
        found: list[str] = []
        left = seconds
        for lines in _around(path, line):
            if found and left < seconds / 4:
                break
            wider = {test for at in lines for test in tests.get(at, ())}.difference(found)
            for test in self._in_order(path, line, wider):
                if self._seconds[test] <= left and test not in found:
                    left -= self._seconds[test]
                    found.append(test)
        return found

    def _in_order(self, path: str, line: int, tests: Collection[str]) -> Iterator[str]:
        """One for each way through the line's function, then by turns any, and one that reaches what none before it
        does, anywhere. Each time those of the module's own file and folder first, of each function the most particular,
        then the second of each.

        Tests that start processes for the module take turns with them.
        """
        mine = _by_turns(sorted(tests, key=lambda test: (len(self._lines[test]), test)))
        mine.sort(key=lambda test: -_nearness(path, test))
        processes = tuple(f"{file}::" for file in PROCESSES.get(path, ()))
        others = _by_turns(test for test in self._seconds if test.startswith(processes) and test not in tests)
        mine = [test for test in chain.from_iterable(zip_longest(mine, others)) if test is not None]
        mine.sort(key=lambda test: self._seconds[test] > _DEAR_SECONDS)  # one must not cost twenty
        by_turns = chain.from_iterable(zip_longest(mine, self._reaching_more(mine)))
        yield from filter(None, dict.fromkeys((*self._one_per_way(path, line, mine), *by_turns)))

    def _reaching_more(self, tests: Sequence[str]) -> Iterator[str]:
        """``tests`` that reach a line that none before them reaches."""
        reached: set[tuple[str, int]] = set()
        for test in tests:
            if not self._lines[test] <= reached:
                reached |= self._lines[test]
                yield test

    def _one_per_way(self, path: str, line: int, tests: Sequence[str]) -> list[str]:
        """The first of ``tests`` that reaches each line of the function around ``line``, for the rarest lines first: a
        condition that a thousand tests evaluate may be met in one."""
        rank = {test: at for at, test in enumerate(tests)}
        lines = next((each for each in _functions(path) if line in each), ())
        ways = ([test for test in self._tests.get(path, {}).get(at, ()) if test in rank] for at in lines)
        found: list[str] = []
        for way in sorted(filter(None, ways), key=len):
            if set(found).isdisjoint(way):
                found.append(min(way, key=rank.__getitem__))
        return found


def _by_turns(tests: Iterable[str]) -> list[str]:
    """The first test of each function, then the second of each."""
    taken: Counter[str] = Counter()
    turns = []
    for test in tests:
        function = test.partition("[")[0]
        turns.append((taken[function], test))
        taken[function] += 1
    return [test for _, test in sorted(turns, key=lambda pair: pair[0])]


def _nearness(path: str, test: str) -> int:
    """Number of folders that a module and a test share, below ``spillscan`` and ``tests``; more if the test's file is
    named after the module, or starts processes for it.
    """
    name = test.partition("::")[0]
    file = name.split("/")
    pairs = zip(path.split("/")[1:-1], file[1:-1], strict=False)
    shared = len([*takewhile(lambda pair: pair[0] == pair[1], pairs)])
    return shared + (Path(path).stem.strip("_") in file[-1] or name in PROCESSES.get(path, ()))


@cache
def _functions(path: str) -> list[range]:
    """The lines of each function of a module, without those of its parameters, the shortest first."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    return sorted((range(each.body[0].lineno, (each.end_lineno or 0) + 1) for each in functions), key=len)


def _around(path: str, line: int) -> Iterator[Sequence[int]]:
    """The line, then the functions that it is in, then all of them. What is in none runs when a module is imported:
    the test that happens to import it says nothing of it."""
    around = [lines for lines in _functions(path) if line in lines]
    if around:
        yield (line,)
    yield from around
    yield [at for lines in _functions(path) for at in lines]
    yield range(1, 10_000)


def tests_by_line(folders: Sequence[str], modules: Collection[str], keep: Path | None, workers: int) -> Reached:
    """Tests that reach each line of modules; from ``keep``, if it is there."""
    if keep is not None and keep.exists():
        return Reached(json.loads(keep.read_text()))
    with ThreadPoolExecutor(workers) as pool:
        answers = [answer for found in pool.map(lambda folder: _reached(folder, modules), folders) for answer in found]
    if keep is not None:
        keep.write_text(json.dumps(answers))
    return Reached(answers)


def _reached(folder: str, modules: Collection[str]) -> list[Any]:
    """(test, seconds, {module: lines}) of each test of a folder."""
    with tempfile.TemporaryDirectory() as place:
        answer = Path(place, "answer")
        environment = {_MODULES: json.dumps(sorted(modules)), _ANSWER: str(answer), "PYTHONDONTWRITEBYTECODE": ""}
        _pytest(ROOT, ["-p", "tests.reaching", "--ignore", "tests/reports/browser", folder], environment).wait()
        return [json.loads(line) for line in answer.read_text().splitlines()]


def passes(place: Path, tests: Sequence[str], seconds: int) -> bool:
    """Whether tests pass in a copy of the tree, in so many seconds of processor time for each process of theirs.

    What waits instead of computing has twenty times as long.
    """
    process = _pytest(place, ["-x", *tests], {"PYTHONDONTWRITEBYTECODE": "1"})
    resource.prlimit(process.pid, resource.RLIMIT_CPU, (seconds, seconds))
    try:
        return process.wait(20 * seconds) in (0, 5)  # 5: none of these tests is there
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
    """Note the lines that a test reaches, those of its fixtures with it; none of one that fails already."""
    from coverage import Coverage, CoverageData

    modules = json.loads(os.environ[_MODULES])
    _forget(modules)
    coverage = Coverage(data_file=None, include=[str(ROOT / module) for module in modules], config_file=False)
    failed = item.session.testsfailed
    coverage.start()
    began = _processor_seconds()
    try:
        return (yield)
    finally:
        took = _processor_seconds() - began
        coverage.stop()
        data = coverage.get_data() if item.session.testsfailed == failed else CoverageData(no_disk=True)
        lines = {Path(file).relative_to(ROOT).as_posix(): data.lines(file) for file in data.measured_files()}
        with open(os.environ[_ANSWER], "a") as answer:
            answer.write(json.dumps([item.nodeid, round(took, 3), lines]) + "\n")


def _forget(modules: Iterable[str]) -> None:
    """Clear the caches of functions: else only the first test that calls one would reach its lines."""
    for path in modules:
        loaded = sys.modules.get(path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
        for each in vars(loaded).values() if loaded else ():
            if isinstance(each, _lru_cache_wrapper):
                each.cache_clear()


def _processor_seconds() -> float:
    """Processor time of this process and of those it has waited for, which other jobs do not lengthen."""
    return sum(os.times()[:4])
