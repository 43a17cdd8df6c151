"""Reader of a file's members: functions of a cubin, kernels of a module, and issues of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import NamedTuple
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from spillscan.model import Issue, Origin, Severity
from spillscan.model.code import LivePeak, PortableCode, SassFunction
from spillscan.reading.binary.cubin import Cubin, Function
from spillscan.reading.binary.figures import Facts, Seen, facts_of, look
from spillscan.reading.binary.images import Damage, Found, Image, Intermediate, Place, Text
from spillscan.reading.binary.window import DamageError, Limits, UnopenedError, Window
from spillscan.reading.inputs import ptx
from spillscan.reading.inputs.memory import Pages, Scratch

FORMAT = "binary"
_OBJECTS = (".o", ".obj")
"""Extensions of files that one compilation writes; logs name units by them, too."""
_MOST_KNOWN_BYTES = 64 << 20
"""Maximum bytes of remembered functions, estimated by the following sizes."""
_FUNCTION_BYTES, _ACCESS_BYTES = 1500, 200

Record = SassFunction | PortableCode | Issue


class Contents(NamedTuple):
    """Contents of one member."""

    records: list[Record]
    counts: Counter[tuple[str, str]]
    """Issues that are only counted, by code and subject."""
    functions: int = 0
    """Number of a cubin's functions, unreadable ones included."""


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


class MemberReader:
    """Reader of one file's members, with a limit on functions. Functions that a library repeats, once per source that
    uses them, are decoded once."""

    def __init__(self, name: str, limits: Limits, input_bytes: int, *, live: bool = False) -> None:
        """``name``: the file as the user names it; ``live``: also find the peak of live registers."""
        self.origin = Origin(input=name, format=FORMAT)
        self.index = KernelIndex()
        self._unit = PurePath(name).name if name.endswith(_OBJECTS) else ""
        self._live = live
        self._left = limits.free_functions + input_bytes // limits.bytes_per_function
        self._scratch, self._pages = Scratch(), Pages()
        self._known: dict[Facts, Seen] = {}
        self._known_bytes = 0

    def work_of(self, each: Found) -> int:
        """Bytes of a member to read."""
        return 0 if isinstance(each, Damage | Text) else each.plain_bytes

    def read(self, numbered: tuple[int, Found]) -> Contents:
        """Read one member, which comes with the number of cubins before it."""
        number, each = numbered
        if isinstance(each, Damage):
            return Contents([damage(each.error, each.place, self.origin)], Counter())
        if isinstance(each, Text):
            return Contents([], Counter())
        found = self._image(each, number) if isinstance(each, Image) else self._module(each)
        self._pages.leave(each.raw.buffer, each.raw.start)
        return found

    def accept(self, each: Found, found: Contents) -> Contents:
        """A member's contents, or an issue if the file exceeds its function limit. Call in member order."""
        if not isinstance(each, Image):
            return found
        self._left -= found.functions
        if self._left < 0:
            return Contents([self._too_many(each)], Counter())
        self.index.add(each, (record for record in found.records if isinstance(record, SassFunction)))
        return found

    def _too_many(self, image: Image) -> Issue:
        error = DamageError("more functions than a file of this size can contain", image.raw.start)
        return damage(error, image.place, self.origin)

    def _module(self, module: Intermediate) -> Contents:
        symbols = self.index.beside(module)
        try:
            if symbols is None and module.form == "PTX":
                window = module.plain(self._scratch)
                symbols = tuple(ptx.kernels(window.copy(0, window.size, "PTX")))
        except DamageError as error:
            return Contents([damage(error, module.place, self.origin)], Counter())
        made = PortableCode(
            form=module.form,
            arch=f"compute_{module.target}",
            kernels=symbols,
            bytes=module.plain_bytes,
            unit=module.place.unit(self.origin.input, self._unit),
            origin=self.origin,
            version=module.version,
        )
        return Contents([made], Counter())

    def _image(self, image: Image, number: int) -> Contents:
        """All functions of one cubin, unless it is already linked; an issue for each unreadable one, or a last one for
        all the rest."""
        records: list[Record] = []
        counts: Counter[tuple[str, str]] = Counter()
        functions: list[tuple[Function, Facts | DamageError]] = []
        try:
            cubin = Cubin(image.plain(self._scratch))
            arch = f"sm_{image.target}" if image.target else cubin.arch
            if self.index.is_linked(image, arch, cubin):
                return Contents(records, counts)
            if image.target and int(image.target.rstrip("af")) != cubin.number:
                other = DamageError(f"a cubin of sm_{cubin.number} that is stored as {arch}", image.raw.start)
                records.append(damage(other, image.place, self.origin))
            late: DamageError | None = None
            try:
                for function in cubin.functions():
                    functions.append((function, _facts_of(cubin, function)))
                    if len(functions) > self._left:
                        return Contents([self._too_many(image)], counts, len(functions))
            except DamageError as error:  # after the functions before it
                late = error
            place = _Home(arch, number, image.place.unit(self.origin.input, self._unit))
            for function, seen in self._looked(functions, cubin):
                if isinstance(seen, DamageError):
                    lost = DamageError(f"{function.symbol}: {seen.what}", seen.offset)
                    records.append(damage(lost, image.place, self.origin))
                    continue
                records += self._named(seen, function.symbol, place)
                if seen.unknown is None:
                    counts["unknown-arch", arch] += 1
                elif seen.unknown:
                    counts["unknown-opcode", arch] += seen.unknown
            if late is not None:
                raise late
            cubin.check()
            if cubin.lines.damage is not None:
                counts["damaged-lines", cubin.lines.damage.what] += 1
        except DamageError as error:
            records.append(damage(error, image.place, self.origin))
        return Contents(records, counts, len(functions))

    def _looked(
        self, functions: Sequence[tuple[Function, Facts | DamageError]], cubin: Cubin
    ) -> Iterator[tuple[Function, Seen | DamageError]]:
        """Record of each function, with data of this cubin alone: source lines, and the peak of live registers."""
        seen: dict[Facts, Seen] = {}
        fresh: dict[Facts, Function] = {}
        for function, facts in functions:
            if isinstance(facts, DamageError):
                continue
            if (known := self._known.get(facts)) is not None:
                seen[facts] = known
            else:
                fresh.setdefault(facts, function)
        found = look([(function.code, facts) for facts, function in fresh.items()], cubin.number, self.origin)
        seen.update(zip(fresh, found, strict=True))
        self._remember({facts: seen[facts] for facts in fresh})
        peaks = _peaks(cubin) if self._live else {}
        own = bool(peaks or cubin.lines)
        for function, facts in functions:
            if isinstance(facts, DamageError):
                yield function, facts
            else:
                yield function, _placed(seen[facts], cubin, function.section, peaks) if own else seen[facts]

    def _remember(self, seen: Mapping[Facts, Seen]) -> None:
        held = sum(_FUNCTION_BYTES + _ACCESS_BYTES * len(each.own.stats.local.accesses) for each in seen.values())
        if self._known_bytes + held > _MOST_KNOWN_BYTES:
            self._known.clear()
            self._known_bytes = 0
        self._known.update(seen)
        self._known_bytes += held

    def _named(self, seen: Seen, symbol: str, home: _Home) -> Iterator[Record]:
        """Records of one function, and of the callees in its code."""
        yield replace(seen.own, symbol=symbol, arch=home.arch, member=home.member, identifier=home.unit)
        if seen.lost_setting:
            what = f"{symbol} uses setmaxnreg by its attributes, but no USETMAXREG was found in its code"
            yield replace(issue_of("unknown-opcode", what, "error", self.origin), hides=("registers", "code"))
        for callee in seen.callees:
            yield replace(callee, arch=home.arch, member=home.member, identifier=home.unit, caller=symbol)


