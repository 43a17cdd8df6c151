"""Why a kernel spills: what caps its registers, and what holds them where most values are live at once: groups of
values by what made them.

Each group has the number of registers that it holds, its source lines, and what would need fewer there.

That a group holds so many is a fact of the code. What undoing it gains at most is an estimate on the safe side, since
the order of instructions becomes another: of lines that stand several times, all that is live but one of each; of
``double``, half of all that is live; of inlined code, all else, too, if the peak is there.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from spillscan.judging.places import Tree, placed, weighed
from spillscan.model import Kernel
from spillscan.model.code import CLASS_OF, MOST_REGISTERS, LocalTraffic, SourceLine
from spillscan.occupancy.bounds import REGISTER_STEP, register_cap
from spillscan.occupancy.devices import Device, device
from spillscan.output.errors import UsageError
from spillscan.output.nouns import count
from spillscan.reading.machine.spillmap import TOP

if TYPE_CHECKING:
    from spillscan.reading.binary.pressure import Pressure
    from spillscan.reading.machine.held import Value

Kind = Literal["copies", "inlined", "wide", "double", "accumulators", "before"]
"""Lines that stand several times; code inlined at one call; wide loads; 64-bit floating point; results of tensor
instructions; values made before the loop through which they are held."""

_LEAST, _SHARE = 4, 8
"""Registers of a group that is named; and what part of all at least."""
_COPIES = 3
"""Times that a line's instruction stands, from which on it is a loop that was unrolled, or an array."""
_SHOWN = 3
DEBUG_BUILD = "built for a debugger (-G): ptxas optimises nothing, and calls what would be inlined"
_CAP = re.compile(r"-{1,2}maxrregcount[= ]+(\d+)|with +(\d+) of maxrregcount option")
_WIDE = frozenset({"LDG", "LDS", "LD", "LDC", "LDL"})


class Holding(NamedTuple):
    """One group of values."""

    kind: Kind
    """What made them."""
    registers: int
    """That they hold, those that wait in spill slots included."""
    fewer: int
    """Registers that undoing it gains at most."""
    lines: tuple[str, ...]
    """Source lines, ``gemm.cu:31``, the heaviest first."""
    cause: str
    """One line: what shows it."""
    relief: str
    """What would need fewer registers there."""


