"""Datasets that commands read, and kernels that they follow over the builds."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from spillscan.commands._options import DATASET, DATASET_VARIABLE
from spillscan.history.dataset.history import Series, happenings
from spillscan.history.dataset.reading import Dataset, advice
from spillscan.history.dataset.records import KeptBuild
from spillscan.history.dataset.turns import TIME, Turn, gathered, reasons, times, turns
from spillscan.model.figures import TRACED, figure
from spillscan.model.symbols import tuned_for
from spillscan.naming import Names
from spillscan.naming.identity import canonical
from spillscan.output.errors import UndecidedError
from spillscan.output.nouns import count
from spillscan.reports.groups import archs_cell
from spillscan.reports.table import Column, Table


def dataset_of(arguments: argparse.Namespace, chosen: Callable[[Sequence[KeptBuild]], str] | None = None) -> Dataset:
    """The dataset that was asked for, or the build of it that is ``chosen``."""
    dataset = Dataset.open(place_of(arguments), chosen)
    import pyarrow

    pyarrow.set_memory_pool(pyarrow.system_memory_pool())  # the others keep a third more than they use
    return dataset


def place_of(arguments: argparse.Namespace) -> str:
    """Where the dataset lies that was asked for."""
    return str(arguments.dataset or os.environ.get(DATASET_VARIABLE) or DATASET)


def answered(dataset: Dataset) -> int:
    """0; raises :class:`~spillscan.output.errors.UndecidedError` where damaged builds are not in the answer."""
    if not dataset.damage:
        return 0
    more = len(dataset.damage) - 1
    others = f", and {count(more, 'more file')}" if more else ""
    said = f"left out: {dataset.damage[0].text(dataset.root)}{others}"
    raise UndecidedError(said, advice(dataset.root))


# Turns as rows: the columns that ``history`` and ``bisect`` have in common, for people and machines.

_BESIDE = 2
"""Other figures that are named in a row."""


PERCENT = 5
"""By which a time moves that turns, where nobody says."""
_EXPLAINED = 20
"""Turns of which it is said why."""


def turned(
    dataset: Dataset,
    builds: Sequence[KeptBuild],
    found: Sequence[Series],
    names: Names,
    asked: Sequence[str],
    percent: float,
) -> list[Turn]:
    """What happened to families, the worst first: of the figures ``asked`` for, else of all."""
    metrics = asked or [each.name for each in TRACED]
    coded = [name for name in metrics if name != TIME]
    happened = happenings(found, coded, named=bool(asked)) if coded else []
    some = turns(happened, lambda each: names.base(each.series.kernel.named_by))
    return gathered([*some, *(times(dataset, builds, names.base, percent, found) if TIME in metrics else ())])


def turn_tables(
    found: Sequence[Turn], builds: Sequence[KeptBuild], names: Names, dataset: Dataset | None = None
) -> dict[str, Table[Turn]]:
    """Turns of families by what became of them, as tables by their names in JSON; of the worst the records of a
    ``dataset`` say why."""
    said = None if dataset is None else reasons(dataset, builds, found[:_EXPLAINED])
    heads = list(turn_columns(builds, names, said, first="family"))
    worse = [turn for turn in found if turn.worsening > 0]
    better = [turn for turn in found if turn.worsening <= 0 and turn.event == "changed"]
    rest = [turn for turn in found if turn.worsening <= 0 and turn.event != "changed"]
    title = f"Got worse, {builds[0].label} to {builds[-1].label}, worst first"
    none = "none"
    return {
        "turns": Table(title=title, columns=heads, rows=worse, empty="nothing got worse", counted="turns"),
        "improvements": Table(title="Got better", columns=heads, rows=better, empty=none),
        "came_and_went": Table(title="Came, went, got other names", columns=heads, rows=rest, empty=none),
    }


def turn_ends(tables: Mapping[str, Table[Any]], start: int = 0) -> dict[str, list[tuple[int, int]]]:
    """Indexes of the builds before and after each turn, by table; ``start``: that of the first build."""
    return {
        name: [(turn.last + start, turn.first + start) for turn in table.rows]
        for name, table in tables.items()
        if table.rows and isinstance(table.rows[0], Turn)
    }


def turn_columns(
    builds: Sequence[KeptBuild], names: Names, said: Mapping[int, str] | None = None, first: str = "kernel"
) -> Iterator[Column[Turn]]:
    """``said``: why, by the ``id`` of a turn, where that is shown."""

    def build(turn: Turn) -> KeptBuild:
        return builds[turn.first]

    yield Column(first, None if first == "kernel" else first, lambda turn: turn.family, left=True)
    yield Column(None, "canonical", lambda turn: turn.worst and turn.worst.series.canonical)
    yield Column(None, "name", lambda turn: turn.worst and turn.worst.series.kernel.name)
    yield Column(
        *("arch", "arch", lambda turn: turn.worst and turn.worst.series.kernel.key.arch, True),
        text=lambda turn: archs_cell(turn.arches),
    )
    yield Column(None, "configuration", _configuration)
    if first != "kernel":
        yield Column("kernels", "kernels", lambda turn: turn.kernels)
    yield Column(None, "event", lambda turn: turn.event)
    yield Column(None, "was", lambda turn: _was(turn) and canonical(_was(turn).key.symbol))
    yield Column("what", "metric", lambda turn: turn.metric, left=True, text=lambda turn: _what(turn, names))
    yield Column("before", "before", lambda turn: turn.before)
    yield Column("after", "after", lambda turn: turn.after)
    yield Column(
        *("first build", "first_build", lambda turn: build(turn).label, True),
        text=lambda turn: build(turn).named,
        link=lambda turn: build(turn).link,
    )
    yield Column("with", "with", lambda turn: [_beside(each) for each in turn.more], True, True, text=_with)
    yield Column("build before", "last_build_before", lambda turn: builds[turn.last].label, True, spare=True)
    yield Column("holds", "holds", lambda turn: turn.holds, True, True, text=lambda turn: ("no", "yes")[turn.holds])
    if said:
        yield Column(
            *("why", "why", lambda turn: said.get(id(turn)), True, True),
            text=lambda turn: said.get(id(turn), ""),
            below=True,
        )


def _beside(turn: Turn) -> dict[str, Any]:
    return {"metric": turn.metric, "before": turn.before, "after": turn.after, "kernels": turn.kernels}


def _configuration(turn: Turn) -> str:
    return ", ".join(tuned_for(turn.worst.series.kernel.configuration)) if turn.worst else ""


def _was(turn: Turn) -> Any:
    return turn.worst and turn.worst.was


def _what(turn: Turn, names: Names) -> str:
    """The figure that changed, or what became of the kernels, in the words of ``trend``."""
    return turn.worst.what(names) if turn.worst else figure(turn.metric).head if turn.metric else ""


def _with(turn: Turn) -> str:
    """The worst figures that changed, too."""
    said = [f"{figure(each.metric or '').head} {each.before:,} → {each.after:,}" for each in turn.more[:_BESIDE]]
    left = len(turn.more) - len(said)
    return "; ".join([*said, *([f"{left} more"] if left else [])])
