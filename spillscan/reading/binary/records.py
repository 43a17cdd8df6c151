"""Records of the functions of a file, with an issue for what keeps one from being read, in the order of the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Any

from msgspec.structs import asdict, replace

from spillscan.model import Issue, Origin, Severity, Usage
from spillscan.model.code import NO_TRAFFIC, Maker, PortableCode, SassFunction, SassStats
from spillscan.reading.binary import archive, containers
from spillscan.reading.binary.containers import Damage, Image, Intermediate, Member, Place
from spillscan.reading.binary.figures import Figures, Resources
from spillscan.reading.binary.stated import (
    Entries,
    Functions,
    LostLines,
    Named,
    Numbered,
    Stated,
    as_they_come,
    numbered,
    one_by_one,
)
from spillscan.reading.binary.window import DEFAULT, Budget, DamageError, Limits, Window
from spillscan.reading.inputs.memory import Buffer

FORMAT = "binary"
FIRST_IN_DUMPS = 50
"""Architecture: no tool at hand prints the code of older ones that is not read here."""
_OBJECTS = (".o", ".obj")
"""Files that are the output of one compilation, which is what a log's unit names, too."""
_MANY = 20
"""Issues of damage that are kept for one file; the rest is counted."""


Record = SassFunction | PortableCode | Issue


class Records:
    """The records of one file."""

    def __init__(self, name: str) -> None:
        self._input = name
        self._origin = Origin(input=name, format=FORMAT)
        self._unit = PurePath(name).name if name.endswith(_OBJECTS) else ""
        self._damages = 0
        self._unknown_archs: Counter[str] = Counter()
        self._unknown_codes: Counter[str] = Counter()
        self._damaged_lines: Counter[str] = Counter()
        """Cubins by what is wrong with their source lines."""
        self._shown = 0
        self._known: dict[tuple[int, Maker | None], tuple[Figures, Usage, SassStats]] = {}
        """By the identity of figures, which many functions share, and what wrote their cubin."""
        self._usages: dict[Resources, Usage] = {}
        self._stats: dict[tuple[Any, ...], SassStats] = {}
        """Of code, by what it is made of: its text in a report is made once."""

    def of(self, member: Member, number: int, stated: Iterable[Stated]) -> Iterator[Record]:
        """All functions of one cubin, or a module; ``number`` is the cubin's place in the file, ``stated`` what it
        says."""
        place = member.place
        identifier = place.unit(self._input, self._unit)
        for each in stated:
            if isinstance(each, DamageError):
                yield self.damage(each, place)
            elif isinstance(each, LostLines):
                self._damaged_lines[each.what] += 1
            elif isinstance(each, Entries):
                yield PortableCode(
                    form=member.form if isinstance(member, Intermediate) else "PTX",
                    arch=f"compute_{member.target}",
                    kernels=each.symbols,
                    bytes=member.plain_bytes,
                    unit=identifier,
                    origin=self._origin,
                    version=member.version if isinstance(member, Intermediate) else None,
                )
            else:
                yield self._function(each, number, identifier)
                if each.figures.lost_setting:
                    what = (
                        f"{each.symbol} sets its warps' registers, as its attributes say, "
                        "and no USETMAXREG is found in it"
                    )
                    yield replace(self._issue("unknown-opcode", what, "error"), hides=("registers", "code"))

    def worth(self, item: Record) -> bool:
        """Whether it is stated: everything, but of damage the first issues."""
        if not isinstance(item, Issue):
            return True
        self._shown += 1
        return self._shown <= _MANY

    def rest(self) -> Iterator[Issue]:
        """What is only counted while the file is read."""
        for arch, count in _first(self._unknown_archs):
            message = f"no opcode table for {arch}: {count} functions without instruction counts and spills"
            number = int("0" + "".join(filter(str.isdigit, arch.partition(" ")[0])))
            of_others = "`cuobjdump -sass FILE | spillscan scan -` counts them"
            message += f"; {of_others if number >= FIRST_IN_DUMPS else 'a log of ptxas -v says what they spill'}"
            yield self._issue("unknown-arch", message, "warning")
        for arch, count in _first(self._unknown_codes):
            yield self._issue("unknown-opcode", f"{count} instructions of {arch} are in no opcode table", "note")
        for what, count in _first(self._damaged_lines):
            yield self._issue("damaged-lines", f"{what}: {count} cubins without all their source lines", "warning")
        if self._damages > _MANY:
            yield self._issue("damaged", f"{self._damages} places are damaged; {_MANY} are shown", "error")

    def damage(self, error: DamageError, place: Place) -> Issue:
        """An issue for something that cannot be read."""
        self._damages += 1
        where = f"{place}: " if str(place) else ""
        return self._issue("damaged", f"{where}{error}", "error")

    def _issue(self, code: str, message: str, severity: Severity) -> Issue:
        shown = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in message)
        return Issue(code=code, message=shown[:500], severity=severity, origin=self._origin)

    def _function(self, named: Named, number: int, identifier: str) -> SassFunction:
        figures = named.figures
        counts = figures.counts
        if counts is None:
            self._unknown_archs[named.arch] += 1
        elif counts.unknown:
            self._unknown_codes[named.arch] += counts.unknown
        known = self._known.get((id(figures), named.maker))
        if known is None:
            usage, stats = self._usage_of(figures.resources), self._stats_of(figures, named.arch, named.maker)
            known = self._known[id(figures), named.maker] = figures, usage, stats
        _, usage, stats = known
        return SassFunction(
            symbol=named.symbol,
            arch=named.arch,
            role=figures.role,
            member=number,
            identifier=identifier,
            stats=stats,
            usage=usage,
            launch_bounds=figures.bounds,
            dynamic_shared=figures.dynamic_shared,
            final=figures.final,
            caller=named.caller,
        )

    def _usage_of(self, resources: Resources) -> Usage:
        known = self._usages.get(resources)
        if known is None:
            known = self._usages[resources] = Usage(**asdict(resources))
        return known

    def _stats_of(self, figures: Figures, arch: str, maker: Maker | None) -> SassStats:
        counts, local = figures.counts, figures.local or NO_TRAFFIC
        registers, opcodes = figures.resources.registers, counts and counts.opcodes.parts[1:]
        own = figures.code_bytes, figures.shared_spills, figures.roles, figures.digest, figures.peak
        key = arch, maker, registers, opcodes, id(local), own
        known = self._stats.get(key)
        if known is None:
            known = self._stats[key] = SassStats(
                instructions=counts.instructions if counts else 0,
                code_bytes=figures.code_bytes,
                opcodes=counts.opcodes if counts else (),
                local=local,
                shared_spills=figures.shared_spills,
                registers=registers,
                live_peak=figures.peak,
                origin=self._origin,
                maker=maker,
                roles=figures.roles,
                digest=figures.digest,
            )
        return known


