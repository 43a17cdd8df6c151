"""Static libraries: the ``ar`` format of Unix and of Windows import libraries."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.binary.window import DamageError, Window

MAGIC = b"!<arch>\n"
_HEADER_BYTES = 60
_LONGEST_NAME = 4096


def members(window: Window) -> Iterator[tuple[str, Window]]:
    """(name, bytes) of each member; symbol tables and the table of long names are none.

    Raises :class:`DamageError` where a header is none.
    """
    at, names = len(MAGIC), Window(window.buffer, window.start, 0)
    while at + _HEADER_BYTES <= window.size:
        header = window.copy(at, _HEADER_BYTES, "library member")
        size = header[48:58].strip()
        if header[58:] != b"`\n" or not size.isdigit():
            raise DamageError("a library member without a header", window.start + at)
        at += _HEADER_BYTES
        body = window.part(at, int(size), "library member")
        at += int(size) + int(size) % 2
        name = header[:16].rstrip()
        if name in (b"/", b"/SYM64/", b"__.SYMDEF"):
            continue
        if name == b"//":
            names = body
            continue
        if name.startswith(b"#1/") and name[3:].isdigit():  # BSD: the name stands before the bytes
            length = min(int(name[3:]), body.size)
            name = body.text(0, min(length, _LONGEST_NAME))
            body = body.part(length, body.size - length, "library member")
        elif name[:1] == b"/" and name[1:].isdigit():
            name = names.text(int(name[1:]), int(name[1:]) + _LONGEST_NAME).split(b"\n")[0]
        yield name.rstrip(b"/").decode("utf-8", "backslashreplace"), body
