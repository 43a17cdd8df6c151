"""What goes between the processes of an audit: names and outcomes, never what a file holds; and how files are dealt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

State = Literal["read", "present", "skipped", "failed"]

MOST_BYTES = 64 << 20
"""Of a batch of several files: a process that dies loses no more."""
MOST_FILES = 256
SHARES = 4
"""Batches a process, at least, where there are files enough: so that all end at about the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One file to audit."""

    uri: str
    """What it is called: in records, in the dataset, to the user."""
    path: str
    """Where it is opened: absolute, or a URL."""
    size_bytes: int
    """As it was listed."""
    store_tag: str | None = None
    """What its store calls its present content; ``None`` where the store does not say."""
    together: str = ""
    """The input with which it is read as one; empty: it is read alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Files of one build that one process reads, and writes into the dataset together."""

    run: str
    """Which audit it belongs to: no two have the same. What was finished when it began is known by it."""
    root: str
    """The dataset: an absolute path or a URL."""
    label: str
    """The build."""
    begun: str = ""
    """When the audit took the build up: of several, each a microsecond behind the one before, which is their order."""
    meta: Mapping[str, str] = field(default_factory=dict)
    """What the user says of the build."""
    items: tuple[Item, ...]
    """In the order in which they are read."""
    refused: str = ""
    """Why these are not read, but recorded as failed; empty for files that shall be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOutcome:
    """What became of one file."""

    label: str
    """Its build."""
    uri: str
    """Its name."""
    state: State
    """Read, present in the dataset before, skipped (no build output), or failed."""
    reason: str = ""
    """Why it was skipped or failed; one line."""
    size_bytes: int = 0
    """As it was listed."""
    kernels: int = 0
    """Kernels that were read in it."""
    spilling: int = 0
    """Those of them that spill."""


def dealt(items: Sequence[Item], workers: int) -> Iterator[tuple[Item, ...]]:
    """All ``items`` in batches: what is read together in one, then by size, large files alone and first, small ones
    together. Equal input gives equal batches."""
    joined = sorted((item for item in items if item.together), key=lambda item: (item.together, item.uri))
    for _, group in groupby(joined, key=lambda item: item.together):
        yield tuple(group)
    alone = [item for item in items if not item.together]
    parts = max(1, workers * SHARES)
    most_bytes = min(MOST_BYTES, sum(item.size_bytes for item in alone) // parts)
    most_files = max(1, min(MOST_FILES, -(-len(alone) // parts)))
    part: list[Item] = []
    part_bytes = 0
    for item in sorted(alone, key=lambda item: (-item.size_bytes, item.uri)):
        if part and (part_bytes + item.size_bytes > most_bytes or len(part) == most_files):
            yield tuple(part)
            part, part_bytes = [], 0
        part.append(item)
        part_bytes += item.size_bytes
    if part:
        yield tuple(part)
