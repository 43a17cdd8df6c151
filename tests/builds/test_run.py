"""``spillscan run`` around builds of a compiler that prints what a real one printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import spillscan
from spillscan.builds import buildfile, databases
from spillscan.builds.compilation import expand, makes_machine_code
from tests.builds.test_launcher import COMPILER, LOG
from tests.conftest import ROOT, read_text, run

Build = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    compiler = tmp_path / "toolkit" / "bin" / "nvcc"
    compiler.parent.mkdir(parents=True)
    compiler.write_text(COMPILER.format(python=sys.executable))
    compiler.chmod(0o755)
    (tmp_path / "log").write_text(read_text(LOG))
    place = tmp_path / "project"
    place.mkdir()
    for name in ("a", "b"):
        (place / f"{name}.cu").write_text(f"__global__ void {name}() {{}}\n")
    return place


@pytest.fixture
def build(project: Path) -> Build:
    def run_build(script: str, *options: str, **more: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {
            "PATH": f"{project.parent / 'toolkit' / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "LOG": str(project.parent / "log"),
            "XDG_CACHE_HOME": str(project.parent / "cache"),
            **more,
        }
        return subprocess.run(
            [sys.executable, "-m", "spillscan", "run", *options, "--", "sh", "-c", script],
            cwd=project,
            env=environment | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )

    return run_build


def units(project: Path, name: str = "spillscan-build.json") -> dict[str, Any]:
    return {kept["unit"]["source"]: kept["unit"] for kept in json.loads((project / name).read_text())["units"]}


def check(project: Path, *words: str) -> tuple[int, str]:
    done = run("check", "spillscan-build.json", *words, cwd=project)
    return done.returncode, (done.stdout + done.stderr).decode()


BOTH = "nvcc -c a.cu -o a.o && nvcc -c b.cu -o b.o"


def test_a_build_is_known_unit_by_unit(build: Build, project: Path) -> None:
    done = build(BOTH)
    assert (done.returncode, done.stdout) == (0, "stdout of the compiler\n" * 2)
    assert done.stderr == "spillscan: 2 units: 2 done; spillscan-build.json\n"
    found = units(project)
    assert {source: (unit["object"], unit["state"], unit["status"]) for source, unit in found.items()} == {
        "a.cu": ("a.o", "done", 0),
        "b.cu": ("b.o", "done", 0),
    }
    read = spillscan.scan(project / "spillscan-build.json")
    assert {kernel.key.unit for kernel in read.kernels} == {str(project / "a.o"), str(project / "b.o")}
    assert not [issue for issue in read.issues if issue.hidden]
    assert {kernel.source for kernel in read.kernels} == {str(project / "a.cu"), str(project / "b.cu")}
    assert {origin.line for kernel in read.kernels for origin in kernel.origins} == {None}, "it is one line of JSON"


UNCOUNTED = "othing says what the build was to compile"


def test_reports_say_where_nothing_says_what_was_to_be_compiled(build: Build, project: Path) -> None:
    """One line in each report for people and for machines; in the terminal only where the gate is to be strict, and
    where a build is accepted."""
    build(BOTH)
    (project / "build.log").write_text((project.parent / "log").read_text())
    for name, counted in (("spillscan-build.json", True), ("build.log", False)):
        lines = 0 if counted else 1
        asked = {form: run("check", name, "-f", form, cwd=project) for form in ("markdown", "json", "html", "text")}
        assert json.loads(asked["json"].stdout)["counted"] is counted
        assert asked["markdown"].stdout.decode().count(UNCOUNTED) == lines
        assert (UNCOUNTED in asked["html"].stdout.decode()) is not counted
        assert UNCOUNTED not in (asked["text"].stdout + asked["text"].stderr).decode()
        assert run("check", name, "--strict", cwd=project).stderr.decode().count(UNCOUNTED) == lines
        written = run("baseline", "write", name, "-o", f"{counted}.yaml", cwd=project)
        assert (written.returncode, written.stderr.decode().count(UNCOUNTED)) == (0, lines)


def test_a_launcher_that_nothing_watches_does_nothing(build: Build, project: Path) -> None:
    build(BOTH)
    (front,) = (project.parent / "cache" / "spillscan" / "launchers").glob("*/toolkit")  # as the compiler's is called
    done = subprocess.run(
        [front / "bin" / "nvcc", "-Xptxas", "-v", "-c", "a.cu", "-o", "c.o"],
        cwd=project,
        env=os.environ | {"LOG": str(project.parent / "log"), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == read_text(LOG)
    assert not list(project.glob("*.spillscan.log"))


@pytest.mark.parametrize(
    ("script", "more", "status", "gap"),
    [
        (BOTH, {"FAIL": "7"}, 7, "a.cu failed to compile (exit status 7) [build-failed]"),
        (f"{BOTH}; exit 3", {}, 3, "the build ended with exit status 3: what it had not begun is not here"),
        ("nvcc -c a.cu -o a.o; FAIL=2 nvcc -c b.cu -o b.o; true", {}, 0, "b.cu failed to compile (exit status 2)"),
        ("nvcc -c a.cu -o a.o; DIE=9 nvcc -c b.cu -o b.o; true", {}, 0, "compilation of b.cu was killed by signal 9"),
    ],
)
def test_what_goes_wrong_is_a_gap_with_its_name(
    script: str, more: dict[str, str], status: int, gap: str, build: Build, project: Path
) -> None:
    assert build(script, **more).returncode == status
    code, said = check(project, "--set", "max_spill_bytes=100000", "--fail-on", "error")
    assert code == 2, said
    assert gap in said


def test_a_failure_after_a_success_counts_until_it_is_fixed(build: Build, project: Path) -> None:
    build(BOTH)
    build("FAIL=2 nvcc -c a.cu -o a.o")
    assert check(project, "--set", "max_spill_bytes=100000")[0] == 2
    build("true")
    assert check(project, "--set", "max_spill_bytes=100000")[0] == 2, "nothing was fixed"
    build("nvcc -c a.cu -o a.o")
    assert check(project, "--set", "max_spill_bytes=100000")[0] == 0


def test_what_changed_since_is_stale(build: Build, project: Path) -> None:
    build(BOTH)
    assert check(project, "--set", "max_spill_bytes=100000")[0] == 0
    (project / "b.cu").write_text("__global__ void other() {}\n")
    code, said = check(project, "--set", "max_spill_bytes=100000")
    assert code == 2
    assert "b.cu was changed after it was compiled [stale-unit]" in said


def test_an_object_that_is_gone_goes_and_what_is_not_compiled_again_stays(build: Build, project: Path) -> None:
    build(BOTH)
    (project / "b.o").unlink()
    build("true")
    assert units(project).keys() == {"a.cu"}


def test_the_file_may_lie_elsewhere(build: Build, project: Path) -> None:
    (project / "out").mkdir()
    build(BOTH, "-o", "out/kept.json")
    build("nvcc -c a.cu -o a.o", "-o", "out/kept.json")
    assert {unit["object"] for unit in units(project, "out/kept.json").values()} == {"../a.o", "../b.o"}
    assert json.loads((project / "out/kept.json").read_text())["folder"] == "..", "the job that init writes goes there"
    done = run("scan", "out/kept.json", "-f", "csv", cwd=project)
    assert done.returncode == 0, done.stderr


def test_what_asks_for_figures_itself_sees_them(build: Build) -> None:
    done = build("nvcc -Xptxas -v -c a.cu -o a.o")
    assert done.stderr.startswith(read_text(LOG))


@pytest.mark.parametrize("words", ["nvcc -E a.cu", "nvcc --version", "nvcc -M a.cu", "nvcc -ptx a.cu -o a.ptx"])
def test_what_makes_no_machine_code_is_no_unit(words: str, build: Build, project: Path) -> None:
    assert build(words).returncode == 0
    assert not units(project)


def test_a_damaged_file_is_refused(project: Path, build: Build) -> None:
    (project / "spillscan-build.json").write_text('{"format":"spillscan build 1","comm')
    done = build(BOTH)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "not a complete record of a build" in done.stderr


def test_no_command(project: Path) -> None:
    assert run("run", cwd=project).returncode == 2
    assert run("run", "--", "no-such-command-here", cwd=project).returncode == 2


# ---- what was compiled before, or out of sight ----------------------------------------------------------------------

OBJECT = b"\x7fELF" + bytes(60) + b".nv_fatbin"


def unexplained(project: Path) -> list[str]:
    found: list[str] = json.loads((project / "spillscan-build.json").read_text())["unexplained"]
    return found


def test_what_a_build_system_lists_and_was_compiled_before_is_in_the_account(build: Build, project: Path) -> None:
    listed = NINJA.replace("../", "").replace("test.cu", "c.cu").replace("out/", "")
    (project / "build.ninja").write_text(listed.replace("builddir = out", "builddir = ."))
    (project / "with blank.o").write_bytes(OBJECT)
    (project / "debug").mkdir()
    (project / "debug" / "build.ninja").write_text(listed)
    said = build("true").stderr
    assert said.startswith("spillscan: no compilation was seen: a configure step has none; else none was due, or ")
    assert said.count("\n") == 1
    build("nvcc -c a.cu -o a.o")
    found = {unit["object"]: unit["state"] for unit in units(project).values()}
    assert found == {"a.o": "done", "with blank.o": "unknown"}
    (project / "with blank.o").unlink()
    done = build("true")
    assert done.stderr == "spillscan: 2 units: 1 done, 1 not-begun (b.cu); spillscan-build.json\n"
    code, said = check(project, "--set", "max_spill_bytes=100000")
    assert (code, "build.ninja says that b.cu is to be compiled; it was not" in said) == (2, True), said


@pytest.mark.parametrize(("listing", "forgotten"), [("build.ninja", True), ("CMakeCache.txt", True), ("bear", False)])
def test_what_failed_and_is_listed_no_longer_is_forgotten(
    listing: str, forgotten: bool, build: Build, project: Path
) -> None:
    """A generator lists all that is to be compiled by its own rules; what watched a build, only what that compiled."""

    def listed(**sources: str) -> None:
        out = project / "out"
        edges = [f"build {made}: cuda {source}" for made, source in sources.items()]
        commands = [
            {"directory": str(out), "file": source, "command": f"nvcc -c {source} -o {made}"}
            for made, source in sources.items()
        ]
        (out / "compile_commands.json").write_text(json.dumps(commands))
        if listing == "build.ninja":
            (out / listing).write_text("\n".join(edges) + "\n")
        elif listing != "bear":
            (out / listing).touch()

    (project / "out" / "sub").mkdir(parents=True)
    listed(**{"a.o": "../a.cu", "sub/c.o": "../c.cu"})
    build("cd out; nvcc -c ../a.cu -o a.o; for each in sub/c.o own.o; do FAIL=2 nvcc -c ../c.cu -o $each; done; true")
    states = {"out/a.o": "done", "out/sub/c.o": "failed", "out/own.o": "failed"}
    kept = json.loads((project / "spillscan-build.json").read_text())["units"]
    assert {each["unit"]["object"]: each["unit"]["state"] for each in kept} == states
    listed(**{"a.o": "../a.cu"})
    build("true")
    kept = json.loads((project / "spillscan-build.json").read_text())["units"]
    if forgotten:
        del states["out/sub/c.o"]
    assert {each["unit"]["object"]: each["unit"]["state"] for each in kept} == states, "own.o was never listed"


def test_objects_that_no_call_explains_stay_in_the_account(build: Build, project: Path) -> None:
    (project / "hidden").write_bytes(OBJECT)
    done = build("cp hidden hidden.o; nvcc -c a.cu -o a.o")
    assert (
        "1 object holds device code, and no call was seen (hidden.o): a compiler was called by its path" in done.stderr
    )
    assert unexplained(project) == ["hidden.o"]
    done = build("nvcc -c b.cu -o b.o")
    assert "1 object holds device code, and no call was seen (hidden.o): compiled before this run;" in done.stderr
    assert unexplained(project) == ["hidden.o"]
    (project / "linked.o").write_bytes(OBJECT + b"__cudaPrelinkedFatbins")
    build("rm hidden.o")
    assert unexplained(project) == []


@pytest.mark.parametrize("when", ["meanwhile", "before"])
def test_a_link_does_not_explain_what_it_links(when: str, build: Build, project: Path) -> None:
    (project / "hidden").write_bytes(OBJECT)
    (project / "lib").mkdir()
    copy = "cp ../hidden ../lib/hidden.o"
    if when == "before":
        (project / "lib" / "hidden.o").write_bytes(OBJECT)
        copy = "true"
    (project / "sub").mkdir()
    build(f"cd sub; {copy}; nvcc -dc ../a.cu -o a.o; nvcc -dlink a.o ../lib/hidden.o -o link.o; nvcc a.o link.o -o app")
    assert unexplained(project) == ["lib/hidden.o"]
    assert units(project).keys() == {"a.cu"}


def test_without_an_input_the_build_that_was_watched_is_read(build: Build, project: Path) -> None:
    build("nvcc -Xptxas -v -c a.cu -o a.o")
    given = run("check", "--set", "max_spill_bytes=0", "spillscan-build.json", cwd=project)
    alone = subprocess.run(
        [sys.executable, "-m", "spillscan", "check", "--set", "max_spill_bytes=0"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=project,
        check=False,
    )
    assert (alone.returncode, alone.stdout) == (given.returncode, given.stdout)
    piped = run("check", cwd=project, stdin=b"nothing\n")
    assert (piped.returncode, "`spillscan run` left, give spillscan-build.json" in piped.stderr.decode()) == (2, True)


def test_sources_that_become_one_file_are_one_unit(build: Build, project: Path) -> None:
    build("nvcc a.cu b.cu -o app")
    (unit,) = units(project).values()
    assert [path for path, _ in unit["digests"]] == ["a.cu", "b.cu"]
    (project / "a.cu").write_text("__global__ void other() {}\n")
    assert "a.cu was changed after it was compiled [stale-unit]" in check(project)[1]


@pytest.mark.parametrize(
    "source",
    ["conftest.cu", "build/meson-private/sanitycheckcuda.cu", "build/CMakeFiles/3.25.1/CompilerIdCUDA/a.cu"],
)
def test_what_looks_at_the_compiler_is_no_unit(source: str, build: Build, project: Path) -> None:
    (project / source).parent.mkdir(parents=True, exist_ok=True)
    (project / source).touch()
    build(f"FAIL=1 nvcc -c {source} -o a.o; true")
    assert not units(project)


def test_what_ccache_calls_is_watched(build: Build, project: Path) -> None:
    build("$CCACHE_PREFIX $CUDACXX -c a.cu -o a.o; FAIL=2 $CCACHE_PREFIX $CUDACXX -c b.cu -o b.o; $CCACHE_PREFIX true")
    assert {source: unit["state"] for source, unit in units(project).items()} == {"a.cu": "done", "b.cu": "failed"}


def test_what_the_user_has_set_stays(build: Build) -> None:
    names = ("CCACHE_PREFIX", "PYTORCH_NVCC", "CUDA_NVCC_EXECUTABLE", "CUDACXX", "CMAKE_CUDA_COMPILER_LAUNCHER")
    done = build(f"echo {' '.join(f'${name}' for name in names)}", **dict.fromkeys(names, "mine"))
    assert done.stdout.split() == ["mine"] * len(names)


# ---- what build systems list ----------------------------------------------------------------------------------------

NINJA = """\
ninja_required_version = 1.5
builddir = out
rule CUDA
  command = nvcc -c $in -o $out
  description = Building $out
