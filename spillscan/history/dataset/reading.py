"""A dataset as one view of all that counts: committed, not replaced, each unit once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from spillscan.history.dataset import builds, schema, sql
from spillscan.history.dataset import builds as commits
from spillscan.history.dataset import store as names
from spillscan.history.dataset.builds import Commit, KeptBuild
from spillscan.history.dataset.schema import Field, decode
from spillscan.history.dataset.store import Store, needed, reading, store
from spillscan.model import Build, Issue, Kernel, KernelKey, Origin, Stats, Usage
from spillscan.model.usage import NUMBERS
from spillscan.output.errors import InputError
from spillscan.output.safe import clip, printable

if TYPE_CHECKING:
    import duckdb
    import pyarrow
    import pyarrow.dataset


_AT_ONCE = 1 << 17
"""Kernels of which some columns are held."""
_CLAIMED = ("uri", "content_hash", "failure", "unit_id", "commit", "store_tag")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One unit as one commit holds it."""

    uri: str
    content_hash: str
    failure: str | None
    """Why it could not be read; ``None`` where it was."""
    unit_id: str
    commit: str
    time: str
    store_tag: str | None

    @property
    def failed(self) -> bool:
        """Whether it could not be read."""
        return self.failure is not None


class Held(NamedTuple):
    """One build and how much there is of it, counted as an audit counts."""

    build: KeptBuild
    files: int
    """That were read, or could not be."""
    kernels: int
    spilling: int
    """Kernels that spill."""
    failed: int
    """Files that could not be read."""
    issues: tuple[Issue, ...]
    """What was not understood, besides failed files."""
    parts: int
    """Parquet files."""
    part_bytes: int
    """Of these; of one that several builds share, an equal part."""

    @property
    def holes(self) -> int:
        """How many of the issues may hide something."""
        return sum(bool(issue.hidden) for issue in self.issues)


