"""Failed, stopped and unfinished builds are gaps; healthy ones, and text that only sounds like failure, are none."""

from __future__ import annotations

import re
from itertools import cycle, product
from random import Random

import pytest

from spillscan.model import Issue
from spillscan.model.gaps import KINDS
from spillscan.reading import grammar
from spillscan.reading.logs.clean import Cleaner
from spillscan.reading.logs.failures import Failure, _named, failure_words
from spillscan.reading.logs.steps import unprefixed
from tests.conftest import FIXTURES, manifest, read_any, read_log, run, sized

HARMLESS = ("step-retried", "host-step-failed")
CODES = ("build-failed", "build-incomplete", "unreported-unit", *HARMLESS)

NOW = "2026-05-01T12:34:56.7890123Z"
KERNEL = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '{0}' for 'sm_90'
ptxas info    : Function properties for {0}
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
ptxas info    : Compile time = 12.924 ms
"""

MAKE = f"nvcc -Xptxas -v -c copy.cu -o copy.o\n{KERNEL.format('copy')}"
NINJA = f"[1/4] Building CUDA object copy.cu.o\n{KERNEL.format('copy')}"


def seen(text: str) -> list[Issue]:
    return [issue for issue in read_log(text).issues if issue.code in CODES]


def codes(text: str) -> list[str]:
    return [issue.code for issue in seen(text)]


# ---- the grammar ----------------------------------------------------------------------------------------------------


def examples() -> list[tuple[str, str]]:
    """(rule, a line above it)."""
    found, above = [], []
    for line in grammar.text("buildfailure").splitlines():
        if line.startswith("// ") and not line.startswith("// ----"):
            above.append(re.sub(r" {20,}\(.*\)$", "", line.removeprefix("// ")))
            continue
        if match := re.match(r"([a-z_]+):", line):
            found += [(match[1], text) for text in above]
        above = []
    return found


@pytest.mark.parametrize(("rule", "line"), [each for each in examples() if not re.fullmatch(r"\(.*\)", each[1])])
def test_every_rule_describes_the_lines_above_it(rule: str, line: str) -> None:
    start = "last" if rule == "last_words" else "line"
    assert (grammar.parse("buildfailure", start, line) or ("",))[0] == rule
    place = re.search(grammar.terminal("PLACE", "buildfailure"), line)
    assert (
        rule in ("last_words", "survived", "remark")
        or place
        or any(word in line for word in grammar.scan_words("buildfailure"))
    )


def test_every_rule_has_an_example() -> None:
    rules = set(re.findall(r"^([a-z][a-z_]+):", grammar.text("buildfailure"), re.MULTILINE))
    assert rules == {rule for rule, _ in examples()}


TIMES = ("", f"{NOW} ", f"[{NOW}] ", f"{NOW} 01O ", f"{NOW} stderr F ")
"""GitHub's and Azure's, Jenkins's, GitLab's, Kubernetes's."""
WRITERS = ("", "#12 118.5 ", "builder-1  | ", "12:34:56.789     1>", "    ")
"""BuildKit, Compose, MSBuild, pip."""
COLOURS = (
    *("", "\x1b[31m", "\x1b(B\x1b[m", "\x1b[38:2::200:0:0m", "\x1b7\x1b[2K\r"),
    *("\x1b]8;;file:///src/gemm.cu\x1b\\", "\x1b[0K\x1b[31;1m", "50%\r", "\x9b31m", "\x9d0;building\x07"),
)
"""Text that terminals hide: colours, character sets, titles, links, overwritten text."""
LINE_PREFIXES = [
    *dict.fromkeys(
        "".join(parts)
        for parts in (
            *product(TIMES, WRITERS, COLOURS[:2]),
            *product(TIMES, WRITERS[:1], COLOURS),
            *product(TIMES[:1], WRITERS, COLOURS),
        )
        if not (parts[0] and parts[1].startswith("12:"))  # MSBuild has a time of its own
    ),
    *(f"build\tMake\t{NOW} {colour}" for colour in COLOURS),
]
"""As services write them: who writes stands behind the time, colours are the tool's own; and ``gh run view --log``."""
MESSAGES = {line: rule for rule, line in examples() if rule not in ("last_words", "remark") and line[0] != "("}
REMARKS = [line for rule, line in examples() if rule == "remark"]
_PREFIXES_OF_EACH = 16
_HALF = KERNEL.format("k").encode() * 1500


