"""Turns as rows: the columns that ``history`` and ``bisect`` have in common, for people and machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spillscan.history.dataset.builds import KeptBuild
from spillscan.history.dataset.turns import Turn
from spillscan.model.figures import figure
from spillscan.model.symbols import tuned_for
from spillscan.naming import Names
from spillscan.naming.identity import canonical
from spillscan.reports.groups import archs_cell
from spillscan.reports.table import Column

_BESIDE = 2
"""Other figures that are named in a row."""


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
            "why", "why", lambda turn: said.get(id(turn)), True, True, text=lambda turn: said.get(id(turn), "")
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
    """The gravest figures that changed, too."""
    said = [f"{figure(each.metric or '').head} {each.before:,} → {each.after:,}" for each in turn.more[:_BESIDE]]
    left = len(turn.more) - len(said)
    return "; ".join([*said, *([f"{left} more"] if left else [])])
