"""Progress: on a terminal, when it takes long, and gone afterwards."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pyte
import pytest

from spillscan.inputs.source import Source
from spillscan.output.progress import Progress
from spillscan.pipeline import scan
from tests.conftest import FIXTURES, ROOT

LARGE = FIXTURES / "large" / "kernels5000-13.0.log.zst"


class Clock:
    """A clock that a test moves."""

    def __init__(self, step_seconds: float) -> None:
        self.step_seconds = step_seconds
        self.now = 0.0

    def __call__(self) -> float:
        self.now += self.step_seconds
        return self.now


def test_nothing_is_shown_of_short_work() -> None:
    terminal = io.StringIO()
    progress = Progress(terminal, Clock(0.0))
    scan([str(LARGE)], progress)
    progress.erase()
    assert terminal.getvalue() == ""


def test_long_work_is_shown_and_erased() -> None:
    terminal = io.StringIO()
    progress = Progress(terminal, Clock(0.5))
    scan([str(LARGE), str(FIXTURES / "demo" / "head.log")], progress)
    shown = terminal.getvalue()
    assert "reading: " in shown
    assert " %, " in shown
    screen = pyte.Screen(200, 5)
    stream = pyte.Stream(screen)
    stream.feed(shown)
    assert sum(bool(line.strip()) for line in screen.display) == 1, "one line, written over"
    progress.erase()
    stream.feed(terminal.getvalue()[len(shown) :])
    assert not any(line.strip() for line in screen.display)


def test_bytes_add_up_over_inputs(tmp_path: Path) -> None:
    first, second = Source(str(tmp_path / "a")), Source(str(tmp_path / "b"))
    for each in (first, second):
        Path(each.uri).write_bytes(b"x" * 1_000_000)
    terminal = io.StringIO()
    progress = Progress(terminal, Clock(9.0))
    progress.expect([first, second])
    progress.read(first, 1_000_000)
    progress.read(second, 500_000)
    assert "reading: 50 %, 1 MB" in terminal.getvalue()
    assert "reading: 75 %, 2 MB" in terminal.getvalue()


def test_a_hostile_path_stays_text(tmp_path: Path) -> None:
    terminal = io.StringIO()
    Progress(terminal, Clock(9.0)).read(Source("a\x1b[2Jb\n"), 1)
    assert terminal.getvalue().count("\x1b") == 1, "the erasing of the line alone"
    assert "\n" not in terminal.getvalue()


def test_no_progress_where_nobody_watches() -> None:
    command = [sys.executable, "-m", "spillscan", "scan", str(LARGE), "--top", "1"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    assert b"reading" not in result.stderr


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_a_terminal_is_left_clean(term: str) -> None:
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "spillscan", "scan", str(LARGE), "--top", "1"]
    subprocess.run(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=slave, env=os.environ | {"TERM": term}, check=True
    )
    os.close(slave)
    screen = pyte.Screen(200, 24)
    stream = pyte.ByteStream(screen)
    try:
        while data := os.read(master, 4096):
            stream.feed(data)
    except OSError:
        pass  # Linux says so where the other side is closed
    finally:
        os.close(master)
    assert not any("reading" in line for line in screen.display)