rule LINK
  command = g++ $in -o $out
build $builddir/a.o: CUDA ../a.cu | header.h || dirs
build out/with$ blank.o: CUDA ../b.cu
build out/test.o: CUDA ../test.cu
build out/host.o: CUDA ../host.cpp
build dirs: phony
build app: LINK $builddir/a.o $
    out/with$ blank.o out/host.o
build test: LINK out/test.o
build all: phony app
default all
"""


def test_a_ninja_file_lists_what_a_build_without_a_target_compiles(tmp_path: Path) -> None:
    (tmp_path / "build.ninja").write_text(NINJA)
    assert databases.compilations(str(tmp_path / "build.ninja")) == [
        ("../a.cu", "out/a.o"),
        ("../b.cu", "out/with blank.o"),
    ]
    (tmp_path / "build.ninja").write_text(NINJA.replace("default all\n", ""))
    found = databases.compilations(str(tmp_path / "build.ninja"))
    assert found is not None
    assert ("../test.cu", "out/test.o") in found


@pytest.mark.parametrize(
    ("words", "makes"),
    [
        ("nvcc -c a.cu -o a.o", True),
        ("nvcc -x cu -c a.cpp", True),
        ("nvcc a.cu", True),
        ("nvcc -MD -MF a.d -c a.cu", True),
        ("nvcc -c a.cpp", False),
        ("nvcc -M a.cu", False),
        ("nvcc -E a.cu -o a.i", False),
        ("nvcc -ptx a.cu", False),
        ("nvcc -dlto -arch=lto_80 -c a.cu", False),
        ("nvcc -dlink a.o b.o -o d.o", False),
        ("nvcc a.o b.o -o app", False),
    ],
)
def test_what_makes_machine_code(words: str, makes: bool) -> None:
    assert makes_machine_code(words.split()) is makes


def test_response_files_are_expanded() -> None:
    files = {"a.rsp": "-arch=sm_80 --options-file b.rsp", "b.rsp": "-I 'x y'"}
    assert list(expand(["nvcc", "--options-file", "a.rsp", "-c", "a.cu"], files.get)) == [
        *("nvcc", "-arch=sm_80", "-I", "x y", "-c", "a.cu")
    ]
    assert list(expand(["nvcc", "--options-file", "none.rsp"], files.get)) == ["nvcc", "--options-file", "none.rsp"]
    assert list(expand(["nvcc", "-optf=none.rsp"], files.get)) == ["nvcc", "-optf=none.rsp"]
    files["loop"] = "@loop"
    assert list(expand(["nvcc", "@loop"], files.get)) == ["nvcc", "@loop"]
    each_all = dict.fromkeys("abcdefgh", " ".join(f"@{name}" for name in "abcdefgh"))
    assert len(list(expand(["nvcc", "@a"], each_all.get))) <= 1 + 8 * 8


# ---- kernels that are gone, and older builds ------------------------------------------------------------------------

GONE = "spill_none_f64"
"""A kernel of the compiler's log that its next log lacks."""


