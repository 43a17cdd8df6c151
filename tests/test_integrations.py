"""What other programs load of ours, as docs/build.md shows it: VS Code, CMake and pytest."""

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

from tests.builds.test_launcher import COMPILER, LOG
from tests.conftest import FIXTURES, ROOT, read_text, run

DOCUMENT = (ROOT / "docs" / "build.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}


def example(language: str) -> str:
    (text,) = re.findall(f"```{language}\n(.*?)```", DOCUMENT, re.S)
    return str(text)


# ---- VS Code -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["demo/head.log", "effects", "ptxas/spill-13.0.log"])
def test_the_problem_matcher_takes_what_check_prints(name: str) -> None:
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


# ---- CMake ---------------------------------------------------------------------------------------------------------

LISTS = """\
cmake_minimum_required(VERSION 3.18)
project(x LANGUAGES CUDA)
{before}
set(SPILLSCAN_ARGUMENTS --set expect_kernels=1000)
{package}
add_library(a OBJECT a.cu)
add_library(none INTERFACE)
add_subdirectory(sub)
add_subdirectory(apart EXCLUDE_FROM_ALL)
"""
# A compiler of which CMake asks nothing.
KNOWN = {"ID_RUN": "1", "FORCED": "1"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """With our command and a compiler on the path, the package where a wheel puts it."""
    ((source, place),) = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"].items()
    shutil.copytree(ROOT / source, tmp_path / "prefix" / place)
    programs = tmp_path / "prefix" / "bin"
    programs.mkdir()
    text = {
        "nvcc": COMPILER.format(python=sys.executable),
        "spillscan": f'#!/bin/sh\nexec "{sys.executable}" -m spillscan "$@"\n',
    }
    for name, script in text.items():
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    (tmp_path / "log").write_text(read_text(LOG))
    for folder in ("", "sub", "apart"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "a.cu").write_text("")
        (tmp_path / folder / "CMakeLists.txt").write_text(f"add_library({folder} OBJECT a.cu)\n")
    return tmp_path


def cmake(project: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    path = f"{project / 'prefix' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = ENVIRONMENT | {"PATH": path, "LOG": str(project / "log"), **more}
    return subprocess.run(["cmake", *words], cwd=project, env=environment, capture_output=True, text=True, check=False)


def configure(project: Path, generator: str, before: str = "", *words: str, **more: str) -> str:
    (project / "CMakeLists.txt").write_text(LISTS.format(package=example("cmake"), before=before))
    compiler = project / "prefix" / "bin" / "nvcc"
    known = [f"-DCMAKE_CUDA_COMPILER_{name}={value}" for name, value in KNOWN.items()]
    known += [f"-DCMAKE_CUDA_COMPILER={compiler}", "-D_CMAKE_CUDA_WHOLE_FLAG=-c", "-DCMAKE_CUDA_ARCHITECTURES=90"]
    done = cmake(project, "-B", "build", "-G", generator, *known, *words, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(("generator", "program"), [("Ninja", "ninja"), ("Unix Makefiles", "make")])
def test_one_line_gives_cmake_the_launcher_and_a_target(project: Path, generator: str, program: str) -> None:
    if not (shutil.which("cmake") and shutil.which(program)):
        pytest.skip(f"no cmake, or no {program}")
    configure(project, generator)
    done = cmake(project, "--build", "build", "--target", "spillscan-check")
    assert done.returncode != 0
    assert "spills: " in done.stdout + done.stderr, "it was compiled, and judged"
    records = sorted(path.relative_to(project / "build").parts[0] for path in project.rglob("*.spillscan.log"))
    assert records == ["CMakeFiles", "sub"], "all, and nothing else"
    (project / "spillscan.yaml").write_text("version: 1\nmax_spill_bytes: 100000\n")
    done = cmake(project, "--build", "build", "--target", "spillscan-check")
    assert "48 kernels where 1,000 are expected" in done.stdout + done.stderr, (
        "its arguments, the policy of the sources"
    )


@pytest.mark.skipif(not (shutil.which("cmake") and shutil.which("ninja")), reason="no cmake, or no ninja")
@pytest.mark.parametrize(
    ("before", "variable", "launchers"),
    [
        ("set(CMAKE_CUDA_COMPILER_LAUNCHER ccache)", "", r"\S*/spillscan wrap -v -- \S*ccache"),
        ("set(CMAKE_CUDA_COMPILER_LAUNCHER spillscan wrap --)", "", "spillscan wrap --"),
        ("", "python3;-m;spillscan;wrap;--watched;--", "python3 -m spillscan wrap --watched --"),
        (f"set(CMAKE_MODULE_PATH)\n{example('cmake')}", "", r"\S*/spillscan wrap -v --"),
    ],
)
def test_launchers_that_are_there_already(project: Path, before: str, variable: str, launchers: str) -> None:
    configure(project, "Ninja", before, **({"CMAKE_CUDA_COMPILER_LAUNCHER": variable} if variable else {}))
    lines = cmake(project, "--build", "build", "--", "-t", "commands", "a").stdout
    assert re.search(rf"^{launchers} \S*/nvcc ", lines, re.M), lines


@pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake")
def test_the_folder_that_config_names(project: Path) -> None:
    folder = run("config", "--cmake-dir").stdout.decode().strip()
    shutil.rmtree(project / "prefix" / "share")
    assert "spillscan" in configure(project, "Unix Makefiles")
    assert "Could not find" not in configure(project, "Unix Makefiles", "", f"-Dspillscan_DIR={folder}")
    (project / "prefix" / "bin" / "spillscan").unlink()
    said = configure(project, "Unix Makefiles", "set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)", "-U", "SPILLSCAN*")
    assert "the command spillscan is not on the PATH" in said


# ---- pytest --------------------------------------------------------------------------------------------------------


def pytest_says(folder: Path, *words: str) -> tuple[int, str]:
    """What pytest says of the example, with the plugin alone."""
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
    assert (status, "gemm<8> (sm_90a): spills: 304 B stores" in said) == (1, True)
    status, said = pytest_says(tmp_path)
    assert (status, "no build: give --spillscan-build" in said) == (1, True), "nothing was seen"
    status, said = pytest_says(tmp_path, "--spillscan-build", "none.log")
    assert (status, "spillscan: " in said, "Traceback" in said) == (1, True, False)
    (tmp_path / "pytest.ini").write_text("[pytest]\nspillscan_build = base.log\n")
    (tmp_path / "below").mkdir()
    status, said = pytest_says(tmp_path / "below", "-c", "../pytest.ini", ".")
    assert status == 0, said
