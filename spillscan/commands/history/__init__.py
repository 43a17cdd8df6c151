"""When a figure of a family got worse over the builds of a dataset, when it got better, what came and went; then what
the builds come to, where totals jumped, families and archs of the newest build, and what could not be read.

A turn is what happened to a family in one build, with the figures of its worst kernel; compile times turn where their
level moved by more than their own spread. A total that is not known of every kernel is marked (≥), and compared with
builds in which it is unknown of as many.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from spillscan.commands import _answers, _datasets, _options, _policy, add_verbs
from spillscan.commands._datasets import PERCENT, turn_ends, turn_tables, turned
from spillscan.history.dataset import answers
from spillscan.history.dataset.answers import By, Jump, Sum
from spillscan.history.dataset.history import histories, names_of
from spillscan.history.dataset.reading import Dataset, Held
from spillscan.history.dataset.records import KeptBuild
from spillscan.history.dataset.turns import TIME, Turn
from spillscan.judging.policy import Policy
from spillscan.model.figures import FOLLOWED, TRACED, figure, rank
from spillscan.model.patterns import compiled, text_of
from spillscan.naming import Names
from spillscan.output.records import plain
from spillscan.output.terminal import Style
from spillscan.reports.page.history import history_document
from spillscan.reports.table import Column, Table

_VERBS = {
    "audit": "add a build to the dataset",
    "query": "run a DuckDB query (read-only)",
    "verify": "check every file of the dataset",
}
EPILOG = "Example: spillscan history --dataset data/ --launch 'gemm*=256' -f markdown:history.md"

T = TypeVar("T")
_SPILLS, _CODE, _TIME = (figure(name).head for name in ("spill_bytes", "code_bytes", TIME))
_SPARE = ("low_occupancy_kernels", TIME)
_HEADS = ("kernels", "spilling", _SPILLS, "low occupancy", _CODE, _TIME)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _options.number(parser, "--last", "turns of the last N builds alone (default: of all)", metavar="N", default=0)
    _options.number(
        parser, "--threshold", "a smaller change of a total or a time is none (5)", metavar="PERCENT", default=PERCENT
    )
    _options.add_arch(parser)
    _options.words(parser, "--kernel", "GLOB", "turns of these families alone")
    _options.add_metric(parser, TRACED, "turns of this figure alone")
    _options.number(
        parser, "--below", "low occupancy: fewer of the SM's warps than this (50)", metavar="PERCENT", default=50
    )
    _options.add_rows(parser, 20, "builds, changes and families to print; of what got worse twice as many", "rows")
    _options.add_dataset(parser)
    _options.add_launches(parser)
    _policy.add_file(parser)
    _options.add_formats(parser, "text", "json", "markdown", "html")
    add_verbs(parser, {name: (about, import_module(f"{__name__}.{name}")) for name, about in _VERBS.items()})


class _Past(NamedTuple):
    """All that is known of the builds of a dataset, before it is put into tables."""

    builds: Sequence[KeptBuild]
    totals: dict[By, dict[str, dict[str, Sum]]]
    jumps: list[Jump]
    turns: list[Turn]
    """Of the builds asked for, the worst first."""
    names: Names
    held: list[Held]
    """Builds of which something could not be read."""


def run(arguments: argparse.Namespace) -> int:
    """0; 2 where there is no dataset."""
    forms = _answers.forms_of(arguments)
    dataset = _datasets.dataset_of(arguments)
    builds = dataset.builds
    policy = _policy.policy_of(arguments)
    summed = answers.totals(dataset, builds, policy, arguments.below / 100)
    latest = builds[-arguments.last - 1 :] if arguments.last else builds
    known = any(summed["label"][build.label]["kernels"].known for build in latest)
    jumps = [
        jump
        for total in answers.TOTALS
        for sums in ([summed["label"][build.label][total] for build in builds],)
        for jump in answers.jumps(sums, total, arguments.threshold)
    ]
    found = histories(dataset, latest, "*", policy, arguments.arch, timed=False, changing=True) if known else []
    names = names_of(dataset, latest, found, policy.labels)
    turns = turned(dataset, latest, found, names, arguments.metric, arguments.threshold)
    fits = [compiled(glob).fits for glob in arguments.kernel]
    turns = [
        turn
        for turn in turns
        if (not fits or any(each(text_of([turn.family]), [turn.family]) for each in fits))
        and (not arguments.arch or not {*arguments.arch}.isdisjoint(turn.arches))
    ]
    most = _options.rows_of(arguments)
    past = _Past(
        builds=builds,
        totals=summed,
        jumps=sorted(jumps, key=lambda jump: (-jump.first, answers.TOTALS.index(jump.total))),
        turns=turns,
        names=names,
        held=[held for held in dataset.summary(builds) if held.failed or held.gaps],
    )
    said = f"a change of more than {arguments.threshold} % and thrice the usual one"
    tables = _tables(dataset, past, latest, said)
    _answers.answer(
        forms,
        text=lambda style: _text(tables, most, style),
        json=lambda: _document(tables, arguments),
        markdown=lambda: (line for name, table in tables.items() for line in table.markdown(_most(name, most))),
        html=lambda: _page(dataset, past, latest, said, tables, policy),
    )
    return _datasets.answered(dataset)


_COMPARED = 1 << 17
"""Kernels, of all builds together, that a page can compare."""


def _page(
    dataset: Dataset,
    past: _Past,
    latest: Sequence[KeptBuild],
    said: str,
    tables: Mapping[str, Table[Any]],
    policy: Policy,
) -> Iterator[str]:
    """Kernels are followed as far back as they are not too many."""
    sums = [past.totals["label"][build.label] for build in past.builds]
    kernels, since = 0.0, len(past.builds)
    while since and kernels + (sums[since - 1]["kernels"].known or 0) <= _COMPARED:
        since -= 1
        kernels += sums[since]["kernels"].known or 0
    since = min(since, len(past.builds) - 1)
    held = past.builds[since:]
    found = histories(dataset, held, "*", policy, timed=False) if kernels else []
    names = names_of(dataset, held, found, policy.labels)
    start = len(past.builds) - len(latest)
    ends = {"jumps": [(jump.last, jump.first) for jump in past.jumps], **turn_ends(tables, start)}
    yield from history_document(
        dataset.root,
        past.builds,
        courses=[
            {
                "label": head,
                "values": [None if (known := each[total].known) is None else round(known) for each in sums],
                "unknown": [each[total].unknown for each in sums],
                "jumps": [(each.last, each.first, each.threshold) for each in past.jumps if each.total == total],
            }
            for total, head in zip(answers.TOTALS, _HEADS, strict=True)
        ],
        said=said,
        tables=tables,
        ends=ends,
        metrics=sorted((each.name for each in FOLLOWED), key=rank),
        followed=found,
        names=names,
        since=since,
    )


def _totals(sums_of: Callable[[T], dict[str, Sum]], jumped: Callable[[T, str], bool]) -> Iterator[Column[T]]:
    """A column for people of each total, with ``*`` where it jumped, and of how many kernels it is unknown."""
    for total, head in zip(answers.TOTALS, _HEADS, strict=True):

        def known(row: T, total: str = total) -> float | None:
            return sums_of(row)[total].known

        def text(row: T, total: str = total) -> str:
            return answers.texts(sums_of(row), [total])[0] + "*" * jumped(row, total)

        def unknown(row: T, total: str = total) -> int:
            return sums_of(row)[total].unknown

        yield Column(head, total, known, text=text, spare=total in _SPARE)
        yield Column(None, f"{total}_unknown", unknown)


def _ends(builds: Sequence[KeptBuild]) -> Iterator[Column[Jump]]:
    """Of a jump the builds after and before it."""

    def first(row: Jump) -> KeptBuild:
        return builds[row.first]

    yield Column(
        *("first build", "first_build", lambda row: first(row).label, True),
        text=lambda row: first(row).named,
        link=lambda row: first(row).link,
    )
    yield Column("build before", "last_build_before", lambda row: builds[row.last].label, True, spare=True)


def _tables(dataset: Dataset, past: _Past, latest: Sequence[KeptBuild], said: str) -> dict[str, Table[Any]]:
    """All parts by their names in JSON, in the order in which people ask."""
    heads = dict(zip(answers.TOTALS, _HEADS, strict=True))
    jumped = {(past.builds[jump.first].label, jump.total) for jump in past.jumps}

    def sums_of(build: KeptBuild) -> dict[str, Sum]:
        return past.totals["label"][build.label]

    build_columns: list[Column[KeptBuild]] = [
        Column("build", "label", lambda build: build.label, left=True),
        Column("date", "time", lambda build: build.time, left=True, text=lambda build: str(plain(build.time))[:10]),
        Column(None, "meta", lambda build: dict(build.meta)),
        *_totals(sums_of, lambda build, total: (build.label, total) in jumped),
    ]
    jump_columns: list[Column[Jump]] = [
        Column("total", "total", lambda jump: jump.total, left=True, text=lambda jump: heads[jump.total]),
        Column("before", "before", lambda jump: jump.before, text=lambda jump: f"{jump.before:,.0f}"),
        Column("after", "after", lambda jump: jump.after, text=lambda jump: f"{jump.after:,.0f}"),
        Column("threshold", "threshold", lambda jump: jump.threshold, text=lambda jump: f"{jump.threshold:,.0f}"),
        *_ends(past.builds),
    ]
    held_columns: list[Column[Held]] = [
        Column("build", "label", lambda held: held.build.label, left=True),
        Column("failed files", "failed", lambda held: held.failed),
        Column("gaps", "gaps", lambda held: held.gaps),
        Column("first", None, lambda held: held.issues[0].message if held.issues else "", left=True),
    ]

    def group_columns(by: By) -> list[Column[tuple[str, dict[str, Sum]]]]:
        return [Column(by, "name", lambda group: group[0], left=True), *_totals(_sums_of_group, lambda *_: False)]

    return {
        **turn_tables(past.turns, latest, past.names, dataset),
        "builds": Table(
            title="Builds, newest first (* a jump)", columns=build_columns, rows=past.builds[::-1], empty=_NONE
        ),
        "jumps": Table(title=f"Jumps: {said}", columns=jump_columns, rows=past.jumps, empty=_NONE),
        "families": Table(
            title="Families of the newest build",
            columns=group_columns("family"),
            rows=answers.heaviest(past.totals["family"]),
            empty=_NONE,
        ),
        "archs": Table(
            title="Archs of it", columns=group_columns("arch"), rows=answers.heaviest(past.totals["arch"]), empty=_NONE
        ),
        "not_read": Table(title="Not read", columns=held_columns, rows=past.held, empty="all was read, without gaps"),
    }


_NONE = "none"


def _sums_of_group(group: tuple[str, dict[str, Sum]]) -> dict[str, Sum]:
    return group[1]


def _text(tables: Mapping[str, Table[Any]], most: int | None, style: Style) -> Iterator[str]:
    for at, (name, table) in enumerate(tables.items()):
        yield from [""] * bool(at)
        yield from table.text(style, _most(name, most))


def _most(name: str, most: int | None) -> int | None:
    """Rows of a table that are printed: what got worse is what people come for."""
    return most and most * 2 if name == "turns" else most


def _document(tables: Mapping[str, Table[Any]], arguments: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {name: table.document() for name, table in tables.items()}
    found["builds"] = [*found["builds"]][::-1]  # machines want the oldest first
    return {"threshold_percent": arguments.threshold, "below_percent": arguments.below, **found}
