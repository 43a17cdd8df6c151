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
from collections.abc import Hashable, Sequence
from itertools import count

from spillscan.model.code import OPCODE_CLASSES
from spillscan.reading.machine.instruction import FILES, LOADS, STORES, Instruction, Place
from spillscan.reading.machine.waits import unwaited

_BYTES = 16
"""Of an instruction."""
_STACK_POINTER, _NOBODY_S = 1, -1
"""A register that has a value where a kernel begins; the class of all others there, which nobody wrote yet: what they
hold decides nothing in code that a compiler wrote."""
_WARP_BARRIER = 16
"""Lowest bit of the barrier at which warps meet."""


def _set(opcodes: str) -> frozenset[str]:
    return frozenset(opcodes.split())


ACROSS = _set("SHFL VOTE VOTEU MATCH REDUX CREDUX R2UR MOVM FSWZ FSWZADD HMMA IMMA DMMA BMMA")
"""They read what other threads of the warp hold: those that are there stay the same until warps part or meet."""
_SPACES = ("global", "shared", "local")
SPECIAL = _set("S2R S2UR CS2R CS2UR")
PURE = (
    frozenset(
        opcode
        for name in ("fp32", "fp64", "fp16", "fp8", "sfu", "int", "convert", "move", "predicate", "constant")
        for opcode in OPCODE_CLASSES[name]
    )
    - ACROSS
    - SPECIAL
    - _set("LEPC ULEPC CCTLC UP2UR UR2UP")
)
"""What they write follows from what they read, and they do nothing else. Not those that read or write all uniform
predicates at once."""
_CONSTANT = frozenset((0x00, 0x21, 0x22, 0x23, 0x25, 0x26, 0x27, 0xFF))
"""Numbers of special registers that never change: lane, thread, block, zero."""
ORDERED = _set(
    "BAR MEMBAR DEPBAR LDGDEPBAR LDGSTS ATOM ATOMG ATOMS RED REDG ERRBAR CCTL LD ST BSSY BREAK WARPSYNC YIELD NANOSLEEP"
    " FENCE"
)
"""They do more than write registers: none of them passes another, nor an access to memory."""
_GLOBAL, _ORDER, _READ_ONLY, _STRONG = _set("LDG STG"), 77, 4, 8
"""The field of four bits that says how an access is ordered: plain ones may stand in any order, those of memory that
nobody writes (``.CONSTANT``) do not mind stores, others may see each other in theirs (volatile, relaxed, acquire,
release; measured: CUDA 13.0, sm_75 to sm_120)."""
_TOGETHER = 256
"""Stores whose order does not matter, at most: so many are looked at for each."""
_NEGATED_GUARD = 15
_UNIFORM_BRANCH, _NEGATED = 0x547, 90
"""A BRA by a uniform predicate; the bit that turns the condition of a branch."""
_ENDS = _set("BRA EXIT BSYNC CALL RET")
"""Control may go on elsewhere behind them."""
_WITH_TARGET = _set("BRA BSSY CALL")


class NotProvenError(Exception):
    """The functions may do the same work or not: why that is not known, in a line."""


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
    known = name in PURE or name in ACROSS or name in LOADS or name in STORES or name in SPECIAL or name in ORDERED
    return each.known and (known or name in _ENDS) and (each.target is not None) == (name in _WITH_TARGET)