def _dressed(prefix: str, line: str) -> bytes:
    """Message after cleaning: C1 controls are single bytes, other text is UTF-8; of several lines, the last."""
    shown = Cleaner().clean(prefix.encode("latin-1") + line.encode() + b"\n", 1)
    return shown[shown.rfind(b"\n", 0, -1) + 1 :]


def test_the_prefixes_are_many() -> None:
    assert len(LINE_PREFIXES) >= 80


@pytest.mark.parametrize("place", ["head", "middle", "end"])
def test_a_message_is_found_anywhere(place: str) -> None:
    """In 1 MB of reports, each message after some of the prefixes and each prefix before some messages, drawn by a
    seed. Remarks between them are not searched.
    """
    random = Random(place)
    prefixes = LINE_PREFIXES * (_PREFIXES_OF_EACH * len(MESSAGES) // len(LINE_PREFIXES) + 1)
    random.shuffle(prefixes)
    pairs = list(zip(prefixes, cycle(MESSAGES), strict=False))
    assert ({prefix for prefix, _ in pairs}, {message for _, message in pairs}) == ({*LINE_PREFIXES}, {*MESSAGES})
    lines = {_dressed(prefix, message): MESSAGES[message] for prefix, message in pairs}
    remarks = {_dressed(prefix, remark) for prefix in LINE_PREFIXES for remark in REMARKS}
    shuffled = [*lines, *remarks]
    random.shuffle(shuffled)
    before, behind = {"head": (b"", 2 * _HALF), "middle": (_HALF, _HALF), "end": (2 * _HALF, b"")}[place]
    text = b"".join((before, *shuffled, behind))
    found = [text[begin : end + 1] for begin, end in failure_words().lines(text, 0, len(text))]
    assert not remarks & {*found}
    rules = {line: read[0] for line in found if (read := grammar.parse("buildfailure", "line", unprefixed(line)))}
    assert [line for line in lines if rules.get(line) != lines[line]] == []
    assert rules == lines


@pytest.mark.parametrize(
    "message",
    ["/bin/sh: 1: nvcc: not found", "./b.sh: ligne 12 : nvcc : commande introuvable", "make: nvcc: Permission denied"],
)
def test_a_compiler_that_was_not_run_far_from_the_end(message: str) -> None:
    assert codes(f"{message}\n{MAKE}{KERNEL.format('k') * 100}") == ["build-failed"]


def test_an_error_that_begins_as_a_warning_does_is_a_failed_compilation() -> None:
    pragma = "Pragma 'enable_smem_spilling' is not allowed for per-function compilation modes"
    for head in ("ptxas fatal   : ", "ptxas fatal : ", "ptxas error   : "):
        assert codes(f"{MAKE}{head}{pragma}\n") == ["build-failed"]


# ---- what real tools wrote ------------------------------------------------------------------------------------------

EXIT = {
    "make-healthy": 1,
    "make-i-healthy": 1,
    "make-k-host": 1,
    "make-retry": 1,
    "make-test": 1,
    "ccache-retry": 1,
    "meson-healthy": 0,
    "ninja-install": 1,
    "ninja-k0-host": 1,
    "ninja-resumed": 1,
    "pip-healthy": 1,
}
"""All but Meson's, which does not optimise, spill; of the others that kernel is missing, or the build stopped."""
FAILED = [entry["file"] for entry in manifest() if entry["file"].startswith("failures/")]


@pytest.mark.parametrize("file", FAILED[:: sized(4, 1)])
def test_real_builds(file: str) -> None:
    name = re.sub(r"-[\d.]+\.log$", "", file.rpartition("/")[2])
    gaps = [issue for issue in read_any(FIXTURES / file).issues if issue.code in CODES and issue.code not in HARMLESS]
    assert bool(gaps) == (name not in EXIT)
    options = [] if name in EXIT else ["--set", "max_spill_bytes=1000000"]
    assert run("check", FIXTURES / file, *options).returncode == EXIT.get(name, 2)


GATE_KINDS = [
    entry
    for entry in manifest()
    if entry["format"] in ("build", "ptxas", "mixed")
    and entry["file"].endswith(".log")
    and not entry["file"].startswith(("failures/", "large/"))  # those have a table of their own
]


@pytest.mark.parametrize("entry", GATE_KINDS)
def test_exit_status_of_the_tools_agrees(entry: dict[str, object]) -> None:
    """Over all fixtures: where the tools failed there is a gap, and nowhere else."""
    failed = any(issue.code in CODES for issue in read_any(FIXTURES / str(entry["file"])).issues)
    assert failed == bool(entry["exit_status"])


# ---- excerpts: what tools print that are not at hand ----------------------------------------------------------------

BROKEN = {
    "front end": 'gemm.cu(10): error: identifier "x" is undefined\n',
    "front end, its count alone": '2 errors detected in the compilation of "gemm.cu".\n',
    "catastrophic": 'gemm.cu(3): catastrophic error: cannot open source file "missing.cuh"\n',
    "in a header": "include/tile.cuh(4): error: expected a declaration\n",
    "nvcc": "nvcc fatal   : Unsupported gpu architecture 'compute_35'\n",
    "a signal": "nvcc error   : 'cicc' died due to signal 9 (Kill signal)\n",
    "the host compiler": "gemm.cu:4:10: fatal error: missing.cuh: No such file or directory\ncompilation terminated.\n",
    "the host compiler is killed": "g++: fatal error: Killed signal terminated program cc1plus\n",
    "an assembler": "/tmp/cc1.s: Assembler messages:\n/tmp/cc1.s:12: Error: no such instruction: `bogus'\n",
    "clang": "1 error generated when compiling for sm_70.\n",
    "clang's driver": "clang: error: ptxas command failed with exit code 255 (use -v to see invocation)\n",
    "collect2": "main.cpp:(.text+0x33): undefined reference to `f()'\ncollect2: error: ld returned 1 exit status\n",
    "lld": "ld.lld: error: undefined symbol: f()\n",
    "Microsoft's linker": "LINK : fatal error LNK1181: cannot open input file 'gemm.obj' [C:\\b\\engine.vcxproj]\n",
    "killed": "Killed\n",
    "another signal": "./build.sh: line 5: 12345 Segmentation fault      (core dumped) nvcc -c gemm.cu -o gemm.o\n",
    "no nvcc": "./build.sh: line 12: nvcc: command not found\n",
    "LLVM": "fatal error: error in backend: Cannot select: intrinsic %llvm.nvvm.foo\n",
    "ccache": 'ccache: error: Could not find compiler "nvcc" in PATH\n',
    "another build system": "Build failed\n -> task in 'engine' failed with exit status 1\n",
    "the linker finds no library": "/usr/bin/ld: cannot find -lcudart: No such file or directory\n",
    "killed in a script": "./build.sh: line 5: 12345 Killed                  nvcc -c gemm.cu -o gemm.o\n",
    "make": "make: *** [Makefile:11: gemm.o] Error 2\n",
    "make, old": "make: *** [gemm.o] Error 1\n",
    "make, interrupted": "make: *** [Makefile:11: gemm.o] Interrupt\n",
    "make, another target": "make: *** [Makefile:8: engine] Error 1\n",
    "make knows no rule": "make: *** No rule to make target 'gone.cu', needed by 'gone.o'.  Stop.\n",
    "make -k": "make: *** [Makefile:11: gemm.o] Error 2\nmake: Target 'engine' not remade because of errors.\n",
    "make -k, an inner make": (
        "g++ -c host.cpp -o host.o\nhost.cpp:1:1: error: no\nmake[1]: *** [Makefile:9: host.o] Error 1\n"
        "make[1]: Target 'all' not remade because of errors.\nmake: *** [Makefile:2: sub] Error 2\n"
        "make: Target 'all' not remade because of errors.\n"
    ),
    "setuptools": "error: command '/usr/local/cuda/bin/nvcc' failed with exit code 2\n",
    "PyTorch": (
        "ninja: build stopped: subcommand failed.\nTraceback (most recent call last):\n"
        "subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.\n"
    ),
    "pip": "  error: subprocess-exited-with-error\n  \n  × Building wheel for engine did not run successfully.\n",
    "BuildKit": '#12 ERROR: process "/bin/sh -c make" did not complete successfully: exit code: 137\n',
    "BuildKit, at its end": 'ERROR: failed to solve: process "/bin/sh -c make" did not complete successfully: 2',
    "docker": "The command '/bin/sh -c make' returned a non-zero code: 2\n",
    "podman": 'Error: building at STEP "RUN make": while running runtime: exit status 2\n',
    "GitHub": "2026-05-01T12:34:56.7890123Z ##[error]Process completed with exit code 2.\n",
    "GitHub, cancelled": "2026-05-01T12:34:56.7890123Z ##[error]The operation was canceled.\n",
    "GitHub, a problem matcher": '##[error]/src/gemm.cu(10): error: identifier "x" is undefined\n',
    "GitLab": "section_end:1700000000:step_script\r\x1b[0K\x1b[31;1mERROR: Job failed: exit code 1\n\x1b[0;m\n",
    "GitLab, too long": "ERROR: Job failed: execution took longer than 1h0m0s seconds\n",
    "Jenkins": "Finished: ABORTED\n",
    "CMake": "CMake Error at CMakeLists.txt:5 (find_package):\n-- Configuring incomplete, errors occurred!\n",
    "Meson": "meson.build:2:0: ERROR: Unknown compiler(s): [['nvcc']]\n",
    "Bazel": (
        "ERROR: /src/kernels/BUILD:12:11: Compiling kernels/gemm.cu.cc failed: (Exit 1): nvcc failed: error executing\n"
        "Target //:engine failed to build\nERROR: Build did NOT complete successfully\n"
    ),
    "Bazel, its end alone": "FAILED: Build did NOT complete successfully (0 packages loaded)\n",
    "MSBuild": (
        'C:\\BuildCustomizations\\CUDA 12.4.targets(799,9): error MSB3721: The command "nvcc.exe" exited with code 1.\n'
    ),
    "MSBuild, its end alone": "Build FAILED.\n\n    0 Warning(s)\n    1 Error(s)\n",
    "Visual Studio": "========== Build: 0 succeeded, 1 failed, 0 up-to-date, 0 skipped ==========\n",
    "a module without kernels at the end": "ptxas info    : 0 bytes gmem\n",
    "a command without a report at the end": "nvcc -Xptxas -v -c gemm.cu -o gemm.o\n",
}


PREFIXES = ["", f"{NOW} ", "#9 12.345 ", f"build\tMake\t{NOW} ", f"{NOW} stderr F ", "app-1  | "]
PREFIXED = [
    (name, prefix)
    for name, text in BROKEN.items()
    for prefix in PREFIXES
    if not prefix or not text.startswith(("2026", "#12", "section"))  # these have one of their own
]


@pytest.mark.parametrize(("name", "prefix"), PREFIXED)
def test_broken_builds(name: str, prefix: str) -> None:
    text = MAKE + BROKEN[name]
    found = seen("".join(prefix + line for line in text.splitlines(keepends=True)))
    assert found
    assert {issue.code for issue in found} & {"build-failed", "build-incomplete"}
    assert all("kernels" in KINDS[issue.code] for issue in found if issue.code not in HARMLESS)
    assert all(issue.origin is not None and issue.origin.line for issue in found)


def test_a_gap_names_step_line_and_message() -> None:
    text = MAKE + "nvcc -Xptxas -v -c gemm.cu -o gemm.o\n" + BROKEN["front end"] + BROKEN["make"]
    (found,) = seen(text)
    assert found.message == 'gemm.o failed: gemm.cu(10): error: identifier "x" is undefined'
    assert found.origin is not None
    assert text.splitlines()[found.origin.line - 1].startswith("gemm.cu(10)")  # type: ignore[operator]


NOISE = [
    "make: [Makefile:20: clean] Error 1 (ignored)",
    "make[1]: warning: jobserver unavailable: using -j1.  Add '+' to parent make rule.",
    "make: warning:  Clock skew detected.  Your build may be incomplete.",
    "c++ -Werror -Wfatal-errors -c host.cpp -o host.o",
    'host.cpp:6:2: warning: #warning "error: this is a warning" [-Wcpp]',
    '    6 | #warning "error: this is a warning"',
    'gemm.cu(12): warning #177-D: variable "error" was declared but never referenced',
    '    printf("gemm.cu(10): error: out of memory");',
    "    error: return -1;  // gemm.cu(3): error: no",
    "nvcc -c error_handler.cu -o error_handler.o",
    "-- Performing Test HAVE_FATAL_ERROR - Failed",
    "-- Looking for pthread_create in pthreads - not found",
    '0 errors detected in the compilation of "gemm.cu".',
    "    0 Error(s)",
    "========== Build: 3 succeeded, 0 failed, 0 up-to-date, 0 skipped ==========",
    "ERROR: pip's dependency resolver does not currently take into account all the packages that are installed.",
    "fatal: not a git repository (or any of the parent directories): .git",
    "error: RPC failed; curl 56 GnuTLS recv error (-54): Error in the pull function.",
    "fatal: early EOF",
    "curl: (56) Recv failure: Connection reset by peer; retrying",
    "WARNING: Retrying (Retry(total=4, connect=None, read=None, redirect=None, status=None)) after connection broken",
    "CMake Error at build/cmake_install.cmake:52 (file):",
    "[==========] Running 3 tests from 1 test suite.",
    "[  FAILED  ] Gemm.Small (3 ms)",
    " 1/12 Test  #1: gemm .............................***Failed    0.01 sec",
    "33% tests passed, 2 tests failed out of 3",
    "tests/test_gemm.py::test_small FAILED                                    [ 50%]",
    "FAILED tests/test_gemm.py::test_small - AssertionError: fatal error",
    "E       RuntimeError: CUDA error: an illegal memory access was encountered",
    "#8 [2/7] RUN apt-get install -y build-essential",
    "Killed the previous daemon",
    "./run_tests.sh: line 5: 12345 Segmentation fault      (core dumped) ./engine_test",
    "/bin/sh: 1: git: not found",
    "which: no nvcc in (/usr/bin:/bin)",
    "terminate called after throwing an instance of 'std::runtime_error'",
    "make: *** Waiting for unfinished jobs....",
    "//tests:gemm_test                                                        FAILED in 0.3s",
    "Segfaults fixed: 3",
    "FAILED: 2 of 30 checks",
    "FAILED: tests/test_gemm.py::test_tiles[float16-sm_80]",
    "FAILED: unit/check_softmax.py",
]


@pytest.mark.parametrize("line", NOISE)
def test_false_failures(line: str) -> None:
    assert codes(f"{line}\n{MAKE}{line}\n{KERNEL.format('gemm')}{line}\nar rcs libengine.a copy.o\n{line}\n") == []


def test_tests_that_fail_after_the_build_hide_nothing() -> None:
    for end in (
        "The following tests FAILED:\n\t  1 - gemm (Failed)\nErrors while running CTest\n"
        "make: *** [Makefile:20: check] Error 8\n##[error]Process completed with exit code 2.\n",
        "[4/4] Linking CXX executable engine\n[0/1] Running tests...\nErrors while running CTest\n"
        "FAILED: CMakeFiles/test.util\ncd build && ctest\nninja: build stopped: subcommand failed.\n",
        "===== 1 failed, 3 passed in 0.12s =====\n##[error]Process completed with exit code 1.\n",
    ):
        assert codes(MAKE + "FAILED tests/test_gemm.py::test_small - AssertionError\n" + end) == []


def test_failed_and_rebuilt() -> None:
    command = "nvcc -Xptxas -v -c gemm.cu -o gemm.o\n"
    failed = MAKE + command + BROKEN["front end"] + BROKEN["make"]
    assert codes(failed + command + KERNEL.format("gemm")) == ["step-retried"]
    # The link names the object, and does not build it.
    assert codes(failed + "nvcc copy.o gemm.o -o engine\n") == ["build-failed"]
    # It fails again.
    assert "build-failed" in codes(failed + command + BROKEN["front end"] + BROKEN["make"])
    # Another one is built.
    assert codes(failed + command.replace("gemm", "other") + KERNEL.format("gemm")) == ["build-failed"]


LAST_WORDS = [line for rule, line in examples() if rule == "last_words"]


@pytest.mark.parametrize("line", LAST_WORDS)
def test_a_log_that_ends_with_a_failure(line: str) -> None:
    text = MAKE + KERNEL.format("gemm")
    assert codes(f"{text}{line}\n") == ["build-incomplete"]
    assert codes(f"{text}{line}\nar rcs libengine.a gemm.o\n") in ([], ["build-failed"])


def test_a_failed_folder_names_no_file() -> None:
    assert "build-failed" in codes("[1/2] Building CUDA object a.cu.o\nFAILED: CMakeFiles/engine.dir/ x\n")


def test_a_job_that_goes_on_was_not_stopped() -> None:
    """Another step of the job failed, and was allowed to."""
    assert codes("##[error]Process completed with exit code 1.\n" + MAKE) == []


def test_a_containers_failure_lasts_until_one_is_built() -> None:
    """Its other stages go on for a while."""
    failed = '#9 ERROR: process "/bin/sh -c make" did not complete successfully: exit code: 2\n'
    assert codes(MAKE + failed + KERNEL.format("late")) == ["build-incomplete"]
    assert codes(failed + MAKE + "#11 naming to docker.io/library/engine:latest done\n") == []


def test_a_build_that_fails_in_the_middle_of_a_log() -> None:
    for message in (
        "make: *** [Makefile:11: gemm.o] Fehler 1\n",
        "make: *** [gemm.o] Segmentation fault (core dumped)\n",
        "FAILED: gemm.o\nninja: build stopped: subcommand failed.\n",
        "./build.sh: line 5: 12345 Segmentation fault      (core dumped) nvcc -c gemm.cu -o gemm.o\n",
    ):
        rest = "".join(f"c++ -c file{number}.cpp -o file{number}.o\n" for number in range(1000))
        assert codes(MAKE + message + rest + KERNEL.format("late") + rest), message


def test_host_code_hides_nothing_if_the_build_goes_on() -> None:
    host = "c++ -c host.cpp -o host.o\nhost.cpp:3:1: error: expected ';'\nmake: *** [Makefile:9: host.o] Error 1\n"
    assert codes(MAKE + host) == ["build-incomplete"]
    on = "make: Target 'engine' not remade because of errors.\n"
    assert codes(MAKE + host + on) == ["host-step-failed"]
    # Only later lines of a script show that it went on.
    alone = host.partition("make:")[0]
    assert codes(MAKE + alone) == ["build-incomplete"]
    assert codes(alone + MAKE) == ["host-step-failed"]
    # Host code by its name, device code by its command.
    assert codes(MAKE + host.replace("c++ -c", "nvcc -x cu -c") + on) == ["build-failed"]


def test_an_ignored_failure_of_device_code_is_one() -> None:
    assert codes(MAKE + "make: [Makefile:11: gemm.cu.o] Error 2 (ignored)\n") == ["build-failed"]


INNER = "make[1]: Entering directory '/src/sub'\n{}make[1]: Leaving directory '/src/sub'\n"
FAILS = INNER.format("optional step\nmake[1]: *** [Makefile:4: fails] Error 3\n")
NO_RULE = INNER.format("make[1]: *** No rule to make target '{}'.  Stop.\n")
DEEP = FAILS.replace("[1]", "[2]") + "make[1]: *** [Makefile:3: deep] Error 2\nmake[1]: Leaving directory '/src'\n"
BAD = INNER.format(BROKEN["front end"] + "make[1]: *** [Makefile:8: prog] Error 2\n")
IGNORED = "make: [Makefile:4: optional] Error 2 (ignored)\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [  # as GNU make 4.3 prints
        (FAILS + IGNORED, []),  # -$(MAKE) -C sub fails, .IGNORE
        (FAILS + "optional part not built\n", []),  # $(MAKE) -C sub fails || echo ...
        (FAILS.replace("*** ", "").replace("Error 3", "Error 3 (ignored)"), []),  # make -i
        (DEEP + IGNORED, []),
        (DEEP.replace("make[1]: ***", "make[1]:").replace("Error 2", "Error 2 (ignored)"), []),
        (NO_RULE.format("docs") + IGNORED, []),
        ("Makefile:10: recipe for target 'clean' failed\nmake: [clean] Error 1 (ignored)\n", []),  # make 4.1
        (FAILS, ["build-failed"]),  # perhaps cut before the outer make reports it
        (FAILS + "make: *** [Makefile:4: all] Error 2\n", ["build-failed"]),
        (FAILS + IGNORED + "make: *** [Makefile:4: all] Error 2\n", ["build-incomplete"]),
        (FAILS.partition("make[1]: Leaving")[0] + "after\n", ["build-failed"]),  # make -s: who went on?
        (DEEP + "make: *** [Makefile:4: all] Error 2\nafter\n", ["build-failed"]),
        (NO_RULE.format("gemm.cu") + IGNORED, ["build-incomplete"]),
        (FAILS.replace("fails", "gemm.o") + IGNORED, ["build-failed"]),
        (BAD + IGNORED, ["build-failed"]),
        (BAD + "after\n", ["build-failed"]),
        ("Makefile:10: recipe for target 'gemm.o' failed\n", ["build-incomplete"]),
    ],
)
def test_makes_that_an_outer_make_ignores(text: str, found: list[str]) -> None:
    assert codes(MAKE + text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (NINJA, ["build-incomplete"]),
        (NINJA + "[4/4] Linking CXX executable engine\n", []),
        (NINJA + "[3/4] Install the project...\n-- Installing: /usr/lib/engine\n", []),
        (NINJA + "[2/5] Copying files\n", ["build-incomplete"]),
        (NINJA + "[4/4] Linking CXX executable engine\n[1/5] Copying files\n", []),
        (NINJA + "ninja: build stopped: interrupted by user.\n", ["build-incomplete"]),
        (
            f"{NINJA}ninja: build stopped: interrupted by user.\n[1/3] Building CUDA object gemm.cu.o\n"
            f"{KERNEL.format('gemm')}[3/3] Linking CXX executable engine\n",
            [],
        ),
        ("[ 25%] Building CUDA object copy.cu.o\n" + KERNEL.format("copy"), ["build-incomplete"]),
        ("[ 25%] Building CUDA object copy.cu.o\n" + KERNEL.format("copy") + "[100%] Built target engine\n", []),
        ("#9 [build 2/7] RUN make\n" + "".join("#9 1.5 " + line + "\n" for line in MAKE.splitlines()), []),
    ],
)
def test_the_last_numbered_step(text: str, found: list[str]) -> None:
    assert codes(text) == found


