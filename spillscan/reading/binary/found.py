"""What a walk through a file finds, and where each of it stands. The same bytes in one file are read once."""

from __future__ import annotations

import re
from pathlib import PurePath

from msgspec import Struct
from msgspec.structs import replace

from spillscan.model.code import PortableForm
from spillscan.reading.binary import fatbin
from spillscan.reading.binary.packed import Packed
from spillscan.reading.binary.window import DamageError, Window
from spillscan.reading.inputs.memory import Scratch


class Place(Struct, frozen=True):
    """Where something stands, for the reader's eye."""

    members: tuple[str, ...] = ()
    """Names of the archive members around it, outermost first."""
    identifier: str = ""
    """Source that it was compiled from, as its fat binary or the symbols of its file name it."""
    spot: str = ""
    """``:.data+0x40``: where it was found in a file that no format says to hold it; empty elsewhere."""
    depth: int = 0
    """Containers around it, compressed files among them."""
    nesting: int = 0
    """The same, as they are bounded: what compresses an archive is no container of its own."""
    is_unpacked: bool = False
    """Whether what stands around it only compresses it."""

    def inside(self, name: str) -> Place:
        """A member of this place; without a name it is what is compressed there."""
        named = (name,) if name else ()
        return replace(
            self,
            members=(*self.members, *named),
            depth=self.depth + 1,
            nesting=self.nesting + (bool(name) or self.is_unpacked),
            is_unpacked=not name,
            spot="",
        )

    def path(self, name: str) -> str:
        """Where it stands in the input ``name``: ``logs.tar!build/a.log``."""
        return "!".join((name, *self.members)) + self.spot

    def unit(self, name: str, own: str) -> str:
        """What distinguishes the functions that stand here in a file of that name: the source that they come
        from, behind the shared library of a package that holds it, else the member; ``own``: where there is neither. No
        folder of the machine that built them."""
        if self.spot:
            return (self.members[-1] if self.members else PurePath(name).name) + self.spot
        if self.identifier:
            source = _FOLDERS.sub("", self.identifier)
            return f"{self.members[-1]}:{source}" if self.members and _SHARED.search(self.members[-1]) else source
        return self.members[-1] if self.members else own

    def __str__(self) -> str:
        return " > ".join(self.members) + self.spot


_SHARED = re.compile(r"\.(?:so|dll|pyd|dylib)(?:\.\d+)*\Z")
_FOLDERS = re.compile(r"^(?:/|\\\\|[A-Za-z]:[/\\]).*[/\\]")
"""Of an absolute path."""


class Member(Struct, frozen=True):
    """GPU code of one architecture."""

    stored: fatbin.Entry | Window
    """Its bytes, where they may still be compressed."""
    place: Place
    """Where it stands."""
    file: Window
    """The innermost file that holds it."""
    target: str = ""
    """``90a``, as its fat binary says; empty outside of one."""
    relocatable: bool = False
    """Whether a fat binary holds it for the device linker."""

    def plain(self, scratch: Scratch | None = None) -> Window:
        """Its bytes; decompressed at each call, so that they are not kept. In a ``scratch`` they are of use until the
        next are put there. Raises :class:`DamageError`."""
        return self.stored if isinstance(self.stored, Window) else fatbin.image(self.stored, scratch or Scratch())

    @property
    def raw(self) -> Window:
        """Its bytes as they are stored."""
        return self.stored if isinstance(self.stored, Window) else self.stored.stored

    @property
    def offset(self) -> int:
        """Of its stored bytes, in the innermost file."""
        return self.raw.start

    @property
    def plain_bytes(self) -> int:
        """Size of its bytes, as its container claims."""
        return self.stored.size if isinstance(self.stored, Window) else self.stored.plain_bytes


class Image(Member, frozen=True):
    """One cubin."""


class Intermediate(Member, frozen=True):
    """PTX or LTO-IR, of which machine code is still to be made."""

    form: PortableForm = "PTX"
    """What it is written in."""
    version: str | None = None
    """Of PTX, its ISA version: ``8.5``; ``None`` where its beginning does not say."""


class Damage(Struct, frozen=True):
    """Something that could not be read."""

    error: DamageError
    """What and where."""
    place: Place
    """In which member."""


class Text(Struct, frozen=True):
    """A member that is text."""

    window: Window
    """Its bytes."""
    place: Place
    """Its own."""


Found = Image | Intermediate | Damage | Text


class Enclosed(Struct, frozen=True):
    """A file in an archive, before what it holds."""

    packed: Packed
    """Its bytes."""
    place: Place
    """Its own."""


class Overhead(Struct, frozen=True):
    """Bytes of an archive's own."""

    window: Window
    """Headers, directories."""
    place: Place
    """The archive's."""


class Again(Struct, frozen=True):
    """GPU code that stands in the same file a second time, and is not read again."""

    member: Member
    """The second."""

    @property
    def place(self) -> Place:
        """Where it stands."""
        return self.member.place


Passed = Found | Enclosed | Overhead | Again
"""All that a walk passes."""


class Repeats:
    """What a file was found to hold."""

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
