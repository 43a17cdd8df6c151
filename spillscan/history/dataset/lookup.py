"""Kernels as questions to a dataset find them: by their names, without what only whole records hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spillscan.history.dataset.links import KEY
from spillscan.history.dataset.sql import Rows, quoted
from spillscan.model import Kernel, KernelKey, Launch, LaunchBounds, Usage
from spillscan.model.figures import RANKED
from spillscan.model.patterns import compiled, names_of, text_of
from spillscan.model.symbols import short_name
from spillscan.model.usage import NUMBERS

if TYPE_CHECKING:
    from spillscan.history.dataset.reading import Dataset

LAUNCHED = ("launch_bounds", "dynamic_shared", "launch", "configuration")
"""Columns that say how a kernel is launched, and what it was tuned for."""
STORED = tuple(each.name for each in RANKED)
COLUMNS = (
    *("arch", "canonical", "symbol", "role", "final", "confidence"),
    *(*LAUNCHED, *STORED, "short_name"),
)
"""What is followed of a kernel."""


def settings_of(stored: Sequence[dict[str, str]] | None) -> tuple[tuple[str, str], ...]:
    """What a stored kernel was tuned for."""
    return tuple((each["name"], each["value"]) for each in stored or ())


def called(dataset: Dataset, names: Sequence[str], labels: Sequence[str]) -> list[tuple[Any, ...]]:
    """The rows of the kernels of these names, equal ones of several builds as one; last the builds' labels."""
    if not names:
        return []
    columns = ", ".join(name for name in COLUMNS if name != "short_name")
    if len(names) <= _FEW_NAMES:  # so that the statistics of files say which rows need not be read
        condition = f"WHERE canonical IN ({', '.join(map(quoted, names))})"
    else:
        condition = "SEMI JOIN names USING (canonical)"
    question = f"SELECT {columns}, list(label) FROM kernels {condition} GROUP BY ALL ORDER BY ALL"
    return dataset.ask(
        question, (), labels, {"names": Rows({"canonical": "VARCHAR"}, [(name,) for name in names])}
    ).rows


_FEW_NAMES = 200


def changing_names(dataset: Dataset, labels: Sequence[str], filled: int) -> list[str]:
    """The canonical names of kernels that not all of the builds that hold kernels have, or of which not all rows are
    alike."""
    alike = ", ".join(name for name in COLUMNS if name not in ("canonical", "symbol", "short_name", "compile_ms"))
    question = (
        f"SELECT DISTINCT canonical FROM (SELECT canonical FROM (SELECT {KEY}, label, hash({alike}) AS figures FROM"
        " kernels) GROUP BY canonical, arch, configuration, threads, function"
        " HAVING count(DISTINCT label) < ? OR min(figures) <> max(figures))"
    )
    return [name for (name,) in dataset.ask(question, [filled], labels).rows]


def named(dataset: Dataset, pattern: str, labels: Sequence[str]) -> list[str]:
    """The canonical names of the kernels that ``pattern`` names."""
    ready = compiled(pattern)
    if ready.exact is not None:
        condition, words = "short_name = ?", [short_name(ready.exact)]
    else:  # each name of a kernel is a piece of its symbol or of its full name
        needle = ready.needle.strip("\n")
        condition, words = "contains(symbol, ?) OR contains(name, ?)", [needle, needle]
    rows = dataset.ask(f"SELECT DISTINCT symbol, canonical FROM kernels WHERE {condition}", words, labels).rows
    return sorted({name for symbol, name in rows if ready.fits(text_of(names := names_of(symbol)), names)})


def shown_as(dataset: Dataset, shown: str, labels: Sequence[str]) -> list[str]:
    """The base names of kernels that tables may call so: the words in front of the arguments, whole or cut, stand in
    their names."""
    words = [] if shown.startswith("re:") else _WORD.findall(_BEHIND.split(shown, maxsplit=1)[0])
    condition = " AND ".join(["(contains(name, ?) OR contains(symbol, ?))"] * len(words)) or "false"
    both = [word for word in words for _ in range(2)]
    rows = dataset.ask(f"SELECT DISTINCT short_name FROM kernels WHERE {condition}", both, labels).rows
    return [name for (name,) in rows]


_WORD, _BEHIND = re.compile(r"[^\W_]+"), re.compile(r"[~<(\[@]")


def light_kernel(row: dict[str, Any]) -> Kernel:
    """A kernel with the figures of a row."""
    bounds, launch = row["launch_bounds"], row["launch"]
    return Kernel(
        key=KernelKey(symbol=row["symbol"], arch=row["arch"]),
        role=row["role"],
        usage=Usage(**{name: row.get(name) for name in NUMBERS}),  # type: ignore[arg-type]
        confidence=row["confidence"],
        final=row["final"],
        launch_bounds=None if bounds is None else LaunchBounds(**bounds),
        dynamic_shared=row["dynamic_shared"],
        launch=None if launch is None else Launch(**launch),
        configuration=settings_of(row["configuration"]),
    )
