"""Ask a dataset anything: one SELECT (of DuckDB) over the views kernels, units, issues and builds.

The query can read nothing else: no files, networks, extensions or settings.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from spillscan.commands import _common
from spillscan.output.terminal import complain

NAME = "query"
HELP = "ask a dataset anything, in SQL"
ORDER = 71
_GRACE_SECONDS = 1.0
"""Behind the time limit, for DuckDB to obey."""
EPILOG = 'Example: spillscan query "SELECT label, count(*) FROM kernels WHERE spill_bytes > 0 GROUP BY label"'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("query", metavar="SELECT", help="the question; docs/dataset.md lists the columns")
    _common.add_dataset(parser, order=False)
    _common.add_formats(parser)
    parser.add_argument(
        "--time-limit", type=_seconds, default=60, metavar="SECONDS", help="what the query may take (default: 60)"
    )
    parser.add_argument(
        "--memory-limit", metavar="SIZE", help="what it may hold (default: $SPILLSCAN_MEMORY, else 512MB)"
    )
    _common.add_rows(parser, 1000, "rows of text to show", "rows of text")


def run(arguments: argparse.Namespace) -> int:
    """0; :class:`~spillscan.UsageError` for what cannot be answered."""
    from spillscan.history.dataset import sql

    forms = _common.forms_of(arguments)
    sql.check(arguments.query)
    dataset = _common.dataset_of(arguments)
    connection = dataset.connect(arguments.memory_limit)
    most = _common.rows_of(arguments)
    asked = None if most is None or any(form.name != "text" for form in forms) else most + 1
    with _ended_after(arguments.time_limit + _GRACE_SECONDS):
        found = sql.ask_anything(connection, arguments.query, seconds=arguments.time_limit, most_rows=asked)
    more = [f"… more than {most:,} rows (--all shows them)"] if most is not None and len(found.rows) > most else []
    words = {name for at, name in enumerate(found.columns) if any(isinstance(row[at], str) for row in found.rows)}
    _common.show(forms, found.columns, found.rows, left=words, most=most, more=more)
    return _common.answered(dataset)


@contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """A function of DuckDB that makes one enormous value looks at no interruption: then the process has to go."""

    def end() -> None:
        complain("the query took more time than it may; ask for less, or give it --time-limit")
        sys.stderr.flush()
        os._exit(2)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return value
