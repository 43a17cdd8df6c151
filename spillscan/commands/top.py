"""The worst kernels of a build in a dataset: by spills, by registers, or by the blocks that an SM loses."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from spillscan.commands import _common, _policy
from spillscan.output.safe import printable

if TYPE_CHECKING:
    from spillscan.history.dataset.answers import Ranked
    from spillscan.history.dataset.reading import Dataset
    from spillscan.model import Kernel
    from spillscan.naming import Key, Names

NAME = "top"
HELP = "the worst kernels of a build in a dataset"
ORDER = 72
_ALL = 1 << 31
"""More kernels than a build has."""
_SHOWN = ("registers", "spill_bytes", "spills_in_loops")
EPILOG = "Example: spillscan top --lost-blocks --launch 'gemm*=256' -n 20"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    measures = parser.add_mutually_exclusive_group()
    for name, text in (
        ("spills", "by spilled bytes per thread (default)"),
        ("registers", "by registers per thread"),
        ("lost-blocks", "by blocks per SM that warp and block slots would hold, and registers or shared memory do not"),
    ):
        measures.add_argument(
            f"--{name}", dest="measure", action="store_const", const=name, default="spills", help=text
        )
    measures.add_argument(
        "--metric",
        "--sort",
        dest="measure",
        choices=_common.figures("RANKED"),
        metavar="NAME",
        help="by another figure that the dataset holds: %(choices)s",
    )
    parser.add_argument("-n", type=_common.whole_number, default=25, metavar="N", help="kernels to show (default: 25)")
    parser.add_argument(
        "--by",
        choices=("kernel", "family"),
        default="kernel",
        help="a row each kernel (default), or each family, which is one template: how many instances, and the worst",
    )
    parser.add_argument("--label", metavar="LABEL", help="the build (default: the newest)")
    _common.add_dataset(parser)
    _common.add_launches(parser)
    _policy.add_file(parser)
    _common.add_formats(parser)


def run(arguments: argparse.Namespace) -> int:
    """0; 2 where the build reports no such figure."""
    from spillscan.history.dataset.answers import rank
    from spillscan.naming import Names

    forms = _common.forms_of(arguments)
    dataset = _common.dataset_of(arguments)
    label = arguments.label or _common.builds_of(dataset, arguments)[-1].label
    if arguments.launch:
        _common.refuse_unmatched(_kernels(dataset, label), arguments)
    families = arguments.by == "family"
    policy = _policy.policy_of(arguments)
    ranking = rank(dataset, label, arguments.measure, _ALL if families else arguments.n, policy)
    names = Names(_named(dataset, label, ranking.entries), labels=policy.labels)
    entries, sizes = _worst_of_families(ranking.entries, names, arguments.n) if families else (ranking.entries, None)
    unknown = f"; of {ranking.unknown:,} more kernels it is not known" if ranking.unknown else ""
    _common.show(
        forms,
        *_table(entries, arguments.measure, names, sizes),
        left=("kernel", "arch", "object", "limited by"),
        more=("", printable(f"build {label}{unknown}")),
        machine=_table(entries, arguments.measure, None, sizes),
        fit=lambda room: [names.of(entry.kernel.named_by, room) for entry in entries],
    )
    return _common.answered(dataset)


def _worst_of_families(entries: list[Ranked], names: Names, most: int) -> tuple[list[Ranked], list[int]]:
    """Of each family its worst kernel, and how many kernels with the figure it has."""
    families: dict[str, list[Ranked]] = {}
    for entry in entries:
        families.setdefault(names.base(entry.kernel.named_by), []).append(entry)
    shown = list(families.values())[:most]
    return [family[0] for family in shown], [len(family) for family in shown]


def _kernels(dataset: Dataset, label: str) -> list[Kernel]:
    """The kernels of a build, without figures."""
    from spillscan.model import Kernel, KernelKey, Usage

    rows = dataset.ask("SELECT DISTINCT symbol, arch FROM kernels WHERE label = ?", [label]).rows
    return [Kernel(key=KernelKey(symbol=symbol, arch=arch), role="entry", usage=Usage()) for symbol, arch in rows]


def _named(dataset: Dataset, label: str, entries: list[Ranked]) -> list[Key]:
    """What the kernels of a build are named by: those shown that were tuned, by what for."""
    from spillscan.naming import symbol_of

    tuned = {entry.kernel.named_by for entry in entries if entry.kernel.configuration}
    shared = {symbol_of(key) for key in tuned}
    return [*tuned, *(each.key.symbol for each in _kernels(dataset, label) if each.key.symbol not in shared)]


def _table(
    entries: list[Ranked], measure: str, names: Names | None, sizes: list[int] | None
) -> tuple[list[str], list[list[Any]]]:
    text = names is not None
    identity = ["kernel"] if text else ["symbol", "name"]
    columns = [*identity, "arch", "registers", "spill bytes", "in loops"]
    more = [measure] if measure not in ("spills", "lost-blocks", *_SHOWN) else []
    columns += [name.replace("_", " ") if text else name for name in more]
    if measure == "lost-blocks":
        columns += ["threads", "blocks/SM", "lost", "limited by"]
    several = not text or any(entry.copies > 1 for entry in entries)
    columns += ["copies", "object"] if several else ["object"]
    columns += ["of its family"] if sizes is not None else []
    if not text:
        machine = {
            "spill bytes": "spill_bytes",
            "in loops": "spills_in_loops",
            "threads": "threads_per_block",
            "blocks/SM": "resident_blocks",
            "lost": "lost_blocks",
            "limited by": "limiters",
            "of its family": "family_kernels",
        }
        columns = [machine.get(name, name) for name in columns]
    rows = []
    for at, entry in enumerate(entries):
        kernel = entry.kernel
        symbol = kernel.key.symbol
        row: list[Any] = [names.of(kernel.named_by)] if names is not None else [symbol, kernel.name]
        row += [kernel.key.arch, kernel.usage.registers, *(entry.figures[name] for name in (*_SHOWN[1:], *more))]
        if measure == "lost-blocks" and entry.occupancy is not None:
            occupancy = entry.occupancy
            threads = occupancy.configuration.threads_per_block
            row += [threads, occupancy.resident_blocks, entry.lost_blocks, "+".join(occupancy.limiters)]
        copies = [entry.copies] if several else []
        rows.append([*row, *copies, entry.object, *([sizes[at]] if sizes is not None else [])])
    return columns, rows