class Dataset:
    """What lay in a dataset when it was opened; what is appended later is seen by the next who opens it."""

    def __init__(self, place: Store, held: Sequence[Commit]) -> None:
        self.place = place
        self.commits = tuple(held)
        self._dead: dict[str, frozenset[tuple[str, str, str]]] = {}
        self._held: list[tuple[frozenset[str], pyarrow.dataset.Dataset]] = []
        self._whole: dict[str, pyarrow.dataset.Dataset] = {}

    @classmethod
    def open(cls, root: str) -> Dataset:
        """The dataset at ``root``. Raises :class:`~spillscan.InputError` where there is none."""
        with needed():
            import pyarrow.dataset  # noqa: F401 - what is opened will be asked
        place = store(root)
        held = commits.load(place)
        if not held:
            raise InputError(f"there is no dataset at {root}", "spillscan audit makes one")
        return cls(place, held)

    @property
    def root(self) -> str:
        """Where it lies, as the user named it."""
        return self.place.root

    @cached_property
    def builds(self) -> tuple[KeptBuild, ...]:
        """The builds, by time."""
        return builds.of(self.commits)

    @property
    def labels(self) -> tuple[str, ...]:
        """What they are called."""
        return tuple(build.label for build in self.builds)

    @cached_property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The views ``kernels``, ``units``, ``issues`` and ``builds`` in DuckDB, locked: nothing else can be read."""
        return self.connect()

    def connect(
        self,
        memory: str = sql.MEMORY,
        only: Sequence[str] | None = None,
        labels: Collection[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> duckdb.DuckDBPyConnection:
        """:attr:`connection` anew; ``only``: ``kernels`` holds those of these canonical names; ``labels``: of these
        builds; ``columns``: these at least, and ``kernels`` alone can be asked, once."""
        import pyarrow.dataset as ds

        old = any(commit.version < 2 for commit in self.commits)
        views: dict[str, Any] = {}
        if columns is not None and not old:
            views["kernels"] = self._columns(columns, only, labels)
        else:
            views["kernels"] = self.table("kernels", labels)
            if only is not None:
                views["kernels"] = views["kernels"].filter(ds.field("canonical").isin(list(only)))
            views |= {table: self.table(table) for table in schema.TABLES if table != "kernels"}
            views["builds"] = builds.table(self.builds)
        return sql.connect(views, self.dead(), computed=old, memory=memory)

    def _columns(
        self, columns: Sequence[str], only: Sequence[str] | None, labels: Collection[str] | None
    ) -> pyarrow.dataset.Scanner:
        """Some columns of ``kernels``. Of builds that are small together they are read once: what asks for one kernel
        asks again, by the names that it finds."""
        import pyarrow.dataset as ds

        builds = frozenset(self.labels if labels is None else labels)
        asked = sorted({*columns, "label", "commit", "unit_id"})
        found = next(
            (rows for some, rows in self._held if some == builds and not {*asked} - {*rows.schema.names}), None
        )
        if found is None:
            found = self.table("kernels", labels)
            if sum(each.rows("kernels") for each in self.commits if each.label in builds) <= _AT_ONCE:
                with reading(self.root):
                    read = scanner(found, asked).to_table()
                found = ds.dataset(read)
                self._held.append((builds, found))
        if only is not None:
            found = found.filter(ds.field("canonical").isin(list(only)))
        return scanner(found, asked)

    def ask(
        self,
        question: str,
        words: Sequence[Any] = (),
        only: Sequence[str] | None = None,
        labels: Collection[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> sql.Answer:
        """The answer to a question of our own; ``only``, ``labels`` and ``columns`` as :meth:`connect` has them."""
        if labels is not None and len(labels) == len(self.labels):
            labels = None
        if only is None and labels is None and columns is None:
            return sql.ask(self.connection, question, words)
        with self.connect(only=only, labels=labels, columns=columns) as found:
            return sql.ask(found, question, words)

    def summary(self, wanted: Iterable[KeptBuild]) -> Iterator[Held]:
        """How much there is of each of these builds, in their order."""
        files = self._counted("SELECT label, count(*), count(failure) FROM units GROUP BY label")
        kernels = self._counted(
            "SELECT label, count(*), count(*) FILTER (spill_store_bytes > 0 OR spill_load_bytes > 0)"
            " FROM kernels WHERE role = 'entry' GROUP BY label"
        )
        issues: dict[str, list[Issue]] = {}
        for label, code, message, severity, hides, uri in self.ask(
            "SELECT label, code, message, severity, hides, origin.input FROM issues ORDER BY ALL"
        ).rows:
            origin = Origin(input=uri) if uri else None
            kept = None if hides is None else tuple(hides)
            issue = Issue(code=code, message=message, severity=severity, origin=origin, hides=kept)
            issues.setdefault(label, []).append(issue)
        parts: dict[str, list[float]] = {}
        sharing = Counter(part.path for each in self.commits for part in each.parts)
        for each in self.commits:
            parts.setdefault(each.label, []).extend(part.size_bytes / sharing[part.path] for part in each.parts)
        for build in wanted:
            label = build.label
            read, failed = files[label]
            found, spilling = kernels.get(label, (0, 0))
            size = round(sum(parts[label]))
            yield Held(build, read, found, spilling, failed, tuple(issues.get(label, ())), len(parts[label]), size)

    def _counted(self, question: str) -> dict[str, list[int]]:
        return {label: counts for label, *counts in self.ask(question).rows}

    @property
    def kernels(self) -> duckdb.DuckDBPyRelation:
        """All kernels of all builds, as a lazy frame: ``.filter("registers > 128").pl()`` reads what it needs."""
        return self.connection.view("kernels")

    @property
    def units(self) -> duckdb.DuckDBPyRelation:
        """All units of all builds, as a lazy frame."""
        return self.connection.view("units")

    @property
    def issues(self) -> duckdb.DuckDBPyRelation:
        """All issues of all builds, as a lazy frame."""
        return self.connection.view("issues")

    def query(self, question: str) -> duckdb.DuckDBPyRelation:
        """What ``question``, one ``SELECT`` over the views, asks for, as a lazy frame."""
        sql.check(question)
        return self.connection.sql(question)

    def table(self, table: str, labels: Iterable[str] | None = None) -> pyarrow.dataset.Dataset:
        """All committed rows of ``kernels``, ``units`` or ``issues``, those of :meth:`dead` units included."""
        if labels is None:  # asked for again and again: what Arrow knows of the files stays known
            if table not in self._whole:
                self._whole[table] = self._table(table, None)
            return self._whole[table]
        return self._table(table, set(labels))

    def _table(self, table: str, wanted: Collection[str] | None) -> pyarrow.dataset.Dataset:
        import pyarrow.dataset as ds

        files, base = self.place.arrow()
        form = ds.ParquetFileFormat()
        found = {
            part.path: None if each.shared is not None else _expression(each.label, table, part.arch)
            for each in self.commits
            if wanted is None or each.label in wanted
            for part in each.parts
            if part.table == table
        }
        fragments = [form.make_fragment(base + path, files, folders) for path, folders in found.items()]
        whole = ds.FileSystemDataset(fragments, schema.arrow_schema(table, folders=True), form, files)
        if wanted is None or all(folders is not None for folders in found.values()):
            return whole
        return whole.filter(ds.field("label").isin(list(wanted)))

    def dead(self, labels: Iterable[str] | None = None) -> frozenset[tuple[str, str, str]]:
        """(label, commit, unit id) whose rows do not count: another commit holds the same unit, or a newer one of its
        uri."""
        commits = Counter(each.label for each in self.commits)
        found: set[tuple[str, str, str]] = set()
        for label in self.labels if labels is None else labels:
            if label not in self._dead:
                lost = _losers(self._claims(label)) if commits[label] > 1 else []
                self._dead[label] = frozenset((label, claim.commit, claim.unit_id) for claim in lost)
            found |= self._dead[label]
        return frozenset(found)

    def seen(self, label: str) -> list[Claim]:
        """The units of ``label`` of which the content is known; one a uri."""
        return [claim for claim in _winners(self._claims(label)) if claim.content_hash]

    def build(self, label: str) -> Build:
        """The build called ``label``."""
        if label not in self.labels:
            known = ", ".join(clip(printable(each), 40) for each in self.labels[-5:])
            raise InputError(f"{self.root} has no build {clip(printable(label), 60)}", f"the last ones are {known}")
        units = {row["unit_id"]: row for row in self.rows("units", (label,))}
        order = {unit_id: at for at, unit_id in enumerate(sorted(units, key=lambda each: units[each]["uri"]))}
        issues = sorted(self.rows("issues", (label,)), key=lambda row: (order[row["unit_id"]], row["position"]))
        stats = sum(
            (Stats(**{name: row[name] or 0 for name in Stats.__struct_fields__}) for row in units.values()), Stats()
        )
        failures = [
            Issue(code="unreadable", message=row["failure"], severity="error", origin=Origin(input=row["uri"]))
            for unit_id in order
            if (row := units[unit_id])["failure"] is not None
        ]
        return Build(
            kernels=tuple(self.kernels_of((label,))[label]), issues=(*failures, *map(_issue, issues)), stats=stats
        )

    def _claims(self, label: str) -> list[Claim]:
        times = {each.name: each.time for each in self.commits if each.label == label}
        return [
            Claim(
                uri=row["uri"],
                content_hash=row["content_hash"],
                failure=row["failure"],
                unit_id=row["unit_id"],
                commit=row["commit"],
                time=times.get(row["commit"], ""),
                store_tag=row["store_tag"],
            )
            for row in self.rows("units", (label,), columns=_CLAIMED, dead=True)
        ]

    def kernels_of(self, labels: Collection[str]) -> dict[str, list[Kernel]]:
        """The kernels of some builds, as their inputs gave them: units by uri, kernels in the order read."""
        units = self.rows("units", labels, columns=("unit_id", "uri", "commit"))
        uris = {(row["label"], row["unit_id"]): row["uri"] for row in units}
        rows = self.rows("kernels", labels)
        rows.sort(key=lambda row: (uris[row["label"], row["unit_id"]], row["position"]))
        found: dict[str, list[Kernel]] = {label: [] for label in labels}
        for row in rows:
            found[row["label"]].append(kernel_of(row))
        return found

    def living(self, table: str, labels: Collection[str]) -> pyarrow.Table:
        """The rows of some builds that count, as Arrow has them."""
        import pyarrow as pa

        with reading(self.root):
            rows = scanner(self.table(table, labels)).to_table()
        if gone := self.dead(labels):
            named = zip(*(rows.column(name).to_pylist() for name in ("label", "commit", "unit_id")), strict=True)
            rows = rows.filter(pa.array([each not in gone for each in named], pa.bool_()))
        return rows

    def rows(
        self,
        table: str,
        labels: Collection[str],
        *,
        columns: Collection[str] | None = None,
        dead: bool = False,
    ) -> list[dict[str, Any]]:
        """The rows of some builds that count, by column name; ``dead``: those that do not count as well."""
        fields = [field for field in schema.TABLES[table] if columns is None or field.name in columns]
        folders = ("label", "arch") if table == "kernels" else ("label",)
        fields += [Field(name=name, shape="text", get=itemgetter(name)) for name in folders]
        with reading(self.root):
            found = scanner(self.table(table, labels), [field.name for field in fields]).to_table()
        lists = {
            field.name: [value for chunk in found.column(field.name).chunks for value in decode(chunk, field.shape)]
            for field in fields
        }
        rows = [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]
        gone = frozenset() if dead else self.dead(labels)
        return [row for row in rows if (row["label"], row["commit"], row["unit_id"]) not in gone] if gone else rows


def seen(root: str, label: str) -> list[Claim]:
    """See :func:`spillscan.history.dataset.seen`."""
    names.check_label(label)
    with needed():
        import pyarrow.dataset  # noqa: F401 - before the store is asked
    place = store(root)
    return Dataset(place, commits.load(place, label)).seen(label)


def scanner(rows: pyarrow.dataset.Dataset, columns: Sequence[str] | None = None) -> pyarrow.dataset.Scanner:
    """Reads some columns, or all, one batch after the other."""
    return rows.scanner(columns=columns, cache_metadata=False, batch_readahead=1, fragment_readahead=1)


def _expression(label: str, table: str, arch: str | None) -> Any:
    import pyarrow.dataset as ds

    there = ds.field("label") == label
    if table != "kernels":
        return there
    return there & (ds.field("arch").is_null() if arch is None else ds.field("arch") == arch)


def _winners(claims: Sequence[Claim]) -> list[Claim]:
    """One a uri: the content that was seen last, and of one content a reading that did not fail."""
    seen: dict[tuple[str, str], str] = {}
    for claim in claims:
        key = claim.uri, claim.content_hash
        seen[key] = max(seen.get(key, ""), claim.time)
    best: dict[str, tuple[Any, Claim]] = {}
    for claim in claims:
        rank = (
            claim.content_hash != "",
            seen[claim.uri, claim.content_hash],
            claim.content_hash,
            not claim.failed,
            claim.time,
            claim.commit,
        )
        if claim.uri not in best or rank > best[claim.uri][0]:
            best[claim.uri] = rank, claim
    return [claim for _, claim in best.values()]


def _losers(claims: Sequence[Claim]) -> list[Claim]:
    kept = {(claim.commit, claim.unit_id) for claim in _winners(claims)}
    return [claim for claim in claims if (claim.commit, claim.unit_id) not in kept]


def kernel_of(row: dict[str, Any]) -> Kernel:
    """A kernel as a row holds it."""
    return Kernel(
        key=KernelKey(symbol=row["symbol"], arch=row["arch"], unit=row["object"] or ""),
        role=row["role"],
        usage=Usage(
            **{name: row[name] for name in NUMBERS},
            constant_bytes=row["constant_bytes"],
            unknown_clauses=row["unknown_clauses"] or (),
        ),
        confidence=row["confidence"],
        reasons=row["reasons"] or (),
        final=row["final"],
        advisories=row["advisories"] or (),
        origins=row["origins"] or (),
        compile_ms=row["compile_ms"],
        source=row["source"] or "",
        sass=None
        if row["sass"] is None
        else replace(
            row["sass"],
            local=replace(row["sass"].local, kept_lines=row["lines"] or ()),
            maker=row["maker"],
            roles=row["roles"] or (),
            digest=row["digest"],
        ),
        launch_bounds=row["launch_bounds"] and replace(row["launch_bounds"], cluster_blocks=row["cluster_blocks"]),
        dynamic_shared=row["dynamic_shared"],
        launch=row["launch"],
        configuration=row["configuration"] or (),
    )


def _issue(row: dict[str, Any]) -> Issue:
    return Issue(
        code=row["code"],
        message=row["message"],
        severity=row["severity"],
        origin=row["origin"],
        hides=row["hides"],
        symbol=row["symbol"] or "",
    )
