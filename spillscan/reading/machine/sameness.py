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
from collections.abc import Collection, Hashable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from spillscan.model.code import OPCODE_CLASSES

FILES = "RPUQ"
"""General registers, predicates, uniform registers, uniform predicates."""
_BYTES = 16
"""Of an instruction."""
_STACK_POINTER, _NOBODY_S = 1, -1
"""A register that has a value where a kernel begins; the class of all others there, which nobody wrote yet: what they
hold decides nothing in code that a compiler wrote."""
_BARRIERS = 6
"""By which instructions wait for others; a higher number names none."""


def _set(opcodes: str) -> frozenset[str]:
    return frozenset(opcodes.split())


ACROSS = _set("SHFL VOTE VOTEU MATCH REDUX CREDUX R2UR MOVM FSWZ FSWZADD HMMA IMMA DMMA BMMA")
"""They read what other threads of the warp hold: those that are there stay the same until warps part or meet."""
LOADS = {"LDG": "global", "LDS": "shared", "LDSM": "shared", "LDL": "local"}
STORES = {"STG": "global", "STS": "shared", "STSM": "shared", "STL": "local"}
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
    - _set("LEPC ULEPC CCTLC P2R R2P UP2UR UR2UP")
)
"""What they write follows from what they read, and they do nothing else. Not those that read or write all predicates at
once, which no field of their words names."""
_CONSTANT = frozenset((0x00, 0x21, 0x22, 0x23, 0x25, 0x26, 0x27, 0xFF))
"""Numbers of special registers that never change: lane, thread, block, zero."""
ORDERED = _set(
    "BAR MEMBAR DEPBAR LDGDEPBAR LDGSTS ATOM ATOMG ATOMS RED REDG ERRBAR CCTL LD ST BSSY BREAK WARPSYNC YIELD NANOSLEEP"
    " FENCE"
)
"""They do more than write registers: none of them passes another, nor an access to memory."""
_GLOBAL, _STRONG = _set("LDG STG"), 80
"""Accesses that other threads may see in their order (volatile, relaxed, acquire, release) have this bit (measured:
CUDA 13.0, sm_75 to sm_120)."""
_UNIFORM_BRANCH, _NEGATED = 0x547, 90
"""A BRA by a uniform predicate; the bit that turns the condition of a branch."""
_ENDS = _set("BRA EXIT BSYNC CALL RET")
"""Control may go on elsewhere behind them."""
_WITH_TARGET = _set("BRA BSSY CALL")


