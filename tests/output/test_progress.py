"""Progress: on a terminal, when it takes long, and gone afterwards."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pyte
import pytest

from spillscan import scan
from spillscan.commands import _inputs
from spillscan.commands.history import audit
from spillscan.history.audit.messages import FileOutcome, Item
from spillscan.output import terminal as output
from spillscan.output.terminal import Progress
from tests.conftest import FIXTURES, ROOT

LARGE = FIXTURES / "large" / "kernels5000-13.0.log.zst"


class Terminal(io.StringIO):
    """A terminal that keeps what is written on it."""

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        """Lines that it shows now."""
        screen = pyte.Screen(200, 5)
        pyte.Stream(screen).feed(self.getvalue())
        return [line.rstrip() for line in screen.display if line.strip()]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Somewhere to look, where progress is shown at once."""
    made = Terminal()
    monkeypatch.setattr(output, "sys", SimpleNamespace(stderr=made))
    monkeypatch.setattr(output, "watched", made.isatty)
    monkeypatch.setattr(output, "DELAY_SECONDS", 0.0)
    monkeypatch.setattr(output, "_PAUSE_SECONDS", 0.0)
    return made


def test_nothing_is_shown_of_short_work(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "DELAY_SECONDS", 60.0)
    _inputs.scan([str(LARGE)])
    assert terminal.getvalue() == ""


def test_long_work_is_shown_and_erased(terminal: Terminal) -> None:
    _inputs.scan([str(LARGE)])
    assert "reading:  " in terminal.getvalue()
    assert LARGE.name in terminal.getvalue()
    assert terminal.lines() == []


def test_bytes_add_up_over_inputs(terminal: Terminal, tmp_path: Path) -> None:
    first, second = (tmp_path / name for name in ("a.log", "b.log"))
    for path in (first, second):
        path.write_bytes((FIXTURES / "demo" / "base.log").read_bytes() * 500)
    shares: list[str] = []

    class Watched(Progress):
        def reach(self, done: int, at: str = "") -> None:
            super().reach(done, at)
            shares.append(terminal.lines()[0])

    with Watched("reading") as shown:
        scan([first, second], shown)
    assert any(" 50%" in share for share in shares)
    assert "100%" in shares[-1]


def test_it_is_one_line_with_share_rate_and_time_left(terminal: Terminal) -> None:
    shown = Progress("reading")
    shown.expect(4_000_000)
    time.sleep(0.01)
    shown.reach(1_000_000, "a\x1b[2J\nb.log")
    (line,) = terminal.lines()
    assert line.startswith("reading:  25%|")
    assert "1.00M/4.00M [" in line
    assert "B/s" in line
    assert line.endswith("a\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}b.log]")
    shown.close()
    assert terminal.lines() == []


def test_files_are_counted_next_to_bytes(terminal: Terminal) -> None:
    items = [Item(uri=f"{number}", path="/", size_bytes=1_000_000) for number in range(200)]
    shown = Progress("reading")
    watcher = audit._Files(shown)
    watcher.expect(items)
    for item in items[:50]:
        watcher.count(FileOutcome(label="v1", uri=item.uri, state="read", size_bytes=item.size_bytes))
    (line,) = terminal.lines()
    assert "25%" in line
    assert "50.0M/200M" in line
    assert "50 of 200 files" in line
    shown.close()


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_no_progress_and_no_tqdm_without_a_terminal(term: str) -> None:
    code = "import sys; from spillscan.cli import main; main(); sys.exit('tqdm' in sys.modules)"
    command = [sys.executable, "-c", code, "scan", str(LARGE), "--top", "1"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, env=os.environ | {"TERM": term})
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
        pass  # Linux reports this if the other side is closed
    finally:
        os.close(master)
    assert not any("reading" in line for line in screen.display)
