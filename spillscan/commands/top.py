"""The worst kernels of a build in a dataset: by spills, by registers, or by the blocks that an SM loses."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence

from spillscan.commands import _answers, _datasets, _options, _policy
from spillscan.commands._selection import Selection
from spillscan.history.dataset.answers import Ranked, rank
from spillscan.history.dataset.lookup import names_in
from spillscan.history.dataset.reading import Dataset
from spillscan.history.dataset.records import KeptBuild, ordered
from spillscan.model import Kernel, KernelKey, Usage
from spillscan.model.figures import BY_NAME, RANKED, figure
from spillscan.naming import Names
from spillscan.occupancy.binding import limited_by
from spillscan.occupancy.model import Occupancy
from spillscan.output.nouns import count
from spillscan.output.safe import printable
from spillscan.reports.table import Column, Table

_LOST = "lost_blocks"
_ALL = 1 << 31
"""More kernels than a build has."""
EPILOG = "Example: spillscan history top --sort lost_blocks --launch 'gemm*=256'"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _options.add_sort(
        parser,
        "the worst by this figure (default: spill_bytes); lost_blocks: blocks per SM that warp and block slots would"
        " hold, and registers or shared memory do not: %(choices)s",
        (*(each.name for each in RANKED), _LOST),
    )
    _options.add_rows(parser, 25, "kernels to show", "kernels")
    parser.add_argument(
        "--by",
        choices=("kernel", "family"),
        default="kernel",
        help="a row each kernel (default), or each family, which is one template: how many instances, and the worst",
    )
    parser.add_argument("--label", metavar="LABEL", help="the build (default: the newest)")
    _options.add_dataset(parser, place=True)
    _options.add_launches(parser)
    _policy.add_file(parser)
    _options.add_formats(parser)


def run(arguments: argparse.Namespace) -> int:
    """0; 2 where the build reports no such figure."""
    forms = _answers.forms_of(arguments)

    def chosen(kept: Sequence[KeptBuild]) -> str:
        return arguments.label or ordered(kept, arguments.order)[-1].label

    dataset = _datasets.dataset_of(arguments, chosen)
    label = chosen(dataset.builds)
    if arguments.launch:
        Selection((), (), arguments.launch).refuse_unmatched(_kernels(dataset, label))
    families = arguments.by == "family"
    policy = _policy.policy_of(arguments)
    measure = {None: "spills", "spill_bytes": "spills", _LOST: "lost-blocks"}.get(arguments.sort, arguments.sort)
    most = _options.rows_of(arguments) or _ALL
    ranking = rank(dataset, label, measure, _ALL if families else most, policy)
    names = names_in(dataset, [label], [entry.kernel.short_name for entry in ranking.entries], policy.labels)
    entries, sizes = _worst_of_families(ranking.entries, names, most) if families else (ranking.entries, {})
    what = figure(measure).label if measure in BY_NAME else measure.replace("-", " ")
    none = "" if entries else f"; none of its kernels has {what}"
    unknown = f"; of {count(ranking.unknown, 'more kernel')} it is not known" if ranking.unknown else ""
    named = next(build.named for build in dataset.builds if build.label == label)
    table = Table(
        columns=list(_columns(entries, measure, names, sizes)),
        rows=entries,
        notes=("", printable(f"build {named}{none}{unknown}")),
        called=lambda entry, room: names.of(entry.kernel.named_by, room),
    )
    _answers.show(forms, table)
    return _datasets.answered(dataset)


def _worst_of_families(entries: list[Ranked], names: Names, most: int) -> tuple[list[Ranked], dict[int, int]]:
    """Of each family its worst kernel, and how many kernels with the figure it has, by the ``id`` of that one."""
    families: dict[str, list[Ranked]] = {}
    for entry in entries:
        families.setdefault(names.base(entry.kernel.named_by), []).append(entry)
    shown = list(families.values())[:most]
    return [family[0] for family in shown], {id(family[0]): len(family) for family in shown}


def _kernels(dataset: Dataset, label: str) -> list[Kernel]:
    """The kernels of a build, without figures."""
    rows = dataset.ask("SELECT DISTINCT symbol, arch FROM kernels WHERE label = ?", [label]).rows
    return [Kernel(key=KernelKey(symbol=symbol, arch=arch), role="entry", usage=Usage()) for symbol, arch in rows]


def _columns(
    entries: Sequence[Ranked], measure: str, names: Names, sizes: Mapping[int, int]
) -> Iterator[Column[Ranked]]:
    """``sizes``: kernels of a family, by the ``id`` of its worst; empty where rows are kernels."""
    yield Column("kernel", None, lambda entry: names.of(entry.kernel.named_by), left=True)
    yield Column(None, "symbol", lambda entry: entry.kernel.key.symbol)
    yield Column(None, "name", lambda entry: entry.kernel.name)
    yield Column("arch", "arch", lambda entry: entry.kernel.key.arch, left=True)
    yield Column(figure("registers").head, "registers", lambda entry: entry.kernel.usage.registers)
    yield Column(figure("spill_bytes").head, "spill_bytes", lambda entry: entry.figures["spill_bytes"])
    yield Column(figure("spills_in_loops").head, "spills_in_loops", lambda entry: entry.figures["spills_in_loops"])
    if measure not in ("spills", "lost-blocks", "registers", "spill_bytes", "spills_in_loops"):
        yield Column(figure(measure).head, measure, lambda entry: entry.figures[measure])
    if measure == "lost-blocks":

        def of(entry: Ranked) -> Occupancy:
            assert entry.occupancy is not None
            return entry.occupancy

        yield Column("threads", "threads_per_block", lambda entry: of(entry).configuration.threads_per_block)
        yield Column("blocks/SM", "resident_blocks", lambda entry: of(entry).resident_blocks)
        yield Column("lost", "lost_blocks", lambda entry: entry.lost_blocks)
        yield Column(
            "limited by",
            "limiters",
            lambda entry: "+".join(of(entry).limiters),
            text=lambda entry: limited_by(of(entry).limiters),
            left=True,
        )
    several = any(entry.copies > 1 for entry in entries)
    yield Column("copies" if several else None, "copies", lambda entry: entry.copies)
    yield Column("object", "object", lambda entry: entry.object, left=True)
    if sizes:
        yield Column("of its family", "family_kernels", lambda entry: sizes[id(entry)])
