"""What each byte of a file is: every byte counts once, under the innermost thing that explains it.

A walk says where GPU code stands and what is packed in what; between that, the sections of the file around it explain
the bytes, and what nothing explains is said to be unexplained. Each byte has two measures: as stored, which add up
to the file's size, and unpacked. Several things that are compressed together share the stored bytes in proportion to
their unpacked ones, rounded so that the sum is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple, TypeVar

from spillscan.reading import workers
from spillscan.reading.binary import containers, elf, fatbin, host
from spillscan.reading.binary.found import Again, Damage, Enclosed, Intermediate, Member, Overhead, Passed
from spillscan.reading.binary.packed import Packed
from spillscan.reading.binary.section_sizes import PADDING, UNEXPLAINED, CubinSizer, CubinSizes, is_padding, partition
from spillscan.reading.binary.window import Budget, DamageError, Limits, Window
from spillscan.reading.inputs.memory import Buffer

UNOPENED, BITCODE = "other file", "LLVM bitcode"
_BITCODE = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
"""What it begins with: bare, and in a wrapper (LLVM's "Bitcode File Format")."""
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
    ((".nv.", ".note"), "attributes"),
)
"""What the sections of a cubin hold, by how their names begin."""
_HOST_KINDS = (
    ((".text", ".init", ".fini", ".plt"), "host code"),
    ((".debug", ".zdebug", ".stab"), "host debug information"),
    ((".eh_frame", ".gcc_except_table", ".pdata", ".xdata"), "host unwinding"),
    ((".rel", ".reloc"), "host relocations"),
    ((".symtab", ".strtab", ".shstrtab", ".dynsym", ".dynstr", ".hash", ".gnu.", "symbols"), "host symbols"),
    (".", "host data"),
)
"""The same of a host file."""
_HEADERS = ("ELF header", "program headers", "section headers", "headers", "fat binary headers", "archive headers")
_WHOLE = (PADDING, UNEXPLAINED, UNOPENED, BITCODE, "signature")
"""What is called as it is."""


class Key(NamedTuple):
    """What bytes are counted under."""

    member: str = ""
    """The file in an archive that holds them: ``lib/a.so``; empty where the input itself does."""
    unit: str = ""
    """The source or object that they were compiled from, where that is known."""
    form: str = ""
    """``SASS``, ``PTX`` or ``LTO-IR``; empty for what is no GPU code."""
    arch: str = ""
    """``sm_90a``, ``compute_90``; empty for what is no GPU code."""
    symbol: str = ""
    """The kernel or device function that they belong to; empty where they belong to none."""
    section: str = ""
    """The section's name without the function's, or what else they are."""

    @property
    def kind(self) -> str:
        """What is in such a section."""
        return _kind(self.form, self.section)


@cache
def _kind(form: str, section: str) -> str:
    if section in _WHOLE:
        return section
    if section in _HEADERS:
        return "headers"
    if form in ("PTX", "LTO-IR"):
        return form
    found = (kind for names, kind in (_KINDS if form else _HOST_KINDS) if section.startswith(names))
    return next(found, "attributes" if form else "host data")


@dataclass(slots=True)
class Measure:
    """How many bytes."""

    stored: int = 0
    """As they stand in the file."""
    plain: int = 0
    """Unpacked."""


Sums = dict[Key, Measure]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One function's code."""

    key: Key
    """Where it stands."""
    digest: str
    """Equal for equal code (:meth:`~spillscan.reading.binary.cubin.Cubin.digest_of`)."""
    entry: bool
    """Whether it is a kernel."""
    code_bytes: int
    """Of its section, unpacked."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes that nothing explains."""

    member: str
    """The file in an archive that holds them; empty where the input itself does."""
    offset: int
    """In the innermost file, or in the cubin."""
    bytes: int
    """How many."""


@dataclass(slots=True)
class Weight:
    """What one file consists of."""

    sums: Sums = field(default_factory=dict)
    """Its bytes."""
    copies: list[Copy] = field(default_factory=list)
    """Its functions, where they were asked for."""
    gaps: list[Gap] = field(default_factory=list)
    """What nothing explains."""
    damages: list[Damage] = field(default_factory=list)
    """What could not be read."""

    @property
    def stored_bytes(self) -> int:
        """All bytes, as they stand in the file."""
        return sum(measure.stored for measure in self.sums.values())