def lose_a_kernel(project: Path) -> None:
    """The compiler prints no block of one kernel from now on, and the sources are others."""
    head, *blocks = read_text(LOG).split("ptxas info    : Compiling entry function ")
    left = [block for block in blocks if not block.startswith(f"'{GONE}'")]
    assert len(left) < len(blocks)
    (project.parent / "log").write_text(head + "".join(f"ptxas info    : Compiling entry function {b}" for b in left))
    (project / "a.cu").write_text("// fewer kernels\n")


@pytest.mark.parametrize(
    ("again", "expected", "said"),
    [
        ("nvcc -Xptxas -v -c a.cu -o a.o", 0, "[removed-kernels]"),
        ("nvcc -Xptxas -v -c b.cu -o b.o", 2, "[stale-unit]"),  # b has the other log, and a was not compiled again
        ("true anew; nvcc -Xptxas -v -c b.cu -o b.o", 2, "[fewer-kernels]"),
        ("nvcc -Xptxas -v -c a.cu -o a.o; FAIL=2 nvcc -Xptxas -v -c a.cu -o a.o", 2, "[build-failed]"),
    ],
)
def test_a_kernel_whose_unit_was_compiled_without_it_is_gone(
    build: Build, project: Path, again: str, expected: int, said: str
) -> None:
    build("nvcc -Xptxas -v -c a.cu -o a.o")
    run("baseline", "write", "spillscan-build.json", "-o", "accepted.yaml", cwd=project)
    assert f'{GONE} sm_75": {{name: "{GONE}", unit: "a.cu"' in (project / "accepted.yaml").read_text()
    assert check(project, "--baseline", "accepted.yaml")[0] == 0
    lose_a_kernel(project)
    if "anew" in again:  # what was compiled before is not known
        (project / "spillscan-build.json").unlink()
    build(again)
    status, text = check(project, "--baseline", "accepted.yaml")
    assert (status, said in text) == (expected, True), text


def test_an_older_build_is_what_it_was(build: Build, project: Path) -> None:
    """Its sources have changed since, and its objects are another build's: neither is held against it."""
    build("nvcc -Xptxas -v -c a.cu -o a.o && echo old >a.o")
    (project / "spillscan-build.json").rename(project / "old.json")
    lose_a_kernel(project)
    build("nvcc -Xptxas -v -c a.cu -o a.o && echo new >a.o")
    assert buildfile.objects_of(str(project / "old.json")) == []
    assert buildfile.objects_of(str(project / "spillscan-build.json")) == [str(project / "a.o")]
    done = run("diff", "old.json", "spillscan-build.json", "--fail-on", "error", cwd=project)
    assert (done.returncode, b"stale-unit" in done.stderr, b"4 removed" in done.stdout) == (0, False, True)
