"""Another process looks through a large log: what is read of it is what one process reads, whatever the log holds."""

from __future__ import annotations

import io
import os
import random
import signal
from pathlib import Path

import pytest

from spillscan.model import Reading
from spillscan.output.errors import SpillscanError
from spillscan.reading import workers
from spillscan.reading.inputs import source
from spillscan.reading.inputs.source import Source
from spillscan.reading.logs import blocks, log
from tests.conftest import FIXTURES, read_text

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked on Unix only")

LOGS = ["ptxas/calls-13.0.log", "ptxas/memory-13.0.log", "build/make-j12-13.0.log", "build/ninja-j12-13.0.log"]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many texts in a small log."""
    monkeypatch.setattr(source, "BLOCK_BYTES", 3000)
    monkeypatch.setattr(blocks, "LEAST_BYTES", 1)


def read(path: Path, monkeypatch: pytest.MonkeyPatch, processors: int) -> Reading:
    monkeypatch.setattr(workers, "processors", lambda: processors)
    with Source(str(path)).open() as stream:
        return log.read(stream, path.name)


def damaged(chance: random.Random) -> bytes:
    """Lines of several logs, some of them lost, doubled, torn or in another's place."""
    lines = [
        line for file in chance.choices(LOGS, k=3) for line in read_text(FIXTURES / file).splitlines(keepends=True)
    ]
    for _ in range(chance.randrange(8)):
        at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        match chance.randrange(4):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, lines[other])
            case 2:
                lines[at] = lines[at][: chance.randrange(len(lines[at]))]
            case _:
                lines[at], lines[other] = lines[other], lines[at]
    return "".join(lines).encode()


@pytest.mark.parametrize("seed", range(24))
def test_two_processes_read_what_one_reads(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "build.log"
    path.write_bytes(damaged(random.Random(seed)))
    alone = read(path, monkeypatch, 1)
    found: list[int] = []
    monkeypatch.setattr(log._Log, "take", counting(found))
    assert read(path, monkeypatch, 2) == alone
    assert sum(found) > 5


def counting(found: list[int]):  # type: ignore[no-untyped-def]
    take = log._Log.take

    def counted(self: log._Log, text: bytes, ahead: blocks.Found) -> None:
        found.append(len(ahead))
        take(self, text, ahead)

    return counted


def test_a_log_that_is_written_to_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process saw another text: what it found is left alone."""
    path = tmp_path / "build.log"
    text = read_text(FIXTURES / "ptxas" / "calls-13.0.log").encode() * 3
    path.write_bytes(text)
    before = text.replace(b"_", b"x")
    sent = blocks._sent
    monkeypatch.setattr(blocks, "_sent", lambda _: sent(source.Stream(io.BytesIO(before), "build.log")))
    found: list[int] = []
    monkeypatch.setattr(log._Log, "take", counting(found))
    changed = read(path, monkeypatch, 2)
    assert len(found) > 4
    assert not any(found)
    assert changed == read(path, monkeypatch, 1)


def test_a_process_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "build.log"
    path.write_text(read_text(FIXTURES / LOGS[0]) * 3)
    parent = os.getpid()
    found = blocks.Blocks.next

    def dying(self: blocks.Blocks, text: bytes, position: int) -> blocks.Block | None:
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return found(self, text, position)

    monkeypatch.setattr(blocks.Blocks, "next", dying)
    with pytest.raises(SpillscanError, match=r"build\.log was not read: a process .* was killed by signal 9"):
        read(path, monkeypatch, 2)


def test_where_the_system_gives_no_other_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "build.log"
    path.write_text(read_text(FIXTURES / LOGS[0]))
    alone = read(path, monkeypatch, 1)

    def refuse() -> int:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    assert read(path, monkeypatch, 2) == alone
