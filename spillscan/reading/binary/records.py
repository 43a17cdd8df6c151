"""Records of a file's functions and modules, with an issue for each part that cannot be read, in file order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import PurePath
from typing import Any
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from spillscan.model import Issue, Origin, Severity
from spillscan.model.code import LivePeak, PortableCode, SassFunction
from spillscan.output.nouns import count
from spillscan.reading import workers
from spillscan.reading.binary import containers
from spillscan.reading.binary.cubin import Cubin, Function
from spillscan.reading.binary.function_records import Analyzed, Facts, analyze, facts_of
from spillscan.reading.binary.images import Damage, Image, Intermediate, Item, Member, Place, Text
from spillscan.reading.binary.window import DEFAULT, Budget, Buffer, DamageError, Limits, Pages, UnopenedError, Window
from spillscan.reading.inputs import ptx

FORMAT = "binary"
Record = SassFunction | PortableCode | Issue
_OBJECTS = (".o", ".obj")
"""Extensions of files that one compilation writes; logs name units by them, too."""
_MOST_KNOWN_BYTES = 64 << 20
"""Maximum bytes of remembered functions, estimated by the following sizes."""
_FUNCTION_BYTES, _ACCESS_BYTES = 1500, 200
FIRST_DISASSEMBLED = 50
"""First architecture that the available cuobjdump can still disassemble."""
_MANY = 20
"""Maximum number of issues shown per file; the rest is counted."""
_COUNTED = {"damaged": "places are damaged", "unopened-member": "members are not opened"}
"""Texts for issues that are not shown, by issue code."""


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
    issues = _Issues(reader.origin)
    for item, contents in _contents(reader, buffer, limits):
        if texts is not None and isinstance(item, Text):
            texts(item.window, item.place.path(name))
        accepted = reader.accept(item, contents)
        issues.counts += accepted.counts
        yield from issues.first(accepted.records)
    yield from issues.rest()


def damages(found: Iterable[Damage], name: str) -> list[Issue]:
    """Issues for the data of file ``name`` that cannot be read."""
    origin = Origin(input=name, format=FORMAT)
    issues = _Issues(origin)
    first = issues.first(damage(each.error, each.place, origin) for each in found)
    return [*(each for each in first if isinstance(each, Issue)), *issues.rest()]


def ptx_of(buffer: Buffer, name: str, limits: Limits = DEFAULT) -> Iterator[tuple[str, bytes]]:
    """(unit, text) of each PTX module of a file that can be decompressed."""
    for item in containers.images(Window(buffer), Budget(limits, len(buffer))):
        if isinstance(item, Intermediate) and item.form == "PTX":
            with suppress(DamageError):  # the scan reports it
                window = item.plain()
                yield item.place.unit(name, ""), window.copy(0, window.size, "PTX")


def cubins(buffer: Buffer, symbols: Collection[str], limits: Limits = DEFAULT) -> Iterator[tuple[Cubin, Function]]:
    """Functions named in ``symbols``, each with its cubin; unreadable ones are skipped, since the scan reports them."""
    for item in containers.images(Window(buffer), Budget(limits, len(buffer))):
        if isinstance(item, Image):
            with suppress(DamageError):
                cubin = Cubin(item.plain())
                yield from ((cubin, function) for function in cubin.functions() if function.symbol in symbols)


# Issues: the first of a file in full, the rest as counts.


def issue_of(code: str, message: str, severity: Severity, origin: Origin) -> Issue:
    """Issue with a one-line message, whatever characters the names in a file contain."""
    shown = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in message)
    return Issue(code=code, message=shown[:500], severity=severity, origin=origin)


def damage(error: DamageError, place: Place, origin: Origin) -> Issue:
    """Issue for data that cannot be read, or is not opened; the latter is named by the path that accepts it."""
    if isinstance(error, UnopenedError):
        inner = Origin(input=place.path(origin.input), format=origin.format)
        return issue_of("unopened-member", str(error), "error", inner)
    return issue_of("damaged", f"{place}: {error}" if str(place) else str(error), "error", origin)


class _Issues:
    """Issues of one file."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._codes: Counter[str] = Counter()
        self.counts: Counter[tuple[str, str]] = Counter()
        """Counts by issue code and subject."""

    def first(self, records: Iterable[Record]) -> Iterator[Record]:
        """All ``records``, but of issues only the first."""
        for record in records:
            if isinstance(record, Issue):
                self._codes[record.code] += 1
                if self._codes.total() > _MANY:
                    continue
            yield record

    def rest(self) -> Iterator[Issue]:
        """Issues for the counts, after the file was read."""
        for arch, number in self._ranked("unknown-arch"):
            target = int("0" + "".join(filter(str.isdigit, arch.partition(" ")[0])))
            in_dumps = "`cuobjdump -sass FILE | spillscan scan -` reports both"
            other = in_dumps if target >= FIRST_DISASSEMBLED else "a ptxas -v log reports their spills"
            lost = f"opcode counts and spills of {count(number, 'function')} are unknown"
            yield self._issue("unknown-arch", "warning", f"machine code not analyzed for {arch}: {lost}; {other}")
        for arch, number in self._ranked("unknown-opcode"):
            message = f"{count(number, 'instruction')} of {arch} with unknown opcodes"
            yield self._issue("unknown-opcode", "note", message)
        for what, number in self._ranked("damaged-lines"):
            message = f"{what}: some source lines are unknown in {count(number, 'cubin')}"
            yield self._issue("damaged-lines", "warning", message)
        for code, what in _COUNTED.items() if self._codes.total() > _MANY else ():
            if number := self._codes[code]:
                yield self._issue(code, "error", f"{number:,} {what}; {_MANY} are shown")

    def _issue(self, code: str, severity: Severity, message: str) -> Issue:
        return issue_of(code, message, severity, self._origin)

    def _ranked(self, code: str) -> Iterator[tuple[str, int]]:
        """Counts by subject; if there are too many, the last one sums up all the others."""
        ranked = sorted((what, number) for (of, what), number in self.counts.items() if of == code)
        yield from ranked[:_MANY]
        if rest := ranked[_MANY:]:
            yield f"{len(rest):,} others", sum(number for _, number in rest)


