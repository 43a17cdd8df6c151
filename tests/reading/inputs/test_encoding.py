"""Text in any encoding, several in one file, and JSON lines of container runtimes: the same text comes out."""

from __future__ import annotations

import codecs
import io
import json
import random

import pytest

from spillscan.model import Kernel
from spillscan.reading.inputs import source
from spillscan.reading.inputs.source import Stream
from tests.conftest import FIXTURES, read_log, read_text

LOG = read_text(FIXTURES / "ptxas" / "spill-13.0.log")
ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be")


def text_of(data: bytes) -> bytes:
    return b"".join(Stream(io.BytesIO(data), "log").chunks())


def kernels(data: bytes) -> list[Kernel]:
    return read_log(data).kernels


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF16_LE])
def test_utf16_with_and_without_a_mark(mark: bytes) -> None:
    assert text_of(mark + LOG.encode("utf-16-le")) == LOG.encode()
    assert text_of(LOG.encode("utf-16-be")) == LOG.encode()
    assert text_of(codecs.BOM_UTF8 + LOG.encode()) == LOG.encode()


@pytest.mark.parametrize("block", [64, 999, 1 << 20])
@pytest.mark.parametrize("seed", range(20))
def test_encodings_that_change_inside_a_file(seed: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At line ends, as shells append; with a mark or without."""
    monkeypatch.setattr(source, "BLOCK_BYTES", block)
    rng = random.Random(seed)
    lines = LOG.splitlines(keepends=True)
    data = b""
    while lines:
        count = rng.randint(1, 40)
        encoding = rng.choice(("utf-8", "utf-16-le"))
        mark = codecs.BOM_UTF16_LE if encoding != "utf-8" and rng.random() < 0.5 else b""
        data += mark + "".join(lines[:count]).encode(encoding)
        del lines[:count]
    assert text_of(data) == LOG.encode()


def test_letters_beyond_ascii() -> None:
    text = "编译 gemm.cu 时出错：标识符未定义\n" * 3 + LOG + "«ошибка» in gemm.cu\n"
    for encoding in ENCODINGS:
        assert text_of(("log\n" + text).encode(encoding)) == ("log\n" + text).encode()


def test_bytes_that_are_no_text_stay() -> None:
    for data in (
        LOG.encode() + b"\0",
        LOG.encode() + bytes(5000) + LOG.encode(),
        b"\x7fELF" + "wide text".encode("utf-16-le") * 9,
        bytes(5000) + "wide text".encode("utf-16-le") * 900,
        b"",
    ):
        assert text_of(data) == data


def docker(text: str) -> bytes:
    lines = text.splitlines(keepends=True)
    records = [{"log": line, "stream": "stderr", "time": "2026-05-01T12:34:56.789012345Z"} for line in lines]
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def test_json_lines_of_container_runtimes() -> None:
    assert text_of(docker(LOG)) == LOG.encode()
    assert text_of("".join(json.dumps({"message": line}) + "\n" for line in LOG.splitlines()).encode()) == LOG.encode()
    assert kernels(docker(LOG)) == kernels(LOG.encode())


def test_json_lines_of_loggers() -> None:
    lines = "".join(json.dumps({"ts": "1", "level": "info", "msg": each}) + "\n" for each in LOG.splitlines())
    assert text_of(lines.encode()) == LOG.encode()
    for words in ({"msg": "[gpu] ", "level": "ptxas info    : Used 32 registers"}, {"at": " bytes ", "msg": "ptxas"}):
        line = json.dumps(words).encode()
        assert text_of(line) == line, "another value has a part of the report"


def test_a_long_line_in_several_records() -> None:
    line = "ptxas info    : Compiling entry function '" + "x" * 40_000 + "' for 'sm_90'\n"
    pieces = [line[start : start + 16_384] for start in range(0, len(line), 16_384)]
    records = "".join(json.dumps({"log": piece, "stream": "stderr"}) + "\n" for piece in pieces)
    assert text_of(records.encode()) == line.encode()


def test_lines_between_that_are_no_json_stay() -> None:
    data = b"-- logs begin\n" + docker("a\n") + b"{not json\n" + docker("b\n") + b'{"other": 1}\n' + b"end"
    assert text_of(data) == b'-- logs begin\na\n{not json\nb\n{"other": 1}\nend'


def test_a_failed_build_in_json_lines_is_seen() -> None:
    data = docker(LOG + "make: *** [Makefile:11: gemm.o] Error 2\n")
    assert [issue.code for issue in read_log(data).issues] == ["build-failed"]
