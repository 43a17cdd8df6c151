"""cpio in its three formats and RPM, written here by cpio(5) and by rpm's manual, and SQLite: every size and name comes
back."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from spillscan.reading.binary.packages import of_cpio, of_rpm, of_sqlite
from spillscan.reading.binary.packed import Packed, Rest
from spillscan.reading.binary.window import Budget, DamageError, Limits, Window
from tests.reading.binary.support import stored

FILE, FOLDER, LINK = 0o100644, 0o040755, 0o120777
CUBIN = stored("inlined-sm_80-13.5.cubin")
Writer = Callable[[str, bytes, int], bytes]


def new(name: str, data: bytes, mode: int, magic: bytes = b"070701") -> bytes:
    """``newc``: 13 numbers of 8 hexadecimal digits, filled up to 4."""
    text = name.encode() + b"\0"
    fields = (1, mode, 2, 3, 4, 5, len(data), 6, 7, 8, 9, len(text), 10)
    head = magic + b"".join(b"%08x" % field for field in fields) + text
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)


def with_sum(name: str, data: bytes, mode: int) -> bytes:
    """``crc``: the same with another magic."""
    return new(name, data, mode, b"070702")


def old(name: str, data: bytes, mode: int) -> bytes:
    """``odc``: octal digits, nothing is filled up."""
    text = name.encode() + b"\0"
    numbers = ((1, 6), (2, 6), (mode, 6), (3, 6), (4, 6), (5, 6), (6, 6), (7, 11), (len(text), 6), (len(data), 11))
    return b"070707" + b"".join(b"%0*o" % (width, number) for number, width in numbers) + text + data


def oldest(name: str, data: bytes, mode: int) -> bytes:
    """``bin``: 13 words of 16 bits, the time and the size as two words, the high one first, filled up to 2."""
    text = name.encode() + b"\0"
    size = len(data)
    fields = (0o70707, 1, 2, mode, 3, 4, 5, 6, 7, 8, len(text), size >> 16, size & 0xFFFF)
    head = struct.pack("<13H", *fields) + text
    return head + bytes(-len(head) % 2) + data + bytes(size % 2)


WRITERS: Sequence[Writer] = (new, with_sum, old, oldest)
MEMBERS = (
    ("a", CUBIN),
    ("bb", CUBIN + b"\1"),
    ("ccc", CUBIN + b"\1\1"),
    ("dddd", CUBIN + bytes([1]) * 0x12345),
    ("./eeeee", CUBIN + b"\1\1\1"),
)


def budget(size: int, members: int = 1000) -> Budget:
    return Budget(Limits(members=members), size)


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_members_come_back_and_every_byte_is_accounted_for(write: Writer) -> None:
    data = b"".join(write(name, content, FILE) for name, content in MEMBERS[:2])
    data += write("folder", b"", FOLDER) + write("sub", CUBIN, FOLDER) + write("link", b"aim!", LINK)
    data += b"".join(write(name, content, FILE) for name, content in MEMBERS[2:])
    end = len(data) + len(write("TRAILER!!!", b"", 0))
    whole = data + write("TRAILER!!!", b"", 0) + bytes(700) + b"behind"
    found = list(of_cpio(Window(whole), budget(len(whole))))
    packed = [each for each in found if isinstance(each, Packed)]
    assert [each.name for each in packed] == [name.removeprefix("./") for name, _ in MEMBERS]
    for each, (_, content) in zip(packed, MEMBERS, strict=True):
        assert bytes(each.stored.whole) == content
        assert each.plain is each.stored
        assert each.plain_bytes == len(content)
    headers = [each for each in found if isinstance(each, Window)]
    skipped = len(CUBIN) + len(b"aim!")  # what a folder or a link holds is no file
    filled = sum(-len(content) % {new: 4, with_sum: 4, old: 1, oldest: 2}[write] for _, content in MEMBERS)
    filled += -len(CUBIN) % {new: 4, with_sum: 4, old: 1, oldest: 2}[write]
    assert sum(each.size for each in headers) + sum(each.plain_bytes for each in packed) + skipped + filled == end
    (rest,) = [each for each in found if isinstance(each, Rest)]
    assert bytes(rest.window.whole) == b"behind"


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_a_name_that_is_filled_up_moves_nothing(write: Writer) -> None:
    for length in range(1, 9):
        whole = write("n" * length, CUBIN, FILE) + write("TRAILER!!!", b"", 0)
        (packed,) = [each for each in of_cpio(Window(whole), budget(len(whole))) if isinstance(each, Packed)]
        assert (packed.name, bytes(packed.stored.whole)) == ("n" * length, CUBIN)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data[:40], "cpio header"),
        (lambda data: b"070709" + data[6:], "without a header"),
        (lambda data: b"07070" + data[:-5], "that is none|without a header"),
        (lambda data: data[:14] + b"zzzzzzzz" + data[22:], "that is none"),
        (lambda data: data[:-300], "cpio"),
    ],
)
def test_damage_is_said(change: Callable[[bytes], bytes], said: str) -> None:
    whole = change(new("a", CUBIN, FILE))
    with pytest.raises(DamageError, match=said):
        list(of_cpio(Window(whole), budget(len(whole))))


def test_an_archive_has_at_most_so_many_members() -> None:
    whole = b"".join(new(f"{at}", CUBIN, FILE) for at in range(3)) + new("TRAILER!!!", b"", 0)
    assert len(list(of_cpio(Window(whole), budget(len(whole), 4)))) == 8
    with pytest.raises(DamageError):
        list(of_cpio(Window(whole), budget(len(whole), 3)))


@pytest.mark.parametrize("signature", [(0, 0), (1, 3), (2, 8), (3, 13)])
@pytest.mark.parametrize("header", [(0, 0), (1, 5), (4, 7)])
def test_the_payload_of_an_rpm_stands_behind_two_headers(signature: tuple[int, int], header: tuple[int, int]) -> None:
    """The signature is filled up to 8, the header is not."""

    def index(entries: int, size: int) -> bytes:
        return b"\x8e\xad\xe8\x01" + bytes(4) + struct.pack(">II", entries, size) + b"\7" * (16 * entries + size)

    begin = b"\xed\xab\xee\xdb\3\0" + bytes(90) + index(*signature)
    begin += bytes(-len(begin) % 8) + index(*header)
    head, payload = of_rpm(Window(begin + CUBIN))
    assert isinstance(head, Window)
    assert isinstance(payload, Packed)
    assert head.size == len(begin)
    assert (payload.name, payload.plain_bytes) == ("", len(CUBIN))
    assert bytes(payload.stored.whole) == CUBIN
    with pytest.raises(DamageError, match="without a header"):
        list(of_rpm(Window(bytes(1) + begin + CUBIN)))


def database(tmp_path: Path) -> bytes:
    path = tmp_path / "cache.db"
    with closing(sqlite3.connect(path)) as base:
        base.execute('CREATE TABLE "odd ""name" (key TEXT, "a b" BLOB, other BLOB)')
        rows = [("text is none" * 9, CUBIN + b"\1", CUBIN), ("b", b"s" * 63, "no blob" * 20), ("c", b"s" * 64, None)]
        base.executemany('INSERT INTO "odd ""name" VALUES (?, ?, ?)', rows)
        base.execute("CREATE TABLE empty (x BLOB)")
        base.execute("CREATE TABLE large (x BLOB)")
        base.execute("INSERT INTO large VALUES (?)", (b"l" * 100_000,))
        base.execute("CREATE VIEW seen AS SELECT x FROM large")
        base.commit()
    return path.read_bytes()


def test_blobs_of_a_database_are_members(tmp_path: Path) -> None:
    data = database(tmp_path)
    found = list(of_sqlite(Window(data), budget(len(data))))
    packed = [each for each in found if isinstance(each, Packed)]
    assert [(each.name, each.plain_bytes, each.plain and bytes(each.plain.whole)) for each in packed] == [
        ('odd "name.a b[0]', len(CUBIN) + 1, CUBIN + b"\1"),
        ('odd "name.a b[1]', 64, None),
        ('odd "name.other[0]', len(CUBIN), CUBIN),
        ("large.x[0]", 100_000, None),
    ]
    assert {each.stored.size for each in packed} == {0}, "they stand in pages, in pieces"


@pytest.mark.parametrize(("members", "enough"), [(4, True), (3, False)])
def test_a_database_has_at_most_so_many_members(members: int, enough: bool, tmp_path: Path) -> None:
    data = database(tmp_path)
    if enough:
        assert len(list(of_sqlite(Window(data), budget(len(data), members)))) == 4
    else:
        with pytest.raises(DamageError):
            list(of_sqlite(Window(data), budget(len(data), members)))


def test_a_damaged_database(tmp_path: Path) -> None:
    data = database(tmp_path)
    with pytest.raises(DamageError, match="not a sound database"):
        list(of_sqlite(Window(data[:5000]), budget(5000)))
