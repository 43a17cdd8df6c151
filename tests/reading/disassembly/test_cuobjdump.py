"""Disassembly that differs from what cuobjdump writes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from spillscan.model import Issue
from spillscan.model.code import SassFunction
from spillscan.reading.disassembly.cuobjdump import SassListing
from spillscan.reading.inputs.formats import listing_format
from tests.conftest import sized
from tests.reading.disassembly.conftest import Read
from tests.reading.disassembly.support import FIXTURES, content, dumps

DUMP = content(next(path for path in dumps() if "sm_80-13" in path.name))
HEAD = b'\tcode for sm_80\n\t\tFunction : f\n\t.headerflags\t@"EF_CUDA_SM80 EF_CUDA_PTX_SM(EF_CUDA_SM80)"\n'
END = b"\t\t..........\n\n\n"


def row(address: int, text: str, width: int = 60) -> bytes:
    first = f"        /*{address:04x}*/".ljust(35) + f"{text} ;".ljust(width)
    return first.encode() + b" /* 0x0000000000007918 */\n" + b" " * (35 + width) + b" /* 0x000fc00000000000 */\n"


def test_truncated(read: Read) -> None:
    functions, issues = read(DUMP[: len(DUMP) // 2])
    assert [issue.code for issue in issues] == ["truncated"]
    assert "is truncated" in issues[0].message
    assert functions[-1].stats.instructions > 0


def test_the_arch_is_read_without_its_indent(read: Read) -> None:
    whole, _ = read(DUMP)
    for indent in (b"", b"    "):
        text = DUMP.replace(b"\tcode for", indent + b"code for")
        functions, issues = read(text)
        assert ([each.arch for each in functions], issues) == ([each.arch for each in whole], [])
        assert listing_format(text[text.index(b"code for") :].partition(b"\n")[0] + b"\n") == "sass"


def test_truncated_before_the_next(read: Read) -> None:
    """The tool died and was started again: the next header ends the function."""
    functions, issues = read(HEAD + row(0, "NOP") + HEAD + row(0, "NOP") + row(16, "EXIT") + END)
    assert [f.stats.instructions for f in functions] == [1, 2]
    assert [issue.code for issue in issues] == ["truncated"]


def test_messages_of_the_tool(read: Read) -> None:
    message = b"nvdisasm warning : Disassembling Std Elf to Old format\n"
    functions, issues = read(HEAD + row(0, "STL [R1], R2") + message + row(16, "EXIT") + END)
    assert [issue.code for issue in issues] == ["tool-message"]
    assert issues[0].origin
    assert issues[0].origin.line == 6
    assert functions[0].stats.instructions == 2
    assert functions[0].stats.local.total.stores == 1


def test_unknown_lines_are_counted(read: Read) -> None:
    dump = SassListing([HEAD + row(0, "NOP") + b"garbage\n" * 50 + row(16, "EXIT") + END], "dump")
    items = list(dump)
    assert dump.account.unknown_lines == 50
    issues = [item for item in items if isinstance(item, Issue)]
    assert len(issues) == 21
    assert "50 lines" in issues[-1].message


def test_unknown_opcodes_are_counted(read: Read) -> None:
    functions, issues = read(HEAD + row(0, "QUUX.FOO R1, R2") + row(16, "EXIT") + END)
    assert dict(functions[0].stats.opcodes) == {"EXIT": 1, "QUUX": 1}
    assert functions[0].stats.opcode_classes == {"control": 1, "other": 1}
    assert not issues


def test_undecodable_bytes(read: Read) -> None:
    dump = SassListing([DUMP.replace(b"FFMA", b"FF\xff\xfe", 2)], "dump")
    dump_items = list(dump)
    functions = [item for item in dump_items if isinstance(item, SassFunction)]
    assert dump.account.undecodable_bytes == 4
    assert "4 non-ASCII bytes" in [item.message for item in dump_items if isinstance(item, Issue)][-1]
    assert sum(f.stats.instructions for f in functions) + dump.account.unknown_lines == sum(
        f.stats.instructions for f in read(DUMP)[0]
    )


def test_static_libraries(read: Read) -> None:
    member = b"\nmember lib/libgemm.a:gemm.o:\n\nFatbin elf code:\n================\narch = sm_80\n\n"
    functions, issues = read(member + HEAD + row(0, "EXIT") + END)
    assert not issues
    assert functions[0].identifier == "gemm.o"


def test_nothing(read: Read) -> None:
    assert read(b"") == ([], [])


def test_members_and_archs(read: Read) -> None:
    path = next(iter(FIXTURES.glob("fatbin-*.sass")))
    functions, _ = read(path.read_bytes())
    assert len({(f.member, f.arch) for f in functions}) == len({f.member for f in functions}) > 1


def endless(size: int) -> Iterator[bytes]:
    """One function of ``size`` bytes, made while it is read."""
    yield HEAD
    address = 0
    while size > 0:
        piece = b"".join(row(address + 16 * i, "STL [R1+0x8], R2" if i == 9 else "NOP", 61) for i in range(256))
        address += 16 * 256
        size -= len(piece)
        yield piece
    yield END


@pytest.mark.parametrize("size", [sized(8, 40) << 20])
def test_memory_is_bounded(size: int) -> None:
    list(SassListing([DUMP], "dump"))
    tracemalloc.start()
    items = list(SassListing(endless(size), "dump"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(items[0], SassFunction)
    assert items[0].stats.local.total.stores > size >> 16
    assert peak < size * 3 // 4


def test_one_word_of_a_group_holds_no_instruction(read: Read) -> None:
    """On Maxwell, the first of four words is a control word."""
    lines = ["MOV R1, c[0x0][0x44]", "STL [R1+0x8], R2", *["NOP"] * 10, "LDL.LU R2, [R1+0x8]", "EXIT"]
    addresses = (8 * word for word in range(1, 99) if word % 4)
    body = b"".join(
        f"        /*{at:04x}*/  {text} ;  /* 0x0000000000007918 */\n".encode()
        for at, text in zip(addresses, lines, strict=False)
    )
    functions, issues = read(HEAD.replace(b"sm_80", b"sm_52") + body + END)
    assert not issues
    (local,) = (function.stats.local for function in functions)
    assert [access.kind for access in local.accesses] == ["spill", "spill"]
    assert {access.depth for access in local.accesses} == {0}
