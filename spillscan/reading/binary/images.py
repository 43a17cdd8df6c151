"""GPU code in a file: cubins, PTX and LTO-IR with the place of each in archives and sections."""

from __future__ import annotations

import hashlib
import re
from pathlib import PurePath

from msgspec import Struct
from msgspec.structs import replace

from spillscan.model.code import PortableForm
from spillscan.reading.binary import fatbin
from spillscan.reading.binary.window import DamageError, Window


class Place(Struct, frozen=True):
    """Location of something in a file, for messages."""

    members: tuple[str, ...] = ()
    """Names of the archive members around it, outermost first."""
    identifier: str = ""
    """Source that it was compiled from, named by its fat binary or the symbols of its file."""
    spot: str = ""
    """``:.data+0x40``: its offset, if the file's format does not mark GPU code there; else empty."""
    depth: int = 0
    """Containers around it, compressed files among them."""
    nesting: int = 0
    """Containers around it that count for the limit: compression around an archive does not."""
    is_unpacked: bool = False
    """Whether the innermost container only compresses it."""
    density: float = 1.0
    """Input bytes per byte of it."""

    def inside(self, name: str, density: float = 1.0) -> Place:
        """A member of this place; without a name: its decompressed content. ``density``: its packed bytes per byte."""
        named = (name,) if name else ()
        return replace(
            self,
            members=(*self.members, *named),
            depth=self.depth + 1,
            nesting=self.nesting + (bool(name) or self.is_unpacked),
            is_unpacked=not name,
            spot="",
            density=self.density * density,
        )

    def path(self, name: str) -> str:
        """The place within the input ``name``: ``logs.tar!build/a.log``."""
        return "!".join((name, *self.members)) + self.spot

    def unit(self, name: str, own: str) -> str:
        """Name that distinguishes functions of this place from others in a file ``name``: their source, after the
        shared library of a package that contains it, else the member; ``own`` if there is neither. It names no folder
        of the build machine."""
        if self.spot:
            return (self.members[-1] if self.members else PurePath(name).name) + self.spot
        if self.identifier:
            source = _FOLDERS.sub("", self.identifier)
            if not self.members or not _SHARED.search(self.members[-1]) or source.startswith(f"{self.members[-1]}:"):
                return source
            return f"{self.members[-1]}:{source}"
        return self.members[-1] if self.members else own

    def __str__(self) -> str:
        return " > ".join(self.members) + self.spot


_SHARED = re.compile(r"\.(?:so|dll|pyd|dylib)(?:\.\d+)*\Z")
_FOLDERS = re.compile(r"^(?:/|\\\\|[A-Za-z]:[/\\]).*[/\\]")
"""Folders of an absolute path."""


class Member(Struct, frozen=True):
    """GPU code of one architecture."""

    stored: fatbin.Entry | Window
    """Its bytes, or the entry of a fat binary that contains them, possibly compressed."""
    place: Place
    file: Window
    """Innermost file that contains it."""
    target: str = ""
    """``90a``, from its fat binary; empty outside of one."""
    relocatable: bool = False
    """Whether it is relocatable code in a fat binary, for the device linker."""

    def plain(self) -> Window:
        """Its bytes, decompressed at each call. Raises :class:`DamageError`."""
        return self.stored if isinstance(self.stored, Window) else fatbin.image(self.stored)

    @property
    def raw(self) -> Window:
        """Its bytes as they are stored."""
        return self.stored if isinstance(self.stored, Window) else self.stored.stored

    @property
    def plain_bytes(self) -> int:
        """Size of its bytes, as its container claims."""
        return self.stored.size if isinstance(self.stored, Window) else self.stored.plain_bytes


class Image(Member, frozen=True):
    """One cubin."""


class Intermediate(Member, frozen=True):
    """PTX or LTO-IR, still to be compiled to machine code."""

    form: PortableForm = "PTX"
    version: str | None = None
    """ISA version of PTX: ``8.5``; ``None``: not given at its beginning."""


class Damage(Struct, frozen=True):
    """Something that could not be read."""

    error: DamageError
    place: Place


class Text(Struct, frozen=True):
    """A member that is text."""

    window: Window
    place: Place


Item = Image | Intermediate | Damage | Text


class Repeats:
    """Members of one file by content. Only members of equal size are compared, by digest."""

    def __init__(self) -> None:
        self._undigested: dict[int, list[Member]] = {}
        """By size."""
        self._digests: set[bytes] = set()

    def add(self, member: Member) -> None:
        """Remember a member."""
        self._undigested.setdefault(member.plain_bytes, []).append(member)

    def holds(self, member: Member) -> bool:
        """Whether an earlier member has the same bytes; remembers this one."""
        if member.plain_bytes not in self._undigested:
            self.add(member)
            return False
        self._digests.update(map(self._digest, self._undigested[member.plain_bytes]))
        self._undigested[member.plain_bytes] = [member]
        return self._digest(member) in self._digests

    def _digest(self, member: Member) -> bytes:
        """Digest of a member's bytes; of its damage if it cannot be decompressed."""
        try:
            data: bytes | memoryview = member.plain().whole
        except DamageError as error:
            data = str(error).encode()
        return hashlib.sha256(data).digest()
