"""Whether two functions do the same work: the same instructions on the same values, in an order that dependences allow,
whatever registers hold the values and wherever the code lies.

Both are taken apart into blocks, which are paired along the ways of control from the entry. In each pair of blocks
every instruction gets the number of its value: of what is left of its word without registers, and of the numbers of
what it reads; an instruction that loads also reads the state of its memory, which each store makes a new one. At the
bounds of blocks, registers of both functions that are known to hold equal values are one class (value numbering: Cocke
and Schwartz, 1970; partitions refined to a fixed point: Alpern, Wegman and Zadeck, 1988; a compiler's allocation of
registers checked so: Rideau and Leroy, 2010). The functions do the same work if in every pair of blocks the same
instructions stand, control leaves by equal decisions, and memory and all else that an instruction does beside its
registers has the same state behind them.

It is a proof, and says no more than it can: of an instruction that is not known in full nothing is proven. What it
takes for granted: registers as nvdisasm marks them, and the stall counts of the assembler. The barriers by which
instructions wait for others are checked.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

from spillscan.reading.machine.instruction import BARRIERS, FILES, LOADS, STORES, Instruction
from spillscan.reading.machine.values import (
    ACROSS,
    ENDS,
    ORDERED,
    PARTING,
    PURE,
    SPECIAL,
    Guard,
    NotProvenError,
    Numbers,
    executed,
    guard_of,
    kind_of,
    set_of,
)
from spillscan.reading.machine.waits import unwaited

__all__ = ["NotProvenError", "prove"]

_BYTES = 16
"""Of an instruction."""
_STACK_POINTER, _NOBODY_S = 1, -1
"""A register that has a value where a kernel begins; the class of all others there, which nobody wrote yet: what they
hold decides nothing in code that a compiler wrote."""
_GENERAL = 256
"""Numbers of general registers are below."""
_MEETING = 2
"""In the place of a side: where warps meet, by the number that their barrier has on the first."""
_CALLED = 8
"""Times that each block may be come to by other calls, at most."""
_UNIFORM_BRANCH, _NEGATED = 0x547, 90
"""A BRA by a uniform predicate; the bit that turns the condition of a branch."""
_WITH_TARGET = set_of("BRA BSSY CALL")
_UNDERSTOOD = PURE.union(ACROSS, LOADS, STORES, SPECIAL, ORDERED, ENDS)


def prove(old: Sequence[Instruction], new: Sequence[Instruction], *, function: bool) -> None:
    """Both do the same work; else :class:`NotProvenError`. ``function``: device functions, whose callers go on with
    their registers."""
    for side in (old, new):
        if (bad := next((each for each in side if not _understood(each)), None)) is not None:
            raise NotProvenError(f"not known in full: {bad.name or 'an unknown instruction'}")
    _Proof(_Blocks(old), _Blocks(new), function).check()


def _understood(each: Instruction) -> bool:
    name = each.name
    if name == "NOP":
        return True
    if name == "BMOV" and any(0 <= register < BARRIERS for register in each.written):
        return False  # what a barrier of warps holds, in a general register
    of_warps = name in PARTING and any(register >= BARRIERS for register in (*each.read, *each.written))
    return each.known and (name in _UNDERSTOOD or of_warps) and (each.target is not None) == (name in _WITH_TARGET)


class _Blocks:
    """The blocks of one function."""

    def __init__(self, rows: Sequence[Instruction]) -> None:
        self.rows = rows
        self.called = {row + 1 for row, each in enumerate(rows) if each.name == "CALL"}
        """Where calls go on."""
        begins = {0}
        for row, each in enumerate(rows):
            if each.target is not None:
                if each.target % _BYTES or not 0 <= each.target < len(rows) * _BYTES:
                    raise NotProvenError(f"a {each.name} goes to what is not in the function")
                begins.add(each.target // _BYTES)
            if each.name in ENDS:
                begins.add(row + 1)
        self.begins = sorted(begins - {len(rows)})
        ends = (*self.begins[1:], len(rows))
        self.ends = dict(zip(self.begins, ends, strict=True))

    def block(self, begin: int) -> Sequence[Instruction]:
        """Its instructions, padding left out."""
        return [each for each in self.rows[begin : self.ends[begin]] if each.name != "NOP"]

    def last(self, begin: int) -> Instruction | None:
        """What ends it, if anything does."""
        each = self.rows[self.ends[begin] - 1]
        return each if each.name in ENDS else None


_Classes = dict[tuple[int, int], Hashable]
"""By side and register: the class of what it holds; :class:`_Constant` where that is known. By barrier, where warps
meet."""
_Pair = tuple[int, int]
"""Where a block of either side begins."""
_Calls = tuple[_Pair, ...]
"""Where the calls go on that led to a block, the innermost last."""


class _Constant(NamedTuple):
    """The class of registers that hold a number which is known, and of barriers where it is known where warps meet."""

    value: Any


class _Run(NamedTuple):
    """Two blocks that were executed."""

    numbers: Numbers
    held: list[dict[int, int]]
    """On each side, the numbers of what registers hold behind."""
    states: list[dict[str, Hashable]]
    """The states of all else."""

    def behind(self, guards: tuple[Guard | None, Guard | None] = (None, None)) -> _Classes:
        """The classes of what registers hold, where guards are true."""
        return {
            (side, register): _left(self.numbers.where(guard, number), self.numbers)
            for side, guard in enumerate(guards)
            for register, number in self.held[side].items()
        }


class _Proof:
    """Two functions, paired block by block."""

    def __init__(self, old: _Blocks, new: _Blocks, function: bool) -> None:
        self._sides = old, new
        self._function = function
        self._ways: dict[_Pair, list[_Pair]] = {}
        self._addresses: tuple[dict[int, _Pair], ...] = ({}, {})
        """On each side, where calls go on, by the address; none where the addresses of both are the same."""
        self._meets: dict[_Pair, list[tuple[int, _Pair]]] = {}
        """Barriers of warps that a block sets, and where they meet."""
        self._used = [
            sorted({register for each in side.rows for register in (*each.read, *each.written) if register >= 0})
            for side in self._sides
        ]

    def check(self) -> None:
        """Raise :class:`NotProvenError` where anything differs."""
        self._pair()
        old, new = (
            unwaited(
                {begin: side.rows[begin:end] for begin, end in side.ends.items()},
                {pair[at]: {way[at] for way in several} for pair, several in self._ways.items()},
            )
            for at, side in enumerate(self._sides)
        )
        if new - old:  # of what both do not wait for, nothing is known
            name = next(iter(new - old))
            raise NotProvenError(f"a {name} may not wait for what it reads")
        entering = self._settled()
        for (pair, _), classes in entering.items():
            self._check(pair, classes)

    def _pair(self) -> None:
        """Which block of one function is which of the other, from the entry on."""
        partner: list[dict[int, int]] = [{}, {}]
        work = [(0, 0)]
        called = [{row * _BYTES for row in side.called} for side in self._sides]
        moved = called[0] != called[1]
        while work:
            pair = work.pop()
            for side, other in ((0, 1), (1, 0)):
                if partner[side].setdefault(pair[side], pair[other]) != pair[other]:
                    raise NotProvenError("control takes other ways")
            if pair in self._ways:
                continue
            blocks = [side.block(begin) for side, begin in zip(self._sides, pair, strict=True)]
            both = [
                Counter(kind_of(each, addresses) for each in block)
                for block, addresses in zip(blocks, called if moved else ((), ()), strict=True)
            ]
            if both[0] != both[1]:
                ((name, _),) = next(iter(((both[0] - both[1]) + (both[1] - both[0])).items()))[:1]
                raise NotProvenError(f"other instructions, first {name}")
            lasts = [side.last(begin) for side, begin in zip(self._sides, pair, strict=True)]
            if (lasts[0] and lasts[0].name) != (lasts[1] and lasts[1].name):
                raise NotProvenError("control ends blocks in other ways")
            for one, other in zip(*([e for e in block if e.name == "BSSY"] for block in blocks), strict=True):
                assert one.target is not None
                assert other.target is not None
                meeting = one.target // _BYTES, other.target // _BYTES
                self._meets.setdefault(pair, []).append((_barrier(one), meeting))
                work.append(meeting)
            ways, goes_on, last = list[_Pair](), True, lasts[0]
            if last is not None:
                assert lasts[1] is not None
                goes_on = last.guarded or last.name in ("BSYNC", "CALL") or _decides(last)
                if last.target is not None and lasts[1].target is not None:
                    ways.append((last.target // _BYTES, lasts[1].target // _BYTES))
            if goes_on:
                ends = tuple(side.ends[begin] for side, begin in zip(self._sides, pair, strict=True))
                if any(end >= len(side.rows) for side, end in zip(self._sides, ends, strict=True)):
                    raise NotProvenError("control runs out of the function")
                ways.append((ends[0], ends[1]))
            self._ways[pair] = ways
            work += ways
        self._calls(moved)
        self._meet()

    def _meet(self) -> None:
        """Warps go on behind a BSYNC where a BSSY of its barrier said that reaches it; if none does, where any says."""
        waiting = [pair for pair in self._ways if (last := self._sides[0].last(pair[0])) and last.name == "BSYNC"]
        every = {meeting for several in self._meets.values() for _, meeting in several}
        met: set[_Pair] = set()
        held: dict[_Pair, set[tuple[int, _Pair]]] = {(0, 0): set()}
        work = [(0, 0)]
        while work:
            pair = work.pop()
            last = self._sides[0].last(pair[0])
            known = set(held[pair])
            for barrier, meeting in self._meets.get(pair, ()):
                known = {each for each in known if each[0] != barrier} | {(barrier, meeting)}
            if last is not None and pair in waiting:
                reaching = [meeting for barrier, meeting in known if barrier == _barrier(last)]
                self._ways[pair] += {*reaching} - {*self._ways[pair]}
                met |= {pair} if reaching else set()
            for way in self._ways[pair]:
                if way not in held or not known <= held[way]:
                    held[way] = held.get(way, set()) | known
                    work.append(way)
            if not work:
                lost = {each for each in waiting if each in held} - met
                for each in lost:
                    self._ways[each] += every
                met |= lost
                work += lost

    def _calls(self, moved: bool) -> None:
        """A return goes behind any call. ``moved``: calls stand elsewhere; else its address is a number like others."""
        behind: list[_Pair] = []
        for pair, ways in self._ways.items():
            last = self._sides[0].last(pair[0])
            if last is not None and last.name == "CALL":
                behind.append((self._sides[0].ends[pair[0]], self._sides[1].ends[pair[1]]))
                if not last.guarded:
                    ways.remove(behind[-1])  # control comes there from a return
        for pair in self._ways:
            last = self._sides[0].last(pair[0])
            if last is not None and last.name == "RET" and not self._function:
                self._ways[pair] += behind
        if self._function and behind:
            raise NotProvenError("a device function that calls")
        if moved:
            self._addresses = tuple({pair[side] * _BYTES: pair for pair in behind} for side in (0, 1))

    def _settled(self) -> dict[tuple[_Pair, _Calls], _Classes]:
        """What is known to be equal where each pair of blocks begins, by the calls that led there."""
        kept = range(256 * len(FILES)) if self._function else (_STACK_POINTER,)
        start = {
            (side, register): register if register in kept else _NOBODY_S
            for side in (0, 1)
            for register in self._used[side]
        }
        start |= {(_MEETING, number): _NOBODY_S for several in self._meets.values() for number, _ in several}
        first: tuple[_Pair, _Calls] = (0, 0), ()
        entering: dict[tuple[_Pair, _Calls], _Classes] = {first: dict(start)}
        work = [first]
        while work:
            place = work.pop()
            run = self._run(place[0], entering[place])
            met = {(side, number): each for (side, number), each in entering[place].items() if side == _MEETING}
            met |= {(_MEETING, number): _Constant(meeting) for number, meeting in self._meets.get(place[0], ())}
            for way in self._next(*place, run.behind() | met):
                known, behind = entering.get(way), run.behind(self._given(place[0], way[0], run)) | met
                joined = behind if known is None else _joined(known, behind)
                if known is None or _fineness(joined) != _fineness(known):
                    entering[way] = joined
                    work.append(way)
            if len(entering) > _CALLED * len(self._ways):
                raise NotProvenError("calls of calls")
        return entering

    def _next(self, pair: _Pair, calls: _Calls, behind: _Classes) -> Iterator[tuple[_Pair, _Calls]]:
        """Where control goes. Warps that meet go on where the BSSY of their barrier said, if that is known; a return
        goes behind the call that led there: the register that it reads must say so."""
        last = self._sides[0].last(pair[0])
        ways: Iterable[_Pair] = self._ways[pair]
        after: _Pair = self._sides[0].ends[pair[0]], self._sides[1].ends[pair[1]]
        if last is not None and last.name == "BSYNC":
            meeting = behind.get((_MEETING, _barrier(last)))
            ways = {after, meeting.value} if isinstance(meeting, _Constant) else ways
        if last is None or last.name not in ("CALL", "RET") or self._function:
            yield from ((way, calls) for way in ways)
            return
        if last.name == "CALL":
            yield from ((way, calls if way == after else (*calls, after)) for way in ways)
            return
        if last.guarded or _decides(last):
            yield after, calls
        if not calls:
            return  # no kernel returns: more ways of warps that meet are followed than there are
        for side, each in enumerate((last, self._sides[1].last(pair[1]))):
            assert each is not None
            low, high = [register for register in each.read if 0 <= register < _GENERAL][:2]
            address = calls[-1] if self._addresses[side] else calls[-1][side] * _BYTES
            if (behind[side, low], behind[side, high]) != (_Constant(address), _Constant(0)):
                raise NotProvenError("a return to what is not known")
        yield calls[-1], calls[:-1]

    def _given(self, pair: _Pair, way: _Pair, run: _Run) -> tuple[Guard | None, Guard | None]:
        """What is known to be true on a way, of either side: the guard of the branch, or that it is not."""
        found: list[Guard | None] = []
        for side, held in enumerate(run.held):
            last, after = self._sides[side].last(pair[side]), self._sides[side].ends[pair[side]]
            if last is None or last.name != "BRA" or _decides(last, guard=False) or last.target == after * _BYTES:
                return None, None
            guard = guard_of(last, held)
            if guard is None:
                return None, None
            found.append((guard[0], guard[1] ^ (way[side] == after)))
        return found[0], found[1]

    def _run(self, pair: _Pair, entering: _Classes) -> _Run:
        """Execute both blocks on what is known."""
        numbers, helds, states = Numbers(), [], []
        for side in (0, 1):
            held = {register: _entered(entering[side, register], numbers) for register in self._used[side]}
            states.append(executed(self._sides[side].block(pair[side]), held, numbers, self._addresses[side]))
            helds.append(held)
        return _Run(numbers, helds, states)

    def _check(self, pair: _Pair, entering: _Classes) -> None:
        run = self._run(pair, entering)
        behind, (old, new) = run.behind(), run.states
        for name in old:
            if old[name] != new[name]:
                raise NotProvenError(f"other values or another order: {name}")
        last = self._sides[0].last(pair[0])
        if self._function and last is not None and last.name == "RET":
            for register in {*self._used[0], *self._used[1]}:
                if behind.get((0, register)) != behind.get((1, register)):
                    raise NotProvenError("a caller may find other registers")


def _decides(each: Instruction, *, guard: bool = True) -> bool:
    """Whether a BRA, EXIT or RET may go on: it has a condition, of a predicate or a uniform one. ``guard``: that which
    guards it counts."""
    word = each.key[0]
    predicates = sum(register >= 0 and register // 256 != FILES.index("R") for register in each.read)
    own = predicates - (not guard and each.guard is not None)
    return own > 0 or word & 0xFFF == _UNIFORM_BRANCH or bool(word >> _NEGATED & 1)


def _barrier(each: Instruction) -> int:
    """Of warps, that a BSSY or BSYNC names."""
    return next(register for register in (*each.written, *each.read) if register >= BARRIERS)


def _entered(known: Hashable, numbers: Numbers) -> int:
    """The number of what is of some class where a block begins."""
    if isinstance(known, _Constant) and isinstance(known.value, tuple):
        return numbers.address(known.value)
    return numbers.summed((frozenset(), (), known.value)) if isinstance(known, _Constant) else numbers["in", known]


def _left(number: int, numbers: Numbers) -> Hashable:
    """The class of a value behind its block."""
    if number in numbers.addresses:
        return _Constant(numbers.addresses[number])
    values, banks, constant = numbers.sums.get(number, ((number,), (), 0))
    return numbers["out", number] if values or banks else _Constant(constant)


def _fineness(classes: _Classes) -> tuple[int, int]:
    """How little is known to be equal; it only grows."""
    return len({*classes.values()}), sum(not isinstance(each, _Constant) for each in classes.values())


def _joined(one: _Classes, other: _Classes) -> _Classes:
    """What both know to be equal."""
    numbers: dict[Hashable, int] = defaultdict(count().__next__)
    return {
        place: known if isinstance(known, _Constant) and known == other[place] else numbers[known, other[place]]
        for place, known in one.items()
    }
