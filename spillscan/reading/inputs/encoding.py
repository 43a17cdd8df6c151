"""Convert text to UTF-8: from UTF-16 with or without a mark, from several encodings in one file (PowerShell appends
UTF-16 to another program's output), and from the JSON lines in which container runtimes and loggers store output."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_WIDE = {"utf-16-le": re.compile(rb"(?:[\t\r\n -~]\0){4}"), "utf-16-be": re.compile(rb"(?:\0[\t\r\n -~]){4}")}
"""UTF-16 text; neither text in another encoding nor a row of zeros matches."""
_BYTES = re.compile(rb"[\t\r\n -~]{16}")
"""Text of one byte per character, searched for after UTF-16."""
_HELD_BACK_BYTES = 64
_LONGEST_RECORD_BYTES = 1 << 22
_HEAD_BYTES = 1 << 16
"""Bytes at the beginning that must contain the first JSON line."""
_JSON_LINE = re.compile(rb'^\{"(?:[^\n]{0,400}?")??(?:log|message|msg|line)": ?"', re.MULTILINE)
_JSON_KEYS = ("log", "message", "msg", "line")
_REPORTED = (b"ptxas", b"nvlink", b" bytes ")


def is_encoded(first: bytes) -> bool | None:
    """Whether text that begins with ``first`` is anything but plain UTF-8; ``None`` if it is not text."""
    if first.startswith((*_MARKS, codecs.BOM_UTF8)):
        return True
    if b"\0" in first[:4096]:
        return True if any(wide.search(first, 0, 4096) for wide in _WIDE.values()) else None
    return _JSON_LINE.search(first, 0, _HEAD_BYTES) is not None


def decoded(first: bytes, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """``first`` and then ``chunks``, converted to UTF-8."""
    text = _decoded(first, chunks)
    head = next(text, b"")
    if _JSON_LINE.search(head, 0, _HEAD_BYTES):
        yield from _unwrapped(chain([head], text))
    else:
        yield head
        yield from text


def _decoded(first: bytes, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Convert each section from its own encoding."""
    encoding = _MARKS.get(first[:2], "")
    first = first[2:] if encoding else first.removeprefix(codecs.BOM_UTF8)
    waiting = b""
    for chunk in chain([first], chunks):
        if encoding or waiting or b"\0" in chunk:
            text, waiting, encoding = _converted(waiting + chunk, encoding, last=False)
            yield text
        else:
            yield chunk
    yield _converted(waiting, encoding, last=True)[0]


def _converted(data: bytes, encoding: str, *, last: bool) -> tuple[bytes, bytes, str]:
    """(text, unconverted bytes that need more input, encoding at the end). An empty encoding means one byte per
    character."""
    out, position, size = [], 0, len(data)
    while position < size:
        start = position
        if not encoding:
            position, encoding = _wide_from(data, position)
            if not encoding and not last:
                position = max(start, size - _HELD_BACK_BYTES)
            out.append(data[start:position])
            if not encoding:
                break
            position += 2 * (data[position : position + 2] in _MARKS)
            continue
        narrow = _BYTES.search(data, position)
        if narrow is not None:  # a character before it may look like its first
            end, following = narrow.start() + (narrow.start() - position) % 2, ""
        else:
            end, following = size if last else max(position, size - _HELD_BACK_BYTES), encoding
            end -= (end - position) % 2
        out.append(data[position:end].decode(encoding, "replace").replace("\ufeff", "").encode())
        if end == position and following:
            break
        position, encoding = end, following
        if following:
            break
    return b"".join(out), data[position:], encoding


def _wide_from(data: bytes, position: int) -> tuple[int, str]:
    """(position of UTF-16 with its mark, its encoding); the end of ``data`` and ``""`` if there is none."""
    starts = {name: match.start() for name, wide in _WIDE.items() if (match := wide.search(data, position))}
    if not starts:
        return len(data), ""
    little, big = (starts.get(name, len(data)) for name in _WIDE)
    # The other byte order matches the same text one byte off; a line end before it may be a single byte.
    start, encoding = (big, "utf-16-be") if big < little or data[little:big] == b"\n" else (little, "utf-16-le")
    return (start - 2, encoding) if data[max(position, start - 2) : start] in _MARKS else (start, encoding)


def _unwrapped(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Program output extracted from JSON lines. Other lines are unchanged."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield b"".join(_message(line, b"\n") for line in lines)
        if len(rest) > _LONGEST_RECORD_BYTES:
            yield rest
            rest = b""
    yield _message(rest, b"")


def _message(line: bytes, end: bytes) -> bytes:
    try:
        record = json.loads(line)
    except ValueError:
        return line + end
    key = next((key for key in _JSON_KEYS if isinstance(record, dict) and isinstance(record.get(key), str)), None)
    if key is None:
        return line + end
    text: str = record[key]
    if any(line.count(word) > text.encode("utf-8", "replace").count(word) for word in _REPORTED):
        return line + end  # another value has a part of the report
    # Docker keeps line ends and splits long lines into several records.
    return (text if key == "log" or text.endswith("\n") else text + "\n").encode("utf-8", "replace")


# Text in blocks of whole lines. Lines above 1 MiB, which no tool prints, are dropped here.

LONGEST_BYTES = 1 << 20
"""Longest line read; the longest symbols seen have 70,000 characters."""
TOO_LONG = "a line of more than 1 MiB was skipped"


def whole_lines(chunks: Iterable[bytes], too_long: Callable[[], None]) -> Iterator[bytes]:
    """Blocks of whole lines; only the last may lack its line end.

    A line above :data:`LONGEST_BYTES` is replaced by an empty one; ``too_long`` is called before the block that begins
    with it. At most twice that is kept in memory.
    """
    rest, dropping = b"", False
    for piece in _cut(chunks):
        begin, cut = 0, piece.rfind(b"\n") + 1
        if dropping or len(rest) + len(piece) > LONGEST_BYTES:
            end = piece.index(b"\n") if cut else len(piece)
            if dropping or len(rest) + end > LONGEST_BYTES:
                begin, rest, dropping = end, b"", not cut
                if cut:
                    too_long()
        if cut:
            yield b"".join((rest, memoryview(piece)[begin:cut]))  # copied once
            rest = piece[cut:]
        elif not dropping:
            rest += piece
    if dropping:
        too_long()
    if rest:
        yield rest


def _cut(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Split chunks into pieces of at most :data:`LONGEST_BYTES`, so that none contains a whole line that is too
    long."""
    for chunk in chunks:
        if len(chunk) <= LONGEST_BYTES:
            yield chunk
        else:
            yield from (chunk[at : at + LONGEST_BYTES] for at in range(0, len(chunk), LONGEST_BYTES))
