"""What holds the registers of a kernel where most values are live at once: groups of values by what made them.

Each has the number of registers that it holds, its source lines, and what would need fewer there.

That a group holds so many is a fact of the code. What undoing it gains at most is an estimate on the safe side, since
the order of instructions becomes another: of lines that stand several times, all that is live but one of each; of
``double``, half of all that is live; of inlined code, all else, too, if the peak is there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from spillscan.judging.places import Tree, placed
from spillscan.model.code import CLASS_OF, LocalTraffic, SourceLine
from spillscan.output.nouns import count

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