# Members of a file, read in several processes where they are in the mapped file itself.


@dataclass(slots=True)
class Contents:
    """Contents of one member."""

    records: list[Record] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Issues that are only counted, by code and subject."""
    functions: int = 0
    """Number of a cubin's functions, unreadable ones included."""


def _contents(reader: MemberReader, buffer: Buffer, limits: Limits) -> Iterator[tuple[Item, Contents]]:
    """Everything in a file, in order, with its contents."""
    linked: set[Window] = set()
    mapped: list[tuple[int, Item]] = []
    number = 0
    for item in containers.images(Window(buffer), Budget(limits, len(buffer))):
        numbered = number, item
        number += isinstance(item, Image)
        if _is_mapped(item, buffer):
            mapped.append(numbered)
            continue
        yield from _read_mapped(reader, mapped, linked)
        mapped.clear()
        yield item, reader.read(numbered)
    Pages().leave(buffer, len(buffer))  # the search touched all pages
    yield from _read_mapped(reader, mapped, linked)


def _is_mapped(item: Item, buffer: Buffer) -> bool:
    """Whether a member's bytes are in the mapped file itself and stay valid; others are unpacked when found, and
    released before the next. A file that is not mapped is small, or was itself unpacked."""
    if isinstance(buffer, bytes):
        return False
    return isinstance(item, Damage) or (isinstance(item, Member) and item.raw.buffer is buffer)


def _read_mapped(
    reader: MemberReader, mapped: Sequence[tuple[int, Item]], linked: set[Window]
) -> Iterator[tuple[Item, Contents]]:
    """Contents of members in the mapped file, read by as many processes as pay off. ``linked``: files known to contain
    linked code."""
    linked.update(item.file for _, item in mapped if isinstance(item, Image) and not item.relocatable)

    def waits(item: Item) -> bool:
        """Whether its contents depend on the machine code before it."""
        return isinstance(item, Intermediate) or (isinstance(item, Image) and item.relocatable and item.file in linked)

    first = [each for each in mapped if not waits(each[1])]
    sizes = [item.plain_bytes if isinstance(item, Member) else 0 for _, item in first]
    ahead = workers.in_order(reader.read, first, sizes, f"{reader.origin.input} was not read")
    for each in mapped:
        yield each[1], reader.read(each) if waits(each[1]) else next(ahead)


