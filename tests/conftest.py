"""Fixtures and helpers of all tests: fixture files by path, records as plain values, the command as a function."""

from __future__ import annotations

import gc
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from hypothesis import HealthCheck, settings

from spillscan.model import Issue, Kernel, Reading
from spillscan.model.serialize import issue_json, kernel_json, text
from spillscan.reading import logs as buildlog
from spillscan.reading import pipeline
from spillscan.reading.inputs.formats import text_reader_of
from spillscan.reading.inputs.source import Source, Stream
from spillscan.reading.workers import processors
from tests import forked, reference, writers

Sized = TypeVar("Sized")
ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "fixtures"
COMMAND = Path(sys.executable).with_name("spillscan")
"""The installed command, for scripts that call it."""

# Some tens of examples find what a change broke; `make oracle` asks for thousands.
settings.register_profile("suite", max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("oracle", settings.get_profile("suite"), max_examples=2000)
settings.load_profile("suite")


def sized(suite: Sized, oracle: Sized) -> Sized:
    """What a test takes: in the suite, and in ``make oracle``. Known when modules of tests are loaded."""
    more = settings.default.max_examples > settings.get_profile("suite").max_examples  # older versions name no profile
    return oracle if more else suite


# Workers of a parallel run have a width, one process has none: what is printed must not depend on that.
for name in ("COLUMNS", "GITHUB_REPOSITORY", "GITHUB_BASE_REF", "CI_PROJECT_URL", "CI_MERGE_REQUEST_DIFF_BASE_SHA"):
    os.environ.pop(name, None)

# Where no nvcc is installed, tests take the one of the package index, and what they start takes it too.
if shutil.which("nvcc") is None and (wheel := find_spec("nvidia")) and wheel.submodule_search_locations:
    for folder in Path(wheel.submodule_search_locations[0]).glob("cu*/bin"):
        if (folder / "nvcc").exists():
            os.environ["PATH"] = f"{os.environ['PATH']}{os.pathsep}{folder}"

# A shell lets what it starts in the background ignore Ctrl-C, and programs that the tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: some tests wait for others' processes, and for time to pass."""
    return processors() + 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests of ``make oracle`` out of the suite."""
    left_out = [item for item in items if item.get_closest_marker("oracle") and sized(True, False)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("oracle")]


def pytest_collection_finish() -> None:
    """Freeze loaded objects, so that the garbage collector does not visit them again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell in a failure which command rewrites the expected file, if its module writes one."""
    report = yield
    if report.failed and writers.writes(item.path):
        how = f"If the change is meant, `{writers.program(item.path)}` writes anew what is compared; read its diff."
        report.sections.append(("What to do", how))
    return report


RIGHTS = "rights: "
"""Prefix of a skip reason that no installed program can change: the user or the container lacks a right."""
NO_SKIPS = os.environ.get("SPILLSCAN_SKIP") == "never"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With ``SPILLSCAN_SKIP=never``, as ``.ci/run`` sets it, a run that skipped a test for a missing program fails."""
    reporter: pytest.TerminalReporter | None = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", ()) if reporter else ()
    if reporter and NO_SKIPS and any(RIGHTS not in report.longrepr[2] for report in skipped):
        reporter.write_line("\nSPILLSCAN_SKIP=never: a test skipped for a missing program fails the run", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@cache
def manifest() -> list[dict[str, Any]]:
    """Every fixture with its tool, version and command."""
    document = yaml.load((FIXTURES / "MANIFEST.yaml").read_bytes(), Loader=yaml.CSafeLoader)
    entries: list[dict[str, Any]] = document["fixtures"]
    return entries


@cache
def stored(path: Path) -> Any:
    """A JSON file, read once."""
    return json.loads(path.read_bytes())


def read_text(path: Path) -> str:
    """A fixture's text, decompressed."""
    with Source(str(path)).open() as stream:
        return b"".join(stream.chunks()).decode()


def read_log(data: bytes | str, name: str = "build.log") -> Reading:
    """Result of the build log reader for ``data``."""
    raw = data.encode() if isinstance(data, str) else data
    return buildlog.read(Stream(io.BytesIO(raw), name), name)


def read_any(path: Path) -> Reading:
    """Result of the reader of the file's format."""
    with Source(str(path)).open() as stream:
        return pipeline.read_by(text_reader_of(stream.head()), stream, path.name)


def record(kernel: Kernel) -> dict[str, Any]:
    """A kernel as the reference writes it."""
    line = kernel.origins[0].line
    identity = {"symbol": kernel.key.symbol, "arch": kernel.key.arch, "role": kernel.role, "line": line}
    figures = {name: getattr(kernel.usage, name) for name in reference.METRICS}
    banks = {str(bank): size for bank, size in kernel.usage.constant_bytes or ()}
    return identity | figures | {"constant_bytes": banks or None}


def run(*arguments: str | Path, **kwargs: Any) -> subprocess.CompletedProcess[bytes]:
    """Run the command as users do; an unexpected error is raised."""
    done = _run(*arguments, **kwargs)
    assert b"spillscan: unexpected error" not in done.stderr, done.stderr
    return done


def _run(*arguments: str | Path, stdin: bytes = b"", **kwargs: Any) -> subprocess.CompletedProcess[bytes]:
    words, folder = [str(argument) for argument in arguments], kwargs.pop("cwd", ROOT)
    if kwargs.keys() <= {"env"} and forked.suits(kwargs.get("env")):
        return forked.run(words, stdin, folder, kwargs.get("env"))
    command = [sys.executable, "-m", "spillscan", *words]
    return subprocess.run(command, input=stdin, capture_output=True, cwd=folder, check=False, **kwargs)


@pytest.fixture
def log() -> str:
    """One small real log with spills."""
    return read_text(FIXTURES / "ptxas" / "spill-13.0.log")


def kernel_to_json(kernel: Kernel) -> dict[str, Any]:
    """A kernel as ``-f json`` writes it."""
    return dict(json.loads(text(kernel_json(kernel))))


def issue_to_json(issue: Issue) -> dict[str, Any]:
    """An issue as ``-f json`` writes it."""
    return dict(json.loads(text(issue_json(issue))))
