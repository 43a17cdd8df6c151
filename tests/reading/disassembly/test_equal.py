"""The reader, Lark with a token a line and Lark with a token a lexeme come to the same metrics."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lark import Token

from spillscan.model.code import SassFunction
from spillscan.reading import grammar
from spillscan.reading.disassembly.cuobjdump import SassListing
from spillscan.reading.machine.instruction import of_text
from tests.conftest import sized
from tests.reading.disassembly import lexemes
from tests.reading.disassembly.conftest import Read
from tests.reading.disassembly.support import content, cut, dumps

DUMPS = dumps()


@pytest.mark.parametrize("path", DUMPS, ids=lambda path: path.name)
class TestFixtures:
    def test_lines_are_those_of_lark(self, path: Path) -> None:
        assert _kinds_read(content(path)) == _kinds_of_lark(content(path))

    def test_damaged_lines_are_those_of_lark(self, path: Path) -> None:
        """Bytes outside ASCII, lines too many and lines cut off."""
        sound = content(path)
        damage = ((5003, b"\xff"), (20_011, b"\n/*0000*/ \n"), (30_011, b"\n"), (7001, b";"), (9001, b"  "))
        for step, text in damage[len(sound) % sized(3, 1) :: sized(3, 1)]:
            data = text.join(sound[at : at + step] for at in range(0, len(sound), step))
            assert _kinds_read(data) == _kinds_of_lark(data)

    def test_values_are_those_of_the_parse_tree(self, path: Path, read: Read) -> None:
        functions, issues = read(content(path))
        trees = lexemes.parse(content(path).decode())
        assert not issues
        assert [function.symbol for function in functions] == [tree.symbol for tree in trees]
        for function, tree in zip(functions, trees, strict=True):
            assert dict(function.stats.opcodes) == dict(tree.opcodes)
            found = [(a.address, a.store, a.bytes, a.form, a.slot) for a in function.stats.local.accesses]
            wanted = [
                (address, store, width, *of_text(b"", b"LDL", b"", f" [{''.join(inside)}]".encode(), b"")[2:4])
                for address, store, width, inside in tree.local
            ]
            assert found == wanted

    @pytest.mark.parametrize("size", [4096, 70_001])
    def test_blocks_cut_anywhere(self, path: Path, read: Read, size: int) -> None:
        assert read(content(path), size=size) == read(content(path))

    def test_pipes(self, path: Path, read: Read) -> None:
        items = list(SassListing(cut(content(path), 3001), "dump"))
        assert [item for item in items if isinstance(item, SassFunction)] == read(content(path))[0]

    def test_windows_line_ends(self, path: Path, read: Read) -> None:
        functions, issues = read(content(path).replace(b"\n", b"\r\n"))
        assert (functions, issues) == read(content(path))

    def test_without_headers(self, path: Path, read: Read) -> None:
        """Disassembly of a bare cubin has no `arch =`; `code for` names the arch."""
        data = b"".join(line for line in content(path).splitlines(keepends=True) if not line.startswith(b"arch"))
        assert [f.arch for f in read(data)[0]] == [f.arch for f in read(content(path))[0]]


def _kinds_of_lark(data: bytes) -> list[int]:
    """Instructions of all functions, by Lark and the grammar's own statement of a line."""
    bodies = re.findall(rb"(?ms)^\t\tFunction : [^\n]+(?:\n|\Z)(.*?)(?=^\t\t[.]{4,}\r?$|^\t\tFunction : |\Z)", data)
    found = []
    for body in bodies:
        lines = body if body.endswith(b"\n") or not body else body + b"\n"
        tokens = grammar.load("sass").parse(lines.decode("ascii", "replace"), start="lines").children
        found.append(sum(isinstance(token, Token) and token.type == "INSTRUCTION_LINE" for token in tokens))
    return found


def _kinds_read(data: bytes) -> list[int]:
    return [item.stats.instructions for item in SassListing([data], "dump") if isinstance(item, SassFunction)]


def _rows(draw: st.DrawFn) -> bytes:
    """A dump as cuobjdump pads it, of opcodes and operands that the generator makes up."""
    width = draw(st.integers(40, 90))
    lines = [b"", b"\tcode for sm_90"]
    for number in range(draw(st.integers(1, 3))):
        lines += [
            b"\t\tFunction : kernel%d" % number,
            b'\t.headerflags\t@"EF_CUDA_SM90 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM90)"',
        ]
        for index in range(draw(st.integers(1, 40))):
            guard = draw(st.sampled_from(["", "@P0 ", "@!P6 ", "@UP0 ", "@!UP1 ", "@!PT "]))
            text = draw(st.sampled_from(_TEXTS)).replace("@", f"{draw(st.integers(0, index + 4)) * 16:#x}")
            left = "" if "U" in guard else guard.rjust(19)
            body = (left or " " * 19) + (guard if "U" in guard else "") + text + " ;"
            lines.append(
                f"        /*{index * 16:04x}*/{body}".ljust(35 + width).encode() + b" /* 0x0000000000000000 */"
            )
            lines.append(b" " * (35 + width) + b" /* 0x000fe20000000f00 */")
        lines += [b"\t\t..........", b"", b""]
    return b"\n".join(lines)


