"""The builds of a dataset, as their commits make them up, and their order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

from spillscan.history.dataset.records import Commit
from spillscan.history.dataset.sql import Rows
from spillscan.output.errors import InputError
from spillscan.output.nouns import count


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
        return "" if commit.startswith(self.label) else commit[:12]

    @property
    def named(self) -> str:
        """``nightly-41 (1f2e3d4c)``: its label, and its commit where that is another word."""
        return f"{self.label} ({self.commit[:8]})" if self.commit else self.label

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
        raise InputError(
            f"{count(len(missing), 'build has', 'builds have')} no meta {key!r}, {missing[0]} first",
            "give it to all, or none",
        )
    try:
        return tuple(sorted(builds, key=lambda build: (float(build.meta[key]), build.label)))
    except ValueError:
        return tuple(sorted(builds, key=lambda build: (build.meta[key], build.label)))


def table(builds: Sequence[KeptBuild]) -> Rows:
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
