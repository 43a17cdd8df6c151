"""Reading a log takes linear time, whatever it contains.

Expressions work inside of one call, where no step can be counted, so the processor's time is taken.
``tests/oracle/growth_oracle.py`` measures the same families at larger sizes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import cache

import pytest

from tests.conftest import read_log, sized
from tests.counting import costs_its_size
from tests.reading.logs.test_examples import CASES

LINE_BYTES = 5_000
LINES, RECORDS = 100, 500
STEP = sized(5, 1)
"""Of so many messages, one is met by a family; its neighbours by the next."""

BLOCK = """\
ptxas info    : Compiling entry function 'k{0}' for 'sm_80'
ptxas info    : Function properties for k{0}
    8 bytes stack frame, {0} bytes spill stores, 4 bytes spill loads
ptxas info    : Used 40 registers, 376 bytes cmem[0]
"""
WARNING = (
    "ptxas warning : Registers are spilled to local memory in function '{}', {} bytes spill stores, "
    "4 bytes spill loads\n"
)


def seconds(text: str) -> float:
    begin = time.process_time()
    read_log(text)
    return time.process_time() - begin


@cache
def ready() -> None:
    """Grammars are loaded."""
    read_log("".join(f"{line}\n" for *_, line in CASES))


def grows_with_size(made: Callable[[int], str], size: int) -> bool:
    ready()
    return costs_its_size(lambda size: seconds(made(size)), size)


OF_EACH_RULE = {(name, rule): line for name, _, rule, line in reversed(CASES)}
"""Its first line."""

LONG_LINES: dict[str, Callable[[str, int], str]] = {
    "the line again and again": lambda line, size: line * (size // len(line)),
    "its first half again and again": lambda line, size: line[: len(line) // 2] * (2 * size // len(line)),
    "a gap of blanks": lambda line, size: line.replace(" ", " " * size, 1),
    "a gap further on": lambda line, size: " ".join(line.split(" ")[:4]) + " " * size + " ".join(line.split(" ")[4:]),
    "a gap at its end": lambda line, size: f"{line}{' ' * size}x",
    "many quotes": lambda line, size: line.replace("'", "'" * size, 1) if "'" in line else line + "'" * size,
    "its last quote again and again": lambda line, size: line + "'".join(line.rpartition("'")[1:]) * (size // 40),
    "many commas": lambda line, size: f"{line}{', ' * (size // 2)}",
    "many clauses": lambda line, size: f"{line}{', 8 bytes cmem[0]' * (size // 17)};",
    "a long number": lambda line, size: re.sub(r"\d+", "1" * size, line, count=1),
    "a long word": lambda line, size: line + "a" * size,
    "many breaks": lambda line, size: line + "<br> " * (size // 5),
    "many brackets": lambda line, size: line + " [x" * (size // 3) + "]",
    "many dots": lambda line, size: f"{line} {'. .. ' * (size // 5)}",
}


@pytest.mark.parametrize("family", [*LONG_LINES][:: sized(3, 1)])
def test_long_lines_of_each_message(family: str) -> None:
    slow = []
    for (_, rule), line in list(OF_EACH_RULE.items())[[*LONG_LINES].index(family) % STEP :: STEP]:
        if not grows_with_size(lambda size, line=line: f"x\n{LONG_LINES[family](line, size)}\n", LINE_BYTES):  # type: ignore[misc]
            slow.append(f"{rule}: {line[:60]}")
    assert not slow


def test_many_lines_of_each_message() -> None:
    slow = [
        f"{rule}: {line[:60]}"
        for _, _, rule, line in CASES[::STEP]
        if not grows_with_size(lambda size, line=line: f"{line}\n" * size, LINES)  # type: ignore[misc]
    ]
    assert not slow


LOGS: dict[str, Callable[[int], str]] = {
    "names with what ends one": lambda n: "ptxas info    : Compiling entry function '" + "' for '" * n,
    "blanks before figures": lambda n: f"ptxas info    : Used{' ' * n}64 registers\n",
    "steps that fail": lambda n: "".join(f"[{i}/9] x\nFAILED: a{i}.o\n" for i in range(n)),
    "steps that fail alike": lambda n: "".join(f"[{i}/9] x\nFAILED: d{i}/a.o\n" for i in range(n)),
    "steps that are built again": lambda n: (
        "".join(f"[{i}/9] x\nFAILED: d{i}/a.o\n" for i in range(n))
        + "".join(f"nvcc -c a.cu -o d{i}/a.o\n" for i in range(n))
    ),
    "steps that fail, whose names share a word": lambda n: (
        "nvcc -c x -o o\n" * 4 * n + "".join(f"FAILED: d/a{i}:o\n" for i in range(n))
    ),
    "blanks behind what was killed": lambda n: f"./build.sh: line 5: 12345 Killed{' ' * n * 20}x\n",
    "folders before a shell's message": lambda n: "\\" * n * 20 + ": line 5: 12345: x nvcc\n",
    "objects that make fails to build": lambda n: "".join(f"make: *** [a{i}.o] Error 1\n" for i in range(n)),
    "blanks between a tool and a head": lambda n: f"ptxas{' ' * n}- ptxas info    : Used 64 registers\n",
    "options, and a redirection, before a head": lambda n: f"nvcc{' -I a' * n}> ptxas info    : Used 64 registers\n",
    "makes inside of makes": lambda n: "".join(f"make[{i}]: *** [all] Error 2\n" for i in range(n)),
    "sources with errors": lambda n: "".join(f"a{i}.cu(1): error: x\n" for i in range(n)),
    "sources with errors, and makes": lambda n: "".join(
        f"a{i}.cu(1): error: x\nmake: *** [b.o] Error 1\n" for i in range(n)
    ),
    "builds that stop": lambda n: "[1/9] nvcc -c a.cu\n" + "ninja: build stopped: subcommand failed.\n" * n,
    "tests that fail": lambda n: "".join(f"The following tests FAILED:\nmake: *** [t{i}] Error 8\n" for i in range(n)),
    "kernels": lambda n: "".join(BLOCK.format(i) for i in range(n)),
    "kernels of one name": lambda n: BLOCK.format(7) * n,
    "warnings of one function": lambda n: "".join(WARNING.format("f", i) for i in range(n)),
    "warnings and kernels of one name": lambda n: (
        "".join(WARNING.format("k1", i + 5) for i in range(n)) + BLOCK.format(1) * n
    ),
    "kernels that wait": lambda n: "".join(BLOCK.format(i).partition("ptxas info    : Used")[0] for i in range(n)),
    "properties without a stack line": lambda n: "ptxas info    : Function properties for f\n" * n,
    "registers of nobody": lambda n: "".join(f"ptxas info    : Used {i} registers\n" for i in range(n)),
    "compile times of nobody": lambda n: "ptxas info    : Compile time = 1.0 ms\n" * n,
    "modules": lambda n: "ptxas info    : 0 bytes gmem\n" * n,
    "notes without a name, and modules": lambda n: (
        (
            "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored to allow debugging.\n"
            "ptxas info    : 0 bytes gmem\n"
        )
        * n
    ),
    "what the linker says": lambda n: "nvlink info    : Function properties for 'f':\n" * n,
    "steps without a report": lambda n: (
        "ptxas info    : 0 bytes gmem\n" + "".join(f"[{i}/9] Building CUDA object a{i}.cu.o\n" for i in range(n))
    ),
    "words of other programs": lambda n: "sed 1 registers, error FAILED info    : \n" * n,
    "sequences without an end": lambda n: "\x1b]8;;a\x1b[3\x9d1\x1b[8mha:////4" * n * 20,
    "a sequence that goes on": lambda n: "\x1b]" + "a\x9b" * n * 20 + "\x1b[" + "1;" * n * 20,
    "a sequence of blanks": lambda n: "\x1b" + " " * n * 20 + "\n\x1b[" + " " * n * 20,
    "carriage returns": lambda n: "\r" * n * 20 + "x",
    "what is written over": lambda n: "[1/9] a\r" * n + "\n" + "a\r\n\ra\r\r\n" * n,
    "kernels between what is written over": lambda n: "".join(f"50%\r60%\r\n{BLOCK.format(i)}" for i in range(n)),
    "times": lambda n: "2026-05-01T12:34:56Z stderr F 12:34:56  x\n" * n + "2026-05-01T12:34:56Z " * n * 20,
    "failures with blank lines between": lambda n: ("\n" * 300 + "zsh: command not found: nvcc\n") * n,
    "fields before times": lambda n: "a\t" * n * 20 + "\ta\ta\t2026-05-01\n" + "x\ty\t\n" * n,
    "clocks": lambda n: "[12:34:56]W:\t [x\n" * n + "[12:34:56]W:\t" * n * 20 + "12:34:56 " * n,
}


@pytest.mark.parametrize("family", [*LOGS][:: sized(4, 1)])
def test_many_of_each_record(family: str) -> None:
    assert grows_with_size(LOGS[family], RECORDS)
