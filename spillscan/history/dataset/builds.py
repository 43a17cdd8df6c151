"""The builds of a dataset, and the commit records that make them up.

A batch counts from the moment its record is there, and no file counts that no record names. A record holds one build,
or, where a compaction wrote it, many small ones that share its files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from spillscan.history.dataset import schema
from spillscan.history.dataset.store import COMMITS, LINKS, SEVERAL, Store, folder
from spillscan.output.errors import InputError

if TYPE_CHECKING:
    import pyarrow

_SUFFIX = ".json"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One Parquet file."""

    path: str
    """Below the root."""
    table: str
    """``kernels``, ``units``, ``issues``; ``links``: see :mod:`spillscan.history.dataset.links`."""
    arch: str | None
    """The arch of all its kernels; ``None`` where theirs is not known, of the other tables, and where a column says."""
    rows: int
    """How many it holds."""
    size_bytes: int = msgspec.field(name="bytes")
    """Its size."""

    def __post_init__(self) -> None:
        inside = self.path.startswith(f"{self.table}/") and ".." not in self.path.split("/")
        if self.table not in (*schema.TABLES, LINKS) or not inside:
            raise ValueError(f"a part {self.path!r} of {self.table!r}")


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """What one append, or one compaction, made; its record is this, as JSON."""

    version: int = msgspec.field(name="schema_version", default=schema.VERSION)
    """Of the schema of its files."""
    tool: str = msgspec.field(name="tool_version", default="")
    """The version of spillscan that wrote it."""
    name: str
    """16 hexadecimal digits, the same for the same batch."""
    label: str
    """The build."""
    time: str
    """When what it holds was last committed: ISO 8601, UTC, microseconds; a compaction makes nothing newer."""
    first_time: str = ""
    """When the first of what it holds was committed, of a compaction; else empty."""
    meta: dict[str, str] = {}
    """What the user said of the build."""
    parts: tuple[Part, ...]
    """Its files."""
    replaces: dict[str, str] = {}
    """Commits whose rows this one holds instead, by name, with their times: one that was written again since is not
    replaced."""
    shared: dict[str, int] | None = None
    """Rows of this build by table, where its files hold other builds too."""
    follows: tuple[str, str] | None = None
    """The build before it, of which ``links`` say what goes on here as what: its label, and the time of what it held
    then."""

    @property
    def path(self) -> str:
        """Where its record lies."""
        return f"{SEVERAL if self.shared is not None else folder(COMMITS, self.label)}/{self.name}{_SUFFIX}"

    def rows(self, table: str) -> int:
        """Rows of one table."""
        if self.shared is not None:
            return self.shared.get(table, 0)
        return sum(part.rows for part in self.parts if part.table == table)


_OWN = ("label", "time", "first_time", "meta", "replaces", "shared", "follows")
"""What of a record is said build by build, where it holds several."""


def to_bytes(commits: Sequence[Commit]) -> bytes:
    """The record of a commit, or of several builds that share their files."""
    documents = [msgspec.to_builtins(each) for each in commits]
    if commits[0].shared is None:
        return (json.dumps(documents[0], indent=1) + "\n").encode()
    whole = {name: value for name, value in documents[0].items() if name not in _OWN}
    whole["builds"] = [{name: each[name] for name in _OWN} for each in documents]
    return (json.dumps(whole, separators=(",", ":")) + "\n").encode()


def _read(data: bytes, path: str) -> list[Commit]:
    """What :func:`to_bytes` wrote."""
    try:
        document = json.loads(data)
        version = document["schema_version"]
        if version > schema.VERSION:
            raise InputError(
                f"{path} was written with version {version} of the schema; this spillscan reads up to {schema.VERSION}",
                "use the newer spillscan",
            )
        whole = {name: value for name, value in document.items() if name != "builds"}
        return [msgspec.convert(whole | own, Commit) for own in document.get("builds", ({},))]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is no sound commit record: {error}", "move it away, and audit again") from error


def load(store: Store, label: str | None = None, *, replaced: bool = False) -> list[Commit]:
    """The commits of all builds, or of one, by time; those that others replace are left out unless asked for."""
    places = (COMMITS,) if label is None else (folder(COMMITS, label), SEVERAL)
    paths = [each.path for place in places for each in store.list(place) if each.path.endswith(_SUFFIX)]
    records = [_read(data, path) for path, data in zip(paths, store.read(paths), strict=True) if data is not None]
    found = [each for record in records for each in record if label is None or each.label == label]
    return sorted(found if replaced else current(found), key=lambda commit: (commit.time, commit.label, commit.name))


def current(commits: Iterable[Commit]) -> list[Commit]:
    """Those that no other replaces."""
    commits = list(commits)
    replaced = {(commit.label, name): time for commit in commits for name, time in commit.replaces.items()}
    return [commit for commit in commits if commit.time > replaced.get((commit.label, commit.name), "")]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBuild:
    """What a dataset knows of one build as a whole."""

    label: str
    """What it is called."""
    time: datetime
    """When it was made: ``time`` of its meta, else when its first commit was written."""
    meta: dict[str, str]
    """What was said of it; of several commits the later word."""
    first_commit: datetime
    """When its first commit was written."""
    last_commit: datetime
    """When its last commit was written."""

    @property
    def commit(self) -> str:
        """Its commit in short, as its meta says; empty where its label says it, or nothing does."""
        commit = self.meta.get("commit", "")
        return "" if commit.startswith(self.label) else commit[:12]

    @property
    def link(self) -> str:
        """The page of its commit, as the word ``link`` of its meta says; empty where that is no address of the web."""
        link = self.meta.get("link", "")
        return quote(link, safe=":/?#@!$&*+,;=%~-._") if link.startswith(("https://", "http://")) else ""


def of(commits: Iterable[Commit]) -> tuple[KeptBuild, ...]:
    """The builds that ``commits`` hold, by time; those of one moment by label."""
    by_label: dict[str, list[Commit]] = {}
    for commit in sorted(commits, key=lambda each: (each.time, each.name)):
        by_label.setdefault(commit.label, []).append(commit)
    return tuple(sorted(map(_build, by_label.values()), key=lambda build: (build.time, build.label)))


def ordered(builds: Sequence[KeptBuild], key: str | None) -> tuple[KeptBuild, ...]:
    """``builds`` by a word of their meta, as numbers where all are; without one as they stand."""
    if key is None:
        return tuple(builds)
    missing = [build.label for build in builds if key not in build.meta]
    if missing:
        raise InputError(f"{len(missing)} builds have no meta {key!r}, {missing[0]} first", "give it to all, or none")
    try:
        return tuple(sorted(builds, key=lambda build: (float(build.meta[key]), build.label)))
    except ValueError:
        return tuple(sorted(builds, key=lambda build: (build.meta[key], build.label)))


def table(builds: Sequence[KeptBuild]) -> pyarrow.Table:
    """The view ``builds``."""
    import pyarrow as pa

    moment = pa.timestamp("us", tz="UTC")
    return pa.table(
        {
            "label": pa.array([build.label for build in builds], pa.string()),
            "time": pa.array([build.time for build in builds], moment),
            "position": pa.array(range(len(builds)), pa.int64()),
            "meta": pa.array([list(build.meta.items()) for build in builds], pa.map_(pa.string(), pa.string())),
            "first_commit": pa.array([build.first_commit for build in builds], moment),
            "last_commit": pa.array([build.last_commit for build in builds], moment),
        }
    )


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
