"""Messages between the processes of an audit: file names and outcomes, never contents. Also deals files into
batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

State = Literal["read", "present", "skipped", "failed"]

MOST_BYTES = 64 << 20
"""Maximum size of a batch of several files, which limits the work that a crash loses."""
MOST_FILES = 256
SHARES = 4
"""Minimum number of batches per process if there are enough files, so that all processes end at about the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One file to audit."""

    uri: str
    """Name in records, in the dataset and in messages."""
    path: str
    """Absolute path or URL to open."""
    size_bytes: int
    """Size when it was listed."""
    store_tag: str | None = None
    """The store's tag of its current content; ``None`` if the store has none."""
    together: str = ""
    """Input that it is read together with; empty if it is read alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Files of one build that one process reads, and writes into the dataset together."""

    run: str
    """Unique id of the audit; the dataset's contents at its start are cached under it."""
    root: str
    """Dataset: an absolute path or a URL."""
    label: str
    """Label of the build."""
    begun: str = ""
    """Time when the audit began this build; consecutive builds are a microsecond apart, which keeps their order."""
    meta: Mapping[str, str] = field(default_factory=dict)
    """Metadata that the user gave for the build."""
    items: tuple[Item, ...]
    """Files, in reading order."""
    refused: str = ""
    """Reason why the files are recorded as failed without being read; empty for files to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOutcome:
    """Outcome of one file."""

    label: str
    """Label of its build."""
    uri: str
    """Name of the file."""
    state: State
    """Read, already present in the dataset, skipped (no build output), or failed."""
    reason: str = ""
    """Reason why it was skipped or failed, in one line."""
    size_bytes: int = 0
    """Size when it was listed."""
    kernels: int = 0
    """Kernels read from the file."""
    spilling: int = 0
    """Number of these kernels that spill."""


def batched(items: Sequence[Item], workers: int) -> Iterator[tuple[Item, ...]]:
    """Deal all ``items`` into batches; equal input gives equal batches.

    Items that are read together form one batch each. Of the rest, large files come first and alone, small ones
    together.
    """
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