def weigh(buffer: Buffer, stored_bytes: int, limits: Limits, *, symbols: bool = True, copies: bool = False) -> Weight:
    """What a file consists of; ``stored_bytes``: its size on disk, which differs where ``buffer`` is unpacked already.
    ``symbols``: whose the sections are, too; ``copies``: also what code its functions have."""
    window = Window(buffer)
    scales = _Scales()
    scales.open(_File(Packed("", Window(buffer, 0, stored_bytes), window.size, window), "", 0))
    reader = CubinSizer(symbols, copies)

    def read_one(each: Passed) -> CubinSizes | DamageError | None:
        return reader.read(_member_of(each))

    passed = containers.walk(window, Budget(limits, window.size))
    read: Iterable[tuple[Passed, CubinSizes | DamageError | None]]
    if containers.are_kept(window):
        every = list(passed)
        sizes = [_work(each) for each in every]
        read = zip(every, workers.in_order(read_one, every, sizes, "the file was not read"), strict=True)
    else:
        read = ((each, read_one(each)) for each in passed)
    for each, contents in read:
        scales.put(each, contents)
    scales.close(0)
    return scales.weight


def _member_of(passed: Passed) -> Member | None:
    found = passed.member if isinstance(passed, Again) else passed
    return found if isinstance(found, Member) else None


def _work(passed: Passed) -> int:
    member = _member_of(passed)
    return 0 if member is None or isinstance(member, Intermediate) else member.plain_bytes


@dataclass(slots=True)
class _Claim:
    """Bytes of a file that something other than its sections explains."""

    begin: int
    """In the buffer, as ``end``."""
    end: int
    plain_bytes: int
    """Unpacked."""
    sums: Sums = field(default_factory=dict)
    """What they are."""


@dataclass(slots=True)
class _File:
    """One that is being weighed."""

    packed: Packed
    member: str
    depth: int
    claims: dict[tuple[int, int], _Claim] = field(default_factory=dict)
    """By where they stand; of what is stored together, one."""

    def claim(self, window: Window, sums: Sums, plain_bytes: int) -> None:
        """Something takes these bytes; ``plain_bytes``: unpacked, of all that shares them."""
        place = window.start, window.end
        if (known := self.claims.get(place)) is None:
            self.claims[place] = _Claim(*place, plain_bytes, sums)
        else:
            _add(known.sums, sums)


