"""What goes between the processes of an audit: names and outcomes, never what a file holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

State = Literal["read", "present", "skipped", "failed"]


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
    """What its store calls its present content; ``None`` where it does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Files of one build that one process reads, and writes into the dataset together."""

    run: str
    """Which audit it belongs to: no two have the same. What was finished when it began is known by it."""
    root: str
    """The dataset: an absolute path or a URL."""
    label: str
    """The build."""
    meta: Mapping[str, str] = field(default_factory=dict)
    """What the user says of the build."""
    items: tuple[Item, ...]
    """In the order in which they are read."""
    refused: str = ""
    """Why these are not read, but recorded as failed; empty for files that shall be read."""
    hashes: Mapping[str, str] = field(default_factory=dict)
    """Of refused items: the hash of their content by uri, where it is known."""
    again: bool = False
    """Also read what failed before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
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
    """Entries that were read in it."""
    spilling: int = 0
    """Those of them that spill."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A process has started and can read."""


@dataclass(frozen=True, slots=True)
class Begun:
    """It reads the item with this number now."""

    number: int
    content_hash: str = ""
    """Of its bytes; empty as long as they are not known."""


@dataclass(frozen=True, slots=True)
class Ended:
    """It reads none now."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The outcome of the item with this number is final: in the dataset, where it belongs there."""

    number: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Done:
    """The batch is finished."""


@dataclass(frozen=True, slots=True)
class Broken:
    """The audit cannot go on: the dataset cannot be written."""

    what: str
    hint: str


Event = Ready | Begun | Ended | Kept | Done | Broken
