"""Bytes of a file by architecture, section, kernel and source of its GPU code, as stored and unpacked.

All parts of what is compressed as a whole share its stored bytes in proportion to the unpacked ones. Bytes other than
GPU code are one sum per file with GPU code, and one for the rest of the input, so that the stored sums add up to its
size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby, islice
from operator import itemgetter
from typing import NamedTuple

from spillscan.reading.binary import containers, elf
from spillscan.reading.binary.cubin import Cubin
from spillscan.reading.binary.images import Damage, Intermediate, Member, Place
from spillscan.reading.binary.window import Budget, Buffer, DamageError, Limits, Pages, Window

HOST, OTHER = "host code and data", "other files and packing"
BETWEEN, DAMAGED = "between sections", "damaged"
_KINDS = (
    (".text", "code"),
    (".nv.constant", "constants"),
    (".nv.global", "data"),
    ((".debug_line", ".nv_debug_line"), "line information"),
    (".debug_frame", "unwinding"),
    ((".debug_", ".nv_debug"), "debug information"),
    ((".rel", ".nv.rel", ".nv.resolvedrel"), "relocations"),
    ((".symtab", ".strtab", ".shstrtab"), "symbols"),
    ((".nv.capmerc", ".nv.merc"), "Mercury"),
    (".", "attributes"),
    (("ELF", "program", "section"), "headers"),
)
"""Contents of a cubin's sections by the beginning of their names."""
_MOST_DOTS = 8
"""Maximum dots in the name of a section before that of its function."""


class Key(NamedTuple):
    """The group that bytes are counted in; empty: does not apply."""

    member: str = ""
    """File in an archive that contains them: ``lib/a.so``."""
    unit: str = ""
    """Source or object that they were compiled from."""
    form: str = ""
    """``SASS``, ``PTX`` or ``LTO-IR``."""
    arch: str = ""
    """``sm_90a``, ``compute_90``."""
    symbol: str = ""
    """Their kernel or device function."""
    section: str = ""
    """Name of the section without the function's, or another label."""

    @property
    def kind(self) -> str:
        """Kind of the section's contents."""
        return _kind(self.form, self.section)


@cache
def _kind(form: str, section: str) -> str:
    if form != "SASS":
        return form or section
    return next((kind for names, kind in _KINDS if section.startswith(names)), section)


@dataclass(slots=True)
class Measure:
    """Bytes as stored, and unpacked."""

    stored: int = 0
    plain: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """The code of one function."""

    key: Key
    digest: str
    """Digest of the code (:meth:`~spillscan.reading.binary.cubin.Cubin.digest_of`)."""
    entry: bool
    """Whether it is a kernel."""
    code_bytes: int


@dataclass(slots=True)
class Sizes:
    """Sizes of one file."""

    sums: dict[Key, Measure] = field(default_factory=dict)
    copies: list[Copy] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)

    def add(self, key: Key, stored: int, plain: int) -> None:
        """Count bytes in a group."""
        measure = self.sums.setdefault(key, Measure())
        measure.stored += stored
        measure.plain += plain

    @property
    def stored_bytes(self) -> int:
        """All bytes as stored."""
        return sum(measure.stored for measure in self.sums.values())

    @property
    def plain_bytes(self) -> int:
        """All bytes unpacked."""
        return sum(measure.plain for measure in self.sums.values())


def sizes_of(buffer: Buffer, stored_bytes: int, limits: Limits, *, symbols: bool = True, copies: bool = False) -> Sizes:
    """Sizes of a file that has ``stored_bytes`` on disk, possibly compressed. ``symbols``: also by function;
    ``copies``: also digests of the functions' code."""
    window, sizes = Window(buffer), Sizes()
    sizer = _Sizer(sizes, symbols, copies)
    place = Place(density=stored_bytes / max(window.size, 1))

    def members() -> Iterator[Member]:
        for found in containers.images(window, Budget(limits, window.size), place):
            if isinstance(found, Damage):
                sizes.damages.append(found)
            elif isinstance(found, Member):
                yield found

    for file, group in groupby(members(), key=lambda member: member.file):
        sizer.add(file, group)
    rest, host = stored_bytes - sizes.stored_bytes, Key(section=HOST)
    if host in sizes.sums:  # rounding remainder
        sizes.add(host, rest, 0)
    elif rest or not sizes.sums:
        plain = max(rest, window.size - sizes.plain_bytes)
        sizes.add(Key(section=OTHER) if sizes.sums else host, rest, plain)
    return sizes


class _Sizer:
    """Adds the sizes of files to a total."""

    def __init__(self, sizes: Sizes, symbols: bool, copies: bool) -> None:
        self._total, self._symbols, self._copies = sizes, symbols, copies
        self._pages = Pages()

    def add(self, file: Window, members: Iterable[Member]) -> None:
        """Add the members of one file, and the rest of it as one sum."""
        parts: dict[tuple[int, int], tuple[int, Counter[Key]]] = {}  # unpacked size, and sizes by key
        name, density = "", 1.0
        for member in members:
            place, raw = member.place, member.raw
            name, density = " > ".join(place.members), place.density
            try:
                sums = self._sizes(member, name)
            except DamageError as error:
                self._total.damages.append(Damage(error, place))
                sums = Counter({Key(member=name, section=DAMAGED): member.plain_bytes})
            parts.setdefault((raw.start, raw.end), (member.plain_bytes, sums))
            self._pages.leave(raw.buffer, raw.start)
        end = taken = 0
        for (begin, stop), (size, sums) in sorted(parts.items(), key=itemgetter(0)):
            if begin < end:
                continue  # overlapping bytes count once
            end, taken = stop, taken + stop - begin
            if (rest := size - sums.total()) > 0:
                sums[Key(member=name, section=BETWEEN)] += rest
            total, reached, given = sums.total() or 1, 0, 0
            for key, plain in sums.items():
                reached += plain
                share = int(reached * (stop - begin) * density) // total - given
                given += share
                self._total.add(key, share, plain)
        if file.size > taken:
            self._total.add(Key(member=name, section=HOST), int((file.size - taken) * density), file.size - taken)

    def _sizes(self, member: Member, name: str) -> Counter[Key]:
        """Unpacked bytes of a member."""
        unit = member.place.unit("", "")
        if isinstance(member, Intermediate):
            section = f"{member.form} {member.version}" if member.version else member.form
            return Counter({Key(name, unit, member.form, f"compute_{member.target}", "", section): member.plain_bytes})
        cubin = Cubin(member.plain())
        whole = Key(name, unit, "SASS", f"sm_{member.target}" if member.target else cubin.arch)
        sums = Counter({whole._replace(section=what): size for what, (_, size) in cubin.elf.headers.items()})
        functions = {each[len(b".text.") :] for each in cubin.elf.names if each.startswith(b".text.")}
        for label, header in zip(cubin.elf.names, cubin.elf.sections, strict=True):
            if header.type not in (0, elf.NOBITS):
                cut = next((at for at in _dots(label) if label[at + 1 :] in functions), len(label))
                symbol = _text(label[cut + 1 :]) if self._symbols else ""
                sums[whole._replace(symbol=symbol, section=_text(label[:cut]))] += header.size
        for function in cubin.functions() if self._copies else ():
            key = whole._replace(symbol=function.symbol)
            digest, entry = cubin.digest_of(function), function.role == "entry"
            self._total.copies.append(Copy(key=key, digest=digest, entry=entry, code_bytes=function.code.size))
        return sums


def _dots(name: bytes) -> Iterator[int]:
    return islice((at for at in range(1, len(name)) if name[at] == ord(".")), _MOST_DOTS)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")
