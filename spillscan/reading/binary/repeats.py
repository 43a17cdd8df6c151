"""GPU code that stands in one file several times: the same bytes are read once."""

from __future__ import annotations

from typing import Protocol

from spillscan.reading.binary import fatbin
from spillscan.reading.binary.window import DamageError, Window
from spillscan.reading.inputs.memory import Scratch


class Member(Protocol):
    """A cubin or a module, as :class:`spillscan.reading.binary.containers.Member` is."""

    @property
    def stored(self) -> Window | fatbin.Entry:
        """Its bytes, or the entry of a fat binary that holds them."""

    @property
    def plain_bytes(self) -> int:
        """Size of its bytes, as its container claims."""

    def plain(self, scratch: Scratch | None = None) -> Window:
        """Its bytes. Raises :class:`DamageError`."""


class Repeats:
    """What a file was found to hold: the same bytes are read once."""

    def __init__(self) -> None:
        self._known: dict[int, list[Member]] = {}
        """By size: those of which no other had the size until now."""
        self._seen: dict[_Sight, list[Member]] = {}
        """Likewise, of those of one size: those that no other looked like."""
        self._digests: dict[_Sight, set[bytes]] = {}
        self._scratch = Scratch()

    def add(self, member: Member) -> None:
        """Remember one."""
        self._known.setdefault(member.plain_bytes, []).append(member)

    def holds(self, member: Member) -> bool:
        """Whether the same bytes were found before; they are remembered in any case."""
        for other in self._known.pop(member.plain_bytes, ()):
            self._seen.setdefault(_sight(other), []).append(other)
        sight = _sight(member)
        alike = self._seen.pop(sight, [])
        if not alike and sight not in self._digests:
            self._seen[sight] = [member]
            return False
        digests = self._digests.setdefault(sight, set())
        digests.update(_digest(each, self._scratch) for each in alike)
        own = _digest(member, self._scratch)
        known = own in digests
        digests.add(own)
        return known


_Sight = tuple[int, bytes]
"""Size and first bytes; equal for what is equal."""
_SIGHT_BYTES = 512
"""In cubins the names of functions stand at the beginning."""


def _sight(member: Member) -> _Sight:
    stored = member.stored
    try:
        if isinstance(stored, Window):
            return stored.size, stored.copy(0, min(stored.size, _SIGHT_BYTES), "image")
        return stored.plain_bytes, fatbin.head(stored, min(stored.plain_bytes, _SIGHT_BYTES))
    except DamageError:
        return member.plain_bytes, b""


def _digest(member: Member, scratch: Scratch) -> bytes:
    """Of its bytes; of what cannot be decompressed, of where it stands."""
    import hashlib

    try:
        window = member.plain(scratch)
        data: bytes | memoryview = window.whole
    except DamageError as error:
        data = str(error).encode()
    return hashlib.sha256(data).digest()
