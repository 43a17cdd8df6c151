"""Liveness of general registers at each instruction of a function: those that are read later, before they are
overwritten; and the instruction that makes the value in each.

Standard backward dataflow over the function's blocks (Aho, Lam, Sethi, Ullman, "Compilers", 9.2.5); a call is an edge
into its callee and back. A guarded definition may not be executed and ends no live range; nvdisasm (``-plr``) ends it
at block boundaries, and so shows fewer live registers before one. The stack pointer R1 is live until control leaves, as
in nvdisasm.

A value is traced back, by address, through its uninterrupted live range to the last instruction that wrote it. If that
only copies, or puts a constant in, and another one writes it later in the range, the value is carried by a loop and
made by the other one. Code need not run in the order of its addresses: the result is a heuristic, not a proof.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from spillscan.reading.machine.flow import Branch, Flow
from spillscan.reading.machine.loops import Line, depths

INSTRUCTION = 16
"""Bytes per instruction; only encodings of 128 bits have register tables."""
STACK_POINTER = 1


class Effects(NamedTuple):
    """Sets of general registers read and written by each instruction of a function: bit n of a number is register n."""

    read: list[int]
    written: list[int]
    guarded: list[bool]
    """Whether a predicate guards it."""
    unknown: list[bool]
    """Whether no table describes its registers."""


class Live(NamedTuple):
    """Live registers of one function."""

    sets: list[int]
    """By instruction: registers live before it, and those that it writes."""
    at_least: bool
    """Whether more may be live: after an instruction in no table, a call of code outside of the listing, a return to an
    unknown caller, or a branch with inferred targets."""

    @property
    def counts(self) -> list[int]:
        """Number of live registers, by instruction."""
        return [each.bit_count() for each in self.sets]

    def range(self, register: int, row: int) -> tuple[int, int]:
        """First row of the uninterrupted range before ``row`` in which a register is live, and the row after its end;
        it ends at ``row`` if the register is not live there."""
        begin = end = row
        while begin > 0 and self.sets[begin - 1] >> register & 1:
            begin -= 1
        while end < len(self.sets) and self.sets[end] >> register & 1:
            end += 1
        return begin, end


def live(effects: Effects, graph: Graph) -> Live:
    """Live registers of one function."""
    read, sets = effects.read, effects.written.copy()
    kept = [-1 if guarded else ~written for guarded, written in zip(effects.guarded, effects.written, strict=True)]
    blocks = [range(end - 1, begin - 1, -1) for begin, end in zip(graph.begins, graph.ends, strict=True)]
    wanted, passing = [0] * len(blocks), [-1] * len(blocks)
    for number, rows in enumerate(blocks):
        for row in rows:
            wanted[number] = wanted[number] & kept[row] | read[row]
            passing[number] &= kept[row]
    for rows, after in zip(blocks, _after_blocks(wanted, passing, graph), strict=True):
        current = after
        for row in rows:
            current = current & kept[row] | read[row]
            sets[row] |= current
    return Live(sets, graph.at_least or any(effects.unknown))


class Graph:
    """Control-flow graph of one function: blocks of consecutive instructions, and the successors of each."""

    def __init__(self, flow: Flow, reconverging: Iterable[Branch], rows: int, *, function: bool) -> None:
        """``reconverging``: edges to points of reconvergence, which are no branches; ``function``: its callers are
        unknown."""
        self.rows = rows
        self._flow = flow
        self.at_least = bool(flow.calls() or flow.guessed or function)
        """Whether its control flow is not fully known."""
        inner = flow.inner_calls()
        self.calls = len(flow.calls()) + len(inner)
        """Number of function calls."""
        calls = (Branch(call.address, call.target, call.conditional) for call in inner)
        branches = sorted([*flow.branches(), *reconverging, *calls], key=attrgetter("address"))
        line = Line(branches, flow.entries)
        # a place between two instructions begins with the second: a callee that nothing names is placed one word of
        # Maxwell's after the exit or return before it, and damaged code jumps anywhere
        starts = (key // 4 + (INSTRUCTION if key % 4 else 0) for key in line.keys)
        begins = [min(-(-start // INSTRUCTION), rows) for start in starts]
        successors = self._with_returns(line, flow)
        leaving = {node for node, successor in enumerate(successors) if not successor}
        leaving.update(
            line.before(each.address)
            for each in branches
            if (each.target < 0 and not each.indirect) or each.target == each.address
        )
        self.begins: list[int] = begins
        """Row of the first instruction of each block, ascending."""
        self.ends: list[int] = [max(begin, end) for begin, end in pairwise([*begins, rows])]
        self.successors = successors
        """Successors of each block."""
        self.leaves = [node in leaving for node in range(len(successors))]
        """Whether control may leave after each block."""

    def depths(self) -> Sequence[int | None]:
        """Loop depth of each instruction; ``None`` if unreachable or unknown."""
        return depths((*self._flow.branches(),), (*self._flow.entries,), range(0, self.rows * INSTRUCTION, INSTRUCTION))

    @staticmethod
    def _with_returns(line: Line, flow: Flow) -> list[tuple[int, ...]]:
        """Successors of each node, with edges from each callee's returns to the code after its calls."""
        successors, entries = list(line.successors), flow.entries
        after: dict[int, list[int]] = {}
        for call in flow.inner_calls():
            after.setdefault(call.target, []).append(line.before(call.address) + 1)
        for address in flow.returns() if after else ():
            number = bisect_right(entries, address) - 1
            if number >= 0:
                node = line.before(address)
                successors[node] = (*successors[node], *after.get(entries[number], ()))
        return successors


def _after_blocks(wanted: Sequence[int], passing: Sequence[int], blocks: Graph) -> list[int]:
    """Registers live after each block."""
    before: list[list[int]] = [[] for _ in wanted]
    for number, successor in enumerate(blocks.successors):
        for each in successor:
            before[each].append(number)
    into, out = [0] * len(wanted), [1 << STACK_POINTER if leaves else 0 for leaves in blocks.leaves]
    work, queued = list(range(len(wanted))), bytearray(b"\1") * len(wanted)
    while work:
        number = work.pop()
        queued[number] = 0
        behind = out[number]
        for each in blocks.successors[number]:
            behind |= into[each]
        out[number] = behind
        new = behind & passing[number] | wanted[number]
        if new != into[number]:
            into[number] = new
            for each in before[number]:
                if not queued[each]:
                    queued[each] = 1
                    work.append(each)
    return out


def numbers(registers: int) -> list[int]:
    """Registers of a set, ascending, without the stack pointer."""
    return [each for each in range(registers.bit_length()) if registers >> each & 1 and each != STACK_POINTER]


def maker(live: Live, effects: Effects, register: int, row: int, copies: Callable[[int], bool]) -> int | None:
    """Row of the instruction that makes the value of a register at an instruction; ``None`` if unknown. ``copies``:
    whether an instruction only copies, or puts a constant in."""
    begin, end = live.range(register, row)
    writing = [at for at in range(begin, end) if effects.written[at] >> register & 1]
    if not writing:
        return None
    last = max((at for at in writing if at <= row), default=writing[0])
    further = (at for at in writing if at > row and not copies(at))
    return next(further, last) if copies(last) else last
