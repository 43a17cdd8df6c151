"""What a file says of each function: first in plain figures, small enough to be handed from one process to another,
then as records, with an issue for what keeps a function from being read. The members of a large file are read by as
many processes as there are processors; records come in the order of the file.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from pathlib import PurePath
from sys import intern
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import asdict, astuple, replace
from xxhash import xxh3_128_digest

from spillscan import workers
from spillscan.binary import archive, containers, decode
from spillscan.binary.containers import Damage, Found, Image, Intermediate, Member, Place
from spillscan.binary.cubin import Cubin, Function, FunctionInfo, References
from spillscan.binary.decode import Counts, Decoded, Opcodes, Spills
from spillscan.binary.lines import Lines
from spillscan.binary.window import DEFAULT, Budget, DamageError, Limits, Window
from spillscan.binary.words import Code, Table, table
from spillscan.inputs import ptx
from spillscan.inputs.memory import Buffer, Pages, Scratch
from spillscan.model import Issue, LaunchBounds, Origin, Role, Severity, Usage
from spillscan.model.code import (
    NO_TRAFFIC,
    LivePeak,
    LocalTraffic,
    Maker,
    PortableCode,
    SassFunction,
    SassStats,
    WarpRole,
)

FIRST_WITH_ANNOTATIONS = (12, 6)
"""ptxas 12.6.20, the first 12.6 of all, writes the address of every spill into the cubin; 12.5.82 does not."""


class Resources(Struct, frozen=True, gc=False):
    """The fields of :class:`~spillscan.model.Usage` that a binary says."""

    registers: int | None
    stack_bytes: int | None
    cumulative_stack_bytes: int | None
    spill_store_bytes: int | None
    spill_load_bytes: int | None
    cumulative_spill_store_bytes: int | None
    cumulative_spill_load_bytes: int | None
    local_bytes: int | None
    shared_bytes: int | None
    constant_bytes: tuple[tuple[int, int], ...] | None
    barriers: int | None
    textures: int | None
    surfaces: int | None
    samplers: int | None


_UNKNOWN = Resources(*[None] * len(Resources.__struct_fields__))
Pair = tuple[int | None, int | None]
"""Stored and loaded bytes."""


class Figures(Struct, frozen=True, gc=False):
    """What is stated of one function, whatever it is called and whichever cubin holds it: a library holds many several
    times, and under several names."""

    role: Role
    final: bool | None
    """``False``: the device linker still has to link it."""
    resources: Resources
    bounds: LaunchBounds | None
    dynamic_shared: bool | None
    """Whether launches give it shared memory."""
    counts: Counts | None
    """``None`` where no opcode table is for its architecture."""
    code_bytes: int
    """To the end of the last instruction, or of the section where none is known."""
    shared_spills: int | None
    """Annotated accesses to shared memory; ``None`` without annotations."""
    local: LocalTraffic | None
    """``None`` where it does not use local memory."""
    roles: tuple[WarpRole, ...] = ()
    """Which of its code runs with which number of registers."""
    digest: str | None = None
    """Stands for its code; ``None`` of a callee."""
    peak: LivePeak | None = None
    """Where most registers are live, if that was asked for."""
    lost_setting: bool = False
    """It sets its warps' registers, as its attributes say, and no instruction is known to do so."""


class Named(NamedTuple):
    """One function."""

    figures: Figures
    symbol: str
    arch: str
    """``sm_90a``, as its container says, else its cubin."""
    maker: Maker | None
    """What wrote its cubin, as far as that says."""
    caller: str = ""
    """The kernel in whose code it stands, as a callee; empty: it stands alone."""


class LostLines(NamedTuple):
    """A cubin's source lines cannot all be read."""

    what: str


class Entries(NamedTuple):
    """What a module holds that is not yet machine code."""

    symbols: tuple[str, ...] | None
    """Its kernels; ``None`` where they cannot be read."""


Stated = Named | Entries | LostLines | DamageError
"""What is stated of a cubin or a module: its functions, and what is wrong with it."""