_TEXTS = [
    "NOP",
    "EXIT",
    "STL [R1+0x44], R3",
    "LDL.LU.64 R4, [R1+0x8]",
    "LDL R4, [R1+0x48]",
    "STL.U8 [R3+UR4+-0x1], R2",
    "LDL.128 R8, [UR4]",
    "MOV R5, R1",
    "IADD3 R1, R1, -0x68, RZ",
    "BRA @",
    "BRA P1, @",
    "CALL.REL.NOINC @",
    "RET.REL.NODEC R20 0x0",
    "WARPSYNC.COLLECTIVE R2, 0x40",
    "WARPSYNC R2",
    "UCGABAR_ARV",
    "UCGABAR_WAIT",
    "ENDCOLLECTIVE",
    "STLX R1, R2",
    "FROBNICATE2.FOO R1, R2",
    "DEPBAR {2,0}",
    "BRX R8 -0xf00",
]
_DUMPS = st.composite(_rows)


@given(_DUMPS())
def test_generated_disassembly(data: bytes) -> None:
    assert _kinds_read(data) == _kinds_of_lark(data)


@given(_DUMPS())
def test_generated_disassembly_parses(data: bytes) -> None:
    functions = [item for item in SassListing([data], "dump") if isinstance(item, SassFunction)]
    trees = lexemes.parse(data.decode())
    assert [dict(f.stats.opcodes) for f in functions] == [dict(tree.opcodes) for tree in trees]


@given(
    _DUMPS(),
    st.lists(
        st.tuples(
            st.sampled_from(["replace", "delete", "insert line", "delete line", "double line", "cut"]),
            st.floats(0, 1, exclude_max=True),
            st.sampled_from([0, 9, 32, 33, 42, 47, 48, 59, 64, 65, 83, 95, 122, 123, 128, 255]),
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from([512, 4096, 1 << 20]),
)
def test_mutated_disassembly(data: bytes, changes: list[tuple[str, float, int]], size: int) -> None:
    """Whatever is done to a dump, it is read as by Lark, and as it is a few lines at a time."""
    for what, where, byte in changes:
        data = _mutated(data, what, where, byte)
    assert _kinds_read(data) == _kinds_of_lark(data)
    assert list(SassListing(cut(data, size), "dump")) == list(SassListing([data], "dump"))


def _mutated(data: bytes, what: str, where: float, byte: int) -> bytes:
    if not data:
        return data
    at = int(where * len(data))
    lines = data.split(b"\n")
    line = int(where * len(lines))
    if what == "replace" and data[at] != 10:
        return data[:at] + bytes([byte]) + data[at + 1 :]
    if what == "delete" and data[at] != 10:
        return data[:at] + data[at + 1 :]
    if what == "insert line":
        lines.insert(line, b"nvdisasm warning : this was standard error")
    elif what == "delete line":
        del lines[line]
    elif what == "double line":
        lines.insert(line, lines[line])
    elif what == "cut":
        return data[:at]
    return b"\n".join(lines)


@pytest.mark.parametrize("first", ["LDL R4", "LDL.LU.6\0 R4", "LDL.LU.64\x7f R4"])
@pytest.mark.parametrize("second", ["LDL R6", "LDL.LU.6\0 R6"])
def test_an_access_with_a_damaged_modifier_hides_no_other(first: str, second: str) -> None:
    """The kind of an opcode must not depend on a line whose rest is damaged."""
    rows = [f"{opcode}, [R1+0x8]" for opcode in (first, second)] + ["LDL R8, [R1+0x10]", "STL [R1], R2", "EXIT"]
    lines = [
        f"        /*{16 * number:04x}*/                   {row} ;".ljust(76) + "/* 0x0000000000000000 */\n" + 76 * " "
        for number, row in enumerate(rows)
    ]
    text = "\tcode for sm_90\n\t\tFunction : k\n" + "".join(f"{line}/* 0x000fe20000000f00 */\n" for line in lines)
    data = (text + "\t\t..........\n\n").encode()
    damaged = sum("\0" in opcode or "\x7f" in opcode for opcode in (first, second))
    for size in (512, 1 << 20):
        dump = SassListing(cut(data, size), "dump")
        (function,) = (item for item in dump if isinstance(item, SassFunction))
        assert (function.stats.local.total.loads, function.stats.local.total.stores) == (3 - damaged, 1)
        assert dump.account.unknown_lines == damaged
