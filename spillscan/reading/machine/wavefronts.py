"""What one access of a full warp asks of memory: wavefronts of shared memory, sectors of global memory.

Shared memory has 32 banks of four bytes; a wavefront moves one word of each (CUDA C++ Programming Guide, "Shared
Memory" of compute capability 5.x and later). Stores of eight and sixteen bytes a lane are served in halves and quarters
of a warp, loads all together, as ncu's counters showed of 108 patterns of lanes each on an H200. Global memory is moved
in sectors of 32 bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

BANKS, WORD_BYTES, SECTOR_BYTES = 32, 4, 32
_ROW_BYTES = BANKS * WORD_BYTES


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
