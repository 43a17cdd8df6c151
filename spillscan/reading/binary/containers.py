"""Search for GPU code in any file: one reader per container format, chosen by its magic, and a search for cubins and
fat binaries in bytes of unknown format. Packed data that is not opened is reported. Nothing is unpacked to disk; member
names are only displayed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from spillscan.reading.binary import archive, elf, fatbin, host
from spillscan.reading.binary.images import Damage, Image, Intermediate, Item, Member, Place, Repeats, Text
from spillscan.reading.binary.window import Budget, DamageError, UnopenedError, Window
from spillscan.reading.inputs import codecs, formats
from spillscan.reading.inputs.formats import kind_of_binary
from spillscan.reading.inputs.ptx import version

_PTX_HEAD_BYTES = 1024
"""Bytes of a PTX module that are searched for its version, which follows the compiler's comments."""


def images(window: Window, budget: Budget, place: Place | None = None) -> Iterator[Item]:
    """All GPU code of a file, its texts, and damage. Each exceeded limit is reported once."""
    for each in _walk(window, budget, place or Place(), members=0):
        if not isinstance(each, Damage) or budget.is_new(each.error):
            yield each


def _walk(window: Window, budget: Budget, place: Place, members: int = 1) -> Iterator[Item]:
    """Contents of a file, and damage; ``members``: 0 if the file was counted where it was listed."""
    try:
        budget.enter(place.nesting, window.start, members)
        yield from _items(window, budget, place)
    except DamageError as error:
        yield Damage(error, place)


def _items(window: Window, budget: Budget, place: Place) -> Iterator[Item]:
    """Contents of a file, by the reader of its format."""
    head = window.copy(0, min(window.size, formats.HEAD_BYTES), "file")
    if window.starts(elf.MAGIC):
        yield from _elf(window, budget, place)
    elif window.starts(fatbin.MAGIC):
        yield from _sections(_File(window, [host.Section("", window, is_fat=True)]), budget, place)
    elif (codec := archive.codec_of(window)) is not None:
        yield from _entries(archive.unpacked(window, codec, budget), window, budget, place)
    elif archive.kind(window):
        yield from _entries(archive.members(window, budget), window, budget, place)
    elif window.starts(host.DOS_MAGIC) or host.is_coff_object(window):
        yield from _sections(_File(window, list(host.of_coff(window))), budget, place)
    elif how := formats.sealed(head):
        yield Damage(UnopenedError(f"not opened: {how}", window.start), place)
    else:
        yield from _unknown(window, budget, place, is_text=kind_of_binary(head) is None)


def _elf(window: Window, budget: Budget, place: Place) -> Iterator[Item]:
    file = elf.Elf(window)
    if file.machine == elf.MACHINE_CUDA:
        budget.take(window.size, window.size, window.start)
        end = min(file.extent, window.size)
        rest = archive.rest_of(window, end).window
        yield Image(window.part(0, end, "cubin") if rest.size else window, place, window)
        if rest.size:  # another cubin may follow
            yield from _walk(rest, budget, place.inside(f"+{rest.start - window.start:#x}"))
        return
    sections = list(host.of_elf(file))
    sources = host.sources(file) if any(section.is_fat for section in sections) else {}
    yield from _sections(_File(window, sections, sources), budget, place)


_WRITTEN = re.compile(
    rb"f0VMRgIBA[\w+/]{15}vg[A-D]|UO1VugEAEA"
    rb"|7[fF]454[cC]460201[0-9a-fA-F]{24}[bB][eE]00|50[eE][dD]55[bB][aA]01001000"
    rb"|0[xX]7[fF]\W{1,8}0[xX]45\W{1,8}0[xX]4[cC]\W{1,8}0[xX]46\W{1,8}(?:\w{1,4}\W{1,8}){14}0[xX][bB][eE]\b"
    rb"|0[xX]50\W{1,8}0[xX][eE][dD]\W{1,8}0[xX]55\W{1,8}0[xX][bB][aA]\b"
    rb"|0[xX][0-9a-fA-F]{0,8}(?:464[cC]457[fF]|[bB][aA]55[eE][dD]50)(?![0-9a-fA-F])"
)
"""Beginning of a cubin or fat binary in base64, as hexadecimal digits, and as bytes or words of a C array."""


def _unknown(window: Window, budget: Budget, place: Place, *, is_text: bool) -> Iterator[Item]:
    """Contents of a file without a format that is known here."""
    by_hand = bool(place.members) and place.members[-1].lower().endswith(formats.WRITTEN_BY_HAND)
    if is_text and place.depth and not by_hand:  # depth 0 is the input itself
        yield Text(window, place)
    yield from _sections(_File(window, [host.Section("", window, is_fat=False)]), budget, place)
    if is_text and (written := _WRITTEN.search(window.whole)):
        what = "not opened: GPU code as text (base64, hexadecimal digits or a C array)"
        yield Damage(UnopenedError(what, window.start + written.start()), place)


