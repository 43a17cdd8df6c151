"""What the builds of a dataset come to, one beside the other: totals and the builds in which they jumped, the latest
changes of kernels with the commits behind them, families and archs of the newest build, and what could not be read.

A total that is not known of every kernel is marked (≥), and compared with builds in which it is unknown of as many.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from spillscan.commands import _common, _policy
from spillscan.output.errors import UsageError

if TYPE_CHECKING:
    from spillscan.history.dataset.answers import By, Jump, Sum
    from spillscan.history.dataset.builds import KeptBuild
    from spillscan.history.dataset.history import Happening
    from spillscan.history.dataset.reading import Dataset, Held
    from spillscan.judging.policy import Policy
    from spillscan.naming import Names
    from spillscan.naming.names import Key
    from spillscan.output.terminal import Style

NAME = "history"
HELP = "what the builds of a dataset come to, where that jumped, and what changed last"
ORDER = 71
EPILOG = "Example: spillscan history data/ --launch 'gemm*=256' -f markdown:history.md"

_HEADS = ("kernels", "spilling", "spill bytes", "low occupancy", "code bytes", "compile ms")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("data", nargs="?", metavar="DATASET", help="folder or URL of the dataset")
    parser.add_argument(
        "--last", type=_common.positive_number, default=10, metavar="N", help="builds whose changes are listed (10)"
    )
    parser.add_argument(
        "--threshold", type=_common.whole_number, default=5, metavar="PERCENT", help="a smaller change is no jump (5)"
    )
    parser.add_argument(
        "--below",
        type=_common.whole_number,
        default=50,
        metavar="PERCENT",
        help="low occupancy: fewer of the SM's warps than this (50)",
    )
    _common.add_rows(parser, 20, "builds, changes and families to print", "rows")
    _common.add_dataset(parser)
    _common.add_launches(parser)
    _policy.add_file(parser)
    _common.add_formats(parser, ("text", "json", "markdown", "html"))


class _Past(NamedTuple):
    """What is shown."""

    builds: Sequence[KeptBuild]
    totals: dict[By, dict[str, dict[str, Sum]]]
    jumps: list[Jump]
    changes: list[Happening]
    """Of the last builds, the worst first."""
    names: Names
    held: list[Held]
    """Builds of which something could not be read."""


def run(arguments: argparse.Namespace) -> int:
    """0; 2 where there is no dataset."""
    from spillscan.history.dataset import answers
    from spillscan.history.dataset.history import happenings, histories, names_in
    from spillscan.model.figures import FOLLOWED

    if arguments.data is not None:
        if arguments.dataset is not None:
            raise UsageError("two datasets", "name one")
        arguments.dataset = arguments.data
    forms = _common.forms_of(arguments)
    dataset = _common.dataset_of(arguments)
    builds = _common.builds_of(dataset, arguments)
    policy = _policy.policy_of(arguments)
    summed = answers.totals(dataset, builds, policy, arguments.below / 100)
    latest = builds[-arguments.last - 1 :]
    metrics = [each.name for each in FOLLOWED]
    known = any(summed["label"][build.label]["kernels"].known for build in latest)
    jumps = [
        jump
        for total in answers.TOTALS
        for sums in ([summed["label"][build.label][total] for build in builds],)
        for jump in answers.jumps(sums, total, arguments.threshold)
    ]
    changes = happenings(histories(dataset, latest, "*", policy, changing=True), metrics) if known else []
    past = _Past(
        builds=builds,
        totals=summed,
        jumps=sorted(jumps, key=lambda jump: (-jump.first, answers.TOTALS.index(jump.total))),
        changes=changes,
        names=names_in(dataset, [build.label for build in latest], [each.series for each in changes], policy.labels),
        held=[held for held in dataset.summary(builds) if held.failed or held.holes],
    )
    most = _common.rows_of(arguments)
    said = f"a change of more than {arguments.threshold} % and thrice the usual one"
    _common.answer(
        forms,
        text=lambda style: _text(past, latest, said, most, style),
        json=lambda: _document(past, latest, arguments),
        markdown=lambda: _markdown(past, latest, said, most),
        html=lambda: _page(dataset, past, latest, said, policy),
    )
    return _common.answered(dataset)


_COMPARED = 1 << 17
"""Kernels, of all builds together, that a page can compare."""


def _page(dataset: Dataset, past: _Past, latest: Sequence[KeptBuild], said: str, policy: Policy) -> Iterator[str]:
    """Kernels are followed as far back as they are not too many."""
    from spillscan.history.dataset import answers
    from spillscan.history.dataset.history import histories, names_in
    from spillscan.model.figures import FOLLOWED, rank
    from spillscan.output.records import plain
    from spillscan.reports.page.columns import letters
    from spillscan.reports.page.history import Course, Followed, History, PastBuild, PastTable, history_document

    sums = [past.totals["label"][build.label] for build in past.builds]
    kernels, since = 0.0, len(past.builds)
    while since and kernels + (sums[since - 1]["kernels"].known or 0) <= _COMPARED:
        since -= 1
        kernels += sums[since]["kernels"].known or 0
    since = min(since, len(past.builds) - 1)
    held = past.builds[since:]
    found = histories(dataset, held, "*", policy) if kernels else []
    names = names_in(dataset, [build.label for build in held], found, policy.labels)
    start = len(past.builds) - len(latest)
    ends = {
        "Jumps": [(jump.last, jump.first) for jump in past.jumps],
        "Changes": [(change.last + start, change.first + start) for change in past.changes],
    }
    yield from history_document(
        History(
            title=dataset.root,
            builds=[
                PastBuild(
                    label=build.label,
                    date=str(plain(build.time))[:10],
                    commit=build.commit,
                    link=build.link,
                )
                for build in past.builds
            ],
            courses=[
                Course(
                    label=head,
                    values=tuple(None if (known := each[total].known) is None else round(known) for each in sums),
                    unknown=tuple(each[total].unknown for each in sums),
                    jumps=tuple((each.last, each.first, each.threshold) for each in past.jumps if each.total == total),
                )
                for total, head in zip(answers.TOTALS, _HEADS, strict=True)
            ],
            said=said,
            legend=letters((series.kernel.named_by for series in found), names),
            tables=[
                PastTable(
                    title=each.title,
                    heads=each.heads,
                    left=each.left,
                    rows=each.rows,
                    ends=ends.get(each.title.partition(":")[0].partition(" ")[0], ()),
                    empty=each.empty,
                )
                for each in _tables(past, latest, said)
            ],
            metrics=sorted((each.name for each in FOLLOWED), key=rank),
            followed=(
                Followed(name=names.of(each.kernel.named_by), arch=each.kernel.key.arch, points=each.points)
                for each in found
            ),
            since=since,
        )
    )


class _Table(NamedTuple):
    """One part of the answer."""

    title: str
    heads: tuple[str, ...]
    rows: list[list[str]]
    left: tuple[str, ...]
    empty: str = "none"
    kernels: Sequence[Key] = ()
    """Those that the first column names."""


def _tables(past: _Past, latest: Sequence[KeptBuild], said: str) -> Iterator[_Table]:
    """All parts, in the order in which people ask."""
    from spillscan.history.dataset import answers
    from spillscan.output.records import plain

    heads = dict(zip(answers.TOTALS, _HEADS, strict=True))
    jumped = {(jump.first, jump.total) for jump in past.jumps}
    rows = []
    for at, build in reversed(list(enumerate(past.builds))):
        marks = ["*" if (at, total) in jumped else "" for total in answers.TOTALS]
        cells = answers.texts(past.totals["label"][build.label])
        rows.append([build.label, str(plain(build.time))[:10], *map("".join, zip(cells, marks, strict=True))])
    yield _Table("Builds, newest first (* a jump)", ("build", "date", *_HEADS), rows, ("build", "date"))
    yield _Table(
        f"Jumps: {said}",
        ("total", "before", "after", "threshold", "first build", "last build before"),
        [
            [
                *(heads[jump.total], f"{jump.before:,.0f}", f"{jump.after:,.0f}", f"{jump.threshold:,.0f}"),
                *(_named(past.builds[jump.first]), past.builds[jump.last].label),
            ]
            for jump in past.jumps
        ],
        ("total", "first build", "last build before"),
    )
    yield _Table(
        f"Changes in the last {len(latest) - 1:,} builds, worst first",
        ("kernel", "arch", "change", "before", "after", "first build", "last build before"),
        [
            [
                past.names.of(each.series.kernel.named_by),
                each.series.kernel.key.arch or "-",
                each.what(past.names),
                *("-" if value is None else f"{value:,}" for value in (each.before, each.after)),
                *(_named(latest[each.first]), latest[each.last].label),
            ]
            for each in past.changes
        ],
        ("kernel", "arch", "change", "first build", "last build before"),
        kernels=[each.series.kernel.named_by for each in past.changes],
    )
    parts: tuple[tuple[By, str], ...] = (("family", "Families of the newest build"), ("arch", "Archs of it"))
    for by, title in parts:
        groups = answers.heaviest(past.totals[by])
        yield _Table(title, (by, *_HEADS), [[name, *answers.texts(sums)] for name, sums in groups], (by,))
    yield _Table(
        "Not read",
        ("build", "failed files", "holes", "first"),
        [
            [each.build.label, f"{each.failed:,}", f"{each.holes:,}", each.issues[0].message if each.issues else ""]
            for each in past.held
        ],
        ("build", "first"),
        "all was read, without holes",
    )


def _named(build: KeptBuild) -> str:
    """A build, and its commit where its label is none."""
    return f"{build.label} ({build.commit})" if build.commit else build.label


def _text(past: _Past, latest: Sequence[KeptBuild], said: str, most: int | None, style: Style) -> Iterator[str]:
    from spillscan.output.safe import clip
    from spillscan.output.terminal import table

    for at, each in enumerate(_tables(past, latest, said)):
        if at:
            yield ""
        yield each.title
        if not each.rows:
            yield f"  {each.empty}"
            continue
        named = each.kernels[:most]
        yield from table(
            each.heads,
            [([clip(cell, 60) for cell in row], "") for row in each.rows[:most]],
            style,
            each.left,
            spare=("last build before",) if named else (),
            fit=_fitting(past.names, named),
            caption=bool(named),
        )
        yield from _more(each, most)


def _fitting(names: Names, kernels: Sequence[Key]) -> Callable[[int], Sequence[str]] | None:
    return (lambda room: [names.of(key, room) for key in kernels]) if kernels else None


def _more(each: _Table, most: int | None) -> Iterator[str]:
    if most is not None and len(each.rows) > most:
        yield f"… {len(each.rows) - most:,} more (--all shows them)"


def _markdown(past: _Past, latest: Sequence[KeptBuild], said: str, most: int | None) -> Iterator[str]:
    from spillscan.reports.formats.markdown import code, table, words

    links = {_named(build): link for build in past.builds if (link := build.link)}
    for each in _tables(past, latest, said):
        yield f"## {words(each.title)}"
        yield ""
        if not each.rows:
            yield words(each.empty)
        else:
            rows = (
                tuple(
                    f"[{code(cell)}]({links[cell]})" if head == "first build" and cell in links else code(cell)
                    for head, cell in zip(each.heads, row, strict=True)
                )
                for row in each.rows[:most]
            )
            yield from table(each.heads, rows, [head for head in each.heads if head not in each.left])
            yield ""
            yield from map(words, _more(each, most))
        yield ""


def _document(past: _Past, latest: Sequence[KeptBuild], arguments: argparse.Namespace) -> dict[str, Any]:
    from dataclasses import asdict

    from spillscan.history.dataset import answers

    def ends(builds: Sequence[KeptBuild], first: int, last: int) -> dict[str, str]:
        return {"first_build": builds[first].label, "last_build_before": builds[last].label}

    return {
        "threshold_percent": arguments.threshold,
        "below_percent": arguments.below,
        "builds": [
            {"label": build.label, "time": build.time, "meta": dict(build.meta)}
            | answers.document(past.totals["label"][build.label])
            for build in past.builds
        ],
        "jumps": [
            {name: value for name, value in asdict(jump).items() if name not in ("first", "last")}
            | ends(past.builds, jump.first, jump.last)
            for jump in past.jumps
        ],
        "changes": [
            {
                "canonical": each.series.canonical,
                "name": each.series.kernel.name,
                "arch": each.series.kernel.key.arch,
                "event": each.event,
                "was": None if each.was is None else each.was.name,
                "metric": each.metric,
                "before": each.before,
                "after": each.after,
                "holds": each.holds,
            }
            | ends(latest, each.first, each.last)
            for each in past.changes
        ],
        "families": [{"name": name} | answers.document(sums) for name, sums in answers.heaviest(past.totals["family"])],
        "archs": [{"name": name} | answers.document(sums) for name, sums in answers.heaviest(past.totals["arch"])],
        "not_read": [{"label": each.build.label, "failed": each.failed, "holes": each.holes} for each in past.held],
    }
