"""What a build folder was given, by what CMake and Meson keep of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from spillscan.builds import configured

needs_cmake = pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake")
PROJECT = """\
cmake_minimum_required(VERSION 3.16)
project(x LANGUAGES NONE)
option(BACKEND "the GPU" OFF)
set(CMAKE_BUILD_TYPE Release CACHE STRING "")
set(FROM_SHELL "$ENV{SHELL_SAYS}" CACHE STRING "")
if(BACKEND)
  set(CAPABILITY 50 CACHE STRING "")
  option(FAST "" ON)
endif()
"""


def build(tmp_path: Path, text: str, *options: str, **variables: str) -> configured.Configured:
    (tmp_path / "CMakeLists.txt").write_text(text)
    command = ["cmake", "-S", ".", "-B", "out/build", *options]
    subprocess.run(command, cwd=tmp_path, env=os.environ | variables, check=True, capture_output=True)
    found = configured.above(str(tmp_path / "out" / "build"))
    assert found is not None
    return found


@needs_cmake
@pytest.mark.parametrize(
    ("options", "given"),
    [
        ([], {}),
        (["-DFAST=OFF", "-DCMAKE_INSTALL_PREFIX=/x"], {"FAST": "OFF"}),
        (["-DBACKEND=OFF", "-DCMAKE_BUILD_TYPE=Release"], {}),
        (["-DBACKEND=ON"], {"BACKEND": "ON"}),
        (["-DBACKEND=ON", "-DCAPABILITY=80;90"], {"BACKEND": "ON", "CAPABILITY": "80;90"}),
        (["-DBACKEND=ON", "-DFAST=OFF", "-DUNKNOWN=a b"], {"BACKEND": "ON", "FAST": "OFF", "UNKNOWN": "a b"}),
        (["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CUDA_COMPILER_LAUNCHER=ccache"], {"CMAKE_BUILD_TYPE": "Debug"}),
    ],
)
def test_options_that_are_no_default(tmp_path: Path, options: list[str], given: dict[str, str]) -> None:
    assert configured.given(build(tmp_path, PROJECT, *options), os.environ) == (given, True)


@needs_cmake
def test_what_the_environment_gave_is_an_option(tmp_path: Path) -> None:
    found = build(tmp_path, PROJECT, SHELL_SAYS="this")
    assert configured.given(found, os.environ) == ({"FROM_SHELL": "this"}, True)


@needs_cmake
def test_a_project_that_has_no_default(tmp_path: Path) -> None:
    text = PROJECT + "if(NOT CAPABILITY)\n  message(FATAL_ERROR no)\nendif()\n"
    found = build(tmp_path, text, "-DBACKEND=ON")
    assert configured.given(found, os.environ) == ({"BACKEND": "ON"}, True)


@needs_cmake
def test_what_cannot_be_configured_again_is_a_guess(tmp_path: Path) -> None:
    found = build(tmp_path, PROJECT, "-DBACKEND=ON", "-DCAPABILITY=90")
    (tmp_path / "CMakeLists.txt").write_text("nonsense()")
    wanted = {"BACKEND": "ON", "CAPABILITY": "90", "CMAKE_BUILD_TYPE": "Release", "FAST": "ON"}
    assert configured.given(found, os.environ) == (wanted, False), "all that the project declares"


@needs_cmake
def test_a_build_folder_is_found_above_and_below_up_to_the_repository(tmp_path: Path) -> None:
    folder = build(tmp_path, PROJECT).folder
    (tmp_path / ".git").mkdir()
    (tmp_path / "out" / "build" / "lib").mkdir()
    assert configured.above(f"{folder}/lib/libx.so").folder == folder  # type: ignore[union-attr]
    assert configured.below(str(tmp_path)).folder == folder  # type: ignore[union-attr]
    assert configured.above(str(tmp_path / "src")) is None
    assert configured.below(str(tmp_path / "out" / "build" / "lib")) is None


def test_mesons_own_list(tmp_path: Path) -> None:
    (tmp_path / "meson-private").mkdir()
    text = "[options]\ncuda_args = ['-Xptxas', '-v']\nbuildtype = release\nprefix = '/opt'\n\n[properties]\n"
    (tmp_path / "meson-private" / "cmd_line.txt").write_text(text)
    found = configured.of_folder(str(tmp_path))
    assert found is not None
    given = {"cuda_args": "-Xptxas,-v", "buildtype": "release", "prefix": "/opt"}
    assert (found.system, configured.given(found, {})) == ("Meson", (given, True))


@pytest.mark.parametrize("text", ["", "\0\0", "A:BOOL\n", "=:=\n" * 1000, "//" * 100_000])
def test_no_cache(tmp_path: Path, text: str) -> None:
    (tmp_path / "CMakeCache.txt").write_text(text)
    assert configured.of_folder(str(tmp_path)) is None
