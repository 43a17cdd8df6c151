"""Programs timed at each value of a sweep. Nothing here depends on how long anything takes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillscan.advice.sweep.model import Timing
from spillscan.advice.sweep.timing import INTERRUPTED, order, time_runs, words_of
from spillscan.output.errors import UsageError
from tests.conftest import ROOT

PYTHON = f"'{sys.executable}' -c"
MS = r"time_ms: ([\d.]+)"


def test_a_template_is_split_before_values_are_put_in() -> None:
    assert words_of("./gemm-{cap} '{cap} x' {other} {}", "3; rm *") == (
        "./gemm-3; rm *", "3; rm * x", "{other}", "{}"
    )  # fmt: skip


@given(value=st.text(), text=st.sampled_from(["{cap}", "x{cap}y", "a {cap} b", "'{cap}'"]))
def test_a_value_never_becomes_a_second_word(value: str, text: str) -> None:
    assert len(words_of(text, value)) == len(words_of(text, "1"))


@pytest.mark.parametrize("template", ["", "  ", "'open", "./gemm"])
def test_templates_that_make_no_sense_are_refused(template: str) -> None:
    with pytest.raises(UsageError):
        time_runs(template, [32], 1, 0, 5)


@pytest.mark.parametrize(("runs", "warmups", "timeout"), [(0, 0, 1.0), (1, -1, 1.0), (1, 0, 0.0), (1, 0, float("nan"))])
def test_calls_that_make_no_sense_are_refused(runs: int, warmups: int, timeout: float) -> None:
    with pytest.raises(UsageError):
        time_runs("true {cap}", [1], runs, warmups, timeout)


def test_a_measure_that_is_no_expression_is_refused() -> None:
    with pytest.raises(UsageError, match="not a regular expression"):
        time_runs("true {cap}", [1], 1, 0, 5, measure="(")


@given(count=st.integers(0, 12), rounds=st.integers(0, 6))
def test_every_round_runs_all_once(count: int, rounds: int) -> None:
    plan = list(order(count, rounds))
    assert sorted(plan) == [(turn, index) for turn in range(rounds) for index in range(count)]
    assert [turn for turn, _ in plan] == sorted(turn for turn, _ in plan)


def test_runs_are_interleaved_and_warm_ups_do_not_count(tmp_path: Path) -> None:
    log = tmp_path / "log"
    seen: list[object] = []
    found = time_runs(
        f"sh -c 'echo {{cap}} >> {log}; echo time_ms: $(wc -l < {log})'",
        [32, 64],
        2,
        1,
        60,
        measure=MS,
        watch=seen.append,
    )
    assert log.read_text().split() == ["32", "64", "64", "32", "32", "64"] == [str(value) for value in seen]
    assert [timing.figures for timing in found] == [(4.0, 5.0), (3.0, 6.0)]
    assert [(timing.least, timing.median, timing.spread) for timing in found] == [(4, 4.5, 1 / 4.5), (3, 4.5, 3 / 4.5)]


def test_wall_time_is_taken_where_nothing_is_measured() -> None:
    (timing,) = time_runs("true {cap}", [1], 3, 0, 60)
    assert len(timing.figures) == 3
    assert all(figure > 0 for figure in timing.figures)


def test_what_is_measured_is_a_number() -> None:
    (timing,) = time_runs("echo sm_90 {cap}", [7], 1, 0, 60, measure=r"sm_90 \d")
    assert timing.command == ("echo", "sm_90", "7")
    assert timing.failure == "prints 'sm_90 7' where a number should be"


@pytest.mark.parametrize(
    ("script", "failure"),
    [
        ("exit 3", "exit status 3"),
        ("echo said; echo why >&2; exit 1", "exit status 1: why"),
        ("kill -9 $$", "ended by signal 9"),
        ("echo nothing", f"prints nothing that fits {MS}"),
        ('printf "\\033[31mred\\n"; exit 1', "exit status 1: \N{REPLACEMENT CHARACTER}[31mred"),
    ],
)
def test_a_failure_is_a_row_and_ends_the_runs_of_its_value(tmp_path: Path, script: str, failure: str) -> None:
    log = tmp_path / "log"
    command = f"sh -c 'echo {{cap}} >> {log}; if [ {{cap}} = 2 ]; then {script}; fi; echo time_ms: 1'"
    if "nothing" in script:
        command = f"sh -c 'echo {{cap}} >> {log}; if [ {{cap}} = 1 ]; then echo time_ms: 1; fi'"
    fine, failed = time_runs(command, [1, 2], 3, 0, 60, measure=MS)
    assert (fine.figures, fine.failure) == ((1.0, 1.0, 1.0), "")
    assert (failed.figures, failed.failure) == ((), failure)
    assert (failed.least, failed.median, failed.spread) == (None, None, None)
    assert log.read_text().split().count("2") == 1


def test_a_program_that_is_not_there_is_a_failure() -> None:
    (timing,) = time_runs("./no-such-program-{cap}", [1], 2, 0, 60)
    assert timing.failure.startswith("cannot run ./no-such-program-1: ")


def test_a_program_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    child = tmp_path / "child"
    (timing,) = time_runs(f"sh -c 'sleep 1000 & echo $! > {child}.{{cap}}; wait'", [1], 2, 0, 0.5)
    assert timing.failure == "took longer than 0.5 s"
    wait_until_gone(int((tmp_path / "child.1").read_text()))


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    child = tmp_path / "child"
    script = (
        "from spillscan.advice.sweep.timing import time_runs\n"
        f"template = \"sh -c 'if [ {{cap}} = 2 ]; then sleep 1000 & echo $! > {child}.new; mv {child}.new {child};"
        " wait; fi; echo time_ms: 4'\"\n"
        f"for timing in time_runs(template, [1, 2, 3], 1, 0, 900, measure={MS!r}):\n"
        "    print(timing.value, timing.figures, timing.failure)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    )
    while not child.exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    assert out.splitlines() == ["1 (4.0,) ", f"2 () {INTERRUPTED}", f"3 () {INTERRUPTED}"]
    wait_until_gone(int(child.read_text()))


def wait_until_gone(pid: int) -> None:
    """Return once no process ``pid`` runs; whoever waits forever here has found the mistake."""
    while Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z":
        time.sleep(0.01)


INTERRUPTED_START = """
import signal, subprocess, sys, time
from spillscan.advice.sweep import timing

class Interrupted(subprocess.Popen):
    def __init__(self, *words, **more):
        super().__init__(*words, **more)
        if "stuck" in sys.argv:  # as an interrupt leaves it that comes while subprocess looks whether it has ended
            self._waitpid_lock.acquire()
        signal.raise_signal(signal.SIGINT)
        print(self.pid)

subprocess.Popen, timing._END_SECONDS = Interrupted, 0.2
print(timing.time_runs("sleep 1000{cap}", (1,), 1, 0, 900)[0].failure)
"""


@pytest.mark.parametrize("words", [(), ("stuck",)])
def test_ctrl_c_while_the_program_starts_ends_it(words: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", INTERRUPTED_START, *words]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=120
    )
    pid, failure = done.stdout.splitlines()
    assert failure == INTERRUPTED
    wait_until_gone(int(pid))


def test_figures_of_no_runs() -> None:
    assert Timing(value=1, command=("x",)).median is None
    assert Timing(value=1, command=("x",), figures=(0.0, 0.0)).spread is None
