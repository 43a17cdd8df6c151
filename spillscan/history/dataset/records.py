"""Commit records, which name the valid files of a dataset, and checks of these files against them.

A batch becomes valid when its record is written. A file that no record names does not count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from spillscan.history.dataset import schema
from spillscan.history.dataset.sql import Rows
from spillscan.history.dataset.store import COMMITS, PENDING, Store, folder
from spillscan.output.errors import InputError
from spillscan.output.safe import printable

_SUFFIX = ".json"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One Parquet file."""

    path: str
    """Path below the root."""
    table: str
    """``kernels``, ``units`` or ``issues``."""
    rows: int
    """Number of rows."""
    size_bytes: int = msgspec.field(name="bytes")
    """Size of the file."""
    sha256: str
    """SHA-256 of its bytes, hexadecimal."""

    def __post_init__(self) -> None:
        inside = self.path.startswith(f"{self.table}/") and ".." not in self.path.split("/")
        if self.table not in schema.TABLES or not inside:
            raise ValueError(f"{self.path!r} is not a file of table {self.table!r}")


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """Result of one append or merge; stored as a JSON record."""

    version: int = msgspec.field(name="schema_version", default=schema.VERSION)
    """Version of the schema of its files."""
    tool: str = msgspec.field(name="tool_version", default="")
    """Version of spillscan that wrote it."""
    name: str
    """16 hexadecimal digits, the same for the same batch."""
    label: str
    """Label of the build."""
    time: str
    """Time of the last commit of its rows: ISO 8601, UTC, microseconds; a merge keeps it."""
    first_time: str = ""
    """Time when the build, or the first of the merged commits, was begun; empty: the time of the commit."""
    meta: dict[str, str] = {}
    """Metadata that the user gave for the build."""
    parts: tuple[Part, ...]
    """Files of the commit."""
    replaces: dict[str, str] = {}
    """Times of the commits that this one replaces, by name.

    A commit that was written again later is not replaced.
    """

    @property
    def path(self) -> str:
        """Path of its record."""
        return f"{folder(COMMITS, self.label)}/{self.name}{_SUFFIX}"

    def rows(self, table: str) -> int:
        """Number of rows in ``table``."""
        return sum(part.rows for part in self.parts if part.table == table)


class Damage(NamedTuple):
    """A file that does not match its record, and the builds that are lost with it."""

    path: str
    """Path below the root."""
    labels: tuple[str, ...]
    """Labels of its builds; empty if unknown."""
    why: str

    def text(self, root: str) -> str:
        """Message, in one line."""
        named = ", ".join(map(printable, self.labels[:3])) + (" …" if len(self.labels) > 3 else "")
        return f"{f'{named}: ' if named else ''}{printable(f'{root}/{self.path}')} {self.why}"


class Records(NamedTuple):
    """Commit records of a dataset."""

    commits: list[Commit]
    """Valid commits, ordered by time."""
    damaged: list[Damage]
    """Damaged records."""


def to_bytes(commit: Commit) -> bytes:
    """Record of a commit as stored, with a digest over the rest."""
    record = msgspec.to_builtins(commit)
    return (json.dumps(record | {_DIGEST: _digest(record)}, indent=1) + "\n").encode()


_DIGEST = "digest"


def _digest(record: dict[str, Any]) -> str:
    """SHA-256 of a record without its digest; independent of whitespace and key order."""
    rest = {name: value for name, value in record.items() if name != _DIGEST}
    return sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def parsed(data: bytes | str, path: str) -> Commit:
    """Parse the result of :func:`to_bytes`.

    Raises ``ValueError`` if it is damaged, :class:`~spillscan.InputError` if it has another version of the schema.
    """
    try:
        record = json.loads(data)
        version = record["schema_version"]
        if version != schema.VERSION:
            raise InputError(
                f"{path} has schema version {version}; this spillscan reads {schema.VERSION}",
                "`spillscan history audit INPUT… --dataset NEW` creates a new dataset",
            )
        if record.get(_DIGEST) != _digest(record):
            raise ValueError("its digest does not match")
        return msgspec.convert({name: value for name, value in record.items() if name != _DIGEST}, Commit)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"is not a valid commit record: {error}") from error