class MemberReader:
    """Reader of one file's members, with a limit on functions. Functions that a library repeats, once per source that
    uses them, are decoded once."""

    def __init__(self, name: str, limits: Limits, input_bytes: int, *, live: bool = False) -> None:
        """``name``: the file as the user names it; ``live``: also find the peak of live registers."""
        self.origin = Origin(input=name, format=FORMAT)
        self.kernels = KernelIndex()
        self._unit = PurePath(name).name if name.endswith(_OBJECTS) else ""
        self._live = live
        self._left = limits.free_functions + input_bytes // limits.bytes_per_function
        self._pages = Pages()
        self._known: dict[Facts, Analyzed] = {}
        self._known_bytes = 0

    def read(self, numbered: tuple[int, Item]) -> Contents:
        """Read one member, which comes with the number of cubins before it."""
        number, item = numbered
        contents = Contents()
        try:
            if isinstance(item, Damage):
                raise item.error
            if isinstance(item, Image):
                self._image(item, number, contents)
            elif isinstance(item, Intermediate):
                contents.records.append(self._module(item))
        except DamageError as error:
            contents.records.append(damage(error, item.place, self.origin))
        if isinstance(item, Member):
            self._pages.leave(item.raw.buffer, item.raw.start)
        return contents

    def accept(self, item: Item, contents: Contents) -> Contents:
        """A member's contents, or an issue if the file exceeds its function limit. Call in member order."""
        if not isinstance(item, Image):
            return contents
        self._left -= contents.functions
        if self._left < 0:
            too_many = DamageError("more functions than a file of this size can have", item.raw.start)
            return Contents([damage(too_many, item.place, self.origin)])
        self.kernels.add(item, (record for record in contents.records if isinstance(record, SassFunction)))
        return contents

    def _module(self, module: Intermediate) -> PortableCode:
        symbols = self.kernels.siblings(module)
        if symbols is None and module.form == "PTX":
            window = module.plain()
            symbols = tuple(ptx.kernels(window.copy(0, window.size, "PTX")))
        return PortableCode(
            form=module.form,
            arch=f"compute_{module.target}",
            kernels=symbols,
            bytes=module.plain_bytes,
            unit=module.place.unit(self.origin.input, self._unit),
            origin=self.origin,
            version=module.version,
        )

    def _image(self, image: Image, number: int, contents: Contents) -> None:
        """Read all functions of one cubin, unless it is already linked, and an issue for each unreadable one. Raises
        :class:`DamageError` after that if anything else is damaged."""
        cubin = Cubin(image.plain())
        arch = f"sm_{image.target}" if image.target else cubin.arch
        if self.kernels.is_linked(image, arch, cubin):
            return
        if image.target and int(image.target.rstrip("af")) != cubin.number:
            other = DamageError(f"a cubin for sm_{cubin.number} is labeled {arch}", image.raw.start)
            contents.records.append(damage(other, image.place, self.origin))
        late: DamageError | None = None
        functions: list[tuple[Function, Facts | DamageError]] = []
        try:
            some = islice(cubin.functions(), self._left + 1)  # one too many is an issue: see accept
            functions.extend((function, _facts(cubin, function)) for function in some)
        except DamageError as error:
            late = error
        contents.functions = len(functions)
        analyses = self._analyses(functions, cubin)
        peaks = _peaks(cubin) if self._live else {}
        own = bool(peaks or cubin.lines)
        home = {"arch": arch, "member": number, "identifier": image.place.unit(self.origin.input, self._unit)}
        for function, facts in functions:
            if isinstance(facts, DamageError):
                lost = DamageError(f"{function.symbol}: {facts.what}", facts.offset)
                contents.records.append(damage(lost, image.place, self.origin))
                continue
            analyzed = _placed(analyses[facts], cubin, function.section, peaks) if own else analyses[facts]
            contents.records += self._named(analyzed, function.symbol, home)
            if analyzed.unknown is None:
                contents.counts["unknown-arch", arch] += 1
            elif analyzed.unknown:
                contents.counts["unknown-opcode", arch] += analyzed.unknown
        if late is not None:
            raise late
        cubin.check()
        if cubin.lines.damage is not None:
            contents.counts["damaged-lines", cubin.lines.damage.what] += 1

    def _analyses(
        self, functions: Sequence[tuple[Function, Facts | DamageError]], cubin: Cubin
    ) -> dict[Facts, Analyzed]:
        """Analyses of functions by their facts; functions with facts seen before are not analyzed again."""
        analyses: dict[Facts, Analyzed] = {}
        fresh: dict[Facts, Function] = {}
        for function, facts in functions:
            if isinstance(facts, DamageError):
                continue
            if (known := self._known.get(facts)) is not None:
                analyses[facts] = known
            else:
                fresh.setdefault(facts, function)
        codes = [(function.code, facts) for facts, function in fresh.items()]
        new = dict(zip(fresh, analyze(codes, cubin.number, self.origin), strict=True))
        accesses = sum(len(each.record.stats.local.accesses) for each in new.values())
        self._known_bytes += _FUNCTION_BYTES * len(new) + _ACCESS_BYTES * accesses
        if self._known_bytes > _MOST_KNOWN_BYTES:
            self._known.clear()
            self._known_bytes = 0
        self._known |= new
        return analyses | new

    def _named(self, analyzed: Analyzed, symbol: str, home: Mapping[str, Any]) -> Iterator[Record]:
        """Records of one function, and of the callees in its code."""
        yield replace(analyzed.record, symbol=symbol, **home)
        if analyzed.lost_setting:
            what = f"{symbol} declares setmaxnreg in its attributes, but its code has no USETMAXREG"
            yield replace(issue_of("unknown-opcode", what, "error", self.origin), hides=("registers", "code"))
        for callee in analyzed.callees:
            yield replace(callee, caller=symbol, **home)


