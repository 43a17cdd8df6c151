"""Liveness of general registers at each instruction of a function: those that are read later, before they are
overwritten.

Standard backward dataflow over the function's blocks (Aho, Lam, Sethi, Ullman, "Compilers", 9.2.5); a call is an edge
into its callee and back. A guarded definition may not be executed and ends no live range; nvdisasm (``-plr``) ends it
at block boundaries, and so shows fewer live registers before one. The stack pointer R1 is live until control leaves, as
in nvdisasm.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spillscan.reading.machine.flow import Controls, Flow
from spillscan.reading.machine.loops import Line, depths

Sets = NDArray[np.uint64]
"""One set of general registers per row: four words of 64 bits, the lowest register first."""

WORDS = 4
INSTRUCTION = 16
"""Bytes per instruction; only encodings of 128 bits have register tables."""
_ALL = (1 << 64 * WORDS) - 1
_STACK_POINTER = 1 << 1
_BITS = np.array([number.bit_count() for number in range(256)], np.uint8)


class Effects(NamedTuple):
    """General registers read and written by each instruction of a function."""

    read: Sets
    written: Sets
    guarded: NDArray[np.bool_]
    """Whether a predicate guards it."""
    unknown: NDArray[np.bool_]
    """Whether no table describes its registers."""

    def part(self, begin: int, end: int) -> Effects:
        """Effects of the instructions from row ``begin`` to ``end``."""
        rows = slice(begin, end)
        return Effects(self.read[rows], self.written[rows], self.guarded[rows], self.unknown[rows])


class Live(NamedTuple):
    """Live registers of one function."""

    sets: Sets
    """By instruction: registers live before it, and those that it writes."""
    at_least: bool
    """Whether more may be live: after an instruction in no table, a call of code outside of the listing, a return to an
    unknown caller, or a branch with inferred targets."""

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of live registers, by instruction."""
        found: NDArray[np.int64] = _BITS[self.sets.view(np.uint8)].sum(axis=1, dtype=np.int64)
        return found

    def of(self, register: int) -> NDArray[np.bool_]:
        """Whether one register is live, by instruction."""
        found: NDArray[np.bool_] = self.sets[:, register // 64] >> np.uint64(register % 64) & np.uint64(1) != 0
        return found


def live(effects: Effects, graph: Graph) -> Live:
    """Live registers of one function."""
    read, written = _numbers(effects.read), _numbers(effects.written)
    kept = [
        _ALL if guarded else _ALL ^ number for guarded, number in zip(effects.guarded.tolist(), written, strict=True)
    ]
    blocks = [range(end - 1, begin - 1, -1) for begin, end in zip(graph.begins, graph.ends, strict=True)]
    wanted, passing = [0] * len(blocks), [_ALL] * len(blocks)
    for number, rows in enumerate(blocks):
        for row in rows:
            wanted[number] = wanted[number] & kept[row] | read[row]
            passing[number] &= kept[row]
    sets = written
    for rows, after in zip(blocks, _after_blocks(wanted, passing, graph), strict=True):
        current = after
        for row in rows:
            current = current & kept[row] | read[row]
            sets[row] |= current
    found = np.frombuffer(b"".join(each.to_bytes(8 * WORDS, "little") for each in sets), np.uint64)
    return Live(found.reshape(-1, WORDS), graph.at_least or bool(effects.unknown.any()))


class Graph:
    """Control-flow graph of one function: blocks of consecutive instructions, and the successors of each."""

    def __init__(self, flow: Flow, reconverging: Controls, rows: int, *, function: bool) -> None:
        """``reconverging``: edges to points of reconvergence, which are no branches; ``function``: its callers are
        unknown."""
        self.rows = rows
        self._flow = flow
        self.at_least = bool(len(flow.calls()) or flow.guessed or function)
        """Whether its control flow is not fully known."""
        entries = flow.entries
        calls, targets, conditional = flow.inner_calls()
        self.calls = len(flow.calls()) + len(calls)
        """Number of function calls."""
        both = [flow.controls(), reconverging, Controls(calls, targets, conditional, np.zeros(len(calls), bool))]
        columns = [np.concatenate(column) for column in zip(*both, strict=True)]
        order = columns[0].argsort(kind="stable")
        controls = Controls(*(column[order] for column in columns))
        line = Line(controls, entries)
        starts = (line.keys >> 2) + np.where(line.keys & 3, INSTRUCTION, 0)
        # a place between two instructions begins with the second: a callee that nothing names is placed one word of
        # Maxwell's after the exit or return before it, and damaged code jumps anywhere
        begins = np.minimum(-(-starts // INSTRUCTION), rows).tolist()
        ways: list[tuple[int, ...]] = list(line.ways)
        self._return(ways, line, flow, entries)
        leaving = {node for node, way in enumerate(ways) if not way}
        leaving |= self._out(line, controls)
        self.begins: list[int] = begins
        """Row of the first instruction of each block, ascending."""
        self.ends: list[int] = [max(begin, end) for begin, end in pairwise([*begins, rows])]
        self.ways = ways
        """Successors of each block."""
        self.leaves = [node in leaving for node in range(len(ways))]
        """Whether control may leave after each block."""

    def depths(self) -> Sequence[int | None]:
        """Loop depth of each instruction; ``None`` if unreachable or unknown."""
        return depths(self._flow.controls(), self._flow.entries, np.arange(self.rows) * INSTRUCTION)

    @staticmethod
    def _return(ways: list[tuple[int, ...]], line: Line, flow: Flow, entries: Sequence[int]) -> None:
        """Add edges from each callee's returns to the code after its calls."""
        calls, targets, _ = flow.inner_calls()
        if not len(calls):
            return
        behind: dict[int, list[int]] = {}
        for place, target in zip(np.searchsorted(line.keys, 4 * calls + 1).tolist(), targets.tolist(), strict=True):
            behind.setdefault(target, []).append(place)
        starts = np.array(entries, np.int64)
        for address in flow.returns().tolist():
            number = int(starts.searchsorted(address, side="right")) - 1
            node = int(np.searchsorted(line.keys, 4 * address + 1)) - 1
            if number >= 0:
                ways[node] = (*ways[node], *behind.get(entries[number], ()))

    @staticmethod
    def _out(line: Line, controls: Controls) -> set[int]:
        """Nodes after which control may leave, or that loop forever."""
        stops = (controls.targets < 0) & ~controls.indirect | (controls.targets == controls.addresses)
        out = controls.addresses[stops]
        return {place - 1 for place in np.searchsorted(line.keys, 4 * out + 1).tolist()}


def _numbers(sets: Sets) -> list[int]:
    data = sets.tobytes()
    return [int.from_bytes(data[at : at + 8 * WORDS], "little") for at in range(0, len(data), 8 * WORDS)]


def _after_blocks(wanted: Sequence[int], passing: Sequence[int], blocks: Graph) -> list[int]:
    """Registers live after each block."""
    before: list[list[int]] = [[] for _ in wanted]
    for number, way in enumerate(blocks.ways):
        for each in way:
            before[each].append(number)
    into, out = [0] * len(wanted), [_STACK_POINTER if leaves else 0 for leaves in blocks.leaves]
    work, queued = list(range(len(wanted))), bytearray(b"\1") * len(wanted)
    while work:
        number = work.pop()
        queued[number] = 0
        behind = out[number]
        for each in blocks.ways[number]:
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
