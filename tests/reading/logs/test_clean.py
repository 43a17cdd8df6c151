"""A log reads as it would without what terminals and CI services made of it, in every environment, line for line."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillscan.model import Reading
from spillscan.reading.logs.clean import Cleaner
from spillscan.reading.logs.steps import Steps, unprefixed
from tests.conftest import FIXTURES, read_log, read_text, sized

Dress = Callable[[bytes, int], bytes]
"""Transformation of one line, without its end, by its number."""


def clean(text: bytes) -> bytes:
    return Cleaner().clean(text, 1)


# ---- environments ------------------------------------------------------------------------------------------------


def painted(before: bytes, behind: bytes) -> Dress:
    """Around a line, and around its first letters."""
    return lambda line, _: b"".join((before, line[:4], behind, before, line[4:], behind)) if line.isascii() else line


COLOURS: dict[str, Dress] = {
    "none": lambda line, _: line,
    "colours": painted(b"\x1b[38;5;250m\x1b[K", b"\x1b(B\x1b[m"),
    "links": painted(b"\x1b]8;;file:///src/a%20b.cu\x1b\\\x1b7", b"\x1b]8;;\x1b\\\x1b]0;building\x07"),
    "eight bits": painted(b"\x9b1;36m\x9d0;building\x9c", b"\x9b0m\x90x\x9c"),
    "eight bits, encoded": painted("\x9b1;36m\x9d0;building\x9c".encode(), "\x9bm".encode()),
    "hidden notes": painted(b"\x1b[8mha:////4AAA+x/9=\x1b[0m", b"\x1b_bk;t=1700000000123\x07"),
}
_PROGRESS = (b"Receiving objects:  10% (1/10)", b"Receiving objects: 100% (10/10), done.")


RETURNS = {"none": (b"", b""), "written over": (b"\r", b"\r\r"), "progress": (b"\r".join((*_PROGRESS, b"")), b"")}
"""What stands before and behind a line; progress, which is git's, before steps and what a log begins with."""