class Instruction(NamedTuple):
    """One instruction."""

    name: str
    """The mnemonic; empty: unknown."""
    key: tuple[int, str]
    """What is left of its word without registers, target and schedule; what is put into it at the link."""
    read: tuple[int, ...]
    """Registers, 256 times the index of the file and the number; below 0: the register that is always the same."""
    written: tuple[int, ...]
    """The same."""
    guarded: bool
    """A predicate decides whether it is executed."""
    known: bool
    """Tables say all of it."""
    target: int | None
    """Byte offset of where it goes, or where warps meet."""
    waits: tuple[int, int, int]
    """The barrier that is set until it has written; the one until it has read; the set of those that it waits for."""


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
        self._used = [
            sorted({register for each in side.rows for register in (*each.read, *each.written) if register >= 0})
            for side in self._sides
        ]

    def check(self) -> None:
        """Raise :class:`NotProvenError` where anything differs."""
        self._pair()
        old, new = (
            _unwaited(side, {pair[at]: {way[at] for way in several} for pair, several in self._ways.items()})
            for at, side in enumerate(self._sides)
        )
        if new != old:
            name = next(iter((new - old) + (old - new)))
            raise NotProvenError(f"a {name} may not wait for what it reads")
        entering = self._settled()
        for pair, classes in entering.items():
            self._check(pair, classes)

    def _pair(self) -> None:
        """Which block of one function is which of the other, from the entry on."""
        partner: list[dict[int, int]] = [{}, {}]
        meets: list[_Pair] = []
        waiting: list[_Pair] = []
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
                meets.append((one.target // _BYTES, other.target // _BYTES))
                work.append(meets[-1])
            ways, goes_on, last = list[_Pair](), True, lasts[0]
            if last is not None:
                assert lasts[1] is not None
                goes_on = last.guarded or last.name in ("BSYNC", "CALL") or _decides(last)
                if last.target is not None and lasts[1].target is not None:
                    ways.append((last.target // _BYTES, lasts[1].target // _BYTES))
                if last.name == "BSYNC":
                    waiting.append(pair)
                fixed |= last.name in ("CALL", "RET")
            if goes_on:
                ends = tuple(side.ends[begin] for side, begin in zip(self._sides, pair, strict=True))
                if any(end >= len(side.rows) for side, end in zip(self._sides, ends, strict=True)):
                    raise NotProvenError("control runs out of the function")
                ways.append((ends[0], ends[1]))
            self._ways[pair] = ways
            work += ways
        for pair in waiting:  # where warps meet that a BSSY of any barrier names
            self._ways[pair] += meets
        if fixed:
            self._calls()

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
            held: dict[int, Hashable] = {register: ("in", entering[side, register]) for register in self._used[side]}
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


def _joined(one: _Classes, other: _Classes) -> _Classes:
    """What both know to be equal."""
    numbers: dict[Hashable, int] = defaultdict(count().__next__)
    return {place: numbers[one[place], other[place]] for place in one}


def _executed(
    block: Sequence[Instruction], held: dict[int, Hashable], numbers: dict[Hashable, int]
) -> dict[str, Hashable]:
    """Run a block on the numbers of values; what registers hold is put into ``held``. Returns the states of memories,
    of all else, and of control."""
    state: dict[str, Hashable] = dict.fromkeys((*_SPACES, "warp", "order", "control"), 0)
    for each in block:
        name = each.name
        values: list[Hashable] = [held[register] if register >= 0 else register for register in each.read]
        if each.guarded:
            values += [held[register] for register in each.written if register >= 0]
        special = name in SPECIAL and each.key[0] >> 72 & 0xFF not in _CONSTANT
        ordered = name in ORDERED or (name in _GLOBAL and each.key[0] >> _STRONG & 1)
        if ordered:
            values += state.values()
        elif name in LOADS:
            values += [state[LOADS[name]], state["warp"]]
        elif name in ACROSS:
            values.append(state["warp"])
        elif name in STORES:
            values += [state[STORES[name]], state["warp"]]
        elif name in _ENDS or special:
            values += state.values()
        number = numbers[name, each.key, len(each.written), tuple(values)]
        if ordered:
            state.update(dict.fromkeys((*_SPACES, "warp", "order"), number))
        elif name in STORES:
            state[STORES[name]] = number
        elif special:
            state["order"] = number
        elif name in _ENDS:
            state["control"] = number
        for place, register in enumerate(each.written):
            if register >= 0:
                held[register] = numbers[number, place]
    return state


_Waits = frozenset[tuple[int, int, bool]]
"""(register, barrier, whether it is to be written): what is under way."""


def _unwaited(blocks: _Blocks, ways: Mapping[int, Collection[int]]) -> Counter[str]:
    """Instructions that use a register which another has not read or written yet, as far as barriers say, by mnemonic.
    Some are none: accesses to memory read their registers one behind the other. ``ways``: what may follow each block.
    """
    entering: dict[int, _Waits] = {0: frozenset()}
    work = [0]
    while work:
        begin = work.pop()
        under_way, _ = _waited(blocks.rows[begin : blocks.ends[begin]], entering[begin])
        for way in ways[begin]:
            known = entering.get(way)
            joined = under_way if known is None else known | under_way
            if joined != known:
                entering[way] = joined
                work.append(way)
    found: Counter[str] = Counter()
    for begin, under_way in entering.items():
        found += _waited(blocks.rows[begin : blocks.ends[begin]], under_way)[1]
    return found


def _waited(block: Sequence[Instruction], under_way: _Waits) -> tuple[_Waits, Counter[str]]:
    """What is under way behind a block, and the instructions that do not wait for what they use."""
    now = set(under_way)
    found: Counter[str] = Counter()
    for each in block:
        written, read, waited = each.waits
        if waited:
            now = {item for item in now if not waited >> item[1] & 1}
        uses = {*each.read, *each.written}
        found[each.name] += any(register in (uses if writing else each.written) for register, _, writing in now)
        if written < _BARRIERS:
            now |= {(register, written, True) for register in each.written if register >= 0}
        if read < _BARRIERS:
            now |= {(register, read, False) for register in each.read if register >= 0}
    return frozenset(now), found
