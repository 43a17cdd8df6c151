"""A dataset as views of DuckDB that can be asked anything and reach nothing else.

DuckDB opens no file itself: Arrow reads the parts, and DuckDB asks Arrow for columns and rows. So all access to files,
networks, extensions and settings is switched off before the first question. What is asked is besides held to one
``SELECT`` whose table functions only count.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from spillscan.history.dataset.store import needed
from spillscan.output.errors import InputError, UsageError
from spillscan.output.safe import clip, printable

if TYPE_CHECKING:
    import duckdb
    import pyarrow.dataset


MEMORY = "2GB"
"""What one question may hold."""
_LOCKS = (
    "SET temp_directory = ''",
    "SET TimeZone = 'UTC'",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_COUNTING = frozenset(("range", "generate_series", "unnest"))
"""Table functions that read nothing."""
_MARKED = (
    "EXISTS (SELECT 1 FROM dead"
    " WHERE dead.label = row.label AND dead.commit = row.commit AND dead.unit_id = row.unit_id)"
)
# Rows of version 1 of the schema have no such columns: they are computed as version 2 computes them.
_OLD = {
    "spill_bytes": "coalesce(spill_bytes, spill_store_bytes + spill_load_bytes, CASE WHEN sass IS NOT NULL THEN "
    "coalesce(list_sum([item.bytes * item.count FOR item IN sass.local IF item.class = 'spill']), 0) END)::BIGINT",
    "spills_in_loops": "coalesce(spills_in_loops, CASE WHEN sass IS NOT NULL AND len("
    "[item FOR item IN sass.local IF item.class = 'spill' AND item.depth IS NULL]) = 0 THEN coalesce(list_sum("
    "[item.count FOR item IN sass.local IF item.class = 'spill' AND item.depth > 0]), 0) END)::BIGINT",
}


class Answer(NamedTuple):
    """What a question gave."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def connect(
    views: Mapping[str, pyarrow.dataset.Dataset | pyarrow.Table],
    dead: Iterable[tuple[str, str, str]],
    *,
    computed: bool,
    memory: str = MEMORY,
) -> duckdb.DuckDBPyConnection:
    """A connection with ``views``, and nothing else.

    Rows of ``dead`` labels, commits and units do not count; ``computed``: some rows are of version 1 of the schema.
    """
    with needed():
        import duckdb
        import pyarrow as pa
    connection = duckdb.connect(":memory:")
    try:
        connection.execute(f"SET memory_limit = '{memory.replace(chr(39), '')}'")
    except duckdb.Error as error:
        raise UsageError(f"{memory!r} is no amount of memory", "write it as 2GB") from error
    gone = sorted(dead)
    if gone:
        columns = [pa.array([each[n] for each in gone], pa.string()) for n in (0, 1, 2)]
        connection.register("dead", pa.table(columns, names=["label", "commit", "unit_id"]))
    for name, rows in views.items():
        if isinstance(rows, pa.Table):
            connection.register(name, rows)
            continue
        connection.register(f"all_{name}", rows)
        old = ", ".join(f"{how} AS {column}" for column, how in _OLD.items())
        columns_asked = f"* REPLACE ({old})" if computed and name == "kernels" else "*"
        living = f" WHERE NOT {_MARKED}" if gone else ""
        connection.execute(f"CREATE VIEW {name} AS SELECT {columns_asked} FROM all_{name} AS row{living}")
    with suppress(duckdb.Error):  # in notebooks without ipywidgets there is none, and the setting is refused
        connection.execute("SET enable_progress_bar = false")
    for lock in _LOCKS:
        connection.execute(lock)
    return connection


def ask(connection: duckdb.DuckDBPyConnection, question: str, words: Sequence[Any] = ()) -> Answer:
    """The answer to a question of our own."""
    import duckdb

    try:
        found = connection.execute(question, list(words))
        return Answer(tuple(column[0] for column in found.description or ()), found.fetchall())
    except duckdb.Error as error:
        _refuse_unread(error)
        raise UsageError(_first_line(error)) from error


def ask_anything(
    connection: duckdb.DuckDBPyConnection, question: str, *, seconds: float, most_rows: int | None = None
) -> Answer:
    """The answer to a question of the user: one ``SELECT`` over the views.

    Raises :class:`~spillscan.UsageError` where it is something else, is wrong, or takes more time or memory than
    it may.
    """
    import duckdb

    check(question)
    try:
        with _within(connection, seconds):
            found = connection.execute(question)
            columns = tuple(column[0] for column in found.description or ())
            return Answer(columns, found.fetchall() if most_rows is None else found.fetchmany(most_rows))
    except duckdb.InterruptException:
        raise UsageError(f"the query took more than {seconds:g} s", "ask for less, or give it --time-limit") from None
    except duckdb.OutOfMemoryException:
        raise UsageError("the query takes more memory than it may", "ask for less, or give it --memory-limit") from None
    except (duckdb.Error, RuntimeError, ValueError, OverflowError) as error:
        _refuse_unread(error)
        raise UsageError(f"the query fails: {_first_line(error)}") from error


def check(question: str) -> None:
    """Refuse what is not one ``SELECT`` that reads nothing but views."""
    with needed():
        import duckdb

    with duckdb.connect(":memory:") as parser:
        try:
            found = parser.execute("SELECT json_serialize_sql(?::VARCHAR)", [question]).fetchone()
            tree: dict[str, Any] = json.loads(found[0]) if found else {"error": True}
        except (duckdb.Error, RuntimeError, UnicodeEncodeError) as error:
            raise UsageError(f"the query cannot be read: {_first_line(error)}") from error
        except RecursionError:
            raise UsageError("the query is nested too deep") from None
    if tree["error"]:
        message = str(tree.get("error_message", "")).partition("\n")[0]
        if tree.get("error_type") == "parser":
            raise UsageError(f"the query cannot be read: {message}")
        raise UsageError("the query is no SELECT", "a dataset is only read")
    if len(tree["statements"]) != 1:
        raise UsageError(f"the query has {len(tree['statements'])} statements", "ask one question at a time")
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
        raise UsageError(
            f"the query calls {name}()", "it may read the views kernels, units, issues and builds, and nothing else"
        )


@contextmanager
def _within(connection: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    timer = threading.Timer(seconds, connection.interrupt)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _refuse_unread(error: BaseException) -> None:
    """Errors of Arrow come with all the calls that they went through; what the store said is last."""
    if "reading the stream" in str(error):
        said = clip(printable(str(error).strip().splitlines()[-1].strip()), 200)
        raise InputError(f"the dataset cannot be read: {said}", "run it again; was it compacted meanwhile?") from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