def stamped(form: str) -> Dress:
    def line(text: bytes, number: int) -> bytes:
        return form.format(minute=number // 60 % 60, second=number % 60).encode() + text

    return line


TIMES: dict[str, Dress] = {
    "none": lambda line, _: line,
    "GitHub, Azure": stamped("2026-01-01T12:{minute:02d}:{second:02d}.0000000Z "),
    "gh run view": stamped("build\tCompile it\t2026-01-01T12:{minute:02d}:{second:02d}.0000000Z "),
    "gh run view, a step's first line": stamped("build\tCompile it\t\ufeff2026-01-01T12:{minute:02d}:{second:02d}Z "),
    "GitLab": stamped("2026-01-01T12:{minute:02d}:{second:02d}.000000Z 0aO "),
    "Jenkins": stamped("[2026-01-01T12:{minute:02d}:{second:02d}.000Z] "),
    "Jenkins, clock": stamped("12:{minute:02d}:{second:02d}  "),
    "Kubernetes": stamped("2026-01-01T12:{minute:02d}:{second:02d}.000000000Z stderr F "),
    "CodeBuild": stamped("[Container] 2026/01/01 12:{minute:02d}:{second:02d}.000000 "),
    "TeamCity": stamped("[12:{minute:02d}:{second:02d}]W:\t\t [Step 1/2] "),
    "AppVeyor": stamped("[00:{minute:02d}:{second:02d}] "),
    "ts": stamped("Jan  1 12:{minute:02d}:{second:02d} "),
    "a script": stamped("[2026-01-01 12:{minute:02d}:{second:02d}] "),
    "GitHub over Jenkins' clock": stamped("2026-01-01T12:00:00.0000000Z 12:{minute:02d}:{second:02d}  "),
}
ENDS = {"LF": b"\n", "CRLF": b"\r\n"}
ENVIRONMENTS = [*product(COLOURS, RETURNS, TIMES, ENDS)]


def dressed(text: bytes, colour: str, returned: str, time: str, end: str) -> bytes:
    """The tool's own colours first, then what its terminal and its service add."""
    found = []
    for number, line in enumerate(text.split(b"\n")):
        ended = number < text.count(b"\n")
        if line or ended:
            shown = COLOURS[colour](line, number)
            if ended and (returned != "progress" or not number or line.startswith(b"[")):
                shown = shown.join(RETURNS[returned])
            found.append(TIMES[time](shown, number) + ENDS[end] * ended)
    return b"".join(found)


@cache
def logs() -> list[bytes]:
    """Logs of real tools, without those made hostile by another tool."""
    paths = sorted(path for path in FIXTURES.rglob("*.log") if path.parent.name != "hostile")
    return [text for path in paths if (text := read_text(path).encode()) and b"\r" not in text]


def seen(reading: Reading) -> tuple[object, ...]:
    stats = reading.stats
    return reading.kernels, reading.links, reading.issues, reading.empty_units, stats.lines, stats.recognised_lines


@pytest.mark.parametrize("portion", range(sized(1, 4)))
def test_text_and_lines_are_those_of_the_plain_log(portion: int) -> None:
    """Every environment with two logs: text and line numbers; and the records of one."""
    wrong = []
    for number, environment in list(enumerate(ENVIRONMENTS))[portion::4]:
        for text in (logs()[(7 * number) % len(logs())], logs()[(13 * number) % len(logs())]):
            shown, cleaner = dressed(text, *environment), Cleaner()
            found = enumerate(cleaner.clean(shown, 1).split(b"\n"), 1)
            placed = [(each, cleaner.line(at)) for at, each in found if each not in _PROGRESS]
            if placed != [(line, at) for at, line in enumerate(text.split(b"\n"), 1)]:
                wrong.append((environment, text[:80]))
        if seen(read_log(shown)) != seen(read_log(text)):
            wrong.append((environment, text[:80]))
    assert not wrong


def test_environments_and_logs_are_many() -> None:
    assert len(ENVIRONMENTS) >= 500
    assert len(logs()) >= 300


# ---- times ---------------------------------------------------------------------------------------------------------


def test_a_clock_in_one_line_is_text() -> None:
    """Unless others have one; whoever has seen that knows it of the rest of the log."""
    for clock in (b"12:34:56  ", b"[12:34:56] ", b"May  1 12:34:56 "):
        for before in (1, 5, 30):
            few = b"a line\n" * before + clock + b"nvcc -c a.cu\n"
            assert clean(few) == few
        alone = b"a line\n" * 30 + clock + b"nvcc -c a.cu\n"
        cleaner = Cleaner()
        assert cleaner.clean((clock + b"a line\n") * 30, 1) == b"a line\n" * 30
        assert cleaner.clean(alone, 31) == alone.replace(clock, b"")


def test_clocks_in_a_part_of_a_log_are_none_of_its_text() -> None:
    """A step of a job has a clock before each line, whatever comes before it."""
    step = b"12:34:56  [1/2] Building CUDA object a.cu.o\n" * 2000
    for before in (b"", b"a line\n" * 50_000):
        assert clean(before + step) == before + step.replace(b"12:34:56  ", b"")


def test_dates_and_times_are_removed_anywhere() -> None:
    """A file may contain logs of several services."""
    assert clean(b"a line\n" * 30 + b"2026-05-01T12:34:56.7890123Z ##[error]x\n") == b"a line\n" * 30 + b"##[error]x\n"


@pytest.mark.parametrize(
    "line",
    ["2026 kernels", "2026-05-01 is a day", "x 2026-05-01T12:34:56Z y", "[2026] x", "a.cu:12:34: x", "12:34 x"],
)
def test_not_a_time(line: str) -> None:
    assert clean(f"{line}\n".encode()) == f"{line}\n".encode()


@pytest.mark.parametrize("writer", ["#12 3.456 ", "1>", "builder-1  | "])
def test_a_writer_is_not_a_time(writer: str) -> None:
    line = f"{writer}ptxas info    : 0 bytes gmem\n".encode()
    assert clean(b"2026-05-01T12:34:56.7890123Z " + line) == line


# ---- carriage returns ------------------------------------------------------------------------------------------------


def test_a_lone_carriage_return_ends_a_line() -> None:
    cleaner = Cleaner()
    assert cleaner.clean(b"a\r\n[1/9] b\r[2/9] c\r\n\rd\r\r\n", 1) == b"a\n[1/9] b\n[2/9] c\nd\n"
    assert cleaner.clean(b"e\rf\rg", 5) == b"e\nf\ng"
    assert [cleaner.line(line) for line in range(1, 8)] == [1, 2, 2, 3, 4, 4, 4]


def test_line_numbers_that_people_see_are_the_file_s(log: str) -> None:
    reading = read_log(f"{'50%' * 3}\r{'x' * 9}\r\r\n10%\r99%\n{log}ptxas warning : The moon is full\n10%\r99%\n")
    assert [each.origins[0].line for each in reading.kernels] == [
        2 + (each.origins[0].line or 0) for each in read_log(log).kernels
    ]
    (issue,) = reading.issues
    assert issue.origin is not None
    assert issue.origin.line == 3 + log.count("\n")
    assert reading.stats.lines == 4 + log.count("\n")


def test_steps_that_are_written_over_are_announced(log: str) -> None:
    text = f"[1/2] Building CUDA object a.cu.o\r[2/2] Building CUDA object b.cu.o\r\n{log}"
    assert {kernel.key.unit for kernel in read_log(text).kernels} == {"b.cu.o"}


# ---- sequences -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["\x1b[32m", "\x1b(B\x1b[m", "\x1b7\x1b[2K\r", "[1/9] x\r\x1b[K", "\x1b]8;;u\x1b\\"])
def test_step_names_lack_hidden_text(before: str) -> None:
    text = clean(f"{before}[2/9] Building CUDA object gemm.cu.o\x1b[0m\n".encode())
    steps = Steps()
    steps.gap(text, True, 2)
    assert steps.current.unit == "gemm.cu.o"
    assert unprefixed(text.splitlines()[-1]) == "[2/9] Building CUDA object gemm.cu.o"


@pytest.mark.parametrize(
    "sequence", [b"\x1b[1;32m", b"\x1b]8;;https://ci/1\x1b\\", b"\x1b(B", b"\x9b31m", b"\x90a\x9c"]
)
def test_a_sequence_that_the_end_cuts_is_one(sequence: bytes) -> None:
    """In the middle of a log an incomplete sequence is text, and hides nothing after it."""
    for end in range(1, len(sequence) + 1):
        assert clean(b"whole\n" + sequence[:end]) == b"whole\n"
    assert b"error" in clean(b"\x1b]8;;error\nwhole\n")


def test_bytes_of_a_character_are_no_controls(log: str) -> None:
    name = "\u06dbm\u075d\u2010"  # their bytes contain 0x9b, 0x9d, 0x90
    kernel = read_log(log.replace("spill_predicates", f"{name}spills")).kernels[0]
    assert (kernel.key.symbol, kernel.usage) == (f"{name}spills", read_log(log).kernels[0].usage)
    text = f"\x1b[1m{name}\x1b[0m \u2018x\u2019\n".encode() + b"g\xe9nial \x93x\x94 \xff\n"
    assert clean(text) == f"{name} \u2018x\u2019\n".encode() + b"g\xe9nial \x93x\x94 \xff\n"


def test_a_control_that_begins_nothing_is_no_text() -> None:
    assert clean("a\x9cb\n".encode()) == clean(b"a\x9cb\n") == "a\ufffdb\n".encode()


SEQUENCES = ("\x1b", "\x1b[", "31m", "\x1b]", "\x07", "\x1b\\", "\x9b", "\x9d", "\x9c", "é“")
TEXT = ("x", " ", "\t", "\r", "2026-05-01T12:34:56Z ", "[2026-05-01 12:34:56] ", "a\tb\t", "stderr F ", "01O ")
PIECES = st.sampled_from([*(each.encode() for each in (*SEQUENCES, *TEXT)), b"\x9b", b"\x9d", b"\x9c", b"\xff"])


@given(st.lists(st.lists(PIECES, max_size=12).map(b"".join), max_size=8))
def test_blocks_are_cleaned_one_by_one(lines: list[bytes]) -> None:
    """The result is that of one piece, without lost lines: each line of the file is one or several."""
    whole, parts, found = Cleaner(), Cleaner(), b""
    for line in lines:
        found += parts.clean(line + b"\n", found.count(b"\n") + 1)
    assert whole.clean(b"".join(line + b"\n" for line in lines), 1) == found
    numbers = [whole.line(at + 1) for at in range(found.count(b"\n"))]
    assert numbers == [parts.line(at + 1) for at in range(found.count(b"\n"))]
    assert list(dict.fromkeys(numbers)) == list(range(1, len(lines) + 1))
