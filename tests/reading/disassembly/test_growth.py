"""Reading a disassembly takes linear time, whatever it contains: steps are counted at n, 2n and 4n, and, since an
expression counts as one step, the processor's time is measured.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import pytest

from spillscan.reading import disassembly
from tests.conftest import sized
from tests.counting import MOST_GROWTH, growth

SASS = b'\tcode for sm_90\n\t\tFunction : f\n\t.headerflags\t@"EF_CUDA_SM90"\n'
SASS_END = b"\n\t\t..........\n\n\n"
TEXT = b'\t.headerflags\t@"EF_CUDA_SM90 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM90)"\n\t.section\t.text.f,"ax",@progbits\nf:\n'
OPENING = b"        /*0000*/                   "

LINES: dict[str, Callable[[int], bytes]] = {
    "a gap of blanks": lambda n: OPENING + b" " * n,
    "a gap before a word": lambda n: OPENING + b" " * n + b"x",
    "a gap before the end": lambda n: OPENING + b"STL [R1], R2" + b" " * n + b";",
    "a gap without an end": lambda n: OPENING + b"STL [R1], R2" + b" " * n + b"x",
    "a gap alone": lambda n: b" " * n + b"x",
    "a gap before a column": lambda n: OPENING + b"NOP;" + b" " * n + b"/ // ",
    "a long name": lambda n: OPENING + b"A" * n,
    "long modifiers": lambda n: OPENING + b"STL" + b".A" * n + b"#",
    "one long modifier": lambda n: OPENING + b"STL." + b"A" * n + b"#",
    "commas": lambda n: OPENING + b"BRA" + b" a," * n + b" x",
    "labels without an end": lambda n: OPENING + b"BRA" + b" a, `(.L_x" * n + b" ;",
    "braces": lambda n: OPENING + b"DEPBAR " + b"{" * n,
    "sets": lambda n: OPENING + b"DEPBAR " + b"{a}" * n,
    "sets that do not end": lambda n: OPENING + b"DEPBAR " + b"{a} {" * n,
    "brackets": lambda n: OPENING + b"STL " + b"[R1" * n + b" ;",
    "stack pointers": lambda n: OPENING + b"MOV " + b"R1, " * n + b" ;",
    "remarks": lambda n: OPENING + b"STL [R1], R2 " + b'(*"' * n,
    "openings": lambda n: b"        /*" * n,
    "tabs": lambda n: OPENING + b"\tx" * n,
    "lines of a tab": lambda n: b"\t\n" * n,
    "lines of a margin": lambda n: (OPENING + b"\n") * n,
    "unfinished instructions": lambda n: (OPENING + b"STL [R1], R2\n") * n,
    "functions": lambda n: b"\t\tFunction : f\n" * n,
    "sections": lambda n: b'\t.section\t.text.f,"ax",@progbits\n' * n,
    "sizes": lambda n: b"\t.size\t" + b"f,(" * n,
    "files": lambda n: b'\t//## File "' + b'", line ' * n,
    "colons": lambda n: b"a" + b":" * n + b" x",
    "columns": lambda n: OPENING + b"NOP; " + b"// | " * n,
}


def _seconds(data: bytes) -> float:
    found = []
    gc.disable()
    for _ in range(3):
        begin = time.process_time()
        for _ in disassembly.reader([data], "dump"):
            pass
        found.append(time.process_time() - begin)
    gc.enable()
    return min(found)


@pytest.mark.parametrize("form", ["cuobjdump", "nvdisasm"])
@pytest.mark.parametrize("family", [*LINES][:: sized(3, 1)])
def test_lines(family: str, form: str) -> None:
    def data(size: int) -> bytes:
        text = LINES[family](size // len(LINES[family](1)))
        return SASS + text + SASS_END if form == "cuobjdump" else TEXT + text + b"\n"

    _grows(data, sized(12_000, 40_000))


def _grows(data: Callable[[int], bytes], size: int) -> None:
    """A quadratic expression takes 16 times as long for four times the text; noise is below 20 ms."""
    assert growth(lambda size: [*disassembly.reader([data(size)], "dump")], size // 4) <= MOST_GROWTH
    four = _seconds(data(4 * size))
    if four >= 0.02:
        one = _seconds(data(size))
        assert four < 7 * one + 0.02, (one, four)
        assert four < 1.0 + 4 * one, (one, four)
