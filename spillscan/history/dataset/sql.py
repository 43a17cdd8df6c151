"""DuckDB views that accept any query but can read nothing else.

DuckDB reads only the files that records name: access to other files, networks, extensions and settings is switched off
before the first query. A user's query must be one ``SELECT`` whose table functions only generate rows. Memory is
bounded; DuckDB spills the rest to a temporary folder.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from spillscan.history.dataset.store import needed
from spillscan.output.errors import InputError, UsageError
from spillscan.output.nouns import count
from spillscan.output.safe import printable

if TYPE_CHECKING:
    import duckdb
    import pyarrow


MEMORY = "320MB"
"""Memory limit of DuckDB, unless ``$SPILLSCAN_MEMORY`` sets another; Python takes up to 150 MB more."""
_MEMORY_VARIABLE = "SPILLSCAN_MEMORY"
_SPILLED = "20GB"
"""Limit of what a query may spill to disk."""
_LOCKS = (
    "SET preserve_insertion_order = false",
    "SET TimeZone = 'UTC'",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_COUNTING = frozenset(("range", "generate_series", "unnest"))
"""Table functions that read nothing."""


class Rows(NamedTuple):
    """A table from Python values; an Arrow table would make DuckDB import pandas if installed."""

    columns: Mapping[str, str]
    """SQL type of each column."""
    values: Sequence[Sequence[Any]]
    """Rows."""


_FEW = 200


def among(wanted: Rows) -> tuple[str, dict[str, Rows]]:
    """Clause that selects the rows with ``wanted`` values, and the table that it needs.

    A few names are part of the query itself, so that file statistics can rule out files.
    """
    columns = ", ".join(wanted.columns)
    if len(wanted.columns) > 1 or len(wanted.values) > _FEW:
        return f" SEMI JOIN wanted USING ({columns})", {"wanted": wanted}
    return f" WHERE {columns} IN ({', '.join(quoted(name) for (name,) in wanted.values) or 'NULL'})", {}


class Answer(NamedTuple):
    """Result of a query."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def connect(
    tables: Mapping[str, pyarrow.Table | Rows],
    statements: Sequence[str],
    files: Sequence[str],
    driver: Any = None,
) -> duckdb.DuckDBPyConnection:
    """A connection with ``tables`` that can read only ``files``, after running ``statements``.

    ``driver``: fsspec file system of the files.
    """
    with needed():
        import duckdb
    connection = duckdb.connect(":memory:")
    memory = os.environ.get(_MEMORY_VARIABLE) or MEMORY
    try:
        connection.execute(f"SET memory_limit = {quoted(memory)}")
    except duckdb.Error as error:
        raise UsageError(f"{_MEMORY_VARIABLE}={memory!r} is not a memory size", "write a size such as 2GB") from error
    with suppress(duckdb.Error):  # notebooks without ipywidgets have no progress bar and refuse the setting
        connection.execute("SET enable_progress_bar = false")
    spill = os.path.join(tempfile.gettempdir(), f"spillscan-{os.getpid()}-{os.urandom(4).hex()}")
    connection.execute(f"SET temp_directory = {quoted(spill)}")  # DuckDB creates and deletes it
    connection.execute(f"SET max_temp_directory_size = '{_SPILLED}'")
    if driver is not None:
        connection.register_filesystem(driver)
    register(connection, tables)
    with unread():
        for statement in statements:
            connection.execute(statement)
    connection.execute(f"SET allowed_paths = [{', '.join(map(quoted, files))}]")
    for lock in _LOCKS:
        connection.execute(lock)
    return connection


