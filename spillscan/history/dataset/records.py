"""Commit records, which say which files of a dataset count, and whether these are as their records say.

A batch counts from the moment its record is there, and no file counts that no record names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from spillscan.history.dataset import schema
from spillscan.history.dataset.sql import Rows
from spillscan.history.dataset.store import COMMITS, Store, folder
from spillscan.output.errors import InputError
from spillscan.output.safe import printable

_SUFFIX = ".json"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One Parquet file."""

    path: str
    """Below the root."""
    table: str
    """``kernels``, ``units``, ``issues``."""
    rows: int
    """How many it holds."""
    size_bytes: int = msgspec.field(name="bytes")
    """Its size."""
    xxh3: str
    """XXH3 of its bytes, 128 bits, hexadecimal."""

    def __post_init__(self) -> None:
        inside = self.path.startswith(f"{self.table}/") and ".." not in self.path.split("/")
        if self.table not in schema.TABLES or not inside:
            raise ValueError(f"a part {self.path!r} of {self.table!r}")


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """What one append, or one merge, made; its record is this, as JSON."""

    version: int = msgspec.field(name="schema_version", default=schema.VERSION)
    """Of the schema of its files."""
    tool: str = msgspec.field(name="tool_version", default="")
    """The version of spillscan that wrote it."""
    name: str
    """16 hexadecimal digits, the same for the same batch."""
    label: str
    """The build."""
    time: str
    """When what it holds was last committed: ISO 8601, UTC, microseconds; a merge makes nothing newer."""
    first_time: str = ""
    """When its build was begun, or the first of what a merge holds; empty: when it was committed."""
    meta: dict[str, str] = {}
    """What the user said of the build."""
    parts: tuple[Part, ...]
    """Its files."""
    replaces: dict[str, str] = {}
    """Commits whose rows this one holds instead, by name, with their times: one that was written again since is not
    replaced."""

    @property
    def path(self) -> str:
        """Where its record lies."""
        return f"{folder(COMMITS, self.label)}/{self.name}{_SUFFIX}"

    def rows(self, table: str) -> int:
        """Rows of one table."""
        return sum(part.rows for part in self.parts if part.table == table)


class Damage(NamedTuple):
    """A file of a dataset that is not as its record says, and what it takes out of the answers."""

    path: str
    """Below the root."""
    labels: tuple[str, ...]
    """The builds that it belongs to; none where they are not known."""
    why: str

    def text(self, root: str) -> str:
        """For people, in one line."""
        named = ", ".join(map(printable, self.labels[:3])) + (" …" if len(self.labels) > 3 else "")
        return f"{f'{named}: ' if named else ''}{printable(f'{root}/{self.path}')} {self.why}"


class Records(NamedTuple):
    """What the records of a dataset say."""

    commits: list[Commit]
    """By time."""
    damaged: list[Damage]
    """Records that are not sound."""


def to_bytes(commit: Commit) -> bytes:
    """A record, as it is stored, with the digest of all else in it."""
    record = msgspec.to_builtins(commit)
    return (json.dumps(record | {_DIGEST: _digest(record)}, indent=1) + "\n").encode()


_DIGEST = "digest"


def _digest(record: dict[str, Any]) -> str:
    """SHA-256 of a record without its digest, however it is spaced and sorted."""
    rest = {name: value for name, value in record.items() if name != _DIGEST}
    return sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def parsed(data: bytes | str, path: str) -> Commit:
    """What :func:`to_bytes` wrote. Raises ``ValueError`` where it is damaged, and :class:`~spillscan.InputError` where
    another version of the schema wrote it."""
    try:
        record = json.loads(data)
        version = record["schema_version"]
        if version != schema.VERSION:
            raise InputError(
                f"{path} was written with version {version} of the schema; this spillscan reads {schema.VERSION}",
                "use that spillscan, or audit the inputs again",
            )
        if record.get(_DIGEST) != _digest(record):
            raise ValueError("its digest is another")
        return msgspec.convert({name: value for name, value in record.items() if name != _DIGEST}, Commit)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"is not a valid commit record: {error}") from error


