"""Lines above 1 MiB are left out and reported, and at most twice that is in memory."""

from __future__ import annotations

import io
import random

import pytest

from spillscan.output.errors import InputError
from spillscan.reading import disassembly
from spillscan.reading.inputs import encoding
from spillscan.reading.inputs.encoding import LONGEST_BYTES, whole_lines
from spillscan.reading.inputs.source import Stream
from tests.conftest import FIXTURES, read_log

LONG = b"x" * (LONGEST_BYTES + 1)
BLOCK = (FIXTURES / "demo" / "base.log").read_bytes()
SASS = b'\tcode for sm_90\n\t\tFunction : f\n\t.headerflags\t@"EF_CUDA_SM90"\n'
TEXT = b'\t.headerflags\t@"EF_CUDA_SM90"\n\t.section\t.text.f,"ax",@progbits\n'
LISTING = b"Resource usage:\n Common:\n  GLOBAL:0\n"


def test_whatever_the_pieces_long_lines_are_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "LONGEST_BYTES", 5)
    dice = random.Random(3)
    for _ in range(3000):
        data = bytes(dice.choices(b"ab\n", (5, 5, 2), k=dice.randrange(40)))
        pieces, at = [], 0
        while at < len(data):
            size = dice.randrange(1, 9)
            pieces.append(data[at : at + size])
            at += size
        seen = b""
        reported: list[int] = []
        for block in whole_lines(pieces, lambda: reported.append(seen.count(b"\n") + 1)):  # noqa: B023 - used here alone
            assert block
            seen += block
        wanted = data.split(b"\n")
        assert seen == b"\n".join(b"" if len(line) > 5 else line for line in wanted)
        assert reported == [number for number, line in enumerate(wanted, 1) if len(line) > 5]


def test_a_log_with_a_long_line_has_a_gap_there_and_is_read_on() -> None:
    text = BLOCK.decode()
    whole, reading = read_log(text), read_log(f"{text}{LONG.decode()}\n{text.replace('PK', 'Pd')}")
    (issue,) = (each for each in reading.issues if each.code == "line-too-long")
    assert issue.origin is not None
    assert issue.origin.line == text.count("\n") + 1
    assert "kernels" in issue.hidden
    assert len(reading.kernels) == 2 * len(whole.kernels)
    assert reading.stats.lines == 2 * whole.stats.lines + 1


@pytest.mark.parametrize("begin", [SASS, TEXT, LISTING])
@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n"])
def test_disassembly_has_long_lines_too(begin: bytes, end: bytes) -> None:
    found = disassembly.reader([begin + LONG + end], "dump")
    assert [each.origin.line for each in found if getattr(each, "code", "") == "line-too-long"] == [
        4 if begin != TEXT else 3
    ]


def test_a_line_of_a_megabyte_is_read() -> None:
    assert [*whole_lines([LONG[1:], b"\n"], pytest.fail)] == [LONG[1:] + b"\n"]


def test_a_reader_without_handler_raises() -> None:
    with pytest.raises(InputError, match="more than 1 MiB"):
        [*Stream(io.BytesIO(LONG), "table.csv").lines()]
