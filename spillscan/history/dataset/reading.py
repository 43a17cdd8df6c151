"""View of the valid data of a dataset: committed, intact, not replaced, each unit once."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from spillscan.history.dataset import records, schema, sql
from spillscan.history.dataset.joining import join
from spillscan.history.dataset.records import Commit, Damage, KeptBuild
from spillscan.history.dataset.store import COMMITS, Store, check_label, needed
from spillscan.model import Build, Issue, Kernel, Origin, Stats
from spillscan.model.serialize import kernel_of
from spillscan.output.errors import InputError
from spillscan.output.safe import clip, printable

if TYPE_CHECKING:
    import duckdb
    import pyarrow


class Claim(NamedTuple):
    """The columns of a unit that an audit needs."""

    uri: str
    content_hash: str
    failure: str | None
    """Reason why it could not be read; ``None`` if it was read."""
    store_tag: str | None

    @property
    def failed(self) -> bool:
        """Whether it could not be read."""
        return self.failure is not None


class BuildSummary(NamedTuple):
    """Totals of one build, counted as in an audit."""

    build: KeptBuild
    files: int
    """Files that were read or that failed."""
    kernels: int
    spilling: int
    """Kernels that spill."""
    spill_bytes: int | None
    """Sum over all kernels; ``None``: unknown."""
    unknown: int
    """Kernels whose spills are unknown."""
    code_bytes: int | None
    """Sum over all kernels; ``None``: unknown."""
    failed: int
    """Files that could not be read."""
    issues: tuple[Issue, ...]
    """Issues, besides failed files."""

    @property
    def gaps(self) -> int:
        """Number of issues that may hide something."""
        return sum(bool(issue.hidden) for issue in self.issues)


# Of the units of one uri, the one seen last counts; of those with the same content, one that did not fail.
_DEAD = """CREATE TEMP TABLE dead AS SELECT label, commit, unit_id FROM (
    SELECT *, max(time) OVER (PARTITION BY label, uri, content_hash) AS seen
    FROM ({units}) JOIN commits USING (label, commit)
) QUALIFY row_number() OVER (PARTITION BY label, uri ORDER BY
    content_hash <> '' DESC, seen DESC, content_hash DESC, failure IS NULL DESC, time DESC, commit DESC) > 1"""
_LIVING = """ WHERE NOT EXISTS (FROM dead
    WHERE dead.label = row.label AND dead.commit = row.commit AND dead.unit_id = row.unit_id)"""

_TOTALS = """SELECT label, count(*), count(*) FILTER (spill_bytes > 0), sum(spill_bytes)::BIGINT,
    count(*) - count(spill_bytes), sum(code_bytes)::BIGINT FROM {rows} GROUP BY label"""
# Of the records of one kernel, those of the log count, else those of the objects, and so on.
_JOINED = """SELECT * REPLACE (coalesce(code_bytes, max(code_bytes) OVER same) AS code_bytes) FROM (
    SELECT label, symbol, arch, spill_bytes, code_bytes, CASE WHEN instructions IS NULL THEN 0
        WHEN regexp_matches(uri, '[.](o|obj|cubin|fatbin)$') THEN 1 WHEN regexp_matches(uri, '[.](a|lib)$') THEN 2
        ELSE 3 END AS stage
    FROM kernels JOIN (SELECT label, unit_id, uri FROM units) USING (label, unit_id)
    WHERE role = 'entry' AND label IN ({labels}))
    WINDOW same AS (PARTITION BY label, symbol, arch) QUALIFY stage = min(stage) OVER same"""

_LABELS = "hive_types = {'label': VARCHAR}"


class Dataset:
    """A dataset as it was when opened; later appends are not seen.

    A build with a missing or damaged file, or whose audit has not finished, is left out as a whole, and listed in
    :attr:`damage`.
    """

    def __init__(self, place: Store, commits: Sequence[Commit], damage: Sequence[Damage] = ()) -> None:
        self.place = place
        self.damage = tuple(damage)
        """Missing or damaged files and records, and marks of unfinished audits."""
        left_out = {label for each in damage for label in each.labels}
        self.commits = tuple(each for each in commits if each.label not in left_out)
        """Commits of the builds that can be read."""

    @classmethod
    def open(cls, root: str, chosen: Callable[[Sequence[KeptBuild]], str] | None = None) -> Dataset:
        """Open the dataset at ``root``, or only the build that ``chosen`` returns, ignoring the files of others.

        Raises :class:`~spillscan.InputError` if there is no dataset, or if all of it is damaged.
        """
        with needed():
            import duckdb  # noqa: F401 - fail before the store is accessed
            import pyarrow.parquet  # noqa: F401
        place = Store(root)
        commits, damage = records.load(place)
        damage += records.unfinished(place)
        damage += records.uncommitted(place, commits, damage)
        if not commits and not damage:
            raise InputError(f"no dataset at {root}", "`spillscan history audit` creates one")
        label = None if chosen is None or not commits else chosen(records.builds_of(commits))
        asked = commits if label is None else [each for each in commits if each.label == label]
        dataset = cls(place, asked or commits, [*damage, *records.check(place, asked)])
        if not dataset.commits:
            own = [each for each in dataset.damage if label in each.labels]
            raise InputError((own or dataset.damage)[0].text(root), advice(root))
        return dataset

    @property
    def root(self) -> str:
        """Root of the dataset, as the user wrote it."""
        return self.place.root

    @cached_property
    def builds(self) -> tuple[KeptBuild, ...]:
        """Builds, ordered by time."""
        return records.builds_of(self.commits)

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the builds, ordered by time."""
        return tuple(build.label for build in self.builds)

    @cached_property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """DuckDB connection with the views ``kernels``, ``units``, ``issues`` and ``builds``; it can read nothing
        else."""
        return self.connect()

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A new connection like :attr:`connection`."""
        import pyarrow as pa

        tables: dict[str, pyarrow.Table | sql.Rows] = {
            f"no_{table}": pa.Table.from_batches([], schema.arrow_schema(table, label=True)) for table in schema.TABLES
        }
        tables["kept_builds"] = records.table_of(self.builds)
        rows = [(each.label, each.name, each.time) for each in self.commits]
        tables["commits"] = sql.Rows({"label": "VARCHAR", "commit": "VARCHAR", "time": "VARCHAR"}, rows)
        statements = ["CREATE VIEW builds AS SELECT * REPLACE (map_from_entries(meta) AS meta) FROM kept_builds"]
        statements += [_DEAD.format(units=self._source("units", self._several))] if self._several else []
        statements += [f"CREATE VIEW {table} AS {self.source(table)}" for table in schema.TABLES]
        paths = {part.path for each in self.commits for part in each.parts}
        files = [self.place.address(path) for path in sorted(paths)]
        return sql.connect(tables, statements, files, self.place.driver)

    @cached_property
    def _several(self) -> frozenset[str]:
        """Builds with several commits, where duplicate units must be resolved."""
        return frozenset(label for label, count in Counter(each.label for each in self.commits).items() if count > 1)

    def source(self, table: str, labels: Collection[str] | None = None) -> str:
        """``SELECT`` of the valid rows of all builds, or of those in ``labels``."""
        rows = self._source(table, labels)
        alive = _LIVING if self._several and (labels is None or not self._several.isdisjoint(labels)) else ""
        return f"SELECT * FROM ({rows}) AS row{alive}"

    def _source(self, table: str, labels: Collection[str] | None) -> str:
        """Query for all committed rows of a table."""
        parts = (part for each in self.commits if labels is None or each.label in labels for part in each.parts)
        files = ", ".join(sql.quoted(self.place.address(part.path)) for part in parts if part.table == table)
        read = f" UNION ALL BY NAME FROM read_parquet([{files}], hive_partitioning = true, {_LABELS})" if files else ""
        return f"FROM no_{table}{read}"

    def ask(
        self,
        question: str,
        words: Sequence[Any] = (),
        labels: Collection[str] | None = None,
        tables: Mapping[str, pyarrow.Table | sql.Rows] | None = None,
    ) -> sql.Answer:
        """Result of an internal query, which may also use ``tables``.

        ``labels``: ``kernels`` contains only the kernels of these builds.
        """
        return sql.ask(self.connection, self._narrowed(question, labels), words, tables)

    def keep(self, name: str, question: str, labels: Collection[str], tables: Mapping[str, sql.Rows]) -> None:
        """Store the result of a query as a temporary table called ``name``."""
        sql.ask(
            self.connection, f"CREATE OR REPLACE TEMP TABLE {name} AS {self._narrowed(question, labels)}", (), tables
        )

    def stream(
        self,
        question: str,
        words: Sequence[Any] = (),
        labels: Collection[str] | None = None,
        tables: Mapping[str, sql.Rows] | None = None,
    ) -> Iterator[tuple[Any, ...]]:
        """Rows of :meth:`ask`, fetched in pieces. Run no other query meanwhile."""
        return sql.stream(self.connection, self._narrowed(question, labels), words, tables)

    def _narrowed(self, question: str, labels: Collection[str] | None) -> str:
        if labels is None or len(set(labels)) == len(self.labels):
            return question
        rest = f", {question[5:]}" if question.startswith("WITH ") else f" {question}"
        return f"WITH kernels AS NOT MATERIALIZED ({self.source('kernels', labels)}){rest}"

    def arrow(
        self, question: str, words: Sequence[Any] = (), tables: Mapping[str, sql.Rows] | None = None
    ) -> pyarrow.Table:
        """Result of an internal query as an Arrow table; the query may also use ``tables``."""
        with sql.unread():
            sql.register(self.connection, tables or {})
            return self.connection.sql(question, params=list(words)).to_arrow_table()

    def summary(self, wanted: Iterable[KeptBuild]) -> Iterator[BuildSummary]:
        """Totals of the ``wanted`` builds, in their order."""
        files = self._counted("SELECT label, count(*), count(failure) FROM units GROUP BY label")
        kernels = self._counted(_TOTALS.format(rows="kernels WHERE role = 'entry'"))
        if several := [label for label, (read, failed) in files.items() if read - failed > 1]:
            rows = _JOINED.format(labels=", ".join(map(sql.quoted, several)))
            kernels |= self._counted(_TOTALS.format(rows=f"({rows})"))
        issues: dict[str, list[Issue]] = {}
        for label, code, message, severity, hides, uri in self.ask(
            "SELECT label, code, message, severity, hides, input FROM issues ORDER BY ALL"
        ).rows:
            origin = Origin(input=uri) if uri else None
            kept = None if hides is None else tuple(hides)
            issue = Issue(code=code, message=message, severity=severity, origin=origin, hides=kept)
            issues.setdefault(label, []).append(issue)
        for build in wanted:
            read, failed = files[build.label]
            number, spilling, spilled, unknown, code = kernels.get(build.label, [0, 0, None, 0, None])
            known = tuple(issues.get(build.label, ()))
            yield BuildSummary(build, read, number, spilling, spilled, unknown, code, failed, known)

    def _counted(self, question: str) -> dict[str, list[Any]]:
        return {label: counts for label, *counts in self.ask(question).rows}

    @property
    def kernels(self) -> duckdb.DuckDBPyRelation:
        """All kernels of all builds as a lazy relation: ``.filter("registers > 128").pl()`` reads only what it
        needs."""
        return self.connection.view("kernels")

    @property
    def units(self) -> duckdb.DuckDBPyRelation:
        """All units of all builds as a lazy relation."""
        return self.connection.view("units")

    @property
    def issues(self) -> duckdb.DuckDBPyRelation:
        """All issues of all builds as a lazy relation."""
        return self.connection.view("issues")

    def query(self, question: str) -> duckdb.DuckDBPyRelation:
        """Result of ``question``, one ``SELECT`` over the views, as a lazy relation."""
        sql.check(question)
        return self.connection.sql(question)

    def seen(self, label: str) -> list[Claim]:
        """Units of ``label`` whose content is known, one per uri."""
        columns = ", ".join(Claim._fields)
        rows = self.ask(f"SELECT {columns} FROM ({self.source('units', [label])}) WHERE content_hash <> ''").rows
        return [Claim(*row) for row in rows]

    def build(self, label: str) -> Build:
        """The build called ``label``."""
        if label not in self.labels:
            if damaged := [each for each in self.damage if label in each.labels]:
                raise InputError(damaged[0].text(self.root), advice(self.root))
            known = ", ".join(clip(printable(each), 40) for each in self.labels[-5:])
            raise InputError(
                f"{self.root} has no build {clip(printable(label), 60)}", f"use one of the latest: {known}"
            )
        units = self._rows("units", label, "uri")
        order = {row["unit_id"]: at for at, row in enumerate(units)}
        issues = self._rows("issues", label, "position")
        issues.sort(key=lambda row: order[row["unit_id"]])
        stats = sum((Stats(**{name: row[name] or 0 for name in Stats.__struct_fields__}) for row in units), Stats())
        failures = [
            Issue(code="unreadable", message=row["failure"], severity="error", origin=Origin(input=row["uri"]))
            for row in units
            if row["failure"] is not None
        ]
        kernels, found = join(self.records(label), [*failures, *map(schema.issue_of, issues)])
        return Build(kernels=tuple(kernels), issues=tuple(found), stats=stats)

    def _rows(self, table: str, label: str, order: str) -> list[dict[str, Any]]:
        """Valid rows of a build."""
        rows: list[dict[str, Any]] = self.arrow(
            f"SELECT * FROM ({self.source(table, [label])}) ORDER BY {order}"
        ).to_pylist()
        return rows

    def records(self, label: str) -> Iterator[tuple[str, Kernel]]:
        """Records of a build's kernels with the URI of their unit, as stored: by URI, then in reading order."""
        question = (
            f"SELECT uri, kernel FROM ({self.source('kernels', [label])}) JOIN"
            f" (SELECT unit_id, uri FROM ({self.source('units', [label])})) USING (unit_id) ORDER BY uri, position"
        )
        return ((uri, kernel_of(text)) for uri, text in sql.stream(self.connection, question))

    def kernels_of(
        self, labels: Collection[str], wanted: Collection[tuple[str, str]] | None = None
    ) -> Iterator[tuple[str, str, list[Kernel]]]:
        """Joined kernels of the builds ``labels`` by label and canonical name, all or the ``wanted`` ones."""
        clause, tables = "", dict[str, sql.Rows]()
        if wanted is not None:
            clause, tables = sql.among(sql.Rows({"label": "VARCHAR", "canonical": "VARCHAR"}, list(wanted)))
            named, many = sql.among(
                sql.Rows({"canonical": "VARCHAR"}, [(name,) for name in {name for _, name in wanted}])
            )
            clause += "" if many else named  # statistics of files rule out most of them
        question = (
            "SELECT label, canonical, uri, kernel FROM kernels JOIN (SELECT label, unit_id, uri FROM units)"
            f" USING (label, unit_id){clause} ORDER BY label, canonical, uri, position"
        )
        for (label, canonical), some in groupby(self.stream(question, (), labels, tables), key=itemgetter(0, 1)):
            yield label, canonical, join((uri, kernel_of(text)) for _, _, uri, text in some)[0]


def advice(root: str) -> str:
    """Advice for a damaged dataset."""
    return f"`spillscan history verify --dataset {shlex.quote(root)}` lists the damage; audit the build again"


def verify(root: str) -> list[Damage]:
    """All missing or damaged files. Raises :class:`~spillscan.InputError` if there is no dataset."""
    with needed():
        import pyarrow.parquet  # noqa: F401
    place = Store(root)
    if not place.list(COMMITS):
        raise InputError(f"no dataset at {root}", "`spillscan history audit` creates one")
    commits, damaged = records.load(place)
    damaged += records.unfinished(place)
    return [*damaged, *records.check(place, commits, digests=True), *records.uncommitted(place, commits, damaged)]


def seen(root: str, label: str) -> list[Claim]:
    """See :func:`spillscan.history.dataset.seen`. Damaged units count as not seen."""
    check_label(label)
    with needed():
        import duckdb  # noqa: F401 - fail before the store is accessed
        import pyarrow.parquet  # noqa: F401
    place = Store(root)
    commits, _ = records.load(place, label)
    lost = {each.path for each in records.check(place, commits)}
    sound = [each for each in commits if not any(part.path in lost for part in each.parts)]
    return Dataset(place, sound).seen(label) if sound else []