def _first(counts: Counter[str]) -> Iterator[tuple[str, int]]:
    """The counts by name; of more than are shown, the last stands for all the others."""
    ranked = sorted(counts.items())
    yield from ranked[:_MANY]
    if rest := ranked[_MANY:]:
        yield f"{len(rest)} others", sum(count for _, count in rest)


def items(
    buffer: Buffer,
    name: str,
    limits: Limits | None = None,
    *,
    live: bool = False,
    hosts: Callable[[Window], None] | None = None,
) -> Iterator[Record]:
    """Every function and every module of one file, and an issue for what could not be read. ``name`` is what the user
    calls it; ``live``: with the most registers that are live at once; ``hosts`` gets each file that holds some."""
    limits = limits or DEFAULT
    window = Window(buffer)
    records, functions = Records(name), Functions(limits, len(buffer), live=live)
    found = numbered(containers.images(window, Budget(limits, len(buffer))))

    def made(numbered: Numbered, stated: Sequence[Stated]) -> Iterator[Record]:
        number, each = numbered
        if isinstance(each, Damage):
            return iter([records.damage(each.error, each.place)])
        if isinstance(each, Image):
            functions.held.keep(each, stated)
        return records.of(each, number, stated)

    every: Iterable[tuple[Numbered, Iterable[Record]]]
    if isinstance(buffer, bytes) or archive.kind(window) not in (None, "library"):
        # small, or each member is decompressed where it is found
        every = ((each, made(each, stated)) for each, stated in one_by_one(functions, found))
    else:
        listed = list(found)
        records_of = {at: list(made(listed[at], stated)) for at, stated in as_they_come(functions, listed, name)}
        every = ((each, records_of.pop(at)) for at, each in enumerate(listed))
    last: Window | None = None
    for (_, each), own in every:
        if hosts is not None and isinstance(each, Member) and each.file is not last:
            last = each.file
            hosts(last)
        yield from filter(records.worth, own)
    yield from records.rest()
