"""The numbers of what a block's instructions compute: equal numbers are equal values, whatever registers hold them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from itertools import count

from spillscan.model.code import OPCODE_CLASSES
from spillscan.reading.machine.instruction import LOADS, STORES, Instruction, Place, Sum


def set_of(opcodes: str) -> frozenset[str]:
    """Of mnemonics in one text."""
    return frozenset(opcodes.split())


ACROSS = set_of("SHFL VOTE VOTEU MATCH REDUX CREDUX R2UR MOVM FSWZ FSWZADD HMMA IMMA DMMA BMMA")
"""They read what other threads of the warp hold: those that are there stay the same until warps part or meet."""
_SPACES = ("global", "shared", "local")
SPECIAL = set_of("S2R S2UR CS2R CS2UR")
PURE = (
    frozenset(
        opcode
        for name in ("fp32", "fp64", "fp16", "fp8", "sfu", "int", "convert", "move", "predicate", "constant")
        for opcode in OPCODE_CLASSES[name]
    )
    - ACROSS
    - SPECIAL
    - set_of("LEPC ULEPC CCTLC UP2UR UR2UP")
)
"""What they write follows from what they read, and they do nothing else. Not those that read or write all uniform
predicates at once."""
PARTING = set_of("BSSY BREAK BMOV")
"""They say which threads of a warp meet, and where: accesses to memory may pass them. Of BMOV, the one that clears."""
_CONSTANT = frozenset((0x00, 0x21, 0x22, 0x23, 0x25, 0x26, 0x27, 0xFF))
"""Numbers of special registers that never change: lane, thread, block, zero."""
ORDERED = set_of(
    "BAR MEMBAR DEPBAR LDGDEPBAR LDGSTS ATOM ATOMG ATOMS RED REDG ERRBAR CCTL LD ST WARPSYNC YIELD NANOSLEEP FENCE"
    " ACQBULK PREEXIT"
)
"""They do more than write registers: none of them passes another, nor an access to memory."""
_GLOBAL, _ORDER, _READ_ONLY, _STRONG = set_of("LDG STG"), 77, 4, 8
"""The field of four bits that says how an access is ordered: plain ones may stand in any order, those of memory that
nobody writes (``.CONSTANT``) do not mind stores, others may see each other in theirs (volatile, relaxed, acquire,
release; measured: CUDA 13.0, sm_75 to sm_120)."""
_TERMS = 8
"""Of a sum, at most, so that it is taken into another."""
_TOGETHER = 256
"""Stores whose order does not matter, at most: so many are looked at for each."""
_NEGATED_GUARD = 15
_ZERO, _TRUE, _MODULUS = -1, (-2, -4), 1 << 32
"""The register that is always zero; predicates that are always true; values of 32 bits."""
ENDS = set_of("BRA EXIT BSYNC CALL RET")
"""Control may go on elsewhere behind them."""
_Terms = tuple[frozenset[tuple[Hashable, int]], tuple[tuple[int, int], ...], int]
Guard = tuple[int, int]
"""The value of a predicate; 1: it must be false."""


class NotProvenError(Exception):
    """The functions may do the same work or not: why that is not known, in a line."""


class Numbers(defaultdict[Hashable, int]):
    """Of values: equal ones have one."""

    def __init__(self) -> None:
        super().__init__(count(1 << 20).__next__)
        self.sums: dict[int, _Terms] = {_ZERO: (frozenset(), (), 0)}
        """What is a sum: values and how many times each is added, operands in constant banks, a constant."""
        self.addresses: dict[int, Hashable] = {}
        """What is the address of code, and of which."""
        self.kept: dict[int, tuple[Guard, int, int]] = {}
        """What was written under a guard: that, what it is where it is true, and else."""

    def summed(self, terms: _Terms) -> int:
        """The number of a sum; of its one value, if there is no more."""
        values, banks, constant = terms
        if len(values) == 1 and not banks and not constant:
            ((value, times),) = values
            if times == 1 and isinstance(value, int):
                return value
        if not (values or banks or constant):
            return _ZERO
        number = self["sum", values, banks, constant]
        self.sums[number] = terms
        return number

    def address(self, of: Hashable) -> int:
        """The number of an address of code."""
        number = self["address", of]
        self.addresses[number] = of
        return number

    def under(self, guard: Guard | None, value: int, held: int) -> int:
        """The number of a value where a guard is true, else of what was held. What the same guard wrote before is lost,
        and what both ways write does not depend on what was there before them."""
        before = self.kept.get(held)
        while before is not None and guard is not None and before[0] == guard:
            held = before[2]
            before = self.kept.get(held)
        if before is not None and guard is not None and before[0] == (guard[0], 1 - guard[1]):
            both = (value, before[1]) if guard[1] else (before[1], value)
            number = self["either", guard[0], both]
            held = before[1]
        else:
            number = self["kept", guard, value, held]
        if guard is not None:
            self.kept[number] = guard, value, held
        return number

    def where(self, guard: Guard | None, number: int) -> int:
        """The number of what is left of a value where a guard is known to be true."""
        before = self.kept.get(number)
        while before is not None and guard is not None and before[0][0] == guard[0]:
            number = before[1] if before[0] == guard else before[2]
            before = self.kept.get(number)
        return number


class _Memory:
    """The state of one memory: stores to places of one base that do not overlap may stand in any order, and a load does
    not see those that it does not overlap."""

    def __init__(self, numbers: Numbers) -> None:
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


def guard_of(each: Instruction, held: Mapping[int, int]) -> Guard | None:
    """What must be true for an instruction to be executed, where that is known."""
    return None if each.guard is None else (held[each.guard], each.key[0] >> _NEGATED_GUARD & 1)


def kind_of(each: Instruction, addresses: Container[int]) -> tuple[str, Hashable]:
    """What must stand in both blocks as often. ``addresses``: constants that are no numbers, but where code lies."""
    if each.sum is None:
        return each.name, each.key
    return "a sum", "an address" if each.sum.alone and each.sum.constant in addresses else each.sum.shape


def _added(sum_: Sum, values: Sequence[int], numbers: Numbers) -> int:
    """The number of a sum; what it adds that is a sum itself is added instead."""
    times: Counter[Hashable] = Counter()
    banks: Counter[int] = Counter(dict(sum_.banks))
    constant = sum_.constant
    for at, factor in sum_.terms:
        held = numbers.sums.get(values[at])
        if held is None or len(held[0]) + len(held[1]) + len(times) + len(banks) > _TERMS:
            times[values[at]] += factor
            continue
        for value, more in held[0]:
            times[value] += factor * more
        for bank, more in held[1]:
            banks[bank] += factor * more
        constant += factor * held[2]
    for at, negated in sum_.carries:
        if values[at] in _TRUE:
            constant += not negated
        else:
            times["carry", values[at], negated] += 1
    if sum_.product is not None:
        times["product", *sorted(values[at] for at in sum_.product)] += 1
    terms = frozenset((value, factor % _MODULUS) for value, factor in times.items() if factor % _MODULUS)
    others = sorted((bank, factor % _MODULUS) for bank, factor in banks.items() if factor % _MODULUS)
    return numbers.summed((terms, tuple(others), constant % _MODULUS))


def executed(
    block: Sequence[Instruction], held: dict[int, int], numbers: Numbers, addresses: Mapping[int, Hashable]
) -> dict[str, Hashable]:
    """Run a block on the numbers of values; what registers hold is put into ``held``. Returns the states of memories,
    of all else, and of control. ``addresses``: constants that are addresses of code, and of which; a return alone may
    use one."""
    memories = {space: _Memory(numbers) for space in _SPACES}
    state: dict[str, Hashable] = dict.fromkeys(("warp", "order", "control"), 0)
    under: dict[int, tuple[tuple[int, int], int]] = {}
    """Of registers last written under a guard: that guard, and what they hold where it is true."""
    for each in block:
        name = each.name
        guard = guard_of(each, held)
        found = {
            register: under[register][1] if register in under and under[register][0] == guard else held[register]
            for register in (*each.read, *(each.place.base[:-1] if each.place else ()))
            if register >= 0
        }
        read = [found.get(register, register) for register in each.read]
        values: list[Hashable] = [*read]
        for at, value in zip(each.swaps, sorted(values[at] for at in each.swaps), strict=True):  # type: ignore[type-var]
            values[at] = value
        special = name in SPECIAL and each.key[0] >> 72 & 0xFF not in _CONSTANT
        order = each.key[0] >> _ORDER & 15 if name in _GLOBAL else 0
        ordered = name in ORDERED or order >= _STRONG
        space = LOADS.get(name) or STORES.get(name)
        if ordered or name in ENDS or special:
            values += [*state.values(), *(memory.state for memory in memories.values())]
        elif name in ACROSS or name in PARTING:
            values.append(state["warp"])
        elif space is not None:
            base, place = None, each.place
            if place is not None:
                base = tuple(found.get(register, register) for register in place.base[:-1]), place.base[-1]
            if name in LOADS and order != _READ_ONLY:
                values.append(memories[space].state if place is None else memories[space].seen(base, place))
            elif name in STORES and place is None:
                values.append(memories[space].state)
        number = numbers[name, each.key, len(each.written), tuple(values)]
        used: Iterable[int] = found.values()
        if name in PARTING:
            state["warp"] = number
        elif ordered:
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
        elif name in ENDS:
            state["control"] = number
        for at, register in enumerate(each.written):
            if register >= 0:
                summed = each.sum if at == 0 and (guard is not None or not each.guarded) else None
                if summed is not None and summed.alone and summed.constant in addresses:
                    value = numbers.address(addresses[summed.constant])
                else:
                    value = numbers[number, at] if summed is None else _added(summed, read, numbers)
                if value in numbers.addresses:
                    used = (value,) if each.guarded else ()  # to move it is not to use it
                under.pop(register, None)
                if guard is not None:
                    under[register] = guard, value
                held[register] = numbers.under(guard, value, held[register]) if each.guarded else value
        if name != "RET" and not numbers.addresses.keys().isdisjoint(used):
            raise NotProvenError("an address of code is used")
    return state | {space: memory.state for space, memory in memories.items()}
