"""What a file says of each function: first in plain figures, small enough to be handed from one process to another,
then as records, with an issue for what keeps a function from being read. The members of a large file are read by as
many processes as there are processors; records come in the order of the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import PurePath
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import asdict, astuple, replace

from spillscan import workers
from spillscan.binary import archive, containers, decode
from spillscan.binary.containers import Damage, Found, Image, Intermediate, Member, Place
from spillscan.binary.cubin import Cubin, Function, FunctionInfo
from spillscan.binary.decode import Counts, Decoded, Locals, Opcodes
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
    """One function."""

    symbol: str
    arch: str
    """``sm_90a``, as its container says, else its cubin."""
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
    maker: Maker | None
    """What wrote its cubin, as far as that says."""
    caller: str = ""
    """The kernel in whose code it stands, as a callee; empty: it stands alone."""
    roles: tuple[WarpRole, ...] = ()
    """Which of its code runs with which number of registers."""
    digest: str | None = None
    """Stands for its code; ``None`` of a callee."""
    peak: LivePeak | None = None
    """Where most registers are live, if that was asked for."""


class LostLines(NamedTuple):
    """A cubin's source lines cannot all be read."""

    what: str


class Entries(NamedTuple):
    """What a module holds that is not yet machine code."""

    symbols: tuple[str, ...] | None
    """Its kernels; ``None`` where they cannot be read."""


class LostSetting(NamedTuple):
    """A function sets its warps' registers, as its attributes say, and no instruction is known to do so."""

    symbol: str


Stated = Figures | Entries | LostLines | LostSetting | DamageError
"""What is stated of a cubin or a module: its functions, and what is wrong with it."""


class Handed(list[Stated]):
    """What is stated of one cubin or module, as it goes from one process to another: of functions a column for each
    field, which takes two thirds of the time."""

    def __reduce__(self) -> tuple[Callable[..., list[Stated]], tuple[Any]]:
        functions = [each for each in self if isinstance(each, Figures)]
        counts = [each.counts for each in functions if each.counts is not None]
        if not functions or len(counts) < len(self):
            return list, ([*self],)
        columns = _columns(functions)
        columns["resources"] = _columns(columns["resources"])
        columns["counts"] = _columns(counts)
        columns["counts"]["opcodes"] = [*zip(*(each.opcodes.parts for each in counts), strict=True)]
        return _of_columns, (columns,)


def _columns(items: Sequence[Struct]) -> dict[str, Any]:
    return dict(zip(items[0].__struct_fields__, zip(*map(astuple, items), strict=True), strict=True))


def _of_columns(columns: dict[str, Any]) -> list[Stated]:
    counts = columns["counts"]
    counts["opcodes"] = map(Opcodes, *counts["opcodes"])
    columns["counts"] = map(Counts, *counts.values())
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
            if isinstance(each, Figures):
                if each.arch != arch:
                    arch, names = each.arch, linked.setdefault(each.arch, set())
                names.add(each.symbol)
                if each.role == "entry":
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
    """The functions of the cubins of one file, no more than it may hold."""

    def __init__(self, limits: Limits, input_bytes: int, *, live: bool = False) -> None:
        self._live = live
        self._left = limits.free_functions + input_bytes // limits.bytes_per_function
        self._scratch = Scratch()
        self._locals = Locals()
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
            opcodes = table(cubin.number)
            arch = f"sm_{image.target}" if image.target else cubin.arch
            if self.held.is_linked(image, arch, cubin):
                return
            if image.target and int(image.target.rstrip("af")) != cubin.number:
                yield DamageError(f"a cubin of sm_{cubin.number} that stands for {arch}", image.offset)
            found = self._bounded(cubin, image)
            peaks = _peaks(cubin) if self._live else {}
            for function, words in _counted(found, opcodes, cubin.number):
                try:
                    yield from _figures(cubin, arch, function, words, peaks.get(function.section), self._locals)
                except DamageError as error:
                    yield DamageError(f"{function.symbol}: {error.what}", error.offset)
            cubin.check()
            if cubin.lines.damage is not None:
                yield LostLines(cubin.lines.damage.what)
        except DamageError as error:
            yield error

    def _bounded(self, cubin: Cubin, image: Image) -> Iterator[Function]:
        for function in cubin.functions():
            self._left -= 1
            if self._left < 0:
                raise DamageError("more functions than so small a file can hold", image.offset)
            yield function