def _entries(entries: Iterator[archive.Entry], window: Window, budget: Budget, place: Place) -> Iterator[Item]:
    """The members of an archive, and what follows it."""
    for entry in entries:
        if isinstance(entry, DamageError):
            inner = place.inside(entry.member) if isinstance(entry, archive.SealedError) else place
            yield Damage(entry, inner)
        elif isinstance(entry, archive.Content):
            density = entry.packed_bytes / max(entry.window.size, 1)
            yield from _walk(entry.window, budget, place.inside(entry.name, density), members=0)
        elif entry.window.size:
            yield from _walk(entry.window, budget, place.inside(f"+{entry.window.start - window.start:#x}"))


class _File(NamedTuple):
    """Sections of a file that may contain GPU code."""

    window: Window
    sections: list[host.Section]
    sources: Mapping[int, str] = {}
    """Source of each fat binary, by its offset."""


def _sections(file: _File, budget: Budget, place: Place) -> Iterator[Item]:
    """GPU code of a file. Relocatable code and PTX come last, when their reader knows which code is already linked."""
    later: list[Item] = []
    for found in _unordered(file, budget, place):
        if isinstance(found, Intermediate) or (isinstance(found, Image) and found.relocatable):
            later.append(found)
        else:
            yield found
    yield from later


def _unordered(file: _File, budget: Budget, place: Place) -> Iterator[Item]:
    """GPU code in its own sections, then in other data unless it is a copy."""
    known = Repeats()
    end = 0
    for section in sorted(file.sections, key=lambda section: (not section.is_fat, section.window.start)):
        if not section.is_fat:
            break
        if section.window.start < end:
            yield Damage(DamageError("sections overlap", section.window.start), place)
            continue
        end = section.window.end
        for entry in fatbin.entries(section.window):
            image = _of_entry(entry, file, budget, place)
            if isinstance(image, Image):
                known.add(image)
            yield image
    for loose in _loose(file, budget, place):
        if not isinstance(loose, Member) or not known.holds(loose):
            yield loose


def _of_entry(
    entry: fatbin.Entry | DamageError, file: _File, budget: Budget, place: Place
) -> Image | Intermediate | Damage:
    """The code in an entry of a fat binary. Only its beginning is decompressed here."""
    if isinstance(entry, DamageError):
        return Damage(entry, place)
    try:
        budget.enter(place.nesting + 1, entry.stored.start)
        fatbin.claim(entry, budget)
        begin = b""
        if entry.kind != fatbin.LTO_IR:  # encrypted in NVIDIA's libraries
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
        what = "a fat binary entry does not contain the kind of code that it declares"
        return Damage(DamageError(what, entry.stored.start), place)
    return Image(entry, place, file.window, entry.target, begin[16:18] == b"\1\0")


def _loose(file: _File, budget: Budget, place: Place) -> Iterator[Item]:
    """Cubins and fat binaries anywhere in the data of a file, and packed data outside of its sections."""
    end = 0
    for section in sorted(file.sections, key=lambda section: (section.window.start, -section.window.size)):
        window = section.window
        begin, end = max(window.start, end), max(window.end, end)
        if section.is_fat or begin >= window.end:
            continue
        base = window.start if section.name else file.window.start
        part = Window(window.buffer, begin, window.end - begin)
        at, starts = 0, [part.find(magic) for magic in formats.GPU_CODE]
        while (start := min((each for each in starts if each >= 0), default=-1)) >= 0:
            beginning = part.part(start, part.size - start, "data")
            at = start + 1
            here = replace(place, spot=f"{':' * bool(section.name)}{section.name}+{beginning.start - base:#x}")
            try:
                is_fat = beginning.starts(fatbin.MAGIC)
                whole = fatbin.first(beginning) if is_fat else _cubin(beginning, budget, place)
                if whole is not None:
                    at = start + whole.size
                    if is_fat:
                        yield from (_of_entry(entry, file, budget, here) for entry in fatbin.entries(whole))
                    else:
                        yield Image(whole, here, file.window)
            except DamageError as error:
                yield Damage(error, here)
            starts = [
                part.find(magic, at) if 0 <= each < at else each
                for magic, each in zip(formats.GPU_CODE, starts, strict=True)
            ]
        rest = part.part(at, part.size - at, "data")
        if not section.name and (packed := _packed(rest)) >= 0:
            unopened = UnopenedError("not opened: packed data", rest.start + packed)
            yield Damage(unopened, replace(place, spot=f"+{unopened.offset - base:#x}"))


_MOST_STREAMS = 1 << 12
"""Maximum places of one file that are checked for a compressed stream; beyond, the next is taken for one."""


def _packed(window: Window) -> int:
    """Offset of a compressed stream, verified beyond its magic, or of a zip archive; -1 if there is none."""
    for magic in codecs.MAGICS:
        at, number = window.find(magic), 0
        while at >= 0:
            head = window.copy(at, min(window.size - at, codecs.HEAD_BYTES), "data")
            codec, number = codecs.codec_of(head), number + 1
            if number > _MOST_STREAMS or (codec is not None and codecs.begins(codec, head)):
                return at
            at = window.find(magic, at + 1)
    return max(0, window.find(b"PK\3\4")) if archive.ends_as_zip(window) else -1


def _cubin(beginning: Window, budget: Budget, place: Place) -> Window | None:
    """Cubin at an ELF magic; ``None`` if it is for another machine or no ELF file. Raises :class:`DamageError` if it is
    truncated."""
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
