"""The walk through everything: finds each cubin, each PTX image and each text in a file, whatever it is packed in: one
dispatch by magic, one generator a container, and a search where anything may stand: in the data of host files, behind
their ends, in text, and in files of no format that is known here. What is packed and cannot be opened is said. Nothing
is unpacked to disk; names of members are shown, never opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from spillscan.reading.binary import archive, elf, encoded, fatbin, host
from spillscan.reading.binary.found import (
    Again,
    Damage,
    Enclosed,
    Found,
    Image,
    Intermediate,
    Member,
    Overhead,
    Passed,
    Place,
    Repeats,
    Text,
)
from spillscan.reading.binary.packed import Rest, SealedError, rest_of
from spillscan.reading.binary.search import Search, is_noise
from spillscan.reading.binary.window import Budget, DamageError, UnopenedError, Window
from spillscan.reading.inputs import archives
from spillscan.reading.inputs.ptx import version
from spillscan.reading.inputs.source import kind_of_binary

_PTX_HEAD_BYTES = 1024
"""Within these a module says its version; comments of its compiler stand before."""


def images(window: Window, budget: Budget, place: Place | None = None) -> Iterator[Found]:
    """All GPU code of a file; damage on the way."""
    return (each for each in walk(window, budget, place) if isinstance(each, Image | Intermediate | Damage | Text))


def walk(window: Window, budget: Budget, place: Place | None = None) -> Iterator[Passed]:
    """The same, and what it stands in: each packed file comes before what it holds. What a limit keeps from being read
    is said once."""
    for each in _walk(window, budget, place or Place()):
        if not isinstance(each, Damage) or budget.is_new(each.error):
            yield each


def _walk(window: Window, budget: Budget, place: Place) -> Iterator[Passed]:
    try:
        budget.enter(place.nesting, window.start)
        yield from _reader(window)(window, budget, place)
    except DamageError as error:
        yield Damage(error, place)


def holds_code(head: bytes) -> bool:
    """Whether a file that begins with ``head`` may hold GPU code: any that is not of a format without such."""
    return _reader(Window(head)) is not _anywhere or not head.startswith(archives.BARREN)


def are_kept(window: Window) -> bool:
    """Whether all members of a file lie in its own bytes, and stay there: else each is unpacked where it is found, and
    given up when the next is. A file that is no map is small, or was unpacked itself."""
    if isinstance(window.buffer, bytes) or archive.codec_of(window) is not None:
        return False
    return archive.kind(window) in (None, "library")


_Reader = Callable[[Window, Budget, Place], Iterator[Passed]]


_HEAD_BYTES = 1 << 16
"""What a format is known by."""


def _reader(window: Window) -> _Reader:
    if window.starts(elf.MAGIC):
        return _elf
    if window.starts(fatbin.MAGIC):
        return _region
    if archive.codec_of(window) is not None:
        return _compressed
    if archive.kind(window):
        return _archive
    if window.starts(host.DOS_MAGIC) or host.is_coff_object(window):
        return _coff
    head = window.copy(0, min(window.size, _HEAD_BYTES), "file")
    if archives.sealed(head):
        return _sealed
    return _anywhere if kind_of_binary(head) is not None else _text


def _elf(window: Window, budget: Budget, place: Place) -> Iterator[Passed]:
    file = elf.Elf(window)
    if file.machine == elf.MACHINE_CUDA:
        budget.take(window.size, window.size, window.start)
        end = min(file.extent, window.size)
        rest = rest_of(window, end).window
        yield Image(window.part(0, end, "cubin") if rest.size else window, place, window)
        if rest.size:  # several stand behind each other
            yield from _rest(rest, rest.start - window.start, budget, place)
        return
    sections = list(host.of_elf(file))
    sources = host.sources(file) if any(section.is_fat for section in sections) else {}
    yield from _host(_File(window, sections, sources), budget, place)


def _coff(window: Window, budget: Budget, place: Place) -> Iterator[Passed]:
    yield from _host(_File(window, list(host.of_coff(window)), {}), budget, place)


def _region(window: Window, budget: Budget, place: Place) -> Iterator[Passed]:
    yield from _host(_File(window, [host.Section("", window, is_fat=True)], {}), budget, place)


def _anywhere(window: Window, budget: Budget, place: Place) -> Iterator[Passed]:
    found = False
    for each in _host(_File(window, [host.Section("", window, is_fat=False)], {}), budget, place):
        found = True
        yield each
    if not found and is_noise(window):
        yield Damage(UnopenedError("it looks compressed or encrypted, and is not opened", window.start), place)


def _text(window: Window, budget: Budget, place: Place) -> Iterator[Passed]:
    """Text, which may hold GPU code as numbers or letters, or have something packed behind it."""
    by_hand = bool(place.members) and place.members[-1].lower().endswith(archives.WRITTEN_BY_HAND)
    if place.depth and not by_hand:  # else it is the input itself
        yield Text(window, place)
    yield from _host(_File(window, [host.Section("", window, is_fat=False)], {}), budget, place)
    for at, data in encoded.images(window, budget):
        yield from _walk(Window(data), budget, place.inside(f"+{at:#x}"))


def _sealed(window: Window, budget: Budget, place: Place) -> Iterator[Passed]:
    how = archives.sealed(window.copy(0, min(window.size, archives.HEAD_BYTES), "file"))
    yield Damage(UnopenedError(f"it is {how}, which is not opened", window.start), place)


def _compressed(window: Window, budget: Budget, place: Place) -> Iterator[Passed]:
    codec = archive.codec_of(window)
    assert codec is not None
    packed, rest = archive.unpacked(window, codec, budget)
    inside = place.inside("")
    yield Enclosed(packed, inside)
    if packed.plain is not None:
        yield from _walk(packed.plain, budget, inside)
    if rest.window.size:
        yield from _rest(rest.window, rest.window.start - window.start, budget, place)


def _rest(window: Window, at: int, budget: Budget, place: Place) -> Iterator[Passed]:
    """What stands behind the end of something at ``at``."""
    yield from _walk(window, budget, place.inside(f"+{at:#x}"))


def _archive(window: Window, budget: Budget, place: Place) -> Iterator[Passed]:
    for member in archive.members(window, budget):
        if isinstance(member, SealedError):
            yield Damage(member, place.inside(member.member))
        elif isinstance(member, DamageError):
            yield Damage(member, place)
        elif isinstance(member, Rest):
            if member.window.size:
                yield from _rest(member.window, member.window.start - window.start, budget, place)
        elif isinstance(member, Window):
            yield Overhead(member, place)
        else:
            inside = place.inside(member.name)
            yield Enclosed(member, inside)
            plain = member.text if member.plain is None else member.plain
            if plain is not None:
                yield from _walk(plain, budget, inside)


class _File(NamedTuple):
    """One that may hold GPU code."""

    window: Window
    sections: list[host.Section]
    sources: Mapping[int, str]
    """Of a fat binary, by where it stands."""


def _host(file: _File, budget: Budget, place: Place) -> Iterator[Passed]:
    """What a file holds: what its format says, then whatever else looks like GPU code, unless it is the same. What is
    still to be linked or to be made machine code of comes last: whoever reads it knows by then what there is."""
    later: list[Passed] = []
    contents = Repeats()
    end = 0
    for section in sorted(file.sections, key=lambda section: (not section.is_fat, section.window.start)):
        if not section.is_fat:
            break
        if section.window.start < end:
            yield Damage(DamageError("sections overlap", section.window.start), place)
            continue
        end = section.window.end
        for entry in fatbin.entries(section.window):
            found = _of_entry(entry, file, budget, place)
            if isinstance(found, Image):
                contents.add(found)
            if _waits(found):
                later.append(found)
            else:
                yield found
    for loose in _loose(file, budget, place):
        own = isinstance(loose, Member) and loose.file is file.window
        if isinstance(loose, Member) and own and contents.holds(loose):
            yield Again(loose)
        elif own and _waits(loose):
            later.append(loose)
        else:
            yield loose
    yield from later


def _waits(found: Passed) -> bool:
    return isinstance(found, Intermediate) or (isinstance(found, Image) and found.relocatable)


def _of_entry(
    entry: fatbin.Entry | DamageError, file: _File, budget: Budget, place: Place
) -> Image | Intermediate | Damage:
    """What one entry of a fat binary holds. Only its beginning is decompressed here."""
    if isinstance(entry, DamageError):
        return Damage(entry, place)
    try:
        budget.enter(place.nesting + 1, entry.stored.start)
        fatbin.claim(entry, budget)
        begin = b""
        if entry.kind != fatbin.LTO_IR:  # which NVIDIA's libraries keep encrypted
            begin = fatbin.head(entry, _PTX_HEAD_BYTES if entry.kind == fatbin.PTX else 18)
    except DamageError as error:
        return Damage(error, place)
    identifier = entry.identifier
    if not identifier and (source := file.sources.get(entry.container)):
        identifier = f"{place.members[-1]}:{source}" if place.members else source
    place = replace(place, identifier=identifier)
    if entry.kind == fatbin.LTO_IR:
        return Intermediate(entry, place, file.window, entry.target, form="LTO-IR")
    if entry.kind == fatbin.PTX and not begin.startswith(elf.MAGIC):
        return Intermediate(entry, place, file.window, entry.target, version=version(begin))
    if entry.kind != fatbin.CUBIN or not begin.startswith(elf.MAGIC):
        return Damage(DamageError("a fat binary's entry that is not of its kind", entry.stored.start), place)
    return Image(entry, place, file.window, entry.target, begin[16:18] == b"\1\0")


def _loose(file: _File, budget: Budget, place: Place) -> Iterator[Passed]:
    """Cubins and fat binaries that stand anywhere in the data of a file; where no section holds it, archives and what
    is compressed, too, to its end."""
    end = 0
    for section in sorted(file.sections, key=lambda section: (section.window.start, -section.window.size)):
        window = section.window
        begin, end = max(window.start, end), max(window.end, end)
        if section.is_fat or begin >= window.end:
            continue
        base = window.start if section.name else file.window.start
        part = Window(window.buffer, begin, window.end - begin)
        search = Search(part, packed=not section.name, budget=budget)
        while (beginning := search.next()) is not None:
            spot = f"{':' * bool(section.name)}{section.name}+{beginning.start - base:#x}"
            here = replace(place, spot=spot)
            if search.is_packed(beginning):
                yield from _walk(beginning, budget, place.inside(spot))
                break
            try:
                is_fat = beginning.starts(fatbin.MAGIC)
                whole = fatbin.first(beginning) if is_fat else _cubin(beginning, budget, place)
                if whole is None:
                    continue
                search.skip(whole)
                if is_fat:
                    yield from (_of_entry(entry, file, budget, here) for entry in fatbin.entries(whole))
                else:
                    yield Image(whole, here, file.window)
            except DamageError as error:
                yield Damage(error, here)
        else:
            if section.name == "" and window.size < file.window.size and not search.found and is_noise(part):
                what = "what no section holds looks compressed or encrypted, and is not opened"
                yield Damage(UnopenedError(what, part.start), replace(place, spot=f"+{part.start - base:#x}"))


def _cubin(beginning: Window, budget: Budget, place: Place) -> Window | None:
    """The cubin that begins where an ELF file does; ``None`` where it is of another machine, or only its first bytes.
    Raises :class:`DamageError` where it is one and is cut off."""
    if beginning.size < elf.HEADER_BYTES:
        return None
    machine, header, entry = (beginning.unpack("H", at, "ELF header")[0] for at in (18, 52, 58))
    if (machine, header, entry) != (elf.MACHINE_CUDA, elf.HEADER_BYTES, elf.SECTION_BYTES):
        return None
    budget.enter(place.nesting + 1, beginning.start)
    file = elf.Elf(beginning)
    budget.take(file.table[1], file.table[1], beginning.start)
    whole = beginning.part(0, file.extent, "cubin")
    budget.take(whole.size, whole.size, whole.start)
    return whole