def holdings(code: Pressure, local: LocalTraffic, tree: Tree) -> list[Holding]:
    """The groups that hold many registers where most values are live at once, what most can be gained by first."""
    row, values = code.values(local)
    live = code.demand(local) or code.peak.registers
    least = max(_LEAST, len(values) // _SHARE)
    groups = _Groups(code, row, values, live, tree).all()
    found = [each for each in groups if each.registers >= least and each.fewer > 0]
    return sorted(found, key=lambda each: -min(each.fewer, each.registers))


def at_lines(held: Sequence[Holding]) -> dict[str, list[tuple[int, str]]]:
    """What is said of each source line, ``gemm.cu:31``, by the name of its file alone: registers that it gains at most,
    and a sentence."""
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for each in held:
        gain = f"at most {count(each.fewer, 'register')} fewer"
        for line in each.lines:
            found[_base(line)].append((each.fewer, f"{each.cause}; what would relieve it, {gain}: {each.relief}"))
    return found


class _Groups:
    def __init__(self, code: Pressure, row: int, values: Sequence[Value], live: int, tree: Tree) -> None:
        self._code, self._row, self._values, self._live, self._tree = code, row, values, live, tree
        self._depths: Sequence[int | None] = [] if code.graph is None else code.graph.depths()

    def all(self) -> Iterator[Holding]:
        """Every group."""
        yield from self._copies()
        yield from self._inlined()
        yield from self._wide()
        yield from self._double()
        yield from self._accumulators()
        yield from self._before()

    def _copies(self) -> Iterator[Holding]:
        rows: dict[tuple[SourceLine, str], Counter[int]] = defaultdict(Counter)
        for value in self._values:
            source = self._code.sources[value.row]
            if source is not None:
                rows[source, self._code.opcode(value.row)][value.row] += 1
        several = {key: its for key, its in rows.items() if len(its) >= _COPIES}
        if not several:
            return
        held, times = Counter[str](), Counter[str]()
        for (source, _), its in several.items():
            line = self._line(source)
            held[line] += its.total()
            times[line] = max(times[line], len(its))
        words = ", ".join(
            f"{line} {times[line]} times ({count(n, 'register')})" for line, n in held.most_common(_SHOWN)
        )
        yield Holding(
            "copies",
            held.total(),
            self._live - sum(min(its.values()) for its in several.values()),  # what follows from a copy goes with it
            tuple(line for line, _ in held.most_common(_SHOWN)),
            f"an unrolled loop, or an array in registers: live at once are results of {words}",
            "a smaller factor of #pragma unroll there, or a smaller array",
        )

    def _inlined(self) -> Iterator[Holding]:
        calls: dict[str, list[Value]] = defaultdict(list)
        inner: dict[str, Counter[str]] = defaultdict(Counter)
        for value in self._values:
            source = self._code.sources[value.row]
            if source is not None and (line := self._line_of_call(value.row)):
                calls[line].append(value)
                inner[line][f"{_base(source.file)}:{source.line}"] += 1
        if calls:
            line, values = max(calls.items(), key=lambda each: len(each[1]))
            made = ", ".join(f"{place} ({n})" for place, n in inner[line].most_common(_SHOWN))
            there = self._line_of_call(self._row) == line
            yield Holding(
                "inlined",
                len(values),
                max(len(values), self._live - len(values) if there else 0),  # all else may wait in memory meanwhile
                (line,),
                f"code inlined at {line} holds {count(len(values), 'register')}, made at {made}",
                "__noinline__ for what is called there: then what is live across the call is held or saved",
            )

    def _line_of_call(self, row: int) -> str:
        """The line of the kernel at which an instruction was inlined; empty: it was not."""
        source = self._code.sources[row]
        if source is None or source.inlined_at is None:
            return ""
        while source.inlined_at is not None:
            source = source.inlined_at
        return self._line(source)

    def _wide(self) -> Iterator[Holding]:
        loads: Counter[int] = Counter(each.row for each in self._values if self._code.opcode(each.row) in _WIDE)
        wide = {row: registers for row, registers in loads.items() if registers > 1}
        if wide:
            lines = self._lines(Counter(wide))
            yield Holding(
                "wide",
                sum(wide.values()),
                sum(wide.values()) - len(wide),
                lines,
                f"{count(len(wide), 'load')} of several registers at {', '.join(lines)} hold {sum(wide.values())}"
                if lines
                else f"{count(len(wide), 'load')} of several registers hold {sum(wide.values())}",
                "narrower loads there, or fewer in flight",
            )

    def _of_class(
        self, kind: Literal["double", "accumulators"], name: str, what: str, relief: str
    ) -> Iterator[Holding]:
        rows = Counter(each.row for each in self._values if CLASS_OF.get(self._code.opcode(each.row)) == name)
        if rows:
            lines, registers = self._lines(rows), rows.total()
            at = f", made at {', '.join(lines)}" if lines else ""
            # loads, copies and selections of doubles, and what no instruction was seen to make, do not show their type
            fewer = self._live // 2 if kind == "double" else registers
            yield Holding(kind, registers, fewer, lines, f"{what} hold {count(registers, 'register')}{at}", relief)

    def _double(self) -> Iterator[Holding]:
        return self._of_class("double", "fp64", "values of 64-bit floating point", "float in the place of double")

    def _accumulators(self) -> Iterator[Holding]:
        return self._of_class(
            "accumulators", "tensor", "results of tensor instructions", "a smaller tile of the product"
        )

    def _before(self) -> Iterator[Holding]:
        depth = self._depth(self._row) or 0
        held = Counter(each.row for each in self._values if (own := self._depth(each.row)) is not None and own < depth)
        if held:
            lines, registers = self._lines(held), held.total()
            at = f", made at {', '.join(lines)}" if lines else ""
            yield Holding(
                "before",
                registers,
                registers,
                lines,
                f"made before the loop and held through it: {count(registers, 'register')}{at}",
                "make them in the loop, where they are needed, or keep them in shared memory",
            )

    def _depth(self, row: int) -> int | None:
        """Loops around an instruction; ``None``: not known."""
        return self._depths[row] if self._depths else None

    def _lines(self, rows: Counter[int]) -> tuple[str, ...]:
        held: Counter[str] = Counter()
        for row, registers in rows.items():
            if (source := self._code.sources[row]) is not None:
                held[self._line(source)] += registers
        return tuple(line for line, _ in held.most_common(_SHOWN))

    def _line(self, source: SourceLine) -> str:
        return placed(source, self._tree).text


def _base(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def causes(kernel: Kernel, tree: Tree, code: Pressure | None, held: Sequence[Holding] = ()) -> Iterator[str]:
    """Why a kernel spills: the facts that its code and records show; ``held``: what holds its registers."""
    if for_debugger(kernel):
        yield DEBUG_BUILD
    elif cap := _cap(kernel):
        yield cap
    if code is not None:
        peak = code.peak
        where = "" if peak.source is None else f" at {placed(peak.source, tree).text}"
        least = "at least " if peak.at_least else ""
        demand = code.demand(kernel.sass.local) if kernel.sass else None
        beside = f", {demand} with those that wait in spill slots" if demand and demand > peak.registers else ""
        yield f"{least}{peak.registers} registers are live at once{where}{beside}"
        yield from (each.cause for each in held[:TOP])
    if kernel.sass is None:
        return
    for role in kernel.sass.roles:
        if role.registers is not None and role.spill is not None and role.spill.bytes:
            yield f"warps that setmaxnreg gives {role.registers} registers spill {role.spill.bytes:,} B"
    arrays = kernel.sass.local.of("array")
    if arrays.accesses:
        lines = ", ".join(each.text for each in weighed(kernel.sass.local, "array", tree)[:TOP])
        at = f" at {lines}" if lines else ""
        yield f"local arrays that are indexed at run time, which are not spills, {arrays.bytes:,} B moved{at}"
    if code is not None and code.calls:
        yield f"{count(code.calls, 'call')} not inlined: what is live across one stays in registers or is saved"


def for_debugger(kernel: Kernel) -> bool:
    """Whether it was built for a debugger."""
    maker = kernel.sass.maker if kernel.sass else None
    return maker is not None and not {"-g", "-G", "--device-debug"}.isdisjoint(maker.options.split())


def _cap(kernel: Kernel) -> str:
    """What bounds its registers; empty where that is not known."""
    registers, maker = kernel.usage.registers, kernel.sass.maker if kernel.sass else None
    option = capped_by_option(kernel)
    allowed = kernel.sass.register_cap if kernel.sass else None  # of a device function nothing says it
    cap = option if allowed in (None, MOST_REGISTERS) else allowed
    if cap is None:
        if registers is not None and registers >= MOST_REGISTERS - 2:
            return f"it takes {registers} registers, all that an instruction can name"
        return f"nothing caps its registers; ptxas stops at {registers} by itself" if allowed is not None else ""
    held_back = registers is not None and registers + REGISTER_STEP <= cap
    by_itself = f"; ptxas stops at {registers} by itself" if held_back else ""
    if option == cap:
        return f"-maxrregcount={cap} leaves it {cap} registers{by_itself}"
    bounds = _bounds_of(kernel, cap)
    if bounds:
        return f"{bounds} leaves it {cap} registers{by_itself}"
    by = f"__maxnreg__({cap})" if maker and maker.options else f"-maxrregcount={cap} or __maxnreg__({cap})"
    return f"{by} leaves it {cap} registers"


def capped_by_option(kernel: Kernel) -> int | None:
    """The cap of an option, where that holds: with bounds of its own, ptxas ignores it."""
    maker = kernel.sass.maker if kernel.sass else None
    named = _CAP.search(maker.options if maker else "") or next(
        (match for each in kernel.advisories if (match := _CAP.search(each.text))), None
    )
    return int(named[1] or named[2]) if named and kernel.launch_bounds is None else None


def _bounds_of(kernel: Kernel, cap: int) -> str:
    """The launch bounds that make such a cap; of minimum blocks the code says no more than the cap."""
    here = device_of(kernel)
    threads = kernel.launch_bounds.threads if kernel.launch_bounds else None
    if here is None or threads is None or not 0 < threads <= here.max_threads_per_block:
        return ""
    if register_cap(here, threads).registers == cap:
        return f"__launch_bounds__({threads})"
    blocks = (
        number
        for number in range(min(here.max_threads_per_sm // threads, here.max_blocks_per_sm), 1, -1)
        if register_cap(here, threads, number).registers == cap
    )
    most = next(blocks, None)
    return "" if most is None else f"__launch_bounds__({threads}, {most}) or __maxnreg__({cap})"


def device_of(kernel: Kernel) -> Device | None:
    """The device of its arch, where it is known."""
    try:
        return None if kernel.key.arch is None else device(kernel.key.arch)
    except UsageError:
        return None