class Post:
    """How what is stated goes from one process to another: of functions their names in one text and numbers in place of
    figures, of which each goes once, a column for each field. There is one on each side."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        """Of figures that were sent, by identity."""
        self._figures: list[Figures] = []

    def packed(self, stated: Iterable[Stated]) -> Any:
        """What is stated of one cubin or module, as it is sent: functions of one architecture and maker."""
        every = list(stated)
        named = [each for each in every if isinstance(each, Named)]
        if not named or len(named) < len(every):
            return every
        numbers, known = self._numbers, self._figures
        first = len(known)
        for figures, *_ in named:
            if id(figures) not in numbers:
                numbers[id(figures)] = len(known)
                known.append(figures)
        symbols = _SEPARATOR.join(each.symbol for each in named)
        callers = _SEPARATOR.join(each.caller for each in named) if any(each.caller for each in named) else ""
        places = [numbers[id(each.figures)] for each in named]
        return places, symbols, named[0].arch, named[0].maker, callers, _columns(known[first:])

    def unpacked(self, sent: Any) -> Sequence[Stated]:
        """What was sent."""
        if isinstance(sent, list):
            return sent
        places, symbols, arch, maker, callers, fresh = sent
        self._figures += _of_columns(fresh)
        figures, names = map(self._figures.__getitem__, places), map(intern, symbols.split(_SEPARATOR))
        within = map(intern, callers.split(_SEPARATOR)) if callers else repeat("")
        return [*map(Named, figures, names, repeat(arch), repeat(maker), within)]


_SEPARATOR = "\0"
"""No name of a symbol holds it."""


def _columns(figures: Sequence[Figures]) -> dict[str, Any]:
    """Two thirds of the time that as many records would take."""
    if not figures:
        return {}
    columns = _by_field(figures)
    columns["resources"] = _by_field(columns["resources"])
    given = [each for each in columns["counts"] if each is not None]
    columns["counts"] = [each is not None for each in columns["counts"]], _by_field(given) if given else {}
    if given:
        columns["counts"][1]["opcodes"] = [*zip(*(each.opcodes.parts for each in given), strict=True)]
    return columns


def _by_field(items: Sequence[Struct]) -> dict[str, Any]:
    return dict(zip(items[0].__struct_fields__, zip(*map(astuple, items), strict=True), strict=True))


def _of_columns(columns: dict[str, Any]) -> list[Figures]:
    if not columns:
        return []
    there, counts = columns["counts"]
    if counts:
        counts["opcodes"] = map(Opcodes, *counts["opcodes"])
    given = map(Counts, *counts.values()) if counts else iter(())
    columns["counts"] = [next(given) if each else None for each in there]
    columns["resources"] = map(Resources, *columns["resources"].values())
    return [*map(Figures, *columns.values())]


class Held:
    """What was read of each file, for what is read of it later."""

    def __init__(self) -> None:
        self._linked: WeakKeyDictionary[Window, dict[str, set[str]]] = WeakKeyDictionary()
        """Functions of linked code, by architecture."""
        self._kernels: WeakKeyDictionary[Window, dict[int, set[str]]] = WeakKeyDictionary()
        """Of each fat binary."""

    def of(self, image: Image, stated: Iterable[Stated]) -> Iterator[Stated]:
        """What is stated of a cubin, its functions remembered."""
        if isinstance(image.stored, Window):
            yield from stated
            return
        linked = {} if image.relocatable else self._linked.setdefault(image.file, {})
        kernels = self._kernels.setdefault(image.file, {}).setdefault(image.stored.container, set())
        arch, names = "", set[str]()
        for each in stated:
            if isinstance(each, Named):
                if each.arch != arch:
                    arch, names = each.arch, linked.setdefault(each.arch, set())
                names.add(each.symbol)
                if each.figures.role == "entry":
                    kernels.add(each.symbol)
            yield each

    def is_linked(self, image: Image, arch: str, cubin: Cubin) -> bool:
        """Whether what the device linker was given was linked: all of its kernels are there; without kernels, a
        function."""
        names = self._linked.get(image.file, {}).get(arch)
        if not names or not image.relocatable:
            return False
        functions = list(cubin.functions())
        kernels = [function.symbol for function in functions if function.role == "entry"]
        if kernels:
            return names.issuperset(kernels)
        return any(function.symbol in names for function in functions)

    def beside(self, module: Intermediate) -> tuple[str, ...] | None:
        """The kernels of machine code that a module stands beside, which are its own: which kernels a source has must
        not depend on the architecture (CUDA C++ Programming Guide, "__CUDA_ARCH__"). ``None`` where there is none."""
        if isinstance(module.stored, Window):
            return None
        kernels = self._kernels.get(module.file, {}).get(module.stored.container)
        return tuple(sorted(kernels)) if kernels else None


class Functions:
    """The functions of the cubins of one file, no more than it may hold. What a library holds several times, once for
    each source that uses it, is looked at once."""

    def __init__(self, limits: Limits, input_bytes: int, *, live: bool = False) -> None:
        self._live = live
        self._left = limits.free_functions + input_bytes // limits.bytes_per_function
        self._scratch = Scratch()
        self._known: dict[Facts, Seen] = {}
        self.held = Held()

    def work_of(self, each: Found) -> int:
        """Bytes that are to be read of it."""
        if isinstance(each, Damage) or (isinstance(each, Intermediate) and self.held.beside(each)):
            return 0
        return each.plain_bytes

    def entries(self, module: Intermediate) -> Iterator[Stated]:
        """The kernels of one module."""
        try:
            symbols = self.held.beside(module)
            if symbols is None and module.form == "PTX":
                window = module.plain(self._scratch)
                symbols = tuple(ptx.kernels(window.copy(0, window.size, "PTX")))
            yield Entries(symbols)
        except DamageError as error:
            yield error

    def of(self, image: Image) -> Iterator[Stated]:
        """All functions of one cubin, unless they stand in linked code; an error for each that cannot be read, or as
        the last for the rest of all."""
        try:
            cubin = Cubin(image.plain(self._scratch))
            arch = f"sm_{image.target}" if image.target else cubin.arch
            if self.held.is_linked(image, arch, cubin):
                return
            if image.target and int(image.target.rstrip("af")) != cubin.number:
                yield DamageError(f"a cubin of sm_{cubin.number} that stands for {arch}", image.offset)
            yield from self._functions(cubin, image, arch)
            cubin.check()
            if cubin.lines.damage is not None:
                yield LostLines(cubin.lines.damage.what)
        except DamageError as error:
            yield error

    def _functions(self, cubin: Cubin, image: Image, arch: str) -> Iterator[Stated]:
        found: list[tuple[Function, Seen | DamageError]] = []
        fresh: list[tuple[Function, Facts, Seen]] = []
        late: DamageError | None = None
        try:
            for function in self._bounded(cubin, image):
                try:
                    facts = _facts(cubin, function)
                except DamageError as error:
                    found.append((function, error))
                    continue
                seen = self._known.get(facts)
                if seen is None:
                    seen = []
                    fresh.append((function, facts, seen))
                found.append((function, seen))
        except DamageError as error:  # behind those before it
            late = error
        self._look(fresh, cubin.number)
        peaks = _peaks(cubin) if self._live else {}
        own, maker = bool(peaks or cubin.lines), cubin.maker
        for function, each in found:
            symbol = function.symbol
            if isinstance(each, DamageError):
                yield DamageError(f"{symbol}: {each.what}", each.offset)
                continue
            for callee, figures in each if not own else _placed(each, cubin.lines, function.section, peaks):
                yield Named(figures, callee or symbol, arch, maker, symbol if callee else "")
        if late is not None:
            raise late

    def _bounded(self, cubin: Cubin, image: Image) -> Iterator[Function]:
        for function in cubin.functions():
            self._left -= 1
            if self._left < 0:
                raise DamageError("more functions than so small a file can hold", image.offset)
            yield function

    def _look(self, fresh: Sequence[tuple[Function, Facts, Seen]], number: int) -> None:
        """Look at functions that were not seen before."""
        opcodes = table(number)
        words: Iterable[_MachineWords | None] = [None] * len(fresh)
        if opcodes is not None:
            words = _counted([function for function, _, _ in fresh], opcodes, number)
        for (function, facts, seen), own in zip(fresh, words, strict=True):
            seen.extend(_figures(facts, function.code, own))
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[facts] = seen


_MOST_KNOWN = 1 << 16
"""Functions that are remembered."""


def _peaks(cubin: Cubin) -> dict[int, LivePeak]:
    from spillscan.binary.pressure import pressures  # few ask for them

    return {each.section: held.peak for each, held in pressures(cubin)}


def _placed(seen: Seen, lines: Lines, section: int, peaks: Mapping[int, LivePeak]) -> Seen:
    """The same with what only one cubin says: source lines, and where most registers are live."""

    def placed(figures: Figures, peak: LivePeak | None) -> Figures:
        return replace(figures, local=figures.local and lines.attach(figures.local, section), peak=peak)

    return [(callee, placed(figures, None if callee else peaks.get(section))) for callee, figures in seen]


Seen = list[tuple[str, Figures]]
"""A function (without a name), and the callees in its code by their symbols."""


class Facts(NamedTuple):
    """All that a cubin says of one function, but for its name and source lines: of two that are equal the same is
    stated."""

    number: int
    """Of its architecture."""
    role: Role
    final: bool | None
    """See :attr:`Figures.final`."""
    registers: int | None
    frame_bytes: int | None
    stack_bytes: int | None
    local_bytes: int
    shared_bytes: int
    constant_bytes: tuple[tuple[int, int], ...]
    barriers: int
    dynamic_shared: bool | None
    """For these see :class:`~spillscan.binary.cubin.Function`."""
    references: References | None
    bounds: LaunchBounds | None
    sets_registers: bool
    spills: Spills
    parts: tuple[tuple[int, str], ...]
    """Where callees begin in its code, and their symbols."""
    digest: str
    """See :meth:`~spillscan.binary.cubin.Cubin.digest_of`."""
    code: bytes
    """Stands for its machine code."""
    code_bytes: int


_SEED = int.from_bytes(os.urandom(8), "little")
"""Of what stands for machine code: so that nobody can write other code for which the same stands."""


def _facts(cubin: Cubin, function: Function) -> Facts:
    info, code = cubin.info_of(function), function.code
    parts = cubin.parts_of(function)
    return Facts(
        cubin.number,
        function.role,
        False if cubin.relocatable else None,
        function.registers,
        function.frame_bytes,
        function.stack_bytes,
        function.local_bytes,
        function.shared_bytes,
        function.constant_bytes,
        (info.barriers or 0) if function.barriers is None else function.barriers,
        function.dynamic_shared,
        cubin.references.get(function.section),
        _bounds(info.max_threads, info.required_threads, info.cluster_blocks),
        info.sets_registers,
        _annotated(cubin, info),
        tuple(parts.items()) if parts else (),
        cubin.digest_of(function),
        xxh3_128_digest(code.view(0, code.size, "code"), _SEED),
        code.size,
    )


class _MachineWords(Struct, frozen=True, gc=False):
    """Those of one function."""

    counts: Counts
    stretch: Code
    """Its instructions, among others."""
    opcodes: Table


def _counted(functions: Iterable[Function], opcodes: Table, number: int) -> Iterator[_MachineWords]:
    for neighbours in decode.stretches(functions, opcodes):
        windows = [function.code for function in neighbours]
        stretch = decode.code_of_stretch(windows, opcodes, number)
        for counted in decode.of_stretch(windows, stretch, opcodes):
            yield _MachineWords(counted, stretch, opcodes)


class _Callee(NamedTuple):
    """A device function in a kernel's code."""

    symbol: str
    begin: int
    end: int
    local: LocalTraffic | None = None
    frame_bytes: int | None = None


