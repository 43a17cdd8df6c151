"""Records of a file's functions, with an issue for each that cannot be read, in file order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress

from spillscan.model import Issue, Origin
from spillscan.output.nouns import count
from spillscan.reading import workers
from spillscan.reading.binary import containers
from spillscan.reading.binary.cubin import Cubin, Function
from spillscan.reading.binary.images import Damage, Found, Image, Intermediate, Member, Text
from spillscan.reading.binary.members import FORMAT, Contents, MemberReader, Record, damage, issue_of
from spillscan.reading.binary.window import DEFAULT, Budget, DamageError, Limits, Window
from spillscan.reading.inputs.memory import Buffer, Pages

FIRST_IN_DUMPS = 50
"""First architecture that the available cuobjdump can still disassemble."""
_MANY = 20
"""Maximum number of issues shown per file; the rest is counted."""


_COUNTED = {"damaged": "places are damaged", "unopened-member": "members are not opened"}
"""Texts for issues that are not shown, by issue code."""


class Summary:
    """Issues of one file: the first in full, the rest as counts."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._hidden: Counter[str] = Counter()
        self._shown = 0
        self.counts: Counter[tuple[str, str]] = Counter()
        """Counts by issue code and subject."""

    def shown(self, records: Iterable[Record]) -> Iterator[Record]:
        """All ``records``, but of issues only the first."""
        for each in records:
            if isinstance(each, Issue):
                self._hidden[each.code] += 1
                self._shown += 1
                if self._shown > _MANY:
                    continue
            yield each

    def rest(self) -> Iterator[Issue]:
        """Issues for the counts, after the file was read."""
        for arch, number in self._first("unknown-arch"):
            message = f"machine code not analysed for {arch}: {count(number, 'function')} without opcodes and spills"
            target = int("0" + "".join(filter(str.isdigit, arch.partition(" ")[0])))
            of_others = "`cuobjdump -sass FILE | spillscan scan -` counts them"
            message += f"; {of_others if target >= FIRST_IN_DUMPS else 'a log of ptxas -v says what they spill'}"
            yield issue_of("unknown-arch", message, "warning", self._origin)
        for arch, number in self._first("unknown-opcode"):
            message = f"{count(number, 'instruction')} of {arch} in no opcode table"
            yield issue_of("unknown-opcode", message, "note", self._origin)
        for what, number in self._first("damaged-lines"):
            message = f"{what}: {count(number, 'cubin')} without all their source lines"
            yield issue_of("damaged-lines", message, "warning", self._origin)
        if self._shown > _MANY:
            for code, what in _COUNTED.items():
                if hidden := self._hidden[code]:
                    yield issue_of(code, f"{hidden:,} {what}; {_MANY} are shown", "error", self._origin)

    def _first(self, code: str) -> Iterator[tuple[str, int]]:
        """Counts by subject; if there are too many, the last one sums up all the others."""
        ranked = sorted((what, number) for (of, what), number in self.counts.items() if of == code)
        yield from ranked[:_MANY]
        if rest := ranked[_MANY:]:
            yield f"{len(rest):,} others", sum(number for _, number in rest)


def damages(found: Iterable[Damage], name: str) -> list[Issue]:
    """Issues for the data of file ``name`` that cannot be read."""
    origin = Origin(input=name, format=FORMAT)
    summary = Summary(origin)
    shown = summary.shown(damage(each.error, each.place, origin) for each in found)
    return [*(each for each in shown if isinstance(each, Issue)), *summary.rest()]


def items(
    buffer: Buffer,
    name: str,
    limits: Limits = DEFAULT,
    *,
    live: bool = False,
    texts: Callable[[Window, str], None] | None = None,
) -> Iterator[Record]:
    """Functions and modules of one file, and an issue for each part that cannot be read. ``name``: the file as the user
    names it; ``live``: also find the peak of live registers; ``texts`` is called with each text member and its path."""
    reader = MemberReader(name, limits, len(buffer), live=live)
    summary = Summary(reader.origin)
    for each, contents in _read(reader, buffer, limits):
        if texts is not None and isinstance(each, Text):
            texts(each.window, each.place.path(name))
        accepted = reader.accept(each, contents)
        summary.counts += accepted.counts
        yield from summary.shown(accepted.records)
    yield from summary.rest()


def ptx_of(buffer: Buffer, name: str, limits: Limits = DEFAULT) -> Iterator[tuple[str, bytes]]:
    """(unit, text) of each PTX module of a file that can be decompressed."""
    for found in containers.images(Window(buffer), Budget(limits, len(buffer))):
        if isinstance(found, Intermediate) and found.form == "PTX":
            with suppress(DamageError):  # the scan reports it
                window = found.plain()
                yield found.place.unit(name, ""), window.copy(0, window.size, "PTX")


def cubins(buffer: Buffer, symbols: Collection[str], limits: Limits = DEFAULT) -> Iterator[tuple[Cubin, Function]]:
    """Functions named in ``symbols``, each with its cubin; unreadable ones are skipped, since the scan reports them."""
    for found in containers.images(Window(buffer), Budget(limits, len(buffer))):
        if isinstance(found, Image):
            with suppress(DamageError):
                cubin = Cubin(found.plain())
                yield from ((cubin, function) for function in cubin.functions() if function.symbol in symbols)


def _read(reader: MemberReader, buffer: Buffer, limits: Limits) -> Iterator[tuple[Found, Contents]]:
    """Everything found in a file, in order, with its contents."""
    window = Window(buffer)
    linked: set[Window] = set()
    held: list[tuple[int, Found]] = []
    for each in _numbered(containers.images(window, Budget(limits, len(buffer)))):
        if _stays(each[1], buffer):
            held.append(each)
            continue
        yield from _several(reader, held, linked)
        held.clear()
        yield each[1], reader.read(each)
    Pages().leave(buffer, len(buffer))  # the search touched all pages
    yield from _several(reader, held, linked)


def _stays(each: Found, buffer: Buffer) -> bool:
    """Whether a member's bytes are in the mapped file itself and stay valid; others are unpacked when found, and
    released before the next. A file that is not mapped is small, or was itself unpacked."""
    if isinstance(buffer, bytes):
        return False
    return isinstance(each, Damage) or (isinstance(each, Member) and each.raw.buffer is buffer)


def _several(
    reader: MemberReader, every: Sequence[tuple[int, Found]], linked: set[Window]
) -> Iterator[tuple[Found, Contents]]:
    """Contents of members in the mapped file, read by as many processes as pay off. ``linked``: files known to contain
    linked code."""
    linked.update(each.file for _, each in every if isinstance(each, Image) and not each.relocatable)

    def waits(each: Found) -> bool:
        """Whether its contents depend on the machine code before it."""
        return isinstance(each, Intermediate) or (isinstance(each, Image) and each.relocatable and each.file in linked)

    first = [each for each in every if not waits(each[1])]
    sizes = [reader.work_of(each) for _, each in first]
    ahead = workers.in_order(reader.read, first, sizes, f"{reader.origin.input} was not read")
    for each in every:
        yield each[1], reader.read(each) if waits(each[1]) else next(ahead)


def _numbered(found: Iterable[Found]) -> Iterator[tuple[int, Found]]:
    """Everything with the number of cubins before it."""
    number = 0
    for each in found:
        yield number, each
        number += isinstance(each, Image)
