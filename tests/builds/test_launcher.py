"""The launcher around a compiler that prints what a real one printed: same status and errors, one record an object."""

from __future__ import annotations

import errno
import fnmatch
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import spillscan
from spillscan.builds import compilation
from spillscan.builds.launcher import asks_figures, with_figures
from spillscan.builds.records import Record
from tests.conftest import FIXTURES, ROOT, read_log, read_text, record

WARNING = "ptxas warning : Value of threads per SM for entry k is out of range. .minnctapersm will be ignored"
LOG = FIXTURES / "ptxas" / "spill-13.0.log"

# An nvcc that prints a log, writes its object, and does what its environment asks for.
COMPILER = """#!{python}
import os, pathlib, sys, time
words = sys.argv[1:]
sys.stdout.write("stdout of the compiler\\n")
if os.environ.get("FAIL"):
    sys.stderr.write("a.cu(3): error: identifier \\"x\\" is undefined\\n")
    sys.exit(int(os.environ["FAIL"]))
if os.environ.get("DIE"):
    os.kill(os.getpid(), int(os.environ["DIE"]))
if os.environ.get("HANG"):
    pathlib.Path("started").touch()
    time.sleep(60)
if "-Xptxas" in words or "--resource-usage" in words:
    sys.stderr.write(pathlib.Path(os.environ["LOG"]).read_text())
sys.stderr.write(os.environ.get("EXTRA", ""))
if os.environ.get("ENVIRONMENT"):
    pathlib.Path(os.environ["ENVIRONMENT"]).write_text("\\n".join(sorted(os.environ)))
if "-o" in words:
    pathlib.Path(words[words.index("-o") + 1]).touch()
elif "-c" in words:
    pathlib.Path("a.o").touch()
"""

Wrap = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    compiler = tmp_path / "bin" / "nvcc"
    compiler.parent.mkdir()
    compiler.write_text(COMPILER.format(python=sys.executable))
    compiler.chmod(0o755)
    (tmp_path / "log").write_text(read_text(LOG))
    return tmp_path


@pytest.fixture
def wrap(folder: Path) -> Wrap:
    def run(*words: str, options: tuple[str, ...] = (), **extra: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "spillscan", "wrap", *options, "--", *words],
            cwd=folder,
            env=environment(folder) | extra,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def environment(folder: Path) -> dict[str, str]:
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "LOG": str(folder / "log"), "PYTHONPATH": str(ROOT)}


