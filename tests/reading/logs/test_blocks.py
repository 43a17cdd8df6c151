"""Whole blocks of lines or line by line, in texts that end anywhere: what is read of a log is the same."""

from __future__ import annotations

import io
import random

import pytest

from spillscan.model import Reading
from spillscan.reading.inputs import source
from spillscan.reading.inputs.source import Stream
from spillscan.reading.logs import log, parsing
from spillscan.reading.logs.blocks import Blocks
from tests.conftest import FIXTURES, read_text

LOGS = ["ptxas/calls-13.0.log", "ptxas/memory-13.0.log", "build/make-j12-13.0.log", "build/ninja-j12-13.0.log"]


def read(text: bytes) -> Reading:
    return log.read(Stream(io.BytesIO(text), "build.log"), "build.log")


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
def test_many_small_texts_are_read_as_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = damaged(random.Random(seed))
    whole = read(text)
    monkeypatch.setattr(source, "BLOCK_BYTES", 3000)
    assert read(text) == whole


@pytest.mark.parametrize("file", LOGS)
def test_blocks_are_read_as_their_lines_are(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = read_text(FIXTURES / file).encode()
    whole = read(text)
    monkeypatch.setattr(Blocks, "kernels", lambda *_: None)
    monkeypatch.setattr(Blocks, "written", lambda _, __, position: (position, (), ""))
    assert read(text) == whole


def test_the_parser_alone_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The expressions of regular lines and clauses say what the grammar's parser says, in all fixtures."""
    paths = [path for folder in ("ptxas", "nvlink", "demo") for path in sorted((FIXTURES / folder).rglob("*.log"))]
    texts = [read_text(path).encode() for path in paths]
    before = [read(text) for text in texts]
    monkeypatch.setattr(Blocks, "kernels", lambda *_: None)
    monkeypatch.setattr(Blocks, "written", lambda _, __, position: (position, (), ""))
    monkeypatch.setattr(parsing, "_regular", lambda _: [])
    for memo in (parsing._read, parsing.ptxas_message, parsing._clause):
        memo.cache_clear()
    for path, text, regular in zip(paths, texts, before, strict=True):
        assert read(text) == regular, path