class _Blocks:
    """The blocks of one function."""

    def __init__(self, rows: Sequence[Instruction]) -> None:
        self.rows = rows
        begins = {0}
        for row, each in enumerate(rows):
            if each.target is not None:
                if each.target % _BYTES or not 0 <= each.target < len(rows) * _BYTES:
                    raise NotProvenError(f"a {each.name} goes to what is not in the function")
                begins.add(each.target // _BYTES)
            if each.name in _ENDS:
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
        return each if each.name in _ENDS else None


_Classes = dict[tuple[int, int], Hashable]
"""By side and register: the class of what it holds."""
_Pair = tuple[int, int]
"""Where a block of either side begins."""


class _Proof:
    """Two functions, paired block by block."""

    def __init__(self, old: _Blocks, new: _Blocks, function: bool) -> None:
        self._sides = old, new
        self._function = function
        self._ways: dict[_Pair, list[_Pair]] = {}
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
        for pair, classes in entering.items():
            self._check(pair, classes)

    def _pair(self) -> None:
        """Which block of one function is which of the other, from the entry on."""
        partner: list[dict[int, int]] = [{}, {}]
        work = [(0, 0)]
        fixed = False
        while work:
            pair = work.pop()
            for side, other in ((0, 1), (1, 0)):
                if partner[side].setdefault(pair[side], pair[other]) != pair[other]:
                    raise NotProvenError("control takes other ways")
            if pair in self._ways:
                continue
            blocks = [side.block(begin) for side, begin in zip(self._sides, pair, strict=True)]
            both = [Counter((each.name, each.key) for each in block) for block in blocks]
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
                fixed |= last.name in ("CALL", "RET")
            if goes_on:
                ends = tuple(side.ends[begin] for side, begin in zip(self._sides, pair, strict=True))
                if any(end >= len(side.rows) for side, end in zip(self._sides, ends, strict=True)):
                    raise NotProvenError("control runs out of the function")
                ways.append((ends[0], ends[1]))
            self._ways[pair] = ways
            work += ways
        if fixed:
            self._calls()
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

    def _calls(self) -> None:
        """A return goes behind any call. It goes by an address that is a value as others are, so that all blocks must
        stand at the same places."""
        behind = []
        for pair in self._ways:
            if pair[0] != pair[1] or self._sides[0].ends[pair[0]] != self._sides[1].ends[pair[1]]:
                raise NotProvenError("calls and other addresses")
            last = self._sides[0].last(pair[0])
            if last is not None and last.name == "CALL":
                behind.append((self._sides[0].ends[pair[0]],) * 2)
        for pair in self._ways:
            last = self._sides[0].last(pair[0])
            if last is not None and last.name == "RET" and not self._function:
                self._ways[pair] += behind
        if self._function and behind:
            raise NotProvenError("a device function that calls")

    def _settled(self) -> dict[_Pair, _Classes]:
        """What is known to be equal where each pair of blocks begins."""
        kept = range(256 * len(FILES)) if self._function else (_STACK_POINTER,)
        start = {
            (side, register): register if register in kept else _NOBODY_S
            for side in (0, 1)
            for register in self._used[side]
        }
        entering: dict[_Pair, _Classes] = {(0, 0): dict(start)}
        work = [(0, 0)]
        while work:
            pair = work.pop()
            behind, _ = self._run(pair, entering[pair])
            for way in self._ways[pair]:
                known = entering.get(way)
                joined = behind if known is None else _joined(known, behind)
                if known is None or len(set(joined.values())) != len(set(known.values())):
                    entering[way] = joined
                    work.append(way)
        return entering

    def _run(self, pair: _Pair, entering: _Classes) -> tuple[_Classes, list[dict[str, Hashable]]]:
        """What registers hold behind the blocks, and on each side the states of all else."""
        numbers: dict[Hashable, int] = defaultdict(count(1 << 20).__next__)
        behind: _Classes = {}
        states = []
        for side in (0, 1):
            held = {register: numbers["in", entering[side, register]] for register in self._used[side]}
            states.append(_executed(self._sides[side].block(pair[side]), held, numbers))
            behind |= {(side, register): numbers[held[register]] for register in self._used[side]}
        return behind, states

    def _check(self, pair: _Pair, entering: _Classes) -> None:
        behind, (old, new) = self._run(pair, entering)
        for name in old:
            if old[name] != new[name]:
                raise NotProvenError(f"other values or another order: {name}")
        last = self._sides[0].last(pair[0])
        if self._function and last is not None and last.name == "RET":
            for register in {*self._used[0], *self._used[1]}:
                if behind.get((0, register)) != behind.get((1, register)):
                    raise NotProvenError("a caller may find other registers")


def _decides(each: Instruction) -> bool:
    """Whether a BRA, EXIT or RET without a guard may go on: it has a condition, of a predicate or a uniform one."""
    word = each.key[0]
    predicates = any(register >= 0 and register // 256 != FILES.index("R") for register in each.read)
    return predicates or word & 0xFFF == _UNIFORM_BRANCH or bool(word >> _NEGATED & 1)


def _barrier(each: Instruction) -> int:
    """Of warps, that a BSSY or BSYNC names."""
    return each.key[0] >> _WARP_BARRIER & 15


def _joined(one: _Classes, other: _Classes) -> _Classes:
    """What both know to be equal."""
    numbers: dict[Hashable, int] = defaultdict(count().__next__)
    return {place: numbers[one[place], other[place]] for place in one}


class _Memory:
    """The state of one memory: stores to places of one base that do not overlap may stand in any order, and a load does
    not see those that it does not overlap."""

    def __init__(self, numbers: dict[Hashable, int]) -> None:
        self._numbers = numbers
        self._before = 0
        self._base: Hashable = None
        self._stores: dict[int, tuple[int, int]] = {}
        """By its number: first byte, and the one behind the last."""

    @property
    def state(self) -> int:
        """After all stores so far."""
        return self._numbers["stores", self._before, frozenset(self._stores)] if self._stores else self._before

    @state.setter
    def state(self, now: int) -> None:
        self._before, self._base, self._stores = now, None, {}

    def seen(self, base: Hashable, place: Place) -> int:
        """The state that an access finds."""
        return self._before if self._apart(base, place) else self.state

    def _apart(self, base: Hashable, place: Place) -> bool:
        begin, end = place.offset, place.offset + place.size
        return base == self._base and all(end <= first or last <= begin for first, last in self._stores.values())

    def store(self, base: Hashable, place: Place, number: int) -> None:
        """Take in a store."""
        if not self._apart(base, place) or len(self._stores) >= _TOGETHER:
            self.state = self.state
            self._base = base
        self._stores[number] = place.offset, place.offset + place.size


def _executed(block: Sequence[Instruction], held: dict[int, int], numbers: dict[Hashable, int]) -> dict[str, Hashable]:
    """Run a block on the numbers of values; what registers hold is put into ``held``. Returns the states of memories,
    of all else, and of control."""
    memories = {space: _Memory(numbers) for space in _SPACES}
    state: dict[str, Hashable] = dict.fromkeys(("warp", "order", "control"), 0)
    under: dict[int, tuple[tuple[int, int], int]] = {}
    """Of registers last written under a guard: that guard, and what they hold where it is true."""
    for each in block:
        name = each.name
        guard = None if each.guard is None else (held[each.guard], each.key[0] >> _NEGATED_GUARD & 1)
        found = {
            register: under[register][1] if register in under and under[register][0] == guard else held[register]
            for register in (*each.read, *(each.place.base[:-1] if each.place else ()))
            if register >= 0
        }
        values: list[Hashable] = [found.get(register, register) for register in each.read]
        for at, value in zip(each.swaps, sorted(values[at] for at in each.swaps), strict=True):  # type: ignore[type-var]
            values[at] = value
        special = name in SPECIAL and each.key[0] >> 72 & 0xFF not in _CONSTANT
        order = each.key[0] >> _ORDER & 15 if name in _GLOBAL else 0
        ordered = name in ORDERED or order >= _STRONG
        space = LOADS.get(name) or STORES.get(name)
        if ordered or name in _ENDS or special:
            values += [*state.values(), *(memory.state for memory in memories.values())]
        elif name in ACROSS:
            values.append(state["warp"])
        elif space is not None:
            values.append(state["warp"])
            base, place = None, each.place
            if place is not None:
                base = tuple(found.get(register, register) for register in place.base[:-1]), place.base[-1]
            if name in LOADS and order != _READ_ONLY:
                values.append(memories[space].state if place is None else memories[space].seen(base, place))
            elif name in STORES and place is None:
                values.append(memories[space].state)
        number = numbers[name, each.key, len(each.written), tuple(values)]
        if ordered:
            state.update(warp=number, order=number)
            for memory in memories.values():
                memory.state = number
        elif name in STORES and space is not None:
            if place is None:
                memories[space].state = number
            else:
                memories[space].store(base, place, number)
        elif special:
            state["order"] = number
        elif name in _ENDS:
            state["control"] = number
        for at, register in enumerate(each.written):
            if register >= 0:
                value = numbers[number, at]
                under.pop(register, None)
                if guard is not None:
                    under[register] = guard, value
                held[register] = numbers["kept", value, held[register]] if each.guarded else value
    return state | {space: memory.state for space, memory in memories.items()}
