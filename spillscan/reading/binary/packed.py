"""What archives hold, whatever their format: members, what stands behind them, and how they are looked at."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from spillscan.reading.binary.window import Budget, DamageError, UnopenedError, Window
from spillscan.reading.inputs import archives, codecs
from spillscan.reading.inputs.source import kind_of_binary

BLOCK_BYTES = 1 << 20
"""What is handled at a time."""
HEAD_BYTES = 4096
"""What a member is known by."""
LONGEST_NAME = 4096
_NAMED = re.compile(r"\.(?:so(?:\.[\d.]+)?|dll|pyd|exe|o|obj|a|lib|cubin|fatbin|pkl|pickle)$", re.IGNORECASE)
"""What is called so may hold code whatever it begins with: that may be damaged."""


class Packed(NamedTuple):
    """A file in an archive."""

    name: str
    """As the archive names it; empty in what is only compressed."""
    stored: Window
    """Its bytes as they stand in the archive."""
    plain_bytes: int
    """How many they are when they are unpacked, as the archive claims where they were not."""
    plain: Window | None
    """Unpacked; ``None`` of what is of no format with code."""
    text: Window | None = None
    """Unpacked, where it is text."""


class Rest(NamedTuple):
    """What stands behind the end of an archive, and is none of it."""

    window: Window


Found = Packed | Rest | Window | DamageError


class SealedError(UnopenedError):
    """A member that is not opened, and why."""

    def __init__(self, name: str, why: str, body: Window) -> None:
        super().__init__(why, body.start)
        self.member = name


def is_worth(name: str, head: bytes) -> bool:
    """Whether a member may hold code: whatever is no text and of no format without code."""
    if _NAMED.search(name) is not None or codecs.codec_of(head) is not None:
        return True
    return kind_of_binary(head) is not None and not head.startswith(archives.BARREN)


def head_of(body: Window) -> bytes:
    """The first bytes of what stands in its archive as it is."""
    return body.copy(0, min(body.size, HEAD_BYTES), "member")


def as_it_is(name: str, body: Window) -> Packed:
    """A member that stands in its archive as it is."""
    head = head_of(body)
    if is_worth(name, head):
        return Packed(name, body, body.size, body)
    return Packed(name, body, body.size, None, None if head.startswith(archives.BARREN) else body)


def rest_of(window: Window, at: int) -> Rest:
    """What stands behind an archive that ends at ``at``, and the zeros with which it is filled up."""
    while at < window.size and not (block := window.copy(at, min(BLOCK_BYTES, window.size - at), "padding")).strip(
        b"\0"
    ):
        at += len(block)
    if at < window.size:
        at += len(block) - len(block.lstrip(b"\0"))
    return Rest(window.part(at, window.size - at, "padding"))


def grown(
    codec: codecs.Codec,
    chunks: Iterator[bytes | memoryview],
    behind: Callable[[int], None],
    budget: Budget,
    window: Window,
) -> bytearray:
    """All that comes of ``chunks``, which ``window`` holds. Raises :class:`DamageError`."""
    room = budget.room(window.size, window.start)
    plain = bytearray()
    try:
        for piece in codecs.unpacked(codec, chunks, behind):
            plain += piece
            if len(plain) > room:
                raise budget.excess(window.size, window.start)
    except EOFError as error:
        raise DamageError("compressed data that breaks off", window.start) from error
    except codecs.CodecError as error:
        raise DamageError(f"compressed data is damaged: {error}", window.start) from error
    budget.take(len(plain), window.size, window.start)
    return plain


class WindowFile(io.RawIOBase):
    """A window as a file that only reads."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._at = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always, from any place."""
        return True

    def tell(self) -> int:
        """Where the next byte is read."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go on there; gives where that is."""
        base = (0, self._at, self._window.size)[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, target: memoryview) -> int:  # type: ignore[override]
        """Fill ``target`` as far as there are bytes."""
        size = max(0, min(len(target), self._window.size - self._at))
        target[:size] = self._window.view(self._at, size, "archive") if size else b""
        self._at += size
        return size
