"""Debug information written here by the DWARF standard: each form before a name, each version, where strings stand."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import pytest

from spillscan.reading.binary.parameters import parameters
from spillscan.reading.binary.window import Window

FUNCTION, CLASS, STRUCTURE, TYPE, VALUE, PACK, OTHER = 0x2E, 0x02, 0x13, 0x2F, 0x30, 0x4106, 0x34
NAME, SIBLING, SOME = 0x03, 0x01, 0x49
STRING, STRP, LINE_STRP, REF4 = 0x08, 0x0E, 0x1F, 0x13

FORMS: dict[int, bytes] = {
    0x01: bytes(8),  # addr
    0x03: b"\3\0abc",  # block2
    0x04: b"\2\0\0\0ab",  # block4
    0x05: bytes(2),  # data2
    0x06: bytes(4),  # data4
    0x07: bytes(8),  # data8
    0x08: b"text\0",  # string
    0x09: b"\x81\1" + bytes(129),  # block
    0x0A: b"\5abcde",  # block1
    0x0B: bytes(1),  # data1
    0x0C: bytes(1),  # flag
    0x0D: b"\xff\x7f",  # sdata
    0x0E: bytes(4),  # strp
    0x0F: b"\x80\x80\1",  # udata
    0x10: bytes(4),  # ref_addr
    0x11: bytes(1),  # ref1
    0x12: bytes(2),  # ref2
    0x13: bytes(4),  # ref4
    0x14: bytes(8),  # ref8
    0x15: b"\x80\1",  # ref_udata
    0x17: bytes(4),  # sec_offset
    0x18: b"\2ab",  # exprloc
    0x19: b"",  # flag_present
    0x1A: b"\x81\1",  # strx
    0x1B: b"\x81\1",  # addrx
    0x1C: bytes(4),  # ref_sup4
    0x1D: bytes(4),  # strp_sup
    0x1E: bytes(16),  # data16
    0x1F: bytes(4),  # line_strp
    0x20: bytes(8),  # ref_sig8
    0x22: b"\x81\1",  # loclistx
    0x23: b"\x81\1",  # rnglistx
    0x24: bytes(8),  # ref_sup8
    0x25: bytes(1),  # strx1
    0x26: bytes(2),  # strx2
    0x27: bytes(3),  # strx3
    0x28: bytes(4),  # strx4
    0x29: bytes(1),  # addrx1
    0x2A: bytes(2),  # addrx2
    0x2B: bytes(3),  # addrx3
    0x2C: bytes(4),  # addrx4
    0x1F20: bytes(4),  # GNU_ref_alt
    0x1F21: bytes(4),  # GNU_strp_alt
}
"""DWARF 5, 7.5.6, in files of 32-bit offsets: a value of each form."""
Field = tuple[int, int, bytes]


def leb(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


class Unit:
    """Entries, each with an abbreviation of its own."""

    def __init__(self) -> None:
        self.entries = b""
        self.shapes = b""
        self._code = 0

    def add(self, tag: int, *fields: Field, children: bool = False) -> None:
        self._code += 1
        said = b"".join(leb(attribute) + leb(form) + (b"\7" if form == 0x21 else b"") for attribute, form, _ in fields)
        self.shapes += leb(self._code) + leb(tag) + bytes([children]) + said + b"\0\0"
        self.entries += leb(self._code) + b"".join(value for *_, value in fields)

    def named(self, tag: int, name: str, *, children: bool = False, before: Sequence[Field] = ()) -> None:
        self.add(tag, *before, (NAME, STRING, name.encode() + b"\0"), children=children)

    def end(self) -> None:
        self.entries += b"\0"

    def info(self, version: int = 5, kind: int = 1) -> bytes:
        rest = struct.pack("<HBBI", version, kind, 8, 0) if version == 5 else struct.pack("<HIB", version, 0, 8)
        return struct.pack("<I", len(rest) + len(self.entries)) + rest + self.entries


def template(*parameters_: str, name: str = "scan<float, 4>") -> Unit:
    """A function with parameters; of ``T``, a type, the name says nothing."""
    unit = Unit()
    unit.named(FUNCTION, name, children=True)
    for parameter in parameters_:
        unit.named(TYPE if parameter == "T" else VALUE, parameter)
    unit.end()
    return unit


def elf(sections: dict[str, bytes], *, kind: int = 2, packed: bool = False, moved: bytes = b"") -> Window:
    """A host file of 64 bits. ``moved``: relocations of its first section."""
    names = b"\0"
    rows, data = [bytes(64)], b""
    every = [(name, plain, 1, 0) for name, plain in sections.items()]
    every += [(".rela.debug_info", moved, 4, 1)] if moved else []
    for name, plain, type_, owner in [*every, (".shstrtab", b"", 3, 0)]:
        at, names = len(names), names + name.encode() + b"\0"
        flags, content = 0, plain
        if name == ".shstrtab":
            content = names
        elif packed and type_ == 1:
            flags, content = 0x800, struct.pack("<IIQQ", 1, 0, len(plain), 1) + zlib.compress(plain)
        rows.append(struct.pack("<IIQQQQIIQQ", at, type_, flags, 0, 64 + len(data), len(content), 0, owner, 1, 0))
        data += content
    head = b"\x7fELF\2\1\1" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", kind, 62, 1, 0, 0, 64 + len(data), 0, 64, 0, 0, 64, len(rows), len(rows) - 1)
    return Window(head + data + b"".join(rows))


def read(unit: Unit, version: int = 5) -> dict[str, tuple[str, ...]]:
    sections = {".debug_info": unit.info(version), ".debug_abbrev": unit.shapes + b"\0"}
    plain, compressed = (dict(parameters(elf(sections, packed=packed))[0]) for packed in (False, True))
    assert plain == compressed
    return plain


SCAN = {"scan": ("", "Size")}


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_each_version_is_read(version: int) -> None:
    assert read(template("T", "Size"), version) == SCAN


@pytest.mark.parametrize("version", [0, 1, 6])
def test_no_other_version_is_read(version: int) -> None:
    assert read(template("T", "Size"), version) == {}


@pytest.mark.parametrize("kind", range(1, 7))
def test_of_the_kinds_of_units_whole_ones_are_read(kind: int) -> None:
    unit = template("T", "Size")
    window = elf({".debug_info": unit.info(5, kind), ".debug_abbrev": unit.shapes + b"\0"})
    assert parameters(window)[0] == (SCAN if kind == 1 else {})


@pytest.mark.parametrize("form", FORMS, ids=hex)
def test_what_stands_before_a_name_has_its_size(form: int) -> None:
    unit = Unit()
    unit.named(FUNCTION, "scan<float, 4>", children=True, before=[(SOME, form, FORMS[form])])
    unit.named(TYPE, "T", before=[(SOME, form, FORMS[form]), (SOME, 0x21, b"")])
    unit.named(VALUE, "Size", before=[(SOME, 0x0B, b"\1"), (SOME, form, FORMS[form])])
    unit.end()
    assert read(unit) == SCAN


@pytest.mark.parametrize("form", [0x02, 0x16, 0x2D, 0x1F01])
def test_a_form_that_nobody_knows_ends_its_unit(form: int) -> None:
    unit = template("T", "Size")
    unit.add(OTHER, (SOME, form, bytes(8)))
    known, behind = template("Type", name="behind<int>"), {".debug_abbrev": b""}
    offset = len(unit.shapes) + 1
    info = known.info()
    info = unit.info() + info[:8] + struct.pack("<I", offset) + info[12:]
    behind = {".debug_info": info, ".debug_abbrev": unit.shapes + b"\0" + known.shapes + b"\0"}
    assert parameters(elf(behind))[0] == {**SCAN, "behind": ("Type",)}
    assert read(unit) == SCAN


@pytest.mark.parametrize(
    ("instance", "names", "found"),
    [
        ("scan<4>", ("Size",), ("Size",)),
        ("scan<float>", ("T",), None),
        ("scan<float, 4>", ("T", "Size"), ("", "Size")),
        ("scan<float, 4>", ("T",), None),  # one is left out: nobody knows which
        ("scan<float>", ("T", "Size"), None),
        ("scan<pair<int, int>, 4>", ("T", "Size"), ("", "Size")),
        ("scan<f(int, int), a[1, 2], {1, 2}>", ("A", "B", "C"), ("A", "B", "C")),
        ("scan<float, 4>", ("", "Size"), ("", "Size")),
        ("scan<float, 4>", ("", ""), None),
        ("scan<float, 4>", ("_N", "Size"), ("", "Size")),  # the library's own names begin so
        ("scan<float, 4>", ("S" * 40, "Size"), ("S" * 40, "Size")),
        ("scan<float, 4>", ("S" * 41, "Size"), ("", "Size")),
        ("operator<<float, 4>", ("T", "Size"), None),
        ("__scan<float, 4>", ("T", "Size"), None),
        ("scan", ("T",), None),
    ],
)
def test_names_stand_where_as_many_arguments_do(
    instance: str, names: tuple[str, ...], found: tuple[str, ...] | None
) -> None:
    assert read(template(*names, name=instance)) == ({} if found is None else {"scan": found})


@pytest.mark.parametrize("tag", [FUNCTION, CLASS, STRUCTURE, OTHER])
def test_functions_and_classes_have_parameters(tag: int) -> None:
    unit = Unit()
    unit.named(0x11, "a.cu", children=True)
    unit.named(tag, "scan<float, 4>", children=True)
    unit.named(OTHER, "member")
    unit.named(TYPE, "T")
    unit.named(VALUE, "Size")
    unit.named(OTHER, "inner", children=True)
    unit.named(TYPE, "U")  # of another
    unit.end()
    unit.end()
    unit.end()
    assert read(unit) == ({} if tag == OTHER else SCAN)


def test_templates_stand_inside_of_each_other() -> None:
    unit = Unit()
    unit.named(STRUCTURE, "Tile<float, 4>", children=True)
    unit.named(FUNCTION, "scan<float, 4>", children=True)
    unit.named(TYPE, "T")
    unit.named(VALUE, "Size")
    unit.end()
    unit.named(TYPE, "T")
    unit.named(VALUE, "Rows")
    unit.end()
    assert read(unit) == {**SCAN, "Tile": ("", "Rows")}


def test_an_entry_of_no_shape_ends_its_unit() -> None:
    before, behind = template("T", "Size"), template("Type", name="behind<int>")
    before.entries += b"\x7f" + behind.entries
    assert read(before) == SCAN


def test_a_function_that_is_no_template_is_stepped_over() -> None:
    for target in ("behind it", "itself", "beyond the unit"):
        unit = Unit()
        unit.named(0x11, "a.cu", children=True)
        here = 12 + len(unit.entries)
        inner = template("Type", name="inner<int>").entries
        unit.add(FUNCTION, (SIBLING, REF4, b"????"), (NAME, STRING, b"plain\0"), children=True)
        body = len(unit.entries)
        unit.named(FUNCTION, "inner<int>", children=True)
        unit.named(VALUE, "Type")
        unit.end()
        unit.end()
        behind = 12 + len(unit.entries)
        place = {"behind it": behind, "itself": here, "beyond the unit": 1 << 20}[target]
        unit.entries = unit.entries.replace(b"????", struct.pack("<I", place))
        unit.named(FUNCTION, "scan<float, 4>", children=True)
        unit.named(TYPE, "T")
        unit.named(VALUE, "Size")
        unit.end()
        unit.end()
        assert body
        assert inner
        assert read(unit) == (SCAN if target == "behind it" else {**SCAN, "inner": ("Type",)})


@pytest.mark.parametrize("kind", [1, 2, 3])
def test_strings_stand_where_relocations_say_in_an_object(kind: int) -> None:
    """In a linked file in their place. A relocation to an address, and not below 0, is an offset."""
    unit = Unit()
    unit.add(FUNCTION, (NAME, STRP, struct.pack("<I", 6)), children=True)
    unit.add(VALUE, (NAME, LINE_STRP, struct.pack("<I", 3)))
    unit.add(VALUE, (NAME, STRP, struct.pack("<I", 0)))
    unit.end()
    info = unit.info()
    sections = {
        ".debug_info": info,
        ".debug_abbrev": unit.shapes + b"\0" + unit.shapes + b"\0",
        ".debug_str": b"Size\0\0scan<float, 4>\0copy<float, 4>\0",
        ".debug_line_str": b"U\0\0V\0",
    }
    there = {"scan": ("V", "Size")}
    assert parameters(elf(sections, kind=kind))[0] == there
    moves = [(8, 10, len(unit.shapes) + 1), (13, 10, 21), (18, 258, 0), (23, 9, 6), (23, 10, -1)]
    moved = b"".join(struct.pack("<QQq", place, (5 << 32) | form, addend) for place, form, addend in moves)
    assert parameters(elf(sections, kind=kind, moved=moved))[0] == ({"copy": ("U", "Size")} if kind == 1 else there)


def test_instances_that_contradict_each_other_have_no_names_there() -> None:
    unit = template("T", "Size")
    unit.named(FUNCTION, "scan<int, 8>", children=True)
    unit.named(TYPE, "T")
    unit.named(VALUE, "Count")
    unit.end()
    assert read(unit) == {}


@pytest.mark.parametrize("number", [0, 1, 126, 127, 128, 129, 16383, 16384, 1 << 35, (1 << 63) - 1])
def test_numbers_have_as_many_bytes_as_they_need(number: int) -> None:
    unit = Unit()
    unit.named(FUNCTION, "scan<float, 4>", children=True, before=[(SOME, 0x0F, leb(number))])
    unit.named(TYPE, "T")
    unit.named(VALUE, "Size", before=[(SOME, 0x0F, leb(number))])
    unit.end()
    assert read(unit) == SCAN


def test_units_follow_each_other_to_the_last_byte() -> None:
    unit = Unit()
    unit.named(FUNCTION, "scan<float, 4>", children=True)
    unit.named(TYPE, "T")
    unit.named(VALUE, "Size")
    unit.end()
    sections = {".debug_info": Unit().info() + unit.info(), ".debug_abbrev": unit.shapes + b"\0"}
    assert parameters(elf(sections))[0] == SCAN
    assert parameters(elf(sections), 4) == (SCAN, 0), "three entries and the end of the children"
    assert parameters(elf(sections), 3) == ({}, 0)
    longer = {**sections, ".debug_info": struct.pack("<I", len(unit.info())) + unit.info()[4:]}
    assert parameters(elf(longer))[0] == {}, "a unit that is longer than its section"