def test_many_failures_are_a_few_lines() -> None:
    text = MAKE + "".join(f'unit{number}.cu(1): error: identifier "x" is undefined\n' for number in range(5000))
    assert len(seen(text)) == 11


# ---- steps that left no report --------------------------------------------------------------------------------------

SECOND = KERNEL.format("second")
UNASKED = "nvcc -c gemm.cu -o gemm.o\n"
WARNING = "ptxas warning : Stack size for entry function 'gemm' cannot be statically determined\n"
SILENT = {
    "asks for none": (MAKE + UNASKED, "gemm.o"),
    "before the others": (UNASKED + MAKE, "gemm.o"),
    "a link of sources": (f"{MAKE}nvcc -arch=sm_90 gemm.cu -o gemm\n", "gemm"),
    "ptxas by itself": (f"{MAKE}ptxas -arch=sm_90 gemm.ptx -o gemm.cubin\n", "gemm.cubin"),
    "clang": (f"{MAKE}clang++ -x cuda --cuda-gpu-arch=sm_90 -c gemm.cpp -o gemm.o\n", "gemm.o"),
    "a warning alone": (f"{MAKE}{UNASKED}{WARNING}", "gemm.o"),
    "several": (MAKE + UNASKED + UNASKED.replace("gemm", "x") * 2 + UNASKED.replace("gemm", "y"), "gemm.o, x.o, y.o"),
    "beside another": (f"nvcc -Xptxas -v -c copy.cu -o copy.o\n{UNASKED}{KERNEL.format('copy')}", "gemm.o"),
    "ninja": (
        f"{NINJA}[2/4] Building CUDA object gemm.cu.o\n[3/4] Building CXX object a.cpp.o\n[4/4] Linking\n",
        "gemm",
    ),
    "ninja -v": (f"{NINJA}[2/4] nvcc -Xptxas -v -c gemm.cu -o gemm.o\n[3/4] g++ -c a.cpp\n[4/4] Linking\n", "gemm.o"),
}


