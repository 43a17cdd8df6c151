"""Run one DuckDB SELECT over the views kernels, units, issues and builds.

The query cannot access files, networks or extensions, and cannot change settings.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from spillscan.commands import _answers, _options
from spillscan.commands.history._datasets import answered, dataset_of
from spillscan.history.dataset import sql
from spillscan.output.nouns import count
from spillscan.output.terminal import complain
from spillscan.reports.table import of_rows

_GRACE_SECONDS = 1.0
"""Time after the limit for DuckDB to react to the interruption."""
EPILOG = 'Example: spillscan history query "SELECT label, count(*) FROM kernels WHERE spill_bytes > 0 GROUP BY label"'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("query", metavar="SELECT", help="the query; docs/history.md lists the columns")
    _options.add_dataset(parser)
    _options.add_formats(parser)
    _options.number(parser, "--timeout", "time limit of the query (default: 60)", "SECONDS", least=1, default=60)
    _options.add_rows(parser, 1000, "rows to show", "rows")


def run(arguments: argparse.Namespace) -> int:
    """Return 0; raise :class:`~spillscan.UsageError` if the query fails."""
    forms = _answers.forms_of(arguments)
    sql.check(arguments.query)
    dataset = dataset_of(arguments)
    connection = dataset.connect()
    most = _options.rows_of(arguments)
    asked = None if most is None or any(form.name != "text" for form in forms) else most + 1
    with _ended_after(arguments.timeout + _GRACE_SECONDS):
        answer = sql.ask_anything(connection, arguments.query, seconds=arguments.timeout, most_rows=asked)
    words = {name for at, name in enumerate(answer.columns) if any(isinstance(row[at], str) for row in answer.rows)}
    rows, more = answer.rows, []
    if asked is not None and len(rows) == asked:
        rows, more = rows[:most], [f"… more than {count(asked - 1, 'row')} (--all shows them)"]
    _answers.show(forms, of_rows(answer.columns, rows, words, notes=more), most)
    return answered(dataset)


@contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """Exit the process after ``seconds``: DuckDB functions that build one huge value ignore interruptions."""

    def end() -> None:
        complain("the query exceeded its time limit; narrow the query, or raise --timeout")
        sys.stderr.flush()
        os._exit(2)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
