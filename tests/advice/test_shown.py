"""A build that `init` was shown, said again for a machine that has nothing of it; and tried."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from spillscan.advice import jobs
from spillscan.advice.shown import Shown, asked_for, lacks, repeated, required
from spillscan.advice.trying import steps
from spillscan.builds.configured import Configured, Entry
from spillscan.commands._shown import programs
from spillscan.output.errors import UsageError
from tests.advice.test_adoption import spillscan
from tests.builds.test_configured import needs_cmake
from tests.conftest import FIXTURES
from tests.services import git

HEAD = FIXTURES / "demo" / "head.log"
RUN = "spillscan-build.json"
WRAP = "-DCMAKE_CUDA_COMPILER_LAUNCHER='spillscan;wrap;-v;--'"
ALL = ' -j"$(nproc)"'


def shown(**facts: Any) -> Shown:
    return Shown(**{"root": "/repo", "inputs": ("build/",), "options": {}, "environment": {}} | facts)


def cmake(launcher: str = "", generator: str = "Unix Makefiles", **facts: Any) -> Configured:
    own = {"folder": "/repo/build", "source": "/repo", "version": "3.25.1", "system": "CMake", "generator": generator}
    return Configured(**own | {"entries": {"CMAKE_CUDA_COMPILER_LAUNCHER": Entry(launcher)}} | facts)


def commands(found: str | None = None, **facts: Any) -> list[str]:
    system = next((each for each in jobs.BUILD_SYSTEMS if each.name == found), None)
    return list(repeated(shown(**facts), system).commands)


@pytest.mark.parametrize(
    ("facts", "wanted"),
    [
        ({}, [f"cmake -B build {WRAP}", f"cmake --build build{ALL}"]),
        ({"generator": "Ninja"}, [f"cmake -B build -G Ninja {WRAP}", f"cmake --build build{ALL}"]),
        ({"folder": "/repo/a b/o", "source": "/repo/sub"}, [f"cmake -S sub -B 'a b/o' {WRAP}",
                                                            f"cmake --build 'a b/o'{ALL}"]),
        ({"launcher": "ccache"}, [f"cmake -B build {WRAP[:-1]};ccache'", f"cmake --build build{ALL}"]),
        ({"launcher": "/home/me/bin/spillscan;wrap;-v;--"}, [f"cmake -B build {WRAP}", f"cmake --build build{ALL}"]),
        ({"launcher": "/usr/bin/python3;-m;spillscan;wrap;-v;--;ccache"},
         [f"cmake -B build {WRAP[:-1]};ccache'", f"cmake --build build{ALL}"]),
        ({"system": "scikit-build", "folder": "/repo/build"},
         ["spillscan run -- pip install -v . -C build-dir=build"]),
        ({"system": "Meson"}, ["meson setup build", "meson compile -C build"]),
    ],
)  # fmt: skip
def test_how_it_was_configured(facts: dict[str, Any], wanted: list[str]) -> None:
    assert commands("make", configured=cmake(**facts)) == wanted


@pytest.mark.parametrize(
    ("facts", "wanted"),
    [
        ({"options": {"A": "80;90", "D": "/repo/x y"}}, f"cmake -B build -DA='80;90' -DD=\"$PWD/x y\" {WRAP}"),
        ({"options": {"D": '/repo/$(id)"'}}, f'cmake -B build -DD="$PWD/\\$(id)\\"" {WRAP}'),
        ({"options": {"CMAKE_CUDA_ARCHITECTURES": "native"}, "archs": ("sm_80", "sm_90a")},
         f"cmake -B build -DCMAKE_CUDA_ARCHITECTURES='80;90a' {WRAP}"),
        ({"options": {"CMAKE_CUDA_COMPILER": "/opt/cuda/bin/nvcc"}},
         f'cmake -B build {WRAP} -DCMAKE_CUDA_COMPILER="$(command -v nvcc)"'),
        ({"options": {"R": "/usr/local/cuda-13.0/lib"}}, f"cmake -B build -DR=/usr/local/cuda/lib {WRAP}"),
        ({"options": {"R": "/opt/cuda"}, "toolkit": "/opt/cuda"}, f"cmake -B build -DR=/usr/local/cuda {WRAP}"),
        ({"environment": {"X": "a b"}}, "export X='a b'"),
        ({"inputs": (RUN,), "watched": ("cmake", "--build", "build")}, "spillscan run -- cmake -B build"),
        ({"inputs": ("build.log",)}, "cmake -B build"),
    ],
)  # fmt: skip
def test_what_it_was_given(facts: dict[str, Any], wanted: str) -> None:
    assert commands("CMake", configured=cmake(), **facts)[0] == wanted


@pytest.mark.parametrize(
    ("facts", "wanted"),
    [
        ({"watched": ("make", "-C", "/repo/src", "A=b c")}, 'spillscan run -- make -C "$PWD/src" \'A=b c\''),
        ({"watched": ("/usr/bin/make",), "inputs": ("sub/" + RUN,), "place": "sub"},
         "(cd sub && spillscan run -- make)"),
        ({"watched": ("make",), "inputs": (RUN,), "place": "cuda"}, f"(cd cuda && spillscan run -o ../{RUN} -- make)"),
        ({"watched": ("make",), "inputs": ("out/k.json",), "place": "out/a"},
         "(cd out/a && spillscan run -o ../k.json -- make)"),
        ({"watched": ("sh", "b.sh"), "inputs": ("out/k.json",)}, "spillscan run -o out/k.json -- sh b.sh"),
        ({"watched": ("/opt/py/bin/python3", "setup.py", "build_ext"), "configured": cmake()},
         "spillscan run -- python3 setup.py build_ext"),
    ],
)  # fmt: skip
def test_what_run_watched_is_run_again(facts: dict[str, Any], wanted: str) -> None:
    assert commands(**{"inputs": (RUN,)} | facts) == [wanted]


def test_the_job_brings_what_the_build_had() -> None:
    facts = {"packages": ("libpng-dev", "gcc-12"), "submodules": True, "release": "12.4.131"}
    system = repeated(shown(configured=cmake(generator="Ninja"), **facts), None)
    assert system.tools == ("cmake==3.25.*", "ninja")
    assert system.packages == "git python3-venv libpng-dev"
    assert system.image == "nvidia/cuda:12.4.1-devel-ubuntu22.04"
    text = jobs.workflow(system)
    assert "python3.11 -m venv" in text, "that of Ubuntu 22.04 is too old"
    assert "submodules: recursive" in text
    assert "GIT_SUBMODULE_STRATEGY: recursive" in jobs.pipeline_job(system)
    called = repeated(shown(configured=cmake(), programs=("ccache", "cmake", "curl")), None)
    assert called.packages == "git python3-venv ccache curl", "pip brings cmake"
    torch = repeated(shown(requires=("setuptools", "torch"), archs=("sm_80", "sm_120a")), jobs.BUILD_SYSTEMS[2])
    assert torch.commands[0] == "export TORCH_CUDA_ARCH_LIST='8.0;12.0a'"


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"options": {"F": "-I/opt/x -O2"}, "watched": ("make", "P=/opt/y")}, ["/opt/x", "/opt/y"]),
        ({"options": {"F": "/repo/x;/usr/lib/y;/usr/local/cuda-13.0/z"}}, []),
        ({"sure": False}, ["a guess"]),
        ({"native": 2, "archs": ("sm_75",)}, ["a GPU, by which 2 compilations (-arch=native) would choose the arch"]),
        ({"release": "13.0.88"}, []),
        ({"release": "14.1.7"}, ["nvidia/cuda:14.1.0-devel-ubuntu24.04 is the tag to be expected"]),
    ],
)
def test_what_a_runner_will_lack(facts: dict[str, Any], said: list[str]) -> None:
    found = lacks(shown(**facts))
    assert len(found) == len(said)
    assert all(words in line for words, line in zip(said, found, strict=True))


def test_variables_that_scripts_read() -> None:
    scripts = ['os.environ["A"]; os.getenv("B")', "$ENV{C}", "$(D) ${E} $F", "$(API_TOKEN) $(PATH)"]
    names = [*"ABCDEFG", "API_TOKEN", "PATH", "LIBRARY_PATH"]
    assert [*asked_for(scripts, dict.fromkeys(names, "1"))] == ["A", "B", "C", "D", "E", "LIBRARY_PATH"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("COMMAND curl -O", ("curl",)),
        ("spillscan;wrap;-v;--;ccache", ("ccache",)),
        ("my-curl curl.h curl_easy CURL unzipped", ()),
        ("$(shell pkg-config --libs x) `xxd -i`", ("pkg-config", "xxd")),
    ],
)
def test_programs_that_scripts_call(text: str, found: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "bison" else name)
    assert programs([text, "bison"]) == found


@pytest.mark.parametrize(
    ("setup", "project", "found"),
    [
        ("import os, torch\nfrom setuptools import setup\nfrom . import x", {}, ("torch", "setuptools")),
        ("import torch", {"build-system": {"requires": ["Torch>=2", "wheel"]}}, ("Torch>=2", "wheel")),
        ("def (", {"build-system": []}, ()),
    ],
)
def test_what_builds_a_package(setup: str, project: dict[str, Any], found: tuple[str, ...]) -> None:
    assert required(setup, project) == found


# ---- tried ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """One that make builds: a compiler's output is its source."""
    (tmp_path / "Makefile").write_text("all:\n\tcat kernels.cu\n")
    (tmp_path / ".gitignore").write_text("build.log\n")
    shutil.copy(FIXTURES / "demo" / "head.log", tmp_path / "kernels.cu")
    shutil.copy(HEAD, tmp_path / "build.log")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "Makefile", ".gitignore", "kernels.cu")
    git(tmp_path, "commit", "-qm", "all")
    return tmp_path


