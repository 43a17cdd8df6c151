"""Packages and databases that hold files: cpio, RPM, SQLite."""

from __future__ import annotations

import re
import sqlite3
import struct
from collections.abc import Iterator

from spillscan.reading.binary.packed import BLOCK_BYTES, LONGEST_NAME, Found, Packed, as_it_is, rest_of
from spillscan.reading.binary.window import Budget, DamageError, Window

_CPIO_NEW, _CPIO_OLD = re.compile(rb"07070[12]"), b"070707"
_REGULAR, _TYPE = 0o100000, 0o170000


def of_cpio(window: Window, budget: Budget) -> Iterator[Found]:
    """Of the three formats that ``cpio(5)`` describes. Raises :class:`DamageError`."""
    at = 0
    while True:
        budget.enter(0, window.start + at)
        header, mode, name_bytes, size, unit = _cpio_header(window, at)
        begin = at + header
        name = window.text(begin, begin + min(name_bytes, LONGEST_NAME))
        begin += name_bytes + -(header + name_bytes) % unit
        yield window.part(at, begin - at, "cpio header")
        at = begin + size + -size % unit
        if name == b"TRAILER!!!":
            break
        body = window.part(begin, size, "cpio member")
        if mode & _TYPE == _REGULAR:
            yield as_it_is(name.decode("utf-8", "backslashreplace").removeprefix("./"), body)
    yield rest_of(window, min(at, window.size))


def _cpio_header(window: Window, at: int) -> tuple[int, int, int, int, int]:
    """(bytes of the header, mode, bytes of the name, bytes of the member, what both are filled up to)."""
    magic = window.copy(at, 6, "cpio header")
    try:
        if _CPIO_NEW.match(magic):
            text = window.copy(at, 110, "cpio header")
            mode, size, name = (int(text[begin : begin + 8], 16) for begin in (14, 54, 94))
            return 110, mode, name, size, 4
        if magic == _CPIO_OLD:
            text = window.copy(at, 76, "cpio header")
            mode, name, size = (int(text[begin:end], 8) for begin, end in ((18, 24), (59, 65), (65, 76)))
            return 76, mode, name, size, 1
    except ValueError as error:
        raise DamageError("a cpio header that is none", window.start + at) from error
    if magic[:2] != b"\xc7\x71":
        raise DamageError("a cpio member without a header", window.start + at)
    fields = window.unpack("13H", at, "cpio header")
    return 26, fields[3], fields[10], fields[11] << 16 | fields[12], 2


_RPM_LEAD_BYTES = 96
_RPM_HEADER = b"\x8e\xad\xe8\x01"


def of_rpm(window: Window) -> Iterator[Found]:
    """The payload of an RPM package, behind its lead, its signature and its header (rpm's ``docs/manual/format``).
    Raises :class:`DamageError`."""
    at = _RPM_LEAD_BYTES
    for unit in (8, 1):
        if window.copy(at, 4, "RPM header") != _RPM_HEADER:
            raise DamageError("an RPM package without a header", window.start + at)
        entries, size = struct.unpack(">II", window.copy(at + 8, 8, "RPM header"))
        at += 16 + 16 * entries + size
        at += -at % unit
    yield window.part(0, at, "RPM header")
    body = window.part(at, window.size - at, "RPM payload")
    yield Packed("", body, body.size, body)


_LEAST_BLOB_BYTES = 64
_SQLITE_STEPS = 1 << 20
"""Instructions of its virtual machine between two looks at how much was read."""


def of_sqlite(window: Window, budget: Budget) -> Iterator[Found]:
    """The blobs of all tables of a database; what is long stands in several pages there. Raises
    :class:`DamageError`."""
    budget.take(window.size, window.size, window.start)
    steps = 16 + window.size // BLOCK_BYTES  # a hostile table may name its pages again and again
    nothing = window.part(0, 0, "database")

    def tired() -> int:
        nonlocal steps
        steps -= 1
        return int(steps < 0)

    database = sqlite3.connect(":memory:")
    try:
        database.deserialize(window.copy(0, window.size, "database"))
        database.execute("PRAGMA trusted_schema = OFF")
        database.text_factory = bytes
        database.set_progress_handler(tired, _SQLITE_STEPS)
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0").fetchall()
        for (table,) in tables:
            called = _quoted(table)
            for column in [each[1] for each in database.execute(f"PRAGMA table_info({called})").fetchall()]:
                place = _quoted(column)
                asked = f"SELECT {place} FROM {called} WHERE typeof({place}) = 'blob' AND length({place}) >= ?"
                for number, (blob,) in enumerate(database.execute(asked, (_LEAST_BLOB_BYTES,))):
                    budget.enter(0, window.start)
                    budget.take(len(blob), window.size, window.start)
                    name = f"{table.decode('utf-8', 'backslashreplace')}.{column.decode('utf-8', 'backslashreplace')}"
                    yield as_it_is(f"{name}[{number}]", Window(blob))._replace(stored=nothing)
    except (sqlite3.Error, AttributeError, UnicodeError) as error:  # built without what reads one from memory
        raise DamageError(f"not a sound database: {error}", window.start) from error
    finally:
        database.close()


def _quoted(name: bytes) -> str:
    return '"' + name.decode("utf-8").replace('"', '""') + '"'
