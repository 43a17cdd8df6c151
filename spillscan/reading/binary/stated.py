"""What is stated of each function of a file, by as many processes as pay: small enough to be handed from one to the
other. A library holds a function once for each source that uses it; it is looked at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from sys import intern
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import astuple, replace

from spillscan.model.code import LivePeak, Maker
from spillscan.reading import workers
from spillscan.reading.binary.containers import Damage, Found, Image, Intermediate, Member
from spillscan.reading.binary.cubin import Cubin, Function
from spillscan.reading.binary.decode import Counts, Opcodes
from spillscan.reading.binary.figures import Facts, Figures, Resources, Seen, facts_of, look
from spillscan.reading.binary.lines import Lines
from spillscan.reading.binary.window import DamageError, Limits, Window
from spillscan.reading.inputs import ptx
from spillscan.reading.inputs.memory import Pages, Scratch


class Named(Struct, frozen=True, gc=False):
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


class FiguresPost:
    """How what is stated goes from one process to another: of functions their names in one text and numbers in place of
    figures, of which each goes once, a column for each field. There is one on each side."""

    def __init__(self) -> None:
        self._figures: workers.Numbers[Figures] = workers.Numbers()

    def packed(self, stated: Iterable[Stated]) -> Any:
        """What is stated of one cubin or module, as it is sent: functions of one architecture and maker."""
        every = list(stated)
        named = [each for each in every if isinstance(each, Named)]
        if not named or len(named) < len(every):
            return every
        places, fresh = self._figures.of([each.figures for each in named])
        symbols = _SEPARATOR.join(each.symbol for each in named)
        callers = _SEPARATOR.join(each.caller for each in named) if any(each.caller for each in named) else ""
        return places, symbols, named[0].arch, named[0].maker, callers, _columns(fresh)

    def unpacked(self, sent: Any) -> Sequence[Stated]:
        """What was sent."""
        if isinstance(sent, list):
            return sent
        places, symbols, arch, maker, callers, fresh = sent
        figures, names = self._figures.records(places, _of_columns(fresh)), map(intern, symbols.split(_SEPARATOR))
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

    def keep(self, image: Image, stated: Iterable[Stated]) -> None:
        """Remember the functions of a cubin, of which this is stated."""
        if isinstance(image.stored, Window):
            return
        kernels = self._kernels.setdefault(image.file, {}).setdefault(image.stored.container, set())
        named = [each for each in stated if isinstance(each, Named)]
        kernels.update([each.symbol for each in named if each.figures.role == "entry"])
        if named and not image.relocatable:  # all of one cubin are of one architecture
            linked = self._linked.setdefault(image.file, {}).setdefault(named[0].arch, set())
            linked.update([each.symbol for each in named])

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

    def entries(self, module: Intermediate) -> list[Stated]:
        """The kernels of one module."""
        try:
            symbols = self.held.beside(module)
            if symbols is None and module.form == "PTX":
                window = module.plain(self._scratch)
                symbols = tuple(ptx.kernels(window.copy(0, window.size, "PTX")))
            return [Entries(symbols)]
        except DamageError as error:
            return [error]

    def of(self, image: Image) -> list[Stated]:
        """All functions of one cubin, unless they stand in linked code; an error for each that cannot be read, or as
        the last for the rest of all."""
        stated: list[Stated] = []
        try:
            cubin = Cubin(image.plain(self._scratch))
            arch = f"sm_{image.target}" if image.target else cubin.arch
            if self.held.is_linked(image, arch, cubin):
                return stated
            if image.target and int(image.target.rstrip("af")) != cubin.number:
                stated.append(DamageError(f"a cubin of sm_{cubin.number} that stands for {arch}", image.offset))
            self._functions(cubin, image, arch, stated)
            cubin.check()
            if cubin.lines.damage is not None:
                stated.append(LostLines(cubin.lines.damage.what))
        except DamageError as error:
            stated.append(error)
        return stated

    def _functions(self, cubin: Cubin, image: Image, arch: str, stated: list[Stated]) -> None:
        """Add all functions to what is ``stated``; raise what ends them."""
        found: list[tuple[Function, Seen | DamageError]] = []
        fresh: list[tuple[Function, Facts, Seen]] = []
        late: DamageError | None = None
        try:
            for function in cubin.functions():
                self._left -= 1
                if self._left < 0:
                    raise DamageError("more functions than so small a file can hold", image.offset)
                try:
                    facts = facts_of(cubin, function)
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
        looked = look([(function, facts) for function, facts, _ in fresh], cubin.number)
        for (_, facts, seen), now in zip(fresh, looked, strict=True):
            seen.extend(now)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[facts] = seen
        peaks = _peaks(cubin) if self._live else {}
        own, maker = bool(peaks or cubin.lines), cubin.maker
        for function, each in found:
            symbol = function.symbol
            if isinstance(each, DamageError):
                stated.append(DamageError(f"{symbol}: {each.what}", each.offset))
                continue
            for callee, figures in each if not own else _placed(each, cubin.lines, function.section, peaks):
                stated.append(Named(figures, callee or symbol, arch, maker, symbol if callee else ""))
        if late is not None:
            raise late


_MOST_KNOWN = 1 << 16
"""Functions that are remembered."""


def _peaks(cubin: Cubin) -> dict[int, LivePeak]:
    from spillscan.reading.binary.pressure import pressures  # few ask for them

    return {each.section: held.peak for each, held in pressures(cubin)}


def _placed(seen: Seen, lines: Lines, section: int, peaks: Mapping[int, LivePeak]) -> Seen:
    """The same with what only one cubin says: source lines, and where most registers are live."""

    def placed(figures: Figures, peak: LivePeak | None) -> Figures:
        return replace(figures, local=figures.local and lines.attach(figures.local, section), peak=peak)

    return [(callee, placed(figures, None if callee else peaks.get(section))) for callee, figures in seen]


Numbered = tuple[int, Found]
"""What was found, and how many cubins before it."""


def numbered(found: Iterable[Found]) -> Iterator[Numbered]:
    """Everything; the cubins of a file are known by their numbers."""
    number = 0
    for each in found:
        yield number, each
        number += isinstance(each, Image)


def one_by_one(functions: Functions, found: Iterable[Numbered]) -> Iterator[tuple[Numbered, Sequence[Stated]]]:
    """Everything, by this process; the functions of one cubin are to be kept before the next is asked for."""
    pages = Pages()
    for each in found:
        yield each, _of_member(functions, each[1], pages)


def as_they_come(
    functions: Functions, found: Sequence[Numbered], origin: str
) -> Iterator[tuple[int, Sequence[Stated]]]:
    """The place of each in ``found`` with what is stated of it, by as many processes as pay: first machine code, then
    what depends on which there is. Raises :class:`~spillscan.SpillscanError` where a process dies."""
    linked = {each.file for _, each in found if isinstance(each, Image) and not each.relocatable}

    def waits(each: Found) -> bool:
        return isinstance(each, Intermediate) or (isinstance(each, Image) and each.relocatable and each.file in linked)

    pages = Pages()
    for late in (False, True):
        places = [at for at, (_, each) in enumerate(found) if waits(each) is late]
        mine = [found[at][1] for at in places]
        sizes = [functions.work_of(each) for each in mine]
        read = workers.as_they_come(
            mine,
            sizes,
            lambda each: _of_member(functions, each, pages),
            f"{origin} was not read",
            None,
            _target,
            FiguresPost,
        )
        for at, stated in read:
            yield places[at], [*stated]


def _target(each: Found) -> str:
    """What can be equal is of one architecture."""
    return each.target if isinstance(each, Member) else ""


def _of_member(functions: Functions, each: Found, pages: Pages) -> Sequence[Stated]:
    if isinstance(each, Damage):
        return ()
    stated = functions.of(each) if isinstance(each, Image) else functions.entries(each)
    pages.leave(each.raw.buffer, each.raw.start)
    return stated
