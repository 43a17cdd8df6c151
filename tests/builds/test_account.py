"""Results of ``spillscan run`` for builds with a scripted compiler: one fact per row."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from spillscan.builds import RUN_FILE, gaps, launcher, record
from spillscan.builds.run import _variables
from spillscan.cli import main

HERE = Path(__file__).parent
ROWS = yaml.safe_load((HERE / "calls.yaml").read_text(encoding="utf-8"))
FIGURE = "ptxas info    : Used 8 registers"
"""Report of the compiler."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for folder in ("bin", "include"):
        (tmp_path / "cuda" / folder).mkdir(parents=True)
    nvcc = tmp_path / "cuda" / "bin" / "nvcc"
    nvcc.write_text((HERE / "nvcc.sh").read_text())
    nvcc.chmod(0o755)
    project = tmp_path / "project"
    project.mkdir()
    for name, text in {
        "a": "code one",
        "b": "code two",
        "bad": "exit 2",
        "killed": "echo killed >&2; kill -9 $$",
        "ended": "kill $$",
        "orphan": "kill -9 $PPID",
        "interrupted": "sleep .2; kill -INT $PPID; code one",
        "passed": "sleep .2; kill $PPID; sleep 2",
        "warns": "echo warning: $* >&2; code one",
        "script": '[ -z "$CC_PRINT_HEADERS" ] || exit 3; code one',  # it may be a cache, which hashes the variable
    }.items():
        (project / f"{name}.cu").write_text(text)
    (project / "configure").write_text(
        "for n in a bad; do cp $n.cu conftest.cu; nvcc -c conftest.cu -o conftest; done; rm conftest*; >config.status"
    )
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", f"{nvcc.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)}
    yield project
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("name", ROWS)
def test_a_build(name: str, project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    row = ROWS[name]
    for build in row["builds"]:
        capfd.readouterr()
        status = main(["run", "--", "bash", "-c", build])
    watched, *lines = re.findall("^spillscan: (.*)", capfd.readouterr().err, re.MULTILINE)
    far = project.parent / "far"
    assert watched == f"watched: {', '.join(str(each) for each in (far, project) if each.exists())}"
    assert (status, "; ".join(lines)) == (row.get("status", 0), f"{row['prints']}; {RUN_FILE}")
    found = record.read(RUN_FILE)
    said = [each.message for each in gaps.issues(found, "r.json") if each.severity == "error"]
    assert said == [each.replace("…", "later steps may be missing") for each in row.get("gaps", ())]


def test_results_of_a_killed_run_are_in_the_account_of_the_next(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    build = "nvcc -c a.cu -o a.o; ../cuda/bin/nvcc -c b.cu -o b.o; kill -9 $PPID"
    subprocess.run([sys.executable, "-m", "spillscan", "run", "--", "bash", "-c", build], check=False)
    assert main(["run", "--", "true"]) == 0
    said = "outputs of unrecorded compiler calls: b.o\nspillscan: 1 compiler call; 2 outputs"
    assert said in capfd.readouterr().err
    assert os.listdir(project.parent / "cache" / "spillscan" / "runs") == ["lock"]


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        ("", 0, "project\nspillscan: 1 compiler call; 1 output; spillscan-build.json\n"),
        ("-o made.json", 0, "project\nspillscan: 1 compiler call; 1 output; made.json\n"),
        ("-o ../far", 2, "spillscan: cannot write ../far: not a regular file; name another file: -o FILE\n"),
        ("--also ../far", 0, "far/b.o\nspillscan: 1 compiler call; 2 outputs; spillscan-build.json\n"),
        ("--also none", 2, "spillscan: --also none: no such folder; create it first\n"),
    ],
)
def test_options(options: str, status: int, said: str, project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (project.parent / "far").mkdir()
    build = "nvcc -c a.cu -o a.o; ../cuda/bin/nvcc -c b.cu -o ../far/b.o"
    assert main(["run", *options.split(), "--", "bash", "-c", build]) == status
    assert capfd.readouterr().err.endswith(said)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("-c warns.cu", 0, ["warning: -Xptxas -v -c warns.cu"]),
        ("-c warns.cu -Xptxas -v", 0, [FIGURE, "warning: -Xptxas -v -c warns.cu -Xptxas -v"]),
        ("-c warns.cu --dryrun", 0, [FIGURE, "warning: -c warns.cu --dryrun"]),
        ("-c killed.cu", 137, ["killed"]),
    ],
)
def test_a_build_says_what_it_says_alone(
    words: str, status: int, said: list[str], project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--", "nvcc", *words.split()]) == status
    assert capfd.readouterr().err.splitlines()[:-2] == said


def test_open_files_of_the_caller_are_those_of_the_build(project: Path) -> None:
    """Make's job server needs them."""
    read, write = os.pipe()
    os.set_inheritable(write, True)
    assert main(["run", "--", "bash", "-c", f"echo said >&{write}"]) == 0
    os.close(write)
    with open(read) as file:
        assert file.read() == "said\n"


def test_a_toolkit_in_the_project_has_no_outputs(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    toolkit = (project.parent / "cuda").rename(project / "cuda")
    monkeypatch.setenv("PATH", f"{toolkit / 'bin'}{os.pathsep}{os.environ['PATH']}")
    (toolkit / "include" / "device.a").write_bytes(b"\x50\xed\x55\xba\1\0\x10\0" + bytes(8))
    for build, said in (
        ("cp cuda/include/device.a cuda/include/new.a", "nothing was compiled; 0 outputs"),
        ("nvcc -c a.cu -o a.o", "1 compiler call; 1 output"),
    ):
        assert main(["run", "--", "bash", "-c", build]) == 0
        assert capfd.readouterr().err.endswith(f"{project}\nspillscan: {said}; {RUN_FILE}\n")


def test_a_command_that_the_system_refuses_is_named(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (project / "build").touch(mode=0o755)
    (project / "build").write_text("#!/nowhere/sh")
    assert main(["run", "--", "./build"]) == 2
    assert capfd.readouterr().err == "spillscan: cannot run ./build: No such file or directory\n"


def test_variables_lead_to_the_launcher_and_those_of_the_user_stay(project: Path) -> None:
    path = os.environ["PATH"]
    found = _variables({"PATH": path, "CUDACXX": "mine"}, "kept")
    front = Path(found["PATH"].split(os.pathsep)[0])
    nvcc, launch = str(front / "nvcc"), str(front.parent / "launch")
    assert found == {
        "PYTORCH_NVCC": nvcc,
        "CUDA_NVCC_EXECUTABLE": nvcc,
        "CMAKE_CUDA_COMPILER_LAUNCHER": launch,
        **({} if " " in launch else {"CCACHE_PREFIX": launch}),
        "PATH": f"{front}{os.pathsep}{path}",
        launcher.RUN: "kept",
    }
    assert (front.parent / "include").is_dir(), "as caches and scripts look for it"
    times = [Path(each).stat().st_mtime for each in (nvcc, launch)]
    assert times == [(project.parent / "cuda" / "bin" / "nvcc").stat().st_mtime] * 2, "a cache compares them"
    (project / "ccache").touch(mode=0o755)
    (project / "nvcc").symlink_to("ccache")
    found = _variables({"PATH": f"{project}{os.pathsep}{path}"}, "kept")
    assert found["PATH"] == os.pathsep.join((str(project), str(front), path)), "ccache looks for nvcc behind itself"
    assert _variables({"PATH": "/nowhere"}, "kept") == {launcher.RUN: "kept"}


@pytest.mark.parametrize(
    ("command", "words", "files"),
    [
        ("nvcc -c a.cu", "nvcc before -c a.cu after 'it all'", ""),
        ("nvcc @one a.cu", "nvcc before -O1 -g a.cu after 'it all'", "one"),
        ("nvcc -optf one,two a.cu", "nvcc before -O1 -g -O2 a.cu after 'it all'", "one two"),
        ("nvcc --options-file=two", "nvcc before -O2 after 'it all'", "two"),
        ("nvcc @nested @none", "nvcc before -O2 @nested @none after 'it all'", "nested two"),
        ("nvcc -optf", "nvcc before -optf=after 'it all'", ""),
    ],
)
def test_words_of_a_call(command: str, words: str, files: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {"one": "-O1 -g", "two": "-O2\n", "nested": "@two @nested"}.items():
        (project / name).write_text(text)
    monkeypatch.setenv("NVCC_PREPEND_FLAGS", "before")
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "after 'it all'")
    assert launcher._words(command.split()) == (shlex.split(words), set(files.split()))


def test_a_call_that_cannot_be_recorded_is_made() -> None:
    code = "from spillscan.builds import launcher; launcher.main('/nowhere/trace', 'sh', '-c', 'exit 7')"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 7


def test_the_program_that_a_script_calls(tmp_path: Path) -> None:
    for text, behind in (('#!/bin/sh\n# why\nexec /x/nvcc "$@"\n', "/x/nvcc"), ("#!/bin/sh\nls\n", "")):
        (tmp_path / "nvcc").write_text(text)
        assert launcher.behind_scripts(str(tmp_path / "nvcc")) == (behind or str(tmp_path / "nvcc"))