def quoted(text: str) -> str:
    """``text`` as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def register(connection: duckdb.DuckDBPyConnection, tables: Mapping[str, pyarrow.Table | Rows]) -> None:
    """Make ``tables`` available to queries by name."""
    for name, table in tables.items():
        if not isinstance(table, Rows):
            connection.register(name, table)
            continue
        made = ", ".join(f"unnest(?::{kind}[]) AS {column}" for column, kind in table.columns.items())
        values = [[row[at] for row in table.values] for at in range(len(table.columns))]
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT {made}", values)


def ask(
    connection: duckdb.DuckDBPyConnection,
    question: str,
    words: Sequence[Any] = (),
    tables: Mapping[str, pyarrow.Table | Rows] | None = None,
) -> Answer:
    """Result of an internal query."""
    with unread():
        register(connection, tables or {})
        cursor = connection.execute(question, list(words))
        return Answer(tuple(column[0] for column in cursor.description or ()), cursor.fetchall())


def stream(
    connection: duckdb.DuckDBPyConnection,
    question: str,
    words: Sequence[Any] = (),
    tables: Mapping[str, pyarrow.Table | Rows] | None = None,
) -> Iterator[tuple[Any, ...]]:
    """Rows of an internal query, fetched in pieces. Run no other query meanwhile."""
    with unread():
        register(connection, tables or {})
        cursor = connection.execute(question, list(words))
        while rows := cursor.fetchmany(_AT_ONCE):
            yield from rows


_AT_ONCE = 1 << 11


@contextmanager
def unread() -> Iterator[None]:
    """Translate errors of internal queries: the dataset is unreadable, or memory does not suffice."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException:
        raise UsageError("the query exceeds its memory limit", f"allow more memory: {_MEMORY_VARIABLE}=2GB") from None
    except (duckdb.IOException, duckdb.InvalidInputException, duckdb.SerializationException) as error:
        raise _unreadable(error) from error
    except RuntimeError as error:
        if str(error) != "Query interrupted":  # so DuckDB reports Ctrl-C
            raise
        raise KeyboardInterrupt from None


def ask_anything(
    connection: duckdb.DuckDBPyConnection, question: str, *, seconds: float, most_rows: int | None = None
) -> Answer:
    """Result of a user's query: one ``SELECT`` over the views.

    Raises :class:`~spillscan.UsageError` if it is anything else, is wrong, or exceeds its time or memory.
    """
    import duckdb

    check(question)
    try:
        with _within(connection, seconds):
            cursor = connection.execute(question)
            columns = tuple(column[0] for column in cursor.description or ())
            return Answer(columns, cursor.fetchall() if most_rows is None else cursor.fetchmany(most_rows))
    except duckdb.InterruptException:
        raise UsageError(f"the query took more than {seconds:g} s", "narrow the query, or raise --timeout") from None
    except duckdb.OutOfMemoryException:
        raise UsageError(
            "the query exceeds its memory limit", f"narrow the query, or allow more memory: {_MEMORY_VARIABLE}=2GB"
        ) from None
    except (duckdb.Error, RuntimeError, ValueError, OverflowError) as error:
        if isinstance(error, duckdb.IOException):
            raise _unreadable(error) from error
        raise UsageError(f"the query failed: {_first_line(error)}") from error


def check(question: str) -> None:
    """Reject anything but one ``SELECT`` that reads only views."""
    with needed():
        import duckdb

    with duckdb.connect(":memory:") as parser:
        try:
            row = parser.execute("SELECT json_serialize_sql(?::VARCHAR)", [question]).fetchone()
            tree: dict[str, Any] = json.loads(row[0]) if row else {"error": True}
        except (duckdb.Error, RuntimeError, UnicodeEncodeError) as error:
            raise UsageError(f"invalid query: {_first_line(error)}") from error
        except RecursionError:
            raise UsageError("the query is nested too deeply", "use fewer nested expressions") from None
    if tree["error"]:
        message = str(tree.get("error_message", "")).partition("\n")[0]
        if tree.get("error_type") == "parser":
            raise UsageError(f"invalid query: {message}")
        raise UsageError("the query is not a SELECT", "write a SELECT; datasets are read-only")
    if len(tree["statements"]) != 1:
        raise UsageError(f"the query has {count(len(tree['statements']), 'statement')}", "run one SELECT at a time")
    waiting: list[Any] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if node.get("type") == "TABLE_FUNCTION":
                _refuse_reading(node.get("function") or {})
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def _refuse_reading(function: dict[str, Any]) -> None:
    name = str(function.get("function_name", "")).lower()
    if name not in _COUNTING:
        raise UsageError(f"the query calls {name}()", "query only the views kernels, units, issues and builds")


@contextmanager
def _within(connection: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    timer = threading.Timer(seconds, connection.interrupt)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _unreadable(error: BaseException) -> InputError:
    reason = printable(" ".join(str(error).split()))
    hint = "`spillscan history verify` lists the damage; if an audit ran meanwhile, repeat the query"
    return InputError(f"the dataset cannot be read: {reason}", hint)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