def _peaks(cubin: Cubin) -> dict[int, LivePeak]:
    from spillscan.binary.pressure import pressures  # few ask for them

    return {each.section: held.peak for each, held in pressures(cubin)}


class _MachineWords(Struct, frozen=True, gc=False):
    """Those of one function."""

    counts: Counts
    stretch: Code
    """Its instructions, among others."""
    opcodes: Table


def _counted(
    functions: Iterator[Function], opcodes: Table | None, number: int
) -> Iterator[tuple[Function, _MachineWords | None]]:
    if opcodes is None:
        for function in functions:
            yield function, None
        return
    for neighbours in decode.stretches(functions, opcodes):
        windows = [function.code for function in neighbours]
        stretch = decode.code_of_stretch(windows, opcodes, number)
        for function, counted in zip(neighbours, decode.of_stretch(windows, stretch, opcodes), strict=True):
            yield function, _MachineWords(counted, stretch, opcodes)


class _Callee(NamedTuple):
    """A device function in a kernel's code."""

    symbol: str
    begin: int
    end: int
    local: LocalTraffic | None = None
    frame_bytes: int | None = None


def _figures(
    cubin: Cubin, arch: str, function: Function, words: _MachineWords | None, peak: LivePeak | None, locals_: Locals
) -> Iterator[Figures | LostSetting]:
    """A function, and the callees in its code."""
    info = cubin.info_of(function)
    role, local, shared = function.role, None, None
    spilled: Pair = (None, None)
    together: Pair = (None, None)
    roles: tuple[WarpRole, ...] = ()
    counted = words.counts if words else None
    callees: list[_Callee] = []
    if words and counted:
        spills = _annotated(cubin, info)
        shared = None if spills is None else 0
        spilled, parts = (0, 0), cubin.parts_of(function)
        if parts:
            begins = [*parts, function.code.size]
            named = zip(parts.values(), begins[:-1], begins[1:], strict=True)
            callees = [_Callee(*each, None, None if function.frame_bytes else 0) for each in named if each[0]]
        if callees:
            together = 0, 0
        if spills or counted.local or counted.settings or callees:
            decoded = Decoded(function, words.stretch, words.opcodes, cubin.number)
        if spills:
            shared = decoded.shared_among(spills)
        if counted.local or counted.settings:
            asked = tuple(each.begin for each in callees)
            role, traffic, roles, of_callees = locals_.of(decoded, function, counted, tuple(parts), asked, spills)
        if counted.local:
            local = cubin.lines.attach(traffic, function.section)
            spilled = _spilled(local, role)
            callees = [
                each._replace(local=cubin.lines.attach(own, function.section), frame_bytes=frame)
                for each, (own, frame) in zip(callees, of_callees, strict=True)
            ]
            if callees:
                known = local.cumulative if local.callees and local.evidence == "annotation" else None
                together = spilled if not local.callees else (None, None) if known is None else known.pair
    barriers, references = function.barriers, cubin.references.get(function.section)
    yield Figures(
        function.symbol,
        arch,
        role,
        False if cubin.relocatable else None,
        Resources(
            function.registers,
            function.frame_bytes,
            function.stack_bytes,
            *spilled,
            *together,
            function.local_bytes,
            function.shared_bytes,
            function.constant_bytes,
            (info.barriers or 0) if barriers is None else barriers,
            references and references.textures,
            references and references.surfaces,
            references and references.samplers,
        ),
        _bounds(info.max_threads, info.required_threads, info.cluster_blocks),
        False if counted and function.dynamic_shared and not counted.may_share else function.dynamic_shared,
        counted,
        counted.code_bytes if counted else function.code.size,
        shared,
        local,
        cubin.maker,
        roles=roles,
        digest=cubin.digest_of(function),
        peak=peak,
    )
    if counted and info.sets_registers and not counted.settings:
        yield LostSetting(function.symbol)
    windows = [function.code.part(each.begin, each.end - each.begin, "callee") for each in callees]
    for each, held in zip(callees, decoded.counted(windows) if windows else (), strict=True):
        stores, loads = _spilled(each.local, "function")
        yield Figures(
            symbol=each.symbol,
            arch=arch,
            role="function",
            final=None,
            resources=replace(_UNKNOWN, stack_bytes=each.frame_bytes, spill_store_bytes=stores, spill_load_bytes=loads),
            bounds=None,
            dynamic_shared=None,
            counts=held,
            code_bytes=each.end - each.begin,
            shared_spills=None,
            local=each.local,
            maker=cubin.maker,
            caller=function.symbol,
        )


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
        self._usages: dict[Resources, Usage] = {}
        self._stats: dict[tuple[Any, ...], SassStats] = {}
        """Of code, by what it is made of: a library holds many kernels once for each of its sources."""

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
            elif isinstance(each, LostSetting):
                what = (
                    f"{each.symbol} sets its warps' registers, as its attributes say, and no USETMAXREG is found in it"
                )
                yield replace(self._issue("unknown-opcode", what, "error"), hides=("registers", "code"))
            else:
                yield self._function(each, number, identifier)

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

    def _function(self, figures: Figures, number: int, identifier: str) -> SassFunction:
        counts = figures.counts
        if counts is None:
            self._unknown_archs[figures.arch] += 1
        elif counts.unknown:
            self._unknown_codes[figures.arch] += counts.unknown
        usage = self._usages.get(figures.resources)
        if usage is None:
            usage = self._usages[figures.resources] = Usage(**asdict(figures.resources))
        return SassFunction(
            symbol=figures.symbol,
            arch=figures.arch,
            role=figures.role,
            member=number,
            identifier=identifier,
            stats=self._stats_of(figures),
            usage=usage,
            launch_bounds=figures.bounds,
            dynamic_shared=figures.dynamic_shared,
            final=figures.final,
            caller=figures.caller,
        )

    def _stats_of(self, figures: Figures) -> SassStats:
        counts, local = figures.counts, figures.local or NO_TRAFFIC
        fields: dict[str, Any] = {
            "code_bytes": figures.code_bytes,
            "shared_spills": figures.shared_spills,
            "registers": figures.resources.registers,
            "maker": figures.maker,
            "roles": figures.roles,
            "digest": figures.digest,
            "live_peak": figures.peak,
        }
        key = figures.arch, counts and counts.opcodes.parts[1:], id(local), *fields.values()
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


