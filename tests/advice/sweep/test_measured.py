"""Times of the user's program beside the static curve. No figure here depends on how long anything takes."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from spillscan.advice.sweep import kept, timing
from spillscan.advice.sweep.axes import settings_of
from spillscan.advice.sweep.model import AS_IS, Curve, Knob, Setting, Timing
from spillscan.advice.sweep.timing import INTERRUPTED
from spillscan.cli import main
from spillscan.commands import sweep
from spillscan.reports import sweep as report
from tests.advice.sweep.conftest import run
from tests.advice.sweep.support import point, program, toolkit
from tests.conftest import ROOT

CAPS = (128, 96, 64, 32)
PTXAS = """
asked = [word for word in sys.argv if word.startswith("-maxrregcount=")]
sys.stderr.write("ptxas info    : Compiling entry function 'k' for 'sm_90'\\n")
sys.stderr.write("ptxas info    : Function properties for k\\n")
sys.stderr.write("    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\\n")
sys.stderr.write("ptxas info    : Used %s registers\\n" % (asked[0].split("=")[1] if asked else 200))
pathlib.Path(sys.argv[sys.argv.index("-o") + 1]).write_bytes(b"no cubin")
"""
KERNEL = ".version 8.0\n.target sm_90\n.address_size 64\n.entry k() { ret; }\n"
PROGRAM = """
cap = int(sys.argv[1])
if cap == 32:
    sys.exit("\\x1b[31mtoo many resources</script>")
if cap == 96 and os.path.exists("hang"):
    pathlib.Path("hangs").touch()
    time.sleep(1000)