class _Home(NamedTuple):
    """Cubin that contains a function."""

    arch: str
    """``sm_90a``, from its container, else from the cubin."""
    member: int
    unit: str


def _facts_of(cubin: Cubin, function: Function) -> Facts | DamageError:
    try:
        return facts_of(cubin, function)
    except DamageError as error:
        return error


def _peaks(cubin: Cubin) -> Mapping[int, LivePeak]:
    from spillscan.reading.binary.pressure import pressures  # rarely needed

    return {each.section: held.peak for each, held in pressures(cubin)}


def _placed(seen: Seen, cubin: Cubin, section: int, peaks: Mapping[int, LivePeak]) -> Seen:
    def placed(function: SassFunction, peak: LivePeak | None) -> SassFunction:
        stats = function.stats
        return replace(function, stats=replace(stats, local=cubin.lines.attach(stats.local, section), live_peak=peak))

    own = placed(seen.own, peaks.get(section))
    return seen._replace(own=own, callees=tuple(placed(callee, None) for callee in seen.callees))


# Kernels that each file contains as machine code, so that relocatable code and PTX of the same kernels are not
# reported again.


class KernelIndex:
    """Functions read from each file, for the members of it that are read later."""

    def __init__(self) -> None:
        self._linked: WeakKeyDictionary[Window, dict[str, set[str]]] = WeakKeyDictionary()
        """Functions of linked code, by architecture."""
        self._kernels: WeakKeyDictionary[Window, dict[int, set[str]]] = WeakKeyDictionary()
        """Kernels, by offset of the fat binary."""

    def add(self, image: Image, functions: Iterable[SassFunction]) -> None:
        """Remember the functions of a cubin."""
        if isinstance(image.stored, Window):
            return
        kernels = self._kernels.setdefault(image.file, {}).setdefault(image.stored.container, set())
        linked: dict[str, set[str]] = {} if image.relocatable else self._linked.setdefault(image.file, {})
        for each in functions:
            if each.role == "entry":
                kernels.add(each.symbol)
            linked.setdefault(each.arch or "", set()).add(each.symbol)

    def is_linked(self, image: Image, arch: str, cubin: Cubin) -> bool:
        """Whether relocatable code was linked: all of its kernels are known; without kernels, any function is."""
        names = self._linked.get(image.file, {}).get(arch)
        if not names or not image.relocatable:
            return False
        functions = list(cubin.functions())
        kernels = [function.symbol for function in functions if function.role == "entry"]
        if kernels:
            return names.issuperset(kernels)
        return any(function.symbol in names for function in functions)

    def beside(self, module: Intermediate) -> tuple[str, ...] | None:
        """Kernels of the machine code in a module's fat binary, which are the module's, too: the kernels of a source
        must not depend on the architecture (CUDA C++ Programming Guide, "__CUDA_ARCH__"). ``None`` if there are none.
        """
        if isinstance(module.stored, Window):
            return None
        kernels = self._kernels.get(module.file, {}).get(module.stored.container)
        return tuple(sorted(kernels)) if kernels else None