@pytest.mark.skipif(shutil.which("ninja") is None, reason="no ninja")
@needs_cmake
@pytest.mark.parametrize(
    ("words", "seconds", "tried"),
    [((), 1, True), ((), 121, False), (("--no-try",), 1, False), (("--try",), 121, True)],
)
def test_a_short_build_is_tried_unasked(words: tuple[str, ...], seconds: int, tried: bool, tmp_path: Path) -> None:
    text = 'add_custom_target(k ALL COMMAND ${CMAKE_COMMAND} -E copy "${CMAKE_SOURCE_DIR}/k.log" k.log)\n'
    (tmp_path / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.16)\nproject(x NONE)\n{text}")
    (tmp_path / ".gitignore").write_text("build\n")
    (tmp_path / ".github").mkdir()
    shutil.copy(HEAD, tmp_path / "k.log")
    for command in (["-G", "Ninja", "-B", "build"], ["--build", "build"]):
        subprocess.run(["cmake", *command], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "build" / ".ninja_log").write_text(f"# ninja log v5\n0\t900\t1\ta\tx\n5\t{seconds * 1000}\t1\tb\ty\n")
    arguments = ("init", "build", "--yes", *words)
    _, said = spillscan(tmp_path, *arguments)
    assert "in a clean clone of the last commit" not in said or "--try" in words, "there is none"
    for name in ("spillscan.yaml", "spillscan-baseline.jsonl"):
        (tmp_path / name).unlink(missing_ok=True)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "all")
    status, said = spillscan(tmp_path, *arguments)
    assert status == 0, said
    assert ("Gate: passes" in said) is tried, said
    assert said.endswith("`spillscan init build --try` runs the job in a clean clone\n") is (not tried and not words)