def load(store: Store, label: str | None = None) -> Records:
    """Commits of all builds, or of ``label``, that no other commit replaces."""
    place = COMMITS if label is None else folder(COMMITS, label)
    paths = [path for path in store.list(place) if path.endswith(_SUFFIX)]
    commits: list[Commit] = []
    damaged = []
    for path, data in zip(paths, store.read(paths), strict=True):
        if data is None:
            continue
        try:
            commit = parsed(data, path)
            if path != commit.path:
                raise ValueError("is not a valid commit record: it belongs to another path")
            commits.append(commit)
        except ValueError as error:
            damaged.append(Damage(path, _labels_of(path), str(error)))
    replaced = {(each.label, name): time for each in commits for name, time in each.replaces.items()}
    kept = [each for each in commits if each.time > replaced.get((each.label, each.name), "")]
    return Records(sorted(kept, key=lambda commit: (commit.time, commit.label, commit.name)), damaged)


def _labels_of(path: str) -> tuple[str, ...]:
    """Label of a path, from the name of its folder."""
    owner = path.split("/")[1]
    return (unquote(owner.removeprefix("label=")),) if owner.startswith("label=") else ()


def check(store: Store, commits: Sequence[Commit], *, digests: bool | None = None) -> list[Damage]:
    """Files of ``commits`` that are missing or do not match their records.

    Compares digests if ``digests``, else sizes only. By default digests are compared in a folder, but not in an object
    store, which would have to transfer all bytes.
    """
    parts = {part.path: (each.label, part) for each in commits for part in each.parts}
    digests = store.local if digests is None else digests
    recorded = {path: part.sha256 if digests else "" for path, (_, part) in parts.items()}
    state = store.state(recorded)
    damage = []
    for path, (label, part) in parts.items():
        now = state.get(path)
        if now is None:
            why = "is lost"
        elif now.size_bytes != part.size_bytes:
            why = f"has {now.size_bytes:,} bytes instead of {part.size_bytes:,}"
        elif now.sha256 != recorded[path]:
            why = "differs from what was written"
        else:
            continue
        damage.append(Damage(path, (label,), why))
    return damage


def uncommitted(store: Store, commits: Sequence[Commit], damage: Sequence[Damage]) -> list[Damage]:
    """Builds with units but without a commit record."""
    known = {each.label for each in commits} | {label for each in damage for label in each.labels}
    labels = {_labels_of(path) for path in store.list("units")}
    why = "has no record: it was lost, or the audit was interrupted"
    return [Damage(folder(COMMITS, label), (label,), why) for (label,) in sorted(labels - {()}) if label not in known]


def unfinished(store: Store) -> list[Damage]:
    """Marks of audits that began and have not finished, so that their builds are incomplete."""
    why = "marks an audit that has not finished"
    return [Damage(path, _labels_of(path), why) for path in store.list(PENDING)]


# Builds, collected from their commits, and their order.


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBuild:
    """Summary of one build in a dataset."""

    label: str
    """Label of the build."""
    time: datetime
    """Time of the build: ``time`` of its metadata, else the date in its label, else when it was begun."""
    meta: dict[str, str]
    """Metadata; of several commits the latest value."""
    first_commit: datetime
    """Time when it was begun."""
    last_commit: datetime
    """Time of its last commit."""

    @property
    def commit(self) -> str:
        """Abbreviated git commit from the metadata; empty if the label already is the commit, or if unknown."""
        commit = self.meta.get("commit", "")
        return "" if commit.startswith(self.label) else commit[:8]

    @property
    def named(self) -> str:
        """Label, with the commit if it has another name: ``nightly-41 (1f2e3d4c)``."""
        return f"{self.label} ({self.commit[:8]})" if self.commit else self.label


def builds_of(commits: Iterable[Commit]) -> tuple[KeptBuild, ...]:
    """Builds of ``commits``, ordered by time, then by label."""
    by_label: dict[str, list[Commit]] = {}
    for commit in sorted(commits, key=lambda each: (each.time, each.name)):
        by_label.setdefault(commit.label, []).append(commit)
    return tuple(sorted(map(_build, by_label.values()), key=lambda build: (build.time, build.label)))


def table_of(builds: Sequence[KeptBuild]) -> Rows:
    """Table for the view ``builds``; ``meta`` is a list of entries."""
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
        time=_moment(meta["time"]) if "time" in meta else date_in(commits[0].label) or first,
        meta=meta,
        first_commit=first,
        last_commit=last,
    )


def date_in(label: str) -> datetime | None:
    """The date in a label such as ``nightly-2026-11-28`` or ``1.2.dev20261128``; ``None`` if there is none."""
    date = _DATE.search(label)
    try:
        return _moment("-".join(date.group("year", "month", "day"))) if date else None
    except ValueError:  # 31 February
        return None


_DATE = re.compile(r"(?<!\d)(?P<year>20\d\d)(?P<mark>[-._]?)(?P<month>[01]\d)(?P=mark)(?P<day>[0-3]\d)(?!\d)")


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