print("time_ms:", {128: 3.0, 96: 2.5, 64: 40}[cap])
"""


def measured(cap: int, *figures: float, unit: str = "s", failure: str = "") -> Timing:
    return Timing(
        value=Setting(kind="cap", registers=cap), command=("x", str(cap)), figures=figures, unit=unit, failure=failure
    )


def curve(*timings: Timing) -> Curve:
    """As it is and at four caps, with these times."""
    points = (replace(point(200, 8), setting=AS_IS), *(point(cap, 16) for cap in CAPS))
    plain = Curve(input="k.ptx", symbol="k", arch="sm_90", toolkit="13.0.88", points=points, facts="facts")
    return timing.with_times([plain], timings)[0]


def test_each_cap_has_its_own_time_and_the_kernel_as_it_is_none() -> None:
    found = curve(measured(32, 1.0), measured(96, 0.5))
    assert [each.timing and each.timing.figures for each in found.points] == [None, None, (0.5,), None, (1.0,)]
    assert (found.facts, found.measured) == ("facts", "fastest measured: cap 96, 500 ms")


def test_without_times_nothing_changes() -> None:
    assert curve().measured == ""
    assert all(each.timing is None for each in curve().points)


@pytest.mark.parametrize(
    ("timings", "said"),
    [
        ((measured(128, 3.0, 3.1, unit=""), measured(64, 9.0, unit="")), "fastest measured: cap 128, 3.05"),
        (
            (measured(128, 3.0, 3.4), measured(96, 3.3, 3.5), measured(64, 3.41)),
            "fastest measured: cap 128, 3.2 s (not to be distinguished from cap 96)",
        ),
        ((measured(128, 1.0, failure="exit status 1"), measured(64, 2.0)), "fastest measured: cap 64, 2 s"),
        (
            (measured(128, 1.0, failure=INTERRUPTED), measured(64, failure=INTERRUPTED)),
            "fastest measured: cap 128, 1 s",
        ),
        ((measured(128, failure="exit status 1"), measured(64, failure="exit status 1")), ""),
    ],
)
def test_the_fastest(timings: tuple[Timing, ...], said: str) -> None:
    assert curve(*timings).measured == said


def test_a_cap_that_bounds_override_is_no_winner() -> None:
    points = [replace(each, overridden="__launch_bounds__(64)") for each in curve(measured(64, 1.0)).points]
    assert timing.winner(points) is None
    assert timing.fastest(points) == ""


IT = "cap 80, the first without spills"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        # (cap, bytes of spills, times)
        ([(64, 24, 3.0, 3.1), (80, 0, 3.05, 3.2)], [
            f"cap 64: spills 24 B, but is as fast as {IT} (3.05 against 3.125)",
        ]),
        ([(64, 24, 3.0, 3.04), (80, 0, 3.05, 3.2)], [
            f"cap 64: spills 24 B, but is faster than {IT} (3.02 against 3.125)",
            f"{IT}, takes 3.125, 1.035 times as long as cap 64 (3.02)",
        ]),
        ([(64, 24, 3.3, 3.4), (80, 0, 3.05, 3.2)], [f"the point that spills takes 1.072 times as long as {IT}"]),
        ([(32, 200, 9, 9), (40, 100, 6, 6), (64, 24, 3, 3), (80, 0, 3, 3)], [
            f"cap 64: spills 24 B, but is as fast as {IT} (3 against 3)",
            f"the other 2 points that spill take 2 to 3 times as long as {IT}",
        ]),
        ([(32, 200, 9, 9), (80, 0, 3, 3), (96, 0, 2, 2), (128, 0, 2.5, 2.5)], [
            f"the point that spills takes 3 times as long as {IT}",
            f"{IT}, takes 3, 1.5 times as long as cap 96 (2)",
        ]),
        ([(32, 200, 9, 9), (80, 0, 3, 3), (96, 0, 2, 3)], [f"the point that spills takes 3 times as long as {IT}"]),
        ([(80, 0, 3, 3), (96, 0, 2, 2)], []),
        ([(32, 200, 9, 9), (40, 100, 6, 6)], []),
        ([(32, 200, 9, 9), (80, 0)], []),
        ([(32, 200, 0, 0), (80, 0, 3, 3)], []),
        ([], []),
    ],
)  # fmt: skip
def test_whether_fewer_spills_were_faster(rows: list[tuple[int, ...]], said: list[str]) -> None:
    points = [
        replace(point(cap, 8, spills=spills), timing=measured(cap, *times, unit="") if times else None)
        for cap, spills, *times in rows
    ]
    assert list(timing.against_spills(points)) == said


def test_points_of_other_axes_are_held_against_their_own_kind() -> None:
    """Of two tiles each has its first point without spills."""
    rows = [("16", 64, 8, 3), ("16", 80, 0, 3), ("32", 64, 80, 9), ("32", 80, 0, 6)]
    points = []
    for tile, cap, spills, took in rows:
        setting = Setting(kind="cap", registers=cap, knobs=(Knob(tool="nvcc", word="-DTILE", value=tile),))
        timed = Timing(value=setting, command=("x",), figures=(took,))
        points.append(replace(point(cap, 8, spills=spills), setting=setting, timing=timed))
    assert list(timing.against_spills(points)) == [
        "cap 64 TILE=16: spills 8 B, but is as fast as cap 80 TILE=16, the first without spills (3 against 3)",
        "the point that spills takes 1.5 times as long as cap 80 TILE=32, the first without spills",
    ]
    assert len(list(timing.against_spills([points[1], points[2]]))) == 1, "one of each: over all"


@given(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=4))
def test_no_other_point_has_a_smaller_median(figures: list[float]) -> None:
    found = curve(*(measured(cap, figure) for cap, figure in zip(CAPS, figures, strict=False)))
    winner = timing.winner(found.points)
    assert winner is not None
    assert winner.timing is not None
    assert winner.timing.median == min(figures)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.00304, "3.04 ms"), (0.9999, "1,000 ms"), (2.5e-5, "25 us"), (1e-9, "0.001 us"), (158.5, "158 s"), (0, "0 us")],
)
def test_seconds_are_written_with_their_unit(seconds: float, text: str) -> None:
    assert timing.figure(measured(1, seconds)) == text


# ---- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def words(tmp_path: Path) -> tuple[str | Path, ...]:
    """Words of a sweep by a stand-in for ptxas that times a real program."""
    (tmp_path / "k.ptx").write_text(KERNEL)
    toolkit(tmp_path / "kit", "99.1.2", ptxas=PTXAS)
    program(tmp_path / "a program", PROGRAM)
    command = ("--run", "'./a program' {cap}", "--measure", r"time_ms: ([\d.]+)", "--runs", "2", "--warmups", "0")
    return ("k.ptx", "--vary", "cap=32,64,96,128", "--vary", f"toolkit={tmp_path / 'kit'}", "--cache", "none", *command)


def test_measured_times_stand_beside_the_figures(tmp_path: Path, words: tuple[str | Path, ...]) -> None:
    done = run(
        *words,
        "-f",
        "text",
        "-f",
        "json:s.json",
        "-f",
        "html:s.html",
        folder=tmp_path,
        COLUMNS="120",
    )
    assert (done.returncode, done.stderr) == (0, "")
    rows = {found[1]: found[2].split() for found in re.finditer(r"^[ *]+(as is|cap \d+) +\d+ (.*)$", done.stdout, re.M)}
    assert [rows[label][-2:] for label in ("as is", "cap 128", "cap 96", "cap 64", "cap 32")] == [
        ["-", "-"], ["3", "0.0%"], ["2.5", "0.0%"], ["40", "0.0%"], ["failed", "-"]
    ]  # fmt: skip
    assert "  fastest measured: cap 96, 2.5\n" in done.stdout
    assert re.search(r"cap 32: run: exit status 1: .*too many resources", done.stdout)
    (curve,) = json.loads((tmp_path / "s.json").read_text())["curves"]
    by_cap = {each["registers_asked"]: each["time"] for each in curve["points"]}
    assert by_cap[None] is None
    assert by_cap[96] == {
        "command": ["./a program", "96"], "figures": [2.5, 2.5], "median": 2.5, "least": 2.5, "spread": 0.0,
        "unit": None, "failure": "",
    }  # fmt: skip
    assert [(cap, time and (time["median"], len(time["figures"]))) for cap, time in by_cap.items()] == [
        (None, None), (128, (3.0, 2)), (96, (2.5, 2)), (64, (40.0, 2)), (32, (None, 0))
    ]  # fmt: skip
    assert curve["measured"] == "fastest measured: cap 96, 2.5"
    page = (tmp_path / "s.html").read_text()
    payload = json.loads(re.search(r'id="payload">(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    (swept,) = payload["swept"]
    assert [(each["label"], each["time"], each["fastest"]) for each in swept["points"]] == [
        ("as is", None, False), ("cap 128", 3.0, False), ("cap 96", 2.5, True), ("cap 64", 40.0, False),
        ("cap 32", None, False),
    ]  # fmt: skip
    for text in (done.stdout, page, (tmp_path / "s.json").read_text()):
        assert "\x1b" not in text
    assert "resources</script>" not in page


def test_where_no_run_goes_well_the_figures_stand_and_the_status_is_2(
    tmp_path: Path, words: tuple[str | Path, ...]
) -> None:
    done = run(*words, "--vary", "cap=none", "--run", "./none-{cap}", folder=tmp_path)
    assert (done.returncode, done.stderr) == (2, "spillscan: no run went well; the points say why\n")
    assert "run: cannot run ./none-" in done.stdout


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path, words: tuple[str | Path, ...]) -> None:
    (tmp_path / "hang").touch()
    command = [sys.executable, "-m", "spillscan", "sweep", *map(str, words), "-f", "json"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "hangs").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert said == "spillscan: interrupted: the times are those of the runs until then\n"
    by_cap = {each["registers_asked"]: each["time"] for each in json.loads(out)["curves"][0]["points"]}
    assert (by_cap[128]["figures"], by_cap[128]["failure"]) == ([3.0], INTERRUPTED)
    assert (by_cap[64]["figures"], by_cap[64]["failure"]) == ([], INTERRUPTED)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--run", "./same"), "the same for every value"),
        (("--run", "'./{cap}"), "close its quotes"),
        (("--run", "./x {cap}", "--vary", "pragma.a=1,2", "--vary", "cap=9"), "is the same at cap 9 a=1 and cap 9 a=2"),
        (("--run", "./x {b}", "--vary", "pragma.a=1,2"), "the same for every value"),
        (("--run", "./x {cap}", "--vary", "cap=none"), "--run has no cap"),
        (("--run", "./x {cap}", "--measure", "("), "not a regular expression"),
        (("--runs", "3"), "--runs goes with --run"),
        (("-f", "html:nowhere/s.html"), "there is no folder nowhere"),
        (("-f", "yaml"), "there is no format 'yaml'"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_compiled(
    tmp_path: Path,
    more: tuple[str, ...],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "k.ptx").write_text(KERNEL)
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", "k.ptx", "--vary", "toolkit=/nowhere", *more]) == 2
    out, said = capsys.readouterr()
    assert (out, said.count("\n")) == ("", 1)
    assert says in said


AXES = ("-D", "TILE=16,32", "--vary", "ptxas.opt-level=1,3")


@pytest.mark.parametrize(
    ("template", "options", "run"),
    [
        ("x {cap}", ("--vary", "cap=64,32"), ["x 64", "x 32"]),
        ("x {point}", ("--vary", "cap=64"), ["x as-is", "x cap-64"]),
        ("x {point}", ("--vary", "cap=none", "--vary", "bounds=256x4,x2", "--vary", "maxnreg=40"),
         ["x as-is", "x x2", "x 256x4", "x maxnreg-40"]),
        ("x {cap}", ("--vary", "cap=64", "--vary", "bounds=256x4"), ["x 64"]),
        ("x-{TILE}", ("-D", "TILE=16,32"), ["x-16", "x-32"]),
        ("x-{TILE}", ("-D", "TILE=16,32", "--vary", "cap=64"), ["x-16", "x-32"]),
        ("x-{TILE}-{cap}", ("-D", "TILE=16,32", "--vary", "cap=64,32"), ["x-16-64", "x-32-64", "x-16-32", "x-32-32"]),
        ("x-{opt-level}{TILE}", AXES, ["x-116", "x-316", "x-132", "x-332"]),
        ("x {point}", AXES,
         ["x as-is", *(f"x TILE={tile}-opt-level={level}" for tile in (16, 32) for level in (1, 3))]),
        ("x {point}", ("--vary", "pragma.enable_smem_spilling"), ["x as-is", "x enable_smem_spilling"]),
        ("x {point} {cap}", ("--vary", "cap=64", "-D", "N=1"), ["x cap-64-N=1 64"]),
        ("x {cap}{N} {M}", ("--vary", "cap=64", "-D", "N=1,2"), ["x 641 {M}", "x 642 {M}"]),
    ],
)  # fmt: skip
def test_where_a_command_is_run(template: str, options: tuple[str, ...], run: list[str]) -> None:
    """At each point that has a value for all of its placeholders."""
    parser = argparse.ArgumentParser()
    sweep.add_arguments(parser)
    given = parser.parse_args(["k.cu", *options])
    varied, axes = sweep.varied(given.vary, given.macros)
    caps = [text for text in varied["cap"] if text != "none"] if varied["cap"] else None
    able = timing.to_run(template, settings_of(caps, varied["bounds"], varied["maxnreg"], axes))
    assert [" ".join(timing.words_of(template, each)) for each in able] == run


def test_advice_shows_what_a_sweep_measured(
    tmp_path: Path, words: tuple[str | Path, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """The points with their times last, and the sentences of the sweep; without times not a word of what is faster."""
    done = run(*words, "-f", "json:s.json", folder=tmp_path)
    assert done.returncode == 0
    (tmp_path / "build.log").write_text(
        "ptxas info    : Compiling entry function 'k' for 'sm_90'\n"
        "ptxas info    : Function properties for k\n"
        "    16 bytes stack frame, 16 bytes spill stores, 16 bytes spill loads\n"
        "ptxas info    : Used 64 registers\n"
    )
    (written,) = json.loads((tmp_path / "s.json").read_text())["curves"]
    for each in written["points"]:  # the stand-in spills nothing
        if (each["registers_asked"] or 0) in (96, 64):
            each["spill_store_bytes"] = 24
    (tmp_path / "s.json").write_text(json.dumps({"curves": [written]}))
    (curve,) = kept.curves_in(str(tmp_path / "s.json"))
    assert json.loads(json.dumps(report.curve_data(curve)["points"])) == written["points"]
    ask = ("advise", str(tmp_path / "build.log"), "--measured", str(tmp_path / "s.json"))
    assert main([*ask]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "sweep cap 128: 128 registers, no spills, 3 cap 96: 96 registers, spills 24 B, 2.5 cap 64:" in said
    assert "run: exit status 1" in said
    assert "cap 96: spills 24 B, but is faster than cap 128, the first without spills (2.5 against 3)" in said
    assert main([*ask, "-f", "json"]) == 0
    made = json.loads(capsys.readouterr().out)["first"][0]["sweep"]
    assert [each["time"]["median"] for each in made["points"]] == [3.0, 2.5, 40.0, None]
    assert [made["measured"], *made["spills_and_times"]] == [curve.measured, *curve.spills_and_times]
    assert main([*ask, "-f", "markdown"]) == 0
    assert "- sweep: `cap 96: spills 24 B, but is faster than" in capsys.readouterr().out
    for each in written["points"]:
        each["time"] = None
    (tmp_path / "s.json").write_text(json.dumps({"curves": [written]}))
    assert main([*ask]) == 0
    said = capsys.readouterr().out
    assert "registers end its spills (tried)" in said
    assert "fast" not in said


def test_points_of_axes_have_their_times(tmp_path: Path, words: tuple[str | Path, ...]) -> None:
    program(
        tmp_path / "a program", """print("time_ms:", {"as-is": 5, "opt-level=1": 7, "opt-level=3": 4}[sys.argv[1]])"""
    )
    options = ("--vary", "cap=none", "--vary", "ptxas.opt-level=1,3", "--run", "'./a program' {point}")
    done = run(words[0], *words[3:], *options, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    rows = re.findall(r"^[ *]+(as is|opt-level=\d) .* (\S+) +0.0%$", done.stdout, re.M)
    assert rows == [("as is", "5"), ("opt-level=1", "7"), ("opt-level=3", "4")]
    assert "fastest measured: opt-level=3, 4\n" in done.stdout
