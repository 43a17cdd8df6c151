"""Standard input as a pipe: as wide as the system lets it be, and the same text as a file."""

from __future__ import annotations

import io
import os
import sys
import threading

import pytest

from spillscan.reading.inputs.source import BLOCK_BYTES, Source

fcntl = pytest.importorskip("fcntl")


def _piped(data: bytes, monkeypatch: pytest.MonkeyPatch) -> tuple[bytes, int]:
    readable, writable = os.pipe()

    def write() -> None:
        with os.fdopen(writable, "wb") as stream:
            stream.write(data)

    writer = threading.Thread(target=write)
    writer.start()
    with os.fdopen(readable, "rb") as stdin:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stdin))
        with Source("-").open() as stream:
            capacity = fcntl.fcntl(readable, getattr(fcntl, "F_GETPIPE_SZ", 0)) if sys.platform == "linux" else 0
            read = b"".join(stream.chunks())
    writer.join()
    return read, capacity


@pytest.mark.parametrize("size", [0, 3, 1 << 16, 3 << 20])
def test_a_pipe_is_read_whole(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = (b"0123456789abcde\n" * (size // 16 + 1))[:size]
    assert _piped(data, monkeypatch)[0] == data


@pytest.mark.skipif(sys.platform != "linux", reason="pipes of other systems have one size")
def test_a_pipe_is_widened(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _piped(b"x", monkeypatch)[1] == BLOCK_BYTES


def test_other_streams_are_read_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"some text\n")))
    with Source("-").open() as stream:
        assert b"".join(stream.chunks()) == b"some text\n"