def test_the_record_holds_what_the_log_holds(wrap: Wrap, folder: Path) -> None:
    done = wrap("nvcc", "-Xptxas", "-v", "-c", "a.cu", "-o", "out.o", EXTRA=WARNING + "\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "stdout of the compiler\n", WARNING + "\n")
    recorded = spillscan.scan(folder / "out.o.spillscan.log").kernels
    expected = read_log(read_text(LOG)).kernels
    without_lines = [[{**record(kernel), "line": 0} for kernel in kernels] for kernels in (recorded, expected)]
    assert without_lines[0] == without_lines[1]
    assert {kernel.key.unit for kernel in recorded} == {"out.o"}
    assert {kernel.confidence for kernel in recorded} == {"certain"}


@pytest.mark.parametrize("words", [("nvcc", "-c", "a.cu", "-o", "a.o"), ("nvcc", "--version")])
def test_the_compiler_has_the_environment_that_was_given(wrap: Wrap, folder: Path, words: tuple[str, ...]) -> None:
    found = folder / "environment"
    assert wrap(*words, ENVIRONMENT=str(found)).returncode == 0
    ours = set(found.read_text().split("\n")) - environment(folder).keys()
    assert ours <= {"ENVIRONMENT", "LC_CTYPE"}  # Python itself adds the latter


def test_a_folder_of_records_is_a_build(wrap: Wrap, folder: Path) -> None:
    for name in ("one", "two"):
        wrap("nvcc", "-c", f"{name}.cu", "-o", f"{name}.o", options=("-v",))
    (folder / "log").unlink()
    build = spillscan.scan(folder)
    assert {kernel.key.unit for kernel in build.kernels} == {"one.o", "two.o"}
    (folder / "two.o").unlink()
    build = spillscan.scan(folder)
    assert {kernel.key.unit for kernel in build.kernels} == {"one.o"}
    assert [issue.code for issue in build.issues] == ["left-over-record"]


def test_a_failing_compiler_keeps_status_and_text_and_its_record_says_so(wrap: Wrap, folder: Path) -> None:
    wrap("nvcc", "-Xptxas", "-v", "-c", "a.cu", "-o", "a.o")
    (folder / "log").rename(folder.parent / "log")
    done = wrap("nvcc", "-Xptxas", "-v", "-c", "a.cu", "-o", "a.o", FAIL="7")
    assert done.returncode == 7
    assert done.stderr == 'a.cu(3): error: identifier "x" is undefined\n'
    read = spillscan.scan(folder / "a.o.spillscan.log")
    assert not read.kernels, "those of the compilation before are of another source"
    assert [(issue.code, issue.message) for issue in read.issues] == [
        ("build-failed", f"{folder / 'a.cu'} failed to compile (exit status 7)")
    ]
    assert not list(folder.glob(".spillscan-*"))


def test_a_failed_compilation_that_made_no_object_is_a_gap_until_it_is_fixed(wrap: Wrap, folder: Path) -> None:
    (folder / "a.cu").write_text("__global__ void a() {}\n")
    record = folder / "a.o.spillscan.log"
    wrap("nvcc", "-c", "a.cu", "-o", "a.o", options=("-v",), FAIL="2")
    assert [issue.code for issue in spillscan.scan(record).issues] == ["build-failed"]
    wrap("nvcc", "-c", "a.cu", "-o", "a.o", options=("-v",))
    assert not spillscan.scan(record).issues


def test_a_killed_compiler_is_recorded_as_such(wrap: Wrap, folder: Path) -> None:
    assert wrap("nvcc", "-c", "a.cu", "-o", "a.o", options=("-v",), DIE="9").returncode == -9
    (issue,) = spillscan.scan(folder / "a.o.spillscan.log").issues
    message = f"the compilation of {folder / 'a.cu'} was killed by signal 9"
    assert (issue.code, issue.message) == ("unfinished-unit", message)


def test_a_compiler_that_reports_nothing_leaves_a_record_that_says_so(wrap: Wrap, folder: Path) -> None:
    for name in ("a", "b"):
        wrap("nvcc", "-Xptxas", "-v", "-c", f"{name}.cu", "-o", f"{name}.o")
    assert wrap("nvcc", "-c", "a.cu", "-o", "a.o").returncode == 0
    build = spillscan.scan(sorted(folder.glob("*.spillscan.log")))
    assert {kernel.key.unit for kernel in build.kernels} == {"b.o"}
    assert [issue.code for issue in build.issues if issue.hidden] == ["unreported-unit"]


def test_the_default_object_is_known(wrap: Wrap, folder: Path) -> None:
    wrap("nvcc", "-Xptxas", "-v", "-c", "sub/a.cu")
    assert (folder / "a.o.spillscan.log").exists()


def test_a_record_that_cannot_be_written_does_not_stop_the_build(wrap: Wrap, folder: Path) -> None:
    done = wrap("nvcc", "-Xptxas", "-v", "-c", "a.cu", "-o", "no/such/a.o")
    assert "Used" in done.stderr
    assert "spillscan: no record of no/such/a.o: No such file or directory" in done.stderr


def test_a_record_that_cannot_take_its_name_does_not_stop_the_build(wrap: Wrap, folder: Path) -> None:
    (folder / "a.o.spillscan.log").mkdir()
    done = wrap("nvcc", "-Xptxas", "-v", "-c", "a.cu", "-o", "a.o")
    assert (done.returncode, done.stderr) == (0, "spillscan: no record of a.o: Is a directory\n")
    assert not list(folder.glob(".spillscan-*"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_does_not_stop_the_build(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    Path("a.o.spillscan.log").write_text("of an older object\n")
    record = Record("a.o", ["nvcc", "-c", "a.cu", "-o", "a.o"])
    with open("/dev/full", "wb") as full:
        os.dup2(full.fileno(), record._file.fileno())
    record.write(b"ptxas info    : 0 bytes gmem\n")
    error = record.keep()
    assert error is not None
    assert error.errno == errno.ENOSPC
    assert not [*folder.glob("*.spillscan.log"), *folder.glob(".spillscan-*")]


def test_a_record_is_not_written_through_a_link(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / f".spillscan-{os.getpid()}-a.o.draft").symlink_to(folder / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        Record("a.o", ["nvcc", "-c", "a.cu", "-o", "a.o"])
    assert not (folder / "elsewhere").exists()


def test_commands_that_are_not_there(wrap: Wrap, folder: Path) -> None:
    assert (wrap("nothing-by-this-name").returncode, wrap("no/nvcc", "-c", "a.cu").returncode) == (127, 127)
    assert wrap(str(folder), "x").returncode == 126
    assert wrap().returncode == 2
    assert not list(folder.glob(".spillscan-*"))


def test_other_commands_are_left_alone(wrap: Wrap, folder: Path) -> None:
    done = wrap("sh", "-c", "echo out; echo 'ptxas info    : 0 bytes gmem' >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "ptxas info    : 0 bytes gmem\n")


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_signal_ends_compiler_and_launcher(folder: Path) -> None:
    command = [sys.executable, "-m", "spillscan", "wrap", "--", "nvcc", "-c", "a.cu", "-o", "a.o"]
    process = subprocess.Popen(command, cwd=folder, env=environment(folder) | {"HANG": "1"})
    while not (folder / "started").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == -signal.SIGTERM
    assert not list(folder.glob(".spillscan-*"))


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_killed_launcher_leaves_a_gap_that_the_next_run_sweeps_away(wrap: Wrap, folder: Path) -> None:
    words = ("nvcc", "-Xptxas", "-v", "-c", "a.cu", "-o", "a.o")
    wrap(*words)
    older = (folder / "a.o.spillscan.log").read_bytes()
    (folder / "log").unlink()
    process = subprocess.Popen(
        [sys.executable, "-m", "spillscan", "wrap", "--", *words],
        cwd=folder,
        env=environment(folder) | {"HANG": "1"},
        start_new_session=True,
    )
    while not (folder / "started").exists():
        assert process.poll() is None
        time.sleep(0.01)
    assert [issue.message for issue in spillscan.scan(folder).issues] == [
        f"the build is running: {folder / 'a.o'} is being compiled"
    ]
    os.kill(process.pid, signal.SIGKILL)
    process.wait(30)
    (issue,) = spillscan.scan(folder).issues
    assert "was killed" in issue.message
    assert issue.hidden == ("kernels",)
    os.killpg(process.pid, signal.SIGKILL)
    assert (folder / "a.o.spillscan.log").read_bytes() == older
    (draft,) = folder.glob(".spillscan-*")
    assert not fnmatch.filter([draft.name], "*.o"), "who collects objects finds none"
    assert not fnmatch.filter([draft.name], "*.log")
    (folder / "log").write_text(read_text(LOG))
    wrap("nvcc", "-Xptxas", "-v", "-c", "b.cu", "-o", "b.o")
    assert draft.exists(), "it is what there is to say of a.o"
    wrap(*words)
    assert not list(folder.glob(".spillscan-*"))
    (folder / "log").unlink()
    assert not spillscan.scan(folder).issues


@pytest.mark.parametrize(
    ("command", "object_", "source", "relocatable"),
    [
        ("nvcc -c a.cu -o a.o", "a.o", "a.cu", False),
        (
            "ccache /usr/bin/nvcc -forward-unknown-to-host-compiler -dc -x cu -c ../a.cu -o d/a.o",
            "d/a.o",
            "../a.cu",
            True,
        ),
        ("nvcc -c sub/a.cu", "a.o", "sub/a.cu", False),
        ("nvcc a.cu", "a.out", "a.cu", False),
        ("nvcc -c a.cu b.cu", "", "a.cu", False),
        ("clang++-17 -x cuda --cuda-gpu-arch=sm_80 -c a.cu -o a.o", "a.o", "a.cu", False),
        ("nvcc -M a.cu -MF a.d --output-file=a.x", "a.x", "a.cu", False),
        ("C:\\cuda\\bin\\nvcc.exe -c a.cu -o a.obj", "a.obj", "a.cu", False),
        ("nvcc --version", "", "", False),
    ],
)
def test_what_a_command_makes(command: str, object_: str, source: str, relocatable: bool) -> None:
    made = compilation.parse(command.split())
    assert made is not None
    assert (made.object, made.source, made.relocatable) == (object_, source, relocatable)


@given(st.text(alphabet="ab -\\\"' \t\r\n\v#é"))
def test_a_command_line_is_split_as_a_shell_does(text: str) -> None:
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    assert compilation.split(text) == words


def test_words_that_only_look_like_a_compiler() -> None:
    assert compilation.parse(["g++", "-Xptxas", "-c", "a.cpp", "-o", "a.o"]) is None


def test_a_tool_without_arguments_makes_nothing() -> None:
    made = compilation.parse(["nvcc"])
    assert made is not None
    assert (made.tool, made.output, made.paths, made.compiles) == ("nvcc", "", (), False)


@pytest.mark.parametrize(
    ("command", "added"),
    [
        ("nvcc -c a.cu -o a.o", "nvcc -Xptxas -v -c a.cu -o a.o"),
        ("ccache nvcc -c a.cu -o a.o", "ccache nvcc -Xptxas -v -c a.cu -o a.o"),
        ("clang++ -x cuda -c a.cu -o a.o", "clang++ -Xcuda-ptxas -v -x cuda -c a.cu -o a.o"),
        ("ptxas a.ptx -o a.cubin", "ptxas -v a.ptx -o a.cubin"),
    ],
)
def test_the_option_is_added_where_it_is_missing(command: str, added: str) -> None:
    made = compilation.parse(command.split())
    assert made is not None
    assert " ".join(with_figures(command.split(), made)) == added
    assert with_figures(added.split(), made) == added.split()


@pytest.mark.parametrize(
    "options", ["-Xptxas=-v", "-Xptxas -O3,-v", "--ptxas-options=-v", "--resource-usage", "-res-usage"]
)
def test_forms_of_the_option(options: str) -> None:
    assert asks_figures(["nvcc", *options.split(), "-c", "a.cu"])
    assert not asks_figures(["nvcc", "-v", "-Xptxas", "-O3", "-c", "a.cu"])