def in_turn(
    functions: Functions, found: Sequence[Numbered], origin: str
) -> Iterator[tuple[Numbered, Iterable[Stated]]]:
    """Everything, by as many processes as pay: first machine code, then what depends on which there is."""
    linked = {each.file for _, each in found if isinstance(each, Image) and not each.relocatable}

    def waits(each: Found) -> bool:
        return isinstance(each, Intermediate) or (isinstance(each, Image) and each.relocatable and each.file in linked)

    yield from together(functions, [pair for pair in found if not waits(pair[1])], origin)
    yield from together(functions, [pair for pair in found if waits(pair[1])], origin)


def together(
    functions: Functions, found: Sequence[Numbered], origin: str
) -> Iterator[tuple[Numbered, Iterable[Stated]]]:
    """Everything, by as many processes as pay. Raises :class:`~spillscan.errors.SpillscanError` where one dies."""
    pages = Pages()
    sizes = [functions.work_of(each) for _, each in found]
    failure = f"{origin} was not read"
    yield from workers.shared(found, sizes, lambda pair: _of_member(functions, pair[1], pages), failure, held=Handed)


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
    if isinstance(buffer, bytes) or archive.kind(window) not in (None, "library"):
        stated = one_by_one(functions, found)  # small, or each member is decompressed where it is found
    else:
        stated = in_turn(functions, list(found), name)
    last: Window | None = None
    for (number, each), figures in stated:
        if hosts is not None and isinstance(each, Member) and each.file is not last:
            last = each.file
            hosts(last)
        if isinstance(each, Damage):
            made: Iterator[Record] = iter([records.damage(each.error, each.place)])
        else:
            stated_of = functions.held.of(each, figures) if isinstance(each, Image) else figures
            made = records.of(each, number, stated_of)
        yield from filter(records.worth, made)
    yield from records.rest()
