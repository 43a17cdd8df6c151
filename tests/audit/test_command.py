"""`spillscan audit`: labels, exit codes, what it prints."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyte
import pytest

from spillscan.audit.gauge import Gauge
from spillscan.audit.messages import FileOutcome, Item
from spillscan.audit.summary import Summary
from spillscan.cli import main
from tests.conftest import FIXTURES
from tests.test_progress import Clock

DEMO = FIXTURES / "demo"


def audit(*arguments: object) -> int:
    return main(["audit", "--processes", "1", *map(str, arguments)])


def test_build_after_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    assert audit(DEMO / "base.log", "--into", data, "--label", "v1", "--meta", "branch=main") == 0
    assert capsys.readouterr().out == "1 file read: 10 kernels, 0.0 MB\n"
    assert audit(DEMO / "head.log", "--into", data, "--label", "v2") == 2
    assert f"{data} holds v1; add v2 to it with --append" in capsys.readouterr().err
    assert audit(DEMO / "head.log", "--into", data, "--label", "v2", "--append") == 0
    assert "12 kernels (2 spill)" in capsys.readouterr().out
    assert audit(DEMO / "base.log", "--into", data, "--label", "v1") == 0, "the same build needs no --append"
    assert capsys.readouterr().out == "0 files read: 0 kernels, 0.0 MB\n1 file finished before\n"
    commits = [json.loads(path.read_text()) for path in data.rglob("*.json")]
    assert [each["meta"] for each in commits if each["label"] == "v1"] == [{"branch": "main"}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--label", "v1"], "no INPUT for the label v1"),
        (["x", "--label", "v1", "--label", "v2"], "2 labels for the same inputs; say --label LABEL=INPUT for each"),
        (["x", "--label", "v1", "--meta", "oops"], "--meta oops is no pair; write --meta KEY=VALUE"),
        (["x", "--label", ""], "'' is no label"),
        (["/no/where", "--label", "v1"], "there is no /no/where"),
    ],
)
def test_calls_that_are_wrong(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit(*arguments, "--into", tmp_path / "data") == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_nothing_understood_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("nothing\n")
    assert audit(tmp_path / "notes.txt", "--into", tmp_path / "data", "--label", "v1") == 2
    said = capsys.readouterr()
    assert said.out == "0 files read: 0 kernels, 0.0 MB\n1 file skipped: 1 no build output\n"
    assert said.err.startswith("spillscan: nothing in 1 file was understood; ")


def test_strict_fails_where_a_file_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "build.log").write_bytes((DEMO / "base.log").read_bytes())
    (tree / "cut\x1b[2J.o").write_bytes(b"\x7fELF" + bytes(60))
    options = (tree, "--into", tmp_path / "data", "--label", "v1")
    assert audit(*options) == 0
    assert "\x1b" not in capsys.readouterr().out, "a file's name does not act in a terminal"
    assert audit(*options, "--strict") == 2, "also where it failed before"
    assert "1 file could not be read (--strict)" in capsys.readouterr().err
    assert audit(*options, "--retry-failed", "--exclude", "cut*", "--strict") == 0
    assert "1 excluded" in capsys.readouterr().out


def test_the_summary_folds_what_failed() -> None:
    summary = Summary()
    for number in range(30):
        summary.count(FileOutcome(label="v1", uri=f"{number:02}.o", state="failed", reason="damaged"))
    assert summary.text(2).splitlines() == [
        "0 files read: 0 kernels, 0.0 MB",
        "30 files failed:",
        "  00.o: damaged",
        "  01.o: damaged",
        "  … 28 more (--all shows them)",
    ]


def outcomes(count: int, size_bytes: int) -> tuple[list[Item], list[FileOutcome]]:
    items = [Item(uri=f"{number}", path="/", size_bytes=size_bytes) for number in range(count)]
    return items, [FileOutcome(label="v1", uri=item.uri, state="read", size_bytes=size_bytes) for item in items]


def test_the_gauge_shows_files_bytes_rate_and_time_left_on_one_line() -> None:
    terminal = io.StringIO()
    items, told = outcomes(200, 1_000_000)
    gauge = Gauge(terminal, Clock(1.0))
    gauge.expect(items)
    for outcome in told[:50]:
        gauge.count(outcome)
    screen = pyte.Screen(200, 3)
    stream = pyte.Stream(screen)
    stream.feed(terminal.getvalue())
    (line,) = [line.rstrip() for line in screen.display if line.strip()]
    assert line == "██········  25%  50 of 200 files, 50.0 MB of 200.0 MB, 1.0 MB/s, 2:30 left"
    before = len(terminal.getvalue())
    gauge.erase()
    stream.feed(terminal.getvalue()[before:])
    assert not any(line.strip() for line in screen.display)


def test_the_gauge_shows_all_of_a_batch_that_comes_at_once_and_counts_on_while_nothing_does() -> None:
    terminal = io.StringIO()
    clock = Clock(0.0)
    items, told = outcomes(200, 1_000_000)
    gauge = Gauge(terminal, clock)
    gauge.expect(items)
    gauge.draw()
    assert terminal.getvalue() == "", "it takes no longer than a moment"
    clock.now += 10
    for outcome in told[:50]:
        gauge.count(outcome)
    clock.now += 10
    gauge.draw()
    assert "50 of 200 files, 50.0 MB of 200.0 MB, 2.5 MB/s, 1:00 left" in terminal.getvalue().rpartition("\r")[2]
    for _ in range(100):
        clock.now += 1
        gauge.draw()
    assert "50 of 200 files, 50.0 MB of 200.0 MB, 445.5 kB/s, 5:37 left" in terminal.getvalue().rpartition("\r")[2]


def test_the_gauge_is_silent_about_short_work() -> None:
    terminal = io.StringIO()
    items, told = outcomes(20, 10)
    gauge = Gauge(terminal, Clock(0.0))
    gauge.expect(items)
    for outcome in told:
        gauge.count(outcome)
    gauge.erase()
    assert terminal.getvalue() == ""