class _Scales:
    """Weighs a file while it is walked."""

    def __init__(self) -> None:
        self.weight = Weight()
        self._open: list[_File] = []

    def open(self, file: _File) -> None:
        """A file, before what it holds."""
        self._open.append(file)

    def put(self, passed: Passed, found: CubinSizes | DamageError | None) -> None:
        """The next thing on the way, and what is in it, where it is a cubin."""
        depth = passed.place.depth
        if isinstance(passed, Enclosed):
            self.close(depth)
            self.open(_File(passed.packed, str(passed.place), depth))
            return
        self.close(depth + 1)
        file = self._open[-1]
        if isinstance(passed, Damage):
            self.weight.damages.append(passed)
        elif isinstance(passed, Overhead):
            size = passed.window.size
            file.claim(passed.window, _one(Key(member=file.member, section="archive headers"), size), size)
        elif (member := _member_of(passed)) is not None:
            self._member(file, member, found)

    def close(self, depth: int) -> None:
        """No file at that depth or deeper has more to come."""
        while self._open and self._open[-1].depth >= depth:
            file = self._open.pop()
            sums = self._of_file(file)
            if self._open:
                self._open[-1].claim(file.packed.stored, sums, _plain(sums))
            else:
                _apportion(sums, file.packed.stored.size)
                self.weight.sums = sums

    def _member(self, file: _File, member: Member, found: CubinSizes | DamageError | None) -> None:
        """GPU code."""
        entry = member.stored
        if isinstance(entry, fatbin.Entry):
            key = Key(member=file.member, section="fat binary headers")
            for window in (Window(entry.header.buffer, entry.container, fatbin.HEADER_BYTES), entry.header):
                if (window.start, window.end) not in file.claims:
                    file.claim(window, _one(key, window.size), window.size)
        unit = member.place.unit("", "")
        if isinstance(member, Intermediate):
            section = f"{member.form} {member.version}" if member.version else member.form
            key = Key(file.member, unit, member.form, f"compute_{member.target}", "", section)
            sums = _one(key, member.plain_bytes)
        elif isinstance(found, DamageError):
            self.weight.damages.append(Damage(found, member.place))
            sums = _one(Key(member=file.member, section=UNEXPLAINED), member.plain_bytes)
        else:
            sums = self._of_cubin(file.member, unit, found) if found else {}
        file.claim(member.raw, sums, entry.size if isinstance(entry, Window) else entry.packed.plain_bytes)

    def _of_cubin(self, member: str, unit: str, found: CubinSizes) -> Sums:
        self.weight.gaps += [Gap(member, offset, size) for offset, size in found.gaps]
        for symbol, digest, entry, size in found.copies:
            key = Key(member, unit, "SASS", found.arch, symbol)
            self.weight.copies.append(Copy(key=key, digest=digest, entry=entry, code_bytes=size))
        return {
            Key(member, unit, "SASS", found.arch, symbol, section): Measure(size, size)
            for (section, symbol), size in found.sizes.items()
        }

    def _of_file(self, file: _File) -> Sums:
        """All bytes of a file, of which everything that stands in it is known."""
        window, member = file.packed.plain, file.member
        if window is None:
            sums = _one(Key(member=member, section=UNOPENED), file.packed.stored.size)
            next(iter(sums.values())).plain = file.packed.plain_bytes
            return sums
        sums = {}
        free, at = [], 0
        for claim in sorted(file.claims.values(), key=lambda claim: (claim.begin, -claim.end)):
            begin, end = claim.begin - window.start, claim.end - window.start
            if begin < at or end > window.size:
                continue  # what overlaps counts once
            if (rest := claim.plain_bytes - _plain(claim.sums)) > 0:
                _add(claim.sums, _one(Key(member=member, section=UNEXPLAINED), rest))
            _apportion(claim.sums, end - begin)
            _add(sums, claim.sums)
            free.append((at, begin))
            at = end
        free.append((at, window.size))
        for begin, end, name in _overlaps(free, partition(window.size, _sections_around(window))):
            section = self._between(member, window, begin, end) if name is None else name
            _add(sums, _one(Key(member=member, section=section), end - begin))
        return sums

    def _between(self, member: str, window: Window, begin: int, end: int) -> str:
        if not is_padding(window, begin, end):
            self.weight.gaps.append(Gap(member, begin, end - begin))
            return UNEXPLAINED
        return PADDING


def _sections_around(window: Window) -> list[tuple[int, int, str]]:
    """(begin, end, name) of everything in a host file that is there for no GPU code; nothing of another file."""
    if any(map(window.starts, _BITCODE)):
        return [(0, window.size, BITCODE)]
    if not (window.starts(elf.MAGIC) or window.starts(host.DOS_MAGIC) or host.is_coff_object(window)):
        return []
    try:
        found = [each for each in host.layout(window) if not each.is_fat]
    except DamageError:  # the walk says so
        return []
    start = window.start
    return [(each.window.start - start, each.window.end - start, each.name or "(no name)") for each in found]


def _overlaps(free: Sequence[tuple[int, int]], parts: Iterable[tuple[int, int, _T]]) -> Iterator[tuple[int, int, _T]]:
    """The parts of a file, without the bytes that are not free; both in order."""
    number = 0
    for begin, end, label in parts:
        while number < len(free) and free[number][1] <= begin:
            number += 1
        at = number
        while at < len(free) and free[at][0] < end:
            low, high = max(begin, free[at][0]), min(end, free[at][1])
            if low < high:
                yield low, high, label
            at += 1


def _one(key: Key, size: int) -> Sums:
    return {key: Measure(size, size)}


def _add(sums: Sums, more: Sums) -> None:
    for key, measure in more.items():
        if (known := sums.get(key)) is None:
            sums[key] = Measure(measure.stored, measure.plain)
        else:
            known.stored += measure.stored
            known.plain += measure.plain


def _plain(sums: Sums) -> int:
    return sum(measure.plain for measure in sums.values())


def _apportion(sums: Sums, size: int) -> None:
    """Let the stored bytes add up to ``size``, in proportion; rounded where they end, so that no byte is lost."""
    total = sum(measure.stored for measure in sums.values())
    if total == size:
        return
    if not total:
        sums[Key(section="archive headers")] = Measure(size, 0)
        return
    end = given = 0
    for measure in sums.values():
        end += measure.stored
        measure.stored = end * size // total - given
        given += measure.stored
