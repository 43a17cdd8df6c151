"""Commit records: a batch counts from the moment its record is there, and no file counts that no record names."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from spillscan.dataset import names, schema
from spillscan.dataset.store import Store
from spillscan.errors import InputError

_SUFFIX = ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One Parquet file."""

    path: str
    """Below the root."""
    table: str
    """``kernels``, ``units`` or ``issues``."""
    arch: str | None
    """The arch of all its kernels; ``None`` where they tell none, and of the other tables."""
    rows: int
    """How many it holds."""
    size_bytes: int
    """Its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What one append, or one compaction, made."""

    name: str
    """16 hexadecimal digits, the same for the same batch."""
    label: str
    """The build."""
    time: str
    """When what it holds was last committed: ISO 8601, UTC, microseconds; a compaction makes nothing newer."""
    first_time: str = ""
    """When the first of what it holds was committed, of a compaction; else empty."""
    parts: tuple[Part, ...]
    """Its files."""
    meta: dict[str, str] = field(default_factory=dict)
    """What the user said of the build."""
    replaces: dict[str, str] = field(default_factory=dict)
    """Commits whose rows this one holds instead, by name, with their times: one that was written again since is not
    replaced."""
    version: int = schema.VERSION
    """Of the schema of its files."""
    tool: str = ""
    """The version of spillscan that wrote it."""

    @property
    def path(self) -> str:
        """Where its record lies."""
        return f"{names.folder(names.COMMITS, self.label)}/{self.name}{_SUFFIX}"

    def rows(self, table: str) -> int:
        """Rows of one table."""
        return sum(part.rows for part in self.parts if part.table == table)

    def to_bytes(self) -> bytes:
        """The record, as JSON."""
        document = {
            "schema_version": self.version,
            "tool_version": self.tool,
            "name": self.name,
            "label": self.label,
            "time": self.time,
            "first_time": self.first_time,
            "meta": self.meta,
            "parts": [
                {"path": part.path, "table": part.table, "arch": part.arch, "rows": part.rows, "bytes": part.size_bytes}
                for part in self.parts
            ],
            "replaces": self.replaces,
        }
        return (json.dumps(document, indent=1) + "\n").encode()


def read(data: bytes, path: str) -> Commit:
    """A record as :meth:`Commit.to_bytes` wrote it."""
    try:
        value: dict[str, Any] = json.loads(data)
        version = int(value["schema_version"])
        if version > schema.VERSION:
            raise InputError(
                f"{path} was written with version {version} of the schema; this spillscan reads up to {schema.VERSION}",
                "use the newer spillscan",
            )
        return Commit(
            name=str(value["name"]),
            label=str(value["label"]),
            time=str(value["time"]),
            first_time=str(value.get("first_time", "")),
            parts=tuple(_part(part) for part in value["parts"]),
            meta={str(key): str(word) for key, word in value["meta"].items()},
            replaces={str(name): str(time) for name, time in value["replaces"].items()},
            version=version,
            tool=str(value["tool_version"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is no sound commit record: {error}", "move it away, and audit again") from error


def _part(value: dict[str, Any]) -> Part:
    path, table = str(value["path"]), str(value["table"])
    if table not in schema.TABLES or not path.startswith(f"{table}/") or ".." in path.split("/"):
        raise ValueError(f"a part {path!r} of {table!r}")
    arch = value["arch"]
    return Part(
        path=path,
        table=table,
        arch=None if arch is None else str(arch),
        rows=int(value["rows"]),
        size_bytes=int(value["bytes"]),
    )


def load(store: Store, label: str | None = None, *, replaced: bool = False) -> list[Commit]:
    """The commits of all builds, or of one, by time; those that others replace are left out unless asked for."""
    folder = names.COMMITS if label is None else names.folder(names.COMMITS, label)
    paths = [each.path for each in store.list(folder) if each.path.endswith(_SUFFIX)]
    found = [read(data, path) for path, data in zip(paths, store.read(paths), strict=True) if data is not None]
    return sorted(found if replaced else current(found), key=lambda commit: (commit.time, commit.label, commit.name))


def current(commits: Iterable[Commit]) -> list[Commit]:
    """Those that no other replaces."""
    commits = list(commits)
    replaced = {(commit.label, name): time for commit in commits for name, time in commit.replaces.items()}
    return [commit for commit in commits if commit.time > replaced.get((commit.label, commit.name), "")]