@pytest.mark.parametrize("name", SILENT)
@pytest.mark.parametrize("prefix", ["", f"{NOW} ", "#9 12.345 ", "app-1  | "])
def test_a_step_that_left_no_report(name: str, prefix: str) -> None:
    text, unit = SILENT[name]
    (issue,) = seen("".join(prefix + line for line in text.splitlines(keepends=True)))
    assert issue.code == "unreported-unit"
    assert f": {unit}" in issue.message


REPORTED = {
    "the environment asks": MAKE.replace("-Xptxas -v ", "") + UNASKED + SECOND,
    "the environment asks for one": MAKE + UNASKED + SECOND,
    "nobody asks": MAKE.replace("-Xptxas -v ", "") + UNASKED,
    "a report of no kernel": f"{MAKE}{UNASKED.replace('-c', '-Xptxas -v -c')}ptxas info    : 0 bytes gmem\nmv a b\n",
    "in a file of options": f"{MAKE}nvcc --options-file flags.rsp -c gemm.cu -o gemm.o\n",
    "host code": f"{MAKE}nvcc -c host.cpp -o host.o\nnvcc -c main.c -o main.o\n",
    "a link": f"{MAKE}nvcc copy.o gemm.o -o engine\nnvcc -dlink copy.o -o linked.o\n",
    "PTX": f"{MAKE}nvcc -ptx gemm.cu -o gemm.ptx\nnvcc -arch=compute_90 -c gemm.cu -o gemm.o\n",
    "code for the linker": f"{MAKE}nvcc -dlto -arch=sm_90 -dc gemm.cu -o gemm.o\n",
    "dependencies": f"{MAKE}nvcc -M gemm.cu -o gemm.d\nnvcc -E gemm.cu -o gemm.ii\n",
    "ptxas -v": f"{MAKE}ptxas -arch=sm_90 -v gemm.ptx -o gemm.cubin\n{SECOND}",
    "built later": f"{MAKE}{UNASKED}nvcc -Xptxas -v -c gemm.cu -o gemm.o\n{SECOND}",
    "announced twice": (
        "[ 10%] Building CUDA object a.dir/copy.cu.o\nnvcc -Xptxas -v -c copy.cu -o a.dir/copy.cu.o\n"
        f"[ 20%] Building CUDA object a.dir/gemm.cu.o\nnvcc -Xptxas -v -c gemm.cu -o a.dir/gemm.cu.o\n"
        f"{KERNEL.format('copy')}{SECOND}[100%] Linking CUDA executable engine\n"
    ),
    "ninja": f"{NINJA}[2/4] Building CUDA object x.cu.o\n{SECOND}[3/4] Building CXX object a.o\n[4/4] Linking\n",
    "ninja makes PTX": f"{NINJA}[2/4] Building CUDA object x.ptx\n[3/4] Building CXX object a.o\n[4/4] Linking\n",
}