@pytest.mark.parametrize("service", [".github", ".gitlab-ci.yml"])
def test_the_job_runs_in_a_clean_clone(repository: Path, service: str) -> None:
    (repository / service).touch() if "." in service[1:] else (repository / service).mkdir()
    status, said = spillscan(repository, "init", "build.log", "--try")
    assert status == 0, said
    assert "nothing is written" in said
    assert "passes" in said
    assert "not run, what is here is taken: apt-get update" in said
    assert not (repository / "spillscan.yaml").exists()


def test_a_job_that_fails_says_what_a_clone_lacks(repository: Path) -> None:
    (repository / "Makefile").write_text("all:\n\tcat kernels.cu extra.inc\n")
    git(repository, "commit", "-qam", "more")
    (repository / "extra.inc").write_text("")
    status, said = spillscan(repository, "init", "build.log", "--yes", "--try")
    assert status == 1
    assert "Build: ends with 2" in said
    assert "a runner will lack: extra.inc is here, and is not committed" in said
    git(repository, "add", "extra.inc")
    git(repository, "commit", "-qm", "extra")
    assert spillscan(repository, "init", "build.log", "--yes", "--try")[0] == 0


def test_what_is_planted_fails_the_job_that_was_written(repository: Path) -> None:
    """The job that is there is run as it stands."""
    (repository / ".github").mkdir()
    spillscan(repository, "init", "build.log", "--yes")
    text = (repository / "kernels.cu").read_text()
    (repository / "kernels.cu").write_text(text.replace("0 bytes spill stores", "16 bytes spill stores", 1))
    git(repository, "commit", "-qam", "spill")
    status, said = spillscan(repository, "init", "build.log", "--yes", "--try")
    assert (status, "Gate: ends with 1" in said, "16 B stores" in said) == (1, True, True)


def test_no_commit_no_clone(tmp_path: Path) -> None:
    status, said = spillscan(tmp_path, "init", HEAD, "--try")
    assert (status, "no clean clone" in said) == (2, True)


@pytest.mark.parametrize("text", ["", "jobs: []", "jobs: {a: {steps: [{run: make}]}}", "a: {script: [make]}"])
def test_what_is_no_job_of_ours(text: str) -> None:
    with pytest.raises(UsageError, match="has no job that runs spillscan"):
        steps(text, "x.yml")


def test_steps_with_a_services_expressions_are_left_out() -> None:
    system = jobs.BUILD_SYSTEMS[1]
    assert [name for name, _ in steps(jobs.workflow(system), "x.yml")] == ["Tools", "spillscan", "Build", "Gate"]
    text = yaml.safe_dump({"jobs": {"a": {"steps": [{"run": "spillscan ${{ x }}"}, {"run": "make"}]}}})
    assert steps(text, "x.yml") == [("a step", "make")]
