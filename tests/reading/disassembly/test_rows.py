"""Rows of a function read at once equal the same lines read one by one, damaged or not."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from spillscan.model import Issue
from spillscan.model.code import SassFunction
from spillscan.reading.disassembly import cuobjdump
from spillscan.reading.disassembly.listing import ListingAccount
from tests.conftest import sized
from tests.reading.disassembly.support import content, cut, dumps

_FUNCTION = re.compile(rb"\t\tFunction : [^\n]*\n\t\.headerflags[^\n]*\n(?: [^\n]*\n)+\t\t\.+\n")
DUMPS = [content(path) for path in dumps()]
FUNCTIONS = sorted({function for text in DUMPS for function in _FUNCTION.findall(text)}, key=len)


def _longer(line: bytes, behind: bytes) -> bytes:
    """Address with one more digit, and one blank fewer before ``behind``."""
    return re.sub(rb"^( {8}/\*)(.*?) (?=%b)" % behind, rb"\g<1>1\2", line)


def _with(at: int, text: bytes) -> Callable[[bytes, int], bytes]:
    return lambda line, _: line[:at] + text + line[at + len(text) :]


JOINED = b"\1"
"""In place of a line's end."""
DAMAGE: dict[str, Callable[[bytes, int], bytes]] = {
    "wider": lambda line, size: line.ljust(len(line) + size),
    "torn": lambda line, size: line[: -size or None],
    "without its comment": lambda line, _: line.partition(b"/* 0x")[0].ljust(len(line)),
    "carriage return": lambda line, _: line + b"\r",
    "carriage return inside": _with(50, b"\r"),
    "NUL": _with(38, b"\0"),
    "predicate": _with(30, b"@!P3 "),
    "uniform predicate": lambda line, _: line[:35] + b"@!UP1 " + line[35:].replace(b"      /* 0x", b"/* 0x", 1),
    "another opcode": _with(35, b"FOO.B R1 ;"),
    "no opcode": _with(35, b"r1"),
    "a long opcode": lambda line, size: line[:35] + b"LDL" + b".U" * size + line[35:],
    "long operands": lambda line, size: line.replace(b" ;", b", R1" * size + b" ;", 1),
    "shorter operands": lambda line, _: line.replace(b", ", b"  ", 1),
    "an operand in braces": lambda line, _: line.replace(b" ;      ", b" {;} ; ", 1),
    "brace": lambda line, _: line.replace(b" ;", b" }", 1),
    "no end": lambda line, _: line.replace(b";", b" ", 1),
    "the stack pointer": lambda line, _: line.replace(b" ;    ", b", R1 ;", 1),
    "a digit more": lambda line, _: _longer(line, rb"/\* 0x"),
    "a digit more, and a blank less": lambda line, _: _longer(line, b"[@A-Z]"),
    "no margin": _with(7, b"x"),
    "without its end": lambda line, _: line + JOINED,
    "no digit": _with(11, b"g"),
    "a small address": _with(10, b"0000"),
    "not ASCII": _with(39, b"\xff"),
    "empty": lambda line, _: b"",
    "twice": lambda line, _: line + b"\n" + line,
    "a message": lambda line, _: b"nvdisasm warning : this was standard error\n" + line,
}
ROUNDS = sized(6, 200)


def _read(data: bytes, size: int) -> tuple[list[SassFunction | Issue], ListingAccount]:
    dump = cuobjdump.SassListing(cut(data, size), "dump")
    return list(dump), dump.account


@pytest.mark.parametrize("what", sorted(DAMAGE))
@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["unix", "windows"])
def test_damaged_rows(what: str, end: bytes) -> None:
    chance = random.Random(what)
    for _ in range(ROUNDS):
        lines = chance.choice(FUNCTIONS).split(b"\n")
        first = chance.randrange(len(lines))
        for at in range(first, min(first + chance.choice([1, 1, 2, 200]), len(lines))):
            if lines[at].startswith(b" "):
                lines[at] = DAMAGE[what](lines[at], chance.randint(1, 40))
        data = end.join((b"\tcode for " + chance.choice([b"sm_52", b"sm_80", b"sm_120"]), *lines))
        data = data.replace(JOINED + end, b" " * len(end))
        size = chance.choice([3001, 20_000, 1 << 20])
        rows = _read(data, size)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cuobjdump.SassListing, "_rows", lambda _, code, text, at: at)
            assert rows == _read(data, size)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_real_disassembly_is_rows(monkeypatch: pytest.MonkeyPatch, end: bytes) -> None:
    lines: list[bytes] = []
    monkeypatch.setattr(cuobjdump.SassListing, "_single", lambda self, text: lines.append(text))
    for text in DUMPS:
        dump = cuobjdump.SassListing([text.replace(b"\n", end)], "dump")
        monkeypatch.setattr(dump, "_code", cuobjdump.Listing("k", cuobjdump.BEFORE_ALL, dump.account.origin()))
        list(dump)
    assert lines
    assert not [text for text in lines if text.startswith(b"        /*")]