def _figures(facts: Facts, code: Window, words: _MachineWords | None) -> Iterator[tuple[str, Figures]]:
    """See :data:`Seen`."""
    role, local, shared = facts.role, None, None
    spilled: Pair = (None, None)
    together: Pair = (None, None)
    roles: tuple[WarpRole, ...] = ()
    counted = words.counts if words else None
    callees: list[_Callee] = []
    if words and counted:
        spills, parts = facts.spills, facts.parts
        shared = None if spills is None else 0
        spilled = 0, 0
        if parts:
            ends = [*(begin for begin, _ in parts[1:]), code.size]
            named = ((name, begin, end) for (begin, name), end in zip(parts, ends, strict=True))
            callees = [_Callee(*each, None, None if facts.frame_bytes else 0) for each in named if each[0]]
        if callees:
            together = 0, 0
        if spills or counted.local or counted.settings or callees:
            decoded = Decoded(code, words.stretch, words.opcodes, facts.number)
        if spills:
            shared = decoded.shared_among(spills)
        if counted.local or counted.settings:
            seen = decoded.analysis(role, counted, parts=tuple(begin for begin, _ in parts), spills=spills)
            roles = seen.roles() if counted.settings else ()
        if counted.local:
            role, local = seen.role, seen.traffic()
            spilled = _spilled(local, role)
            of_callees = [seen.callee(each.begin) for each in callees]
            callees = [
                each._replace(local=own, frame_bytes=frame)
                for each, (own, frame) in zip(callees, of_callees, strict=True)
            ]
            if callees:
                known = local.cumulative if local.callees and local.evidence == "annotation" else None
                together = spilled if not local.callees else (None, None) if known is None else known.pair
    references = facts.references
    own = Figures(
        role,
        facts.final,
        Resources(
            facts.registers,
            facts.frame_bytes,
            facts.stack_bytes,
            *spilled,
            *together,
            facts.local_bytes,
            facts.shared_bytes,
            facts.constant_bytes,
            facts.barriers,
            references and references.textures,
            references and references.surfaces,
            references and references.samplers,
        ),
        facts.bounds,
        False if counted and facts.dynamic_shared and not counted.may_share else facts.dynamic_shared,
        counted,
        counted.code_bytes if counted else code.size,
        shared,
        local,
        roles=roles,
        digest=facts.digest,
        lost_setting=bool(counted and facts.sets_registers and not counted.settings),
    )
    yield "", own
    windows = [code.part(each.begin, each.end - each.begin, "callee") for each in callees]
    for each, held in zip(callees, decoded.counted(windows) if windows else (), strict=True):
        stores, loads = _spilled(each.local, "function")
        figures = Figures(
            role="function",
            final=None,
            resources=replace(_UNKNOWN, stack_bytes=each.frame_bytes, spill_store_bytes=stores, spill_load_bytes=loads),
            bounds=None,
            dynamic_shared=None,
            counts=held,
            code_bytes=each.end - each.begin,
            shared_spills=None,
            local=each.local,
        )
        yield each.symbol, figures