def load(store: Store, label: str | None = None) -> Records:
    """The commits of all builds, or of one, that no other replaces."""
    place = COMMITS if label is None else folder(COMMITS, label)
    paths = [path for path in store.list(place) if path.endswith(_SUFFIX)]
    found: list[Commit] = []
    damaged = []
    for path, data in zip(paths, store.read(paths), strict=True):
        if data is None:
            continue
        try:
            commit = parsed(data, path)
            if path != commit.path:
                raise ValueError("is not a valid commit record: it is another's")
            found.append(commit)
        except ValueError as error:
            damaged.append(Damage(path, _labels_of(path), str(error)))
    replaced = {(each.label, name): time for each in found for name, time in each.replaces.items()}
    kept = [each for each in found if each.time > replaced.get((each.label, each.name), "")]
    return Records(sorted(kept, key=lambda commit: (commit.time, commit.label, commit.name)), damaged)


def _labels_of(path: str) -> tuple[str, ...]:
    """The build whose record lies there, as its folder says."""
    owner = path.split("/")[1]
    return (unquote(owner.removeprefix("label=")),) if owner.startswith("label=") else ()


def check(store: Store, commits: Sequence[Commit], *, digests: bool | None = None) -> list[Damage]:
    """The files that these commits name and that are lost, or are not as their records say.

    Digests are those of all bytes: of a folder they are compared unless ``digests`` is false, of an object store, which
    would have to send them, where it is true; else sizes are.
    """
    parts = {part.path: (each.label, part) for each in commits for part in each.parts}
    digests = store.local if digests is None else digests
    recorded = {path: part.xxh3 if digests else "" for path, (_, part) in parts.items()}
    state = store.state(recorded)
    found = []
    for path, (label, part) in parts.items():
        now = state.get(path)
        if now is None:
            why = "is lost"
        elif now.size_bytes != part.size_bytes:
            why = f"has {now.size_bytes:,} bytes instead of {part.size_bytes:,}"
        elif now.xxh3 != recorded[path]:
            why = "holds other bytes than were written"
        else:
            continue
        found.append(Damage(path, (label,), why))
    return found


def uncommitted(store: Store, commits: Sequence[Commit], damage: Sequence[Damage]) -> list[Damage]:
    """Builds that have units and no commit record."""
    known = {each.label for each in commits} | {label for each in damage for label in each.labels}
    labels = {_labels_of(path) for path in store.list("units")}
    why = "has no record: it was lost, or the audit was interrupted"
    return [Damage(folder(COMMITS, label), (label,), why) for (label,) in sorted(labels - {()}) if label not in known]


# The builds of a dataset, as their commits make them up, and their order.


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBuild:
    """What a dataset knows of one build as a whole."""

    label: str
    """What it is called."""
    time: datetime
    """When it was made: ``time`` of its meta, else when it was begun."""
    meta: dict[str, str]
    """What was said of it; of several commits the later word."""
    first_commit: datetime
    """When it was begun."""
    last_commit: datetime
    """When its last commit was written."""

    @property
    def commit(self) -> str:
        """Its commit in short, as its meta says; empty where its label says it, or nothing does."""
        commit = self.meta.get("commit", "")
        return "" if commit.startswith(self.label) else commit[:8]

    @property
    def named(self) -> str:
        """``nightly-41 (1f2e3d4c)``: its label, and its commit where that is another word."""
        return f"{self.label} ({self.commit[:8]})" if self.commit else self.label


def builds_of(commits: Iterable[Commit]) -> tuple[KeptBuild, ...]:
    """The builds that ``commits`` hold, by time; those of one moment by label."""
    by_label: dict[str, list[Commit]] = {}
    for commit in sorted(commits, key=lambda each: (each.time, each.name)):
        by_label.setdefault(commit.label, []).append(commit)
    return tuple(sorted(map(_build, by_label.values()), key=lambda build: (build.time, build.label)))


def table_of(builds: Sequence[KeptBuild]) -> Rows:
    """What the view ``builds`` is made of: the entries of ``meta`` are a list."""
    moment = "TIMESTAMP WITH TIME ZONE"
    columns = {"label": "VARCHAR", "time": moment, "position": "BIGINT", "meta": "STRUCT(key VARCHAR, value VARCHAR)[]"}
    return Rows(
        columns | {"first_commit": moment, "last_commit": moment},
        [
            (build.label, build.time, at, _entries(build.meta), build.first_commit, build.last_commit)
            for at, build in enumerate(builds)
        ],
    )


def _entries(meta: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in meta.items()]


def _build(commits: Sequence[Commit]) -> KeptBuild:
    meta: dict[str, str] = {}
    for commit in commits:
        meta.update(commit.meta)
    first, last = _moment(commits[0].first_time or commits[0].time), _moment(commits[-1].time)
    return KeptBuild(
        label=commits[0].label,
        time=_moment(meta["time"]) if "time" in meta else first,
        meta=meta,
        first_commit=first,
        last_commit=last,
    )


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