@pytest.mark.parametrize("name", REPORTED)
def test_a_step_that_left_its_report_or_has_none_to_leave(name: str) -> None:
    assert codes(REPORTED[name]) == []


def test_more_steps_than_reports() -> None:
    steps = "".join(f"[ {number}0%] Building CUDA object a.dir/{name}.cu.o\n" for number, name in enumerate("abc", 1))
    (issue,) = seen(f"{steps}{KERNEL.format('a')}{SECOND}[100%] Linking CUDA executable engine\n")
    assert (issue.code, issue.message[:20]) == ("unreported-unit", "3 steps compile devi")
    assert codes(f"{steps}{KERNEL.format('a')}{SECOND}{KERNEL.format('c')}[100%] Linking\n") == []


@pytest.mark.parametrize(
    ("subjects", "text"),
    [
        (["a.o"], "a.o"),
        ([""], "a step"),
        (["a.o", "b.o"], "a.o and 1 more"),
        (["", "b.o", "c.o"], "a step and 2 more"),
    ],
)
def test_several_failures_in_words(subjects: list[str], text: str) -> None:
    assert _named([Failure(line=1, text="Error 1", subject=subject) for subject in subjects]) == text


@pytest.mark.parametrize(
    "end", ["", "make: *** [Makefile:4: app] Error 255\n", "ninja: build stopped: subcommand failed.\n"]
)
def test_each_caller_of_a_wide_function_is_named(end: str) -> None:
    words = "nvlink error   : entry function '{}' with max regcount of 40 calls function 'g' with regcount of 96\n"
    begin = "FAILED: app\n" if end.startswith("ninja") else ""
    found = seen(begin + words.format("one") + words.format("two") + words.format("three") + end)
    (message,) = (each.message for each in found if "regist" in each.message)
    assert [each in message for each in ("limit of one to 96", "limit of two to 96", "limit of three to 96")] == [
        True
    ] * 3


def test_a_link_with_too_few_registers_names_caller_callee_and_limit() -> None:
    words = "entry function '_Z1kPfPKf' with max regcount of 32 calls function '_Z1fPKfi' with regcount of 179"
    (found,) = seen(f"nvlink error   : {words}\nnvlink info    : 0 bytes gmem\n")
    assert found.code == "build-failed"
    assert found.message == (
        "a step failed: k may use 32 registers, and f, which it calls, uses 179;"
        " raise the limit of k to 179 (-maxrregcount, __maxnreg__, launch bounds), or limit f"
    )