def _facts(cubin: Cubin, function: Function) -> Facts | DamageError:
    try:
        return facts_of(cubin, function)
    except DamageError as error:
        return error


def _peaks(cubin: Cubin) -> Mapping[int, LivePeak]:
    from spillscan.reading.binary.pressure import pressures  # rarely needed

    return {function.section: pressure.peak for function, pressure in pressures(cubin)}


def _placed(seen: Analyzed, cubin: Cubin, section: int, peaks: Mapping[int, LivePeak]) -> Analyzed:
    def placed(function: SassFunction, peak: LivePeak | None) -> SassFunction:
        stats = function.stats
        return replace(function, stats=replace(stats, local=cubin.lines.attach(stats.local, section), live_peak=peak))

    own = placed(seen.record, peaks.get(section))
    return seen._replace(record=own, callees=tuple(placed(callee, None) for callee in seen.callees))


# Kernels that each file contains as machine code, so that relocatable code and PTX of the same kernels are not
# reported again.


class KernelIndex:
    """Functions read from each file, for the members of it that are read later."""

    def __init__(self) -> None:
        self._names: WeakKeyDictionary[Window, defaultdict[str | int, set[str]]] = WeakKeyDictionary()
        """Functions of linked code, by architecture, and kernels, by offset of the fat binary."""

    def add(self, image: Image, functions: Iterable[SassFunction]) -> None:
        """Remember the functions of a cubin."""
        if isinstance(image.stored, Window):
            return
        names = self._names_of(image.file)
        for each in functions:
            if each.role == "entry":
                names[image.stored.container].add(each.symbol)
            if not image.relocatable:
                names[each.arch or ""].add(each.symbol)

    def _names_of(self, file: Window) -> defaultdict[str | int, set[str]]:
        return self._names.setdefault(file, defaultdict(set))

    def is_linked(self, image: Image, arch: str, cubin: Cubin) -> bool:
        """Whether relocatable code was linked: all of its kernels are known; without kernels, any function is."""
        names = self._names_of(image.file)[arch]
        if not names or not image.relocatable:
            return False
        functions = list(cubin.functions())
        kernels = [function.symbol for function in functions if function.role == "entry"]
        if kernels:
            return names.issuperset(kernels)
        return any(function.symbol in names for function in functions)

    def siblings(self, module: Intermediate) -> tuple[str, ...] | None:
        """Kernels of the machine code in a module's fat binary, which are the module's, too: the kernels of a source
        must not depend on the architecture (CUDA C++ Programming Guide, "__CUDA_ARCH__"). ``None`` if there are none.
        """
        if isinstance(module.stored, Window):
            return None
        kernels = self._names_of(module.file)[module.stored.container]
        return tuple(sorted(kernels)) if kernels else None