def _annotated(cubin: Cubin, info: FunctionInfo) -> tuple[int, ...] | None:
    """Offsets of spills; ``None`` where its toolkit does not write them."""
    if info.spills is not None:
        return info.spills
    if info.toolkit is not None:
        return () if (info.toolkit // 10, info.toolkit % 10) >= FIRST_WITH_ANNOTATIONS else None
    return () if cubin.toolkit.version[:2] >= FIRST_WITH_ANNOTATIONS else None


def _spilled(local: LocalTraffic | None, role: Role) -> Pair:
    """The stored and loaded bytes that ptxas printed: known where it annotated them."""
    if local is None or local.evidence == "none":
        return 0, 0
    traffic = local.spills(role) if local.evidence == "annotation" else None
    return (None, None) if traffic is None else traffic.pair


_Dimensions = tuple[int, int, int] | None


@lru_cache(maxsize=1024)
def _bounds(most: _Dimensions, required: _Dimensions, cluster: _Dimensions) -> LaunchBounds | None:
    """What attributes say of a launch; ``None`` where that is nothing. Equal ones are one."""
    if not (most or required or cluster):
        return None
    return LaunchBounds(
        max_threads=_product(most, 1024),
        required_threads=_product(required, 1024),
        cluster_blocks=_product(cluster, LARGEST_CLUSTER),
    )


LARGEST_CLUSTER = 16
"""Blocks: more than any device takes are none."""


def _product(dimensions: _Dimensions, most: int) -> int | None:
    """Threads of a block, blocks of a cluster; ``None`` where the bounds make none."""
    if dimensions is None:
        return None
    x, y, z = dimensions
    return x * y * z if 0 < x * y * z <= most else None


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
        fields: dict[str, Any] = {
            "code_bytes": figures.code_bytes,
            "shared_spills": figures.shared_spills,
            "registers": figures.resources.registers,
            "maker": maker,
            "roles": figures.roles,
            "digest": figures.digest,
            "live_peak": figures.peak,
        }
        key = arch, counts and counts.opcodes.parts[1:], id(local), *fields.values()
        known = self._stats.get(key)
        if known is None:
            known = self._stats[key] = SassStats(
                instructions=counts.instructions if counts else 0,
                opcodes=counts.opcodes if counts else (),
                local=local,
                origin=self._origin,
                **fields,
            )
        return known


def _first(counts: Counter[str]) -> Iterator[tuple[str, int]]:
    """The counts by name; of more than are shown, the last stands for all the others."""
    ranked = sorted(counts.items())
    yield from ranked[:_MANY]
    if rest := ranked[_MANY:]:
        yield f"{len(rest)} others", sum(count for _, count in rest)


Numbered = tuple[int, Found]
"""What was found, and how many cubins before it."""


def numbered(found: Iterable[Found]) -> Iterator[Numbered]:
    """Everything; the cubins of a file are known by their numbers."""
    number = 0
    for each in found:
        yield number, each
        number += isinstance(each, Image)


def one_by_one(functions: Functions, found: Iterable[Numbered]) -> Iterator[tuple[Numbered, Iterable[Stated]]]:
    """Everything, by this process; what is stated of one cubin is to be taken before the next is asked for."""
    pages = Pages()
    for each in found:
        yield each, _of_member(functions, each[1], pages)


def as_they_come(
    functions: Functions, found: Sequence[Numbered], origin: str
) -> Iterator[tuple[int, Iterable[Stated]]]:
    """The place of each in ``found`` with what is stated of it, by as many processes as pay: first machine code, then
    what depends on which there is. Raises :class:`~spillscan.errors.SpillscanError` where a process dies."""
    linked = {each.file for _, each in found if isinstance(each, Image) and not each.relocatable}

    def waits(each: Found) -> bool:
        return isinstance(each, Intermediate) or (isinstance(each, Image) and each.relocatable and each.file in linked)

    pages = Pages()
    for late in (False, True):
        places = [at for at, (_, each) in enumerate(found) if waits(each) is late]
        mine = [found[at][1] for at in places]
        sizes = [functions.work_of(each) for each in mine]
        read = workers.as_they_come(
            mine, sizes, lambda each: _of_member(functions, each, pages), f"{origin} was not read", None, _target, Post
        )
        for at, stated in read:
            yield places[at], stated


def _target(each: Found) -> str:
    """What can be equal is of one architecture."""
    return each.target if isinstance(each, Member) else ""


def _of_member(functions: Functions, each: Found, pages: Pages) -> Iterator[Stated]:
    if isinstance(each, Damage):
        return
    yield from functions.of(each) if isinstance(each, Image) else functions.entries(each)
    pages.leave(each.raw.buffer, each.raw.start)


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

    def made(numbered: Numbered, stated: Iterable[Stated]) -> Iterator[Record]:
        number, each = numbered
        if isinstance(each, Damage):
            return iter([records.damage(each.error, each.place)])
        return records.of(each, number, functions.held.of(each, stated) if isinstance(each, Image) else stated)

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
