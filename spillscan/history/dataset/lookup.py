"""Look up kernels of a dataset by name, with the columns that history follows instead of whole records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from spillscan import naming
from spillscan.history.dataset.links import KEY_HASH
from spillscan.history.dataset.schema import launched_of, settings_of, value
from spillscan.history.dataset.sql import Rows, among
from spillscan.judging.compare.effects import blocks
from spillscan.model import Kernel, KernelKey, Usage
from spillscan.model.metrics import RANKED, TRACEABLE, find_metric
from spillscan.model.patterns import compiled, names_of, text_of
from spillscan.model.symbols import Tuned, short_name, tuned_for
from spillscan.model.usage import NUMBERS
from spillscan.naming import Names

if TYPE_CHECKING:
    from spillscan.history.dataset.reading import Dataset
    from spillscan.occupancy.launches import Launches

STORED = tuple(each.name for each in RANKED)
COLUMNS = ("arch", "canonical", "symbol", "role", "final", "confidence", "variant", "launched", *STORED, "short_name")
"""Columns of a kernel that history follows."""


_STATES = """WITH {few}placed AS (SELECT {hash} AS key, nth, hash({alike}) AS state FROM {rows}),
    states AS (SELECT key, nth, sum(state) AS state FROM placed GROUP BY key, nth),
    edges AS (SELECT key, nth, lag(nth) OVER same IS DISTINCT FROM nth - 1 OR lag(state) OVER same <> state AS opens,
            lead(nth) OVER same IS DISTINCT FROM nth + 1 OR lead(state) OVER same <> state AS ends
        FROM states WINDOW same AS (PARTITION BY key ORDER BY nth)),
    spans AS (SELECT key, CASE WHEN opens THEN nth ELSE lag(nth) OVER same END AS since, nth, ends
        FROM edges WHERE opens OR ends WINDOW same AS (PARTITION BY key ORDER BY nth)),
    asked AS (SELECT key, since, nth FROM spans WHERE ends AND NOT (since = ? AND nth = ?))
    SELECT key, since, nth, {columns} FROM asked
    JOIN (SELECT {columns}, {hash} AS key, nth FROM {rows}) USING (key, nth) ORDER BY ALL"""


def states(
    dataset: Dataset, labels: Sequence[str], names: Sequence[str] | None, *, timed: bool
) -> Iterator[tuple[Any, ...]]:
    """Rows of the kernels of ``names``, or of all kernels that differ between the builds (``None``).

    One row per run of consecutive builds with equal kernels, as the last of them has it: a hash of the key, the indexes
    of the first and last build, and the columns. Compile times, which always differ, are compared only if ``timed``.
    """
    places = Rows({"label": "VARCHAR", "nth": "INTEGER"}, [(label, nth) for nth, label in enumerate(labels)])
    only, tables = ("", {}) if names is None else among(Rows({"canonical": "VARCHAR"}, [(name,) for name in names]))
    rows, few = f"kernels JOIN places USING (label){only}", ""
    if names is not None and not tables:  # few rows: materialize them, so that files are read once
        rows, few = "few", f"few AS MATERIALIZED (SELECT {', '.join(COLUMNS)}, nth FROM {rows}), "
    alike = [name for name in COLUMNS if name not in _NAMES and (timed or name != "compile_ms")]
    columns = [name for name in COLUMNS if name != "short_name" and (timed or name != "compile_ms")]
    whole = (0, len(labels) - 1) if names is None else (-1, -1)
    question = _STATES.format(few=few, hash=KEY_HASH, alike=", ".join(alike), columns=", ".join(columns), rows=rows)
    for key, first, last, *row in dataset.stream(question, whole, labels, tables | {"places": places}):
        yield key, first, last, dict(zip(columns, row, strict=True))


_NAMES = ("canonical", "arch", "symbol", "short_name")


def named(dataset: Dataset, pattern: str, labels: Sequence[str]) -> list[str]:
    """Canonical names of the kernels that match ``pattern``."""
    ready = compiled(pattern)
    if ready.exact is not None:
        condition, words = "short_name = ?", [short_name(ready.exact)]
    else:  # each name of a kernel is part of its symbol or of its full name
        needle = ready.needle.strip("\n")
        condition, words = "contains(symbol, ?) OR contains(name, ?)", [needle, needle]
    rows = dataset.ask(f"SELECT DISTINCT symbol, canonical FROM kernels WHERE {condition}", words, labels).rows
    return sorted({name for symbol, name in rows if ready.fits(text_of(names := names_of(symbol)), names)})


def shown_as(dataset: Dataset, shown: str, labels: Sequence[str]) -> list[str]:
    """Base names of kernels that tables may show as ``shown``: those that contain all words before its arguments."""
    words = _WORD.findall(_BEHIND.split(shown, maxsplit=1)[0])
    condition = " AND ".join(["(contains(name, ?) OR contains(symbol, ?))"] * len(words)) or "false"
    both = [word for word in words for _ in range(2)]
    rows = dataset.ask(f"SELECT DISTINCT short_name FROM kernels WHERE {condition}", both, labels).rows
    return [name for (name,) in rows]


def similar(dataset: Dataset, name: str, labels: Sequence[str]) -> list[str]:
    """Base names of kernels similar to ``name``, for a hint."""
    query = "SELECT short_name FROM kernels GROUP BY 1 ORDER BY jaro_winkler_similarity(short_name, ?) DESC, 1 LIMIT 10"
    return sorted(each for (each,) in dataset.ask(query, [name], labels).rows)


_WORD, _BEHIND = re.compile(r"[^\W_]+"), re.compile(r"[~<(\[@]")


def light_kernel(row: dict[str, Any]) -> Kernel:
    """A kernel with the values of a row."""
    launched = launched_of(row["launched"])
    return Kernel(
        key=KernelKey(symbol=row["symbol"], arch=row["arch"]),
        role=row["role"],
        usage=Usage(**{name: row.get(name) for name in NUMBERS}),  # type: ignore[arg-type]
        confidence=row["confidence"],
        final=row["final"],
        launch_bounds=launched.launch_bounds,
        dynamic_shared=launched.dynamic_shared,
        launch=launched.launch,
        configuration=launched.configuration,
    )


def names_in(dataset: Dataset, labels: Sequence[str], bases: Iterable[str] | None = None) -> Names:
    """Display names of the kernels of some builds, or of those with the given base names, which alone can look alike.

    Autotuning configs are named with their configuration.
    """
    places = Rows({"label": "VARCHAR", "nth": "INTEGER"}, [(label, nth) for nth, label in enumerate(labels)])
    alike, tables = ("", {}) if bases is None else among(Rows({"short_name": "VARCHAR"}, [(base,) for base in bases]))
    question = (
        f"SELECT symbol, variant, bitstring_agg(nth, 0, {max(len(labels) - 1, 0)})::VARCHAR FROM kernels"
        f" JOIN places USING (label){alike} GROUP BY ALL ORDER BY ALL"
    )
    present: dict[naming.Key, int] = {}
    for symbol, variant, bits in dataset.stream(question, (), labels, tables | {"places": places}):
        named = named_by(symbol, variant)
        present[named] = present.get(named, 0) | int(bits, 2)
    return Names.by_builds(present)


def named_by(symbol: str, variant: str | None) -> str | Tuned:
    """Naming key of a stored kernel."""
    settings = settings_of(variant)
    return Tuned(symbol, tuned_for(settings), "") if settings else symbol


class Point:
    """Values by metric, as from :func:`values_of`; a tuple needs far less memory than a dictionary."""

    __slots__ = ("_values",)

    def __init__(self, values: tuple[int | None, ...]) -> None:
        self._values = values

    def __getitem__(self, metric: str) -> int | None:
        return self._values[_PLACE[metric]]


_TRACED = tuple(each.name for each in TRACEABLE)
_PLACE = {name: at for at, name in enumerate(_TRACED)}


Copy = tuple[Kernel, dict[str, Any]]
"""A record with the values that history follows, and its row."""


def needs_join(copies: Sequence[Copy]) -> bool:
    """Whether some of several records lack values that others have, as a log and the machine code do."""
    return len({tuple(row[name] is None for name in STORED if name != "compile_ms") for _, row in copies}) > 1


def copy_of(kernel: Kernel) -> Copy:
    """A kernel with the values that history follows, and its row."""
    row = {each.name: value(each, kernel) for each in RANKED}
    return replace(kernel, usage=replace(kernel.usage, constant_bytes=None), sass=None, origins=(), advisories=()), row


def values_of(copies: Sequence[Copy], launches: Launches) -> tuple[int | None, ...]:
    """Worst values over several copies of a kernel, each given with its row; linked code replaces relocatable code."""
    values = []
    for kernel, row in [each for each in copies if each[0].final is not False] or copies:
        took = row.get("compile_ms")
        more = {"resident_blocks": blocks(kernel, launches), "compile_ms": None if took is None else round(took)}
        values.append(tuple(map((row | more).get, _TRACED)))
    return values[0] if len(values) == 1 else tuple(map(_worst, _TRACED, zip(*values, strict=True)))


def _worst(metric: str, values: Sequence[int | None]) -> int | None:
    """Worst value; ``None`` if it is unknown for any copy."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return min(known) if find_metric(metric).worse == "fewer" else max(known)
