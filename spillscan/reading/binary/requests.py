"""What the accesses to global and shared memory of a function ask of memory, by source line and loop depth.

A statement is one of a full warp. It holds for every launch where its addresses do not depend on ``threadIdx``; else
for blocks whose rows (``blockDim.x``) have as many threads as it names: a multiple of 32, or all of a block of one row;
16 or 8, where the block is one layer or its layers hold whole warps.

Shared memory has 32 banks of four bytes; a wavefront moves one word of each (CUDA C++ Programming Guide, "Shared
Memory" of compute capability 5.x and later). Stores of eight and sixteen bytes a lane are served in halves and quarters
of a warp, loads all together, as ncu's counters showed of 108 patterns of lanes each on an H200. Global memory is moved
in sectors of 32 bytes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from spillscan.model.code import SourceLine
from spillscan.reading.binary.addresses import Access, accesses
from spillscan.reading.binary.instructions import Code
from spillscan.reading.machine.instruction import LOADS, Instruction
from spillscan.reading.machine.lanes import EVERY
from spillscan.reading.machine.liveness import Graph

BANKS, WORD_BYTES, SECTOR_BYTES = 32, 4, 32
_ROW_BYTES = BANKS * WORD_BYTES
_WIDEST = 16
"""Bytes that a lane moves at most at once."""


class Request(NamedTuple):
    """What equal accesses of one line ask, each."""

    source: SourceLine | None
    depth: int | None
    """Loops around it; ``None``: not known."""
    space: str
    """``global``: sectors are counted; ``shared``: wavefronts."""
    store: bool
    bytes: int
    """That each lane moves."""
    asked: Mapping[int, tuple[int, int]]
    """By threads of a row of the block (0: every block): how many it takes at least, and how many its bytes need."""
    instructions: int

    @property
    def excess(self) -> int:
        """The most that it takes beside what its bytes need."""
        return max((asked - needed for asked, needed in self.asked.values()), default=0)


class Narrow(NamedTuple):
    """Accesses of one lane side by side, which one wide access could make, were its address a multiple of its size."""

    source: SourceLine | None
    depth: int | None
    space: str
    store: bool
    bytes: int
    """Of each."""
    accesses: int


class Memory(NamedTuple):
    """The accesses of a function."""

    requests: Sequence[Request]
    narrow: Sequence[Narrow]

    @property
    def known(self) -> int:
        """Instructions of which something is known."""
        return sum(each.instructions for each in self.requests if each.asked)

    @property
    def every(self) -> int:
        """Those of which it is known for every launch."""
        return sum(each.instructions for each in self.requests if EVERY in each.asked)

    @property
    def instructions(self) -> int:
        """All of them."""
        return sum(each.instructions for each in self.requests)


def memory(code: Code) -> Memory | None:
    """What a function asks of memory, what takes most more than it needs first; ``None``: not known, as some of its
    instructions are not."""
    if code.graph is None:
        return None
    found = accesses(code.instructions, code.graph)
    if found is None:
        return None
    counts: Counter[tuple[object, ...]] = Counter()
    first: dict[tuple[object, ...], Request] = {}
    for each in found:
        asked = {width: _asked(each, offsets) for width, offsets in each.offsets.items()}
        source, depth = code.sources[each.row], code.depths[each.row]
        request = Request(source, depth, each.space, each.store, each.bytes, asked, 0)
        key = (source, depth, each.space, each.store, each.bytes, tuple(asked.items()))
        first.setdefault(key, request)
        counts[key] += 1
    requests = [request._replace(instructions=counts[key]) for key, request in first.items()]
    requests.sort(key=lambda each: (-(each.depth or 0), -each.excess * each.instructions))
    narrow = sorted(_narrow(code, code.instructions, code.graph), key=lambda each: -(each.depth or 0))
    return Memory(requests, narrow)


def _asked(access: Access, offsets: Sequence[int]) -> tuple[int, int]:
    if access.space == "shared":
        fewest = wavefronts(offsets, access.bytes, access.store)[0]
        return fewest, min(fewest, fewest_wavefronts(offsets, access.bytes))
    return sectors(offsets, access.bytes)[0], fewest_sectors(offsets, access.bytes)


def _narrow(code: Code, instructions: Sequence[Instruction], graph: Graph) -> Iterator[Narrow]:
    """Runs of accesses to what lies side by side, in one stretch of code that is executed as a whole."""
    for begin, end in zip(graph.begins, graph.ends, strict=True):
        groups: dict[tuple[object, ...], dict[int, int]] = defaultdict(dict)
        changes: Counter[int] = Counter()
        for row in range(begin, end):
            each = instructions[row]
            if each.place is not None and each.name in ("LDG", "STG", "LDS", "STS") and not each.guarded:
                base = tuple((register, changes[register]) for register in each.place.base)
                groups[each.name, each.place.size, base][each.place.offset] = row
            changes.update(register for register in each.written if register >= 0)
        for (name, size, _), rows in groups.items():
            assert isinstance(size, int)
            for run in _runs(rows, size):
                row = rows[run[0]]
                loads = name in LOADS
                space = "shared" if name in ("LDS", "STS") else "global"
                yield Narrow(code.sources[row], code.depths[row], space, not loads, size, len(run))


def _runs(offsets: Iterable[int], size: int) -> Iterator[list[int]]:
    """Offsets that follow each other, two or as many more as make one wide access."""
    run: list[int] = []
    for offset in [*sorted(offsets), None]:
        if run and (offset != run[-1] + size or len(run) * size == _WIDEST):
            if len(run) > 1:
                yield run[: 1 << len(run).bit_length() - 1]
            run = []
        if offset is not None:
            run.append(offset)


def wavefronts(offsets: Sequence[int], size: int, store: bool) -> tuple[int, int]:
    """The fewest and the most wavefronts of one access to shared memory; ``offsets``: where each lane goes, seen from
    the first, whose own address is a multiple of ``size`` bytes and else not known."""
    together = max(min(_ROW_BYTES // size, len(offsets)), 1) if store else len(offsets)
    groups = [offsets[at : at + together] for at in range(0, len(offsets), together)]
    found = [sum(_most_of_a_bank(group, size, begin) for group in groups) for begin in range(0, WORD_BYTES, size)]
    return min(found), max(found)


def _most_of_a_bank(offsets: Iterable[int], size: int, begin: int) -> int:
    words: dict[int, set[int]] = defaultdict(set)
    for offset in offsets:
        first = (begin + offset) // WORD_BYTES
        for word in range(first, first + max(size // WORD_BYTES, 1)):
            words[word % BANKS].add(word)
    return max(map(len, words.values()))


def fewest_wavefronts(offsets: Sequence[int], size: int) -> int:
    """As many as the words alone take, were they spread over all banks."""
    words = {offset // WORD_BYTES + more for offset in offsets for more in range(max(size // WORD_BYTES, 1))}
    return max(-(-len(words) // BANKS), 1)


def sectors(offsets: Sequence[int], size: int) -> tuple[int, int]:
    """The fewest and the most sectors of one access to global memory, by where the first lane's address lies.

    Each lane's is a multiple of ``size`` bytes, so that it lies in one sector.
    """
    found = [len({(begin + offset) // SECTOR_BYTES for offset in offsets}) for begin in range(0, SECTOR_BYTES, size)]
    return min(found), max(found)


def fewest_sectors(offsets: Sequence[int], size: int) -> int:
    """As many as the bytes alone take, were they side by side."""
    return -(-len({offset + at for offset in offsets for at in range(size)}) // SECTOR_BYTES)
