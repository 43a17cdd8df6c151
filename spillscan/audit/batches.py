"""Files dealt into batches: large ones alone and first, small ones together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spillscan.audit.messages import Item

MOST_BYTES = 64 << 20
"""Of a batch of several files: a process that dies loses no more."""
MOST_FILES = 256
SHARES = 4
"""Batches a process, at least, where there are files enough: so that all end at about the same time."""


def dealt(items: Sequence[Item], workers: int) -> Iterator[tuple[Item, ...]]:
    """All ``items``, by size, the largest first; equal input gives equal batches."""
    parts = max(1, workers * SHARES)
    most_bytes = min(MOST_BYTES, sum(item.size_bytes for item in items) // parts)
    most_files = max(1, min(MOST_FILES, -(-len(items) // parts)))
    part: list[Item] = []
    part_bytes = 0
    for item in sorted(items, key=lambda item: (-item.size_bytes, item.uri)):
        if part and (part_bytes + item.size_bytes > most_bytes or len(part) == most_files):
            yield tuple(part)
            part, part_bytes = [], 0
        part.append(item)
        part_bytes += item.size_bytes
    if part:
        yield tuple(part)
