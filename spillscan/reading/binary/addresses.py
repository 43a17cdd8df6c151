"""Where the lanes of a warp go in each access to memory of a function, seen from each other.

Where that cannot be known from code alone, nothing is said: behind a branch that parts lanes, a register that either
way wrote is unknown, and so is what a loop wrote that lanes leave one by one (divergence analysis: Coutinho, Sampaio,
Pereira and Meira, 2011). Of an address of 64 bits its lower half alone is followed: lanes of one access that lie 4 GB
apart are not distinguished from such that do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from spillscan.reading.binary.sums import Operands, sum_of
from spillscan.reading.machine.instruction import FILES, LOADS, STORES, Instruction, Sum
from spillscan.reading.machine.lanes import (
    ALL_KNOWN,
    ANY,
    WIDTHS,
    WORD,
    Lanes,
    Shape,
    added,
    constant,
    either,
    logical,
    multiplied,
    shifted_right,
    times,
)
from spillscan.reading.machine.liveness import Graph
from spillscan.reading.machine.values import PURE

_GENERAL, _PREDICATE, _UNIFORM, _UNIFORM_PREDICATE = (FILES.index(each) for each in "RPUQ")
_MOST_BLOCKS = 2000
"""Of a function; of a larger one nothing is reported."""
_MOST_ROUNDS = 64
"""Times that a block is looked at again."""

_Held = dict[int, Lanes | None]
"""By register; what is left out is unknown."""


class Access(NamedTuple):
    """Where the lanes of one access go, seen from the first, in bytes."""

    row: int
    """Number of its instruction."""
    space: str
    """``global`` or ``shared``."""
    store: bool
    bytes: int
    """That each lane moves."""
    offsets: Mapping[int, tuple[int, ...]]
    """By the threads of a row of a block, see :class:`Shape`; of those that are left out nothing is known."""


def accesses(code: Sequence[Instruction], graph: Graph) -> list[Access] | None:
    """The accesses to global and shared memory of a function; ``None`` where instructions are unknown, or too many."""
    if any(not each.known for each in code) or len(graph.begins) > _MOST_BLOCKS:
        return None
    found: dict[int, dict[int, tuple[int, ...]]] = {}
    for width in WIDTHS:
        for row, value in _Function(code, graph, Shape(width)).addresses().items():
            offsets = tuple((each - value.table[0] + WORD // 2) % WORD - WORD // 2 for each in value.table)
            found.setdefault(row, {})[width] = offsets
    return [
        Access(row, LOADS.get(name) or STORES[name], name in STORES, place.size, found.get(row, {}))
        for row, each in enumerate(code)
        if (name := each.name) in _PLAIN and (place := each.place) is not None
    ]


_PLAIN = frozenset({"LDG", "STG", "LDS", "STS"})
_UNIFORM_RESULTS = frozenset({"VOTE", "VOTEU", "REDUX", "CREDUX", "R2UR"})
"""What all lanes get alike."""


class _Function:
    def __init__(self, code: Sequence[Instruction], graph: Graph, shape: Shape) -> None:
        self._code, self._graph, self._shape = code, graph, shape
        self._before: list[list[int]] = [[] for _ in graph.begins]
        for block, ways in enumerate(graph.ways):
            for way in ways:
                self._before[way].append(block)

    def addresses(self) -> dict[int, Lanes]:
        """What is known of the address of each access."""
        parting: set[int] = set()
        while True:  # what parts lanes makes more unknown, and so more branches part them
            entering = self._settled(self._unknown(parting))
            more = {block for block, held in entering.items() if self._parts(block, held)}
            if more <= parting:
                break
            parting |= more
        found: dict[int, Lanes] = {}
        for block, held in entering.items():
            for row, held_there in self._rows(block, held):
                if self._code[row].name in _PLAIN and (value := self._address(self._code[row], held_there)) is not None:
                    found[row] = value
        return found

    def _address(self, each: Instruction, held: _Held) -> Lanes | None:
        assert each.place is not None
        base = each.place.base[0] if len(each.place.base) > 1 else -1
        value = _read(held, base) if base // 256 == _GENERAL else constant(0) if base < 0 else ANY
        scale = each.key[0] >> _SCALE & 3 if each.name in ("LDS", "STS") else 0
        return None if value is None else times(value, (1, 4, 8, 16)[scale])

    def _settled(self, unknown: Mapping[int, frozenset[int]]) -> dict[int, _Held]:
        """What is known where each block begins."""
        entering: dict[int, _Held] = {0: {1: ANY}}
        rounds = [0] * len(self._before)
        work = [0]
        while work:
            block = work.pop()
            rounds[block] += 1
            held = self._behind_all(block, entering[block])
            for way in self._graph.ways[block]:
                lost = unknown.get(way, frozenset())
                new = {register: value for register, value in held.items() if register not in lost}
                known = entering.get(way)
                joined = new if known is None else _joined(known, new)
                if rounds[way] > _MOST_ROUNDS:
                    joined = {}
                if joined != known:
                    entering[way] = joined
                    work.append(way)
        return entering

    def _behind_all(self, block: int, held: _Held) -> _Held:
        """What registers hold where a block ends."""
        after = held
        for _row, after in self._rows(block, held):  # noqa: B007 - one that is changed as it goes
            pass
        return after

    def _rows(self, block: int, held: _Held) -> Iterable[tuple[int, _Held]]:
        """What registers hold before each instruction."""
        held = dict(held)
        for row in range(self._graph.begins[block], self._graph.ends[block]):
            yield row, held
            _step(self._code[row], held, self._shape)

    def _parts(self, block: int, held: _Held) -> bool:
        """Whether some lanes may go another way than others."""
        if len({*self._graph.ways[block]}) < 2:
            return False
        held = self._behind_all(block, held)
        last = self._code[self._graph.ends[block] - 1]
        if last.name not in ("BRA", "CALL", "BSYNC"):
            return True
        return any(_read(held, register) is None for register in last.read if register >= 0)

    def _unknown(self, parting: Iterable[int]) -> dict[int, frozenset[int]]:
        """By block, where lanes may meet that came other ways: what these wrote."""
        found: dict[int, frozenset[int]] = {}
        if not parting:
            return found
        behind = self._behind()
        for block in parting:
            end = behind[block]
            region = self._reached(block, end)
            written = frozenset(
                register
                for each in region
                for row in range(self._graph.begins[each], self._graph.ends[each])
                for register in self._code[row].written
            )
            inside = region | {block}
            meeting = {each for each in region if sum(before in inside for before in self._before[each]) > 1}
            meeting |= {end} if end >= 0 else set()
            for each in meeting:
                found[each] = found.get(each, frozenset()) | written
        return found

    def _reached(self, block: int, end: int) -> set[int]:
        """What control may come to from a block before an end."""
        found: set[int] = set()
        work = [way for way in self._graph.ways[block] if way != end]
        while work:
            each = work.pop()
            if each not in found:
                found.add(each)
                work += [way for way in self._graph.ways[each] if way != end]
        return found

    def _behind(self) -> list[int]:
        """By block: the first that every way from it comes to; -1: none."""
        count = len(self._graph.begins)
        everything = (1 << count) - 1
        sets = [everything] * count
        work = list(range(count))
        while work:
            block = work.pop()
            ways = self._graph.ways[block]
            common = everything if ways else 0
            for way in ways:
                common &= sets[way]
            if self._graph.leaves[block]:
                common = 0
            common |= 1 << block
            if common != sets[block]:
                sets[block] = common
                work += self._before[block]
        found = []
        for block, own in enumerate(sets):
            later = [each for each in range(count) if own >> each & 1 and each != block]
            found.append(max(later, key=lambda each: sets[each].bit_count(), default=-1))
        return found


_SCALE = 78


def _joined(one: _Held, other: _Held) -> _Held:
    both = {register: either(value, other.get(register)) for register, value in one.items()}
    return {register: value for register, value in both.items() if value is not None}


def _read(held: _Held, register: int) -> Lanes | None:
    if register < 0:
        return constant(0) if register in (-1 - _GENERAL, -1 - _UNIFORM) else ANY
    if register // 256 in (_UNIFORM, _UNIFORM_PREDICATE):
        return held.get(register, ANY)
    return held.get(register)


def _step(each: Instruction, held: _Held, shape: Shape) -> None:
    """Execute an instruction."""
    made = _made(each, held, shape)
    guard = None if each.guard is None else _read(held, each.guard)
    for at, register in enumerate(each.written):
        if register < 0:
            continue
        value = made[at]
        if register // 256 in (_UNIFORM, _UNIFORM_PREDICATE):  # there is one for all lanes
            value = value if value is not None and value.shared else ANY
        if each.guarded:
            value = either(value, held.get(register)) if guard is not None else None
        if value is None:
            held.pop(register, None)
        else:
            held[register] = value


def _made(each: Instruction, held: _Held, shape: Shape) -> list[Lanes | None]:
    """What it writes."""
    name, word, count = each.name, each.key[0], len(each.written)
    if name in ("S2R", "S2UR", "CS2R"):
        special = word >> 72 & 0xFF
        return [constant(0) if special == 0xFF else shape.identity(special)] * count
    if name in _UNIFORM_RESULTS:
        return [ANY] * count
    read = [_read(held, register) for register in each.read]
    if name in LOADS or name in ("LDC", "ULDC", "LDCU"):
        alike = name not in ("LDL", "LDSM") and all(value is not None and value.shared for value in read)
        return [ANY if alike else None] * count
    if name not in PURE:
        return [None] * count
    alike = all(value is not None and value.shared for value in read)
    others: list[Lanes | None] = [ANY if alike else None] * count
    own = _of_sources(each, read)
    if own is not None:
        others[0] = own
    return others


def _of_sources(each: Instruction, read: Sequence[Lanes | None]) -> Lanes | None:
    """What it leaves in the first register that it writes: a sum, bits, a shift."""
    name, word = each.name, each.key[0]
    if each.sum is not None:
        return _summed(each.sum, read)
    sources = each.sources
    form = word >> 9 & 7
    if name == "IMAD" and word & 0x1FF in (_PRODUCT, _WIDE_PRODUCT) and form == 5 and not word >> 74 & 3:
        first, third = _source(sources, 24, read), _source(sources, 64, read)  # times what stands in a bank
        return None if first is None or third is None or not first.shared else added(third, ANY)
    if name == "IMAD" and word & 0x1FF == _WIDE_PRODUCT:
        if any(register // 256 == _PREDICATE and register != each.guard for register in each.read):
            return None  # a carry
        lower = sum_of(name, word & ~0x1FF | _PRODUCT | _NO_CARRY, Operands(sources, {}, each.read))
        return None if lower is None else _summed(lower, read)
    if name == "LOP3" and word & 0x1FF == _LOGIC and form in (1, 4, 6):
        middle = constant(word >> 32) if form == 4 else _source(sources, 32, read)
        three = [_source(sources, 24, read), middle, _source(sources, 64, read)]
        known = [value for value in three if value is not None]
        return logical(word >> 72 & 0xFF, known) if len(known) == len(three) else None
    if name == "SHF" and word & 0x1FF == _SHIFT and form == 4 and word >> 76 & 1 and word >> 80 & 1:
        value, low = _source(sources, 64, read), each.read[sources[24]] if 24 in sources else 0
        kind, by = word >> 73 & 3, word >> 32 & WORD - 1
        if value is not None and by < ALL_KNOWN and low < 0 and kind in (2, 3):
            return shifted_right(value, by, signed=kind == 2)
    return None


_NO_CARRY = 0xF << 87
_PRODUCT, _WIDE_PRODUCT, _LOGIC, _SHIFT = 0x024, 0x025, 0x012, 0x019


def _source(sources: Mapping[int, int], bit: int, read: Sequence[Lanes | None]) -> Lanes | None:
    return read[sources[bit]] if bit in sources else None


def _summed(sum_: Sum, read: Sequence[Lanes | None]) -> Lanes | None:
    total = constant(sum_.constant)
    for at, factor in sum_.terms:
        value = read[at]
        if value is None:
            return None
        total = added(total, times(value, factor))
    for at, _negated in sum_.carries:
        if read[at] is None:
            return None
        total = added(total, ANY)
    if sum_.product is not None:
        one, other = (read[at] for at in sum_.product)
        product = None if one is None or other is None else multiplied(one, other)
        if product is None:
            return None
        total = added(total, product)
    for _, factor in sum_.banks:
        total = added(total, times(ANY, factor))
    return total
