"""Show what binaries weigh: every byte once, as it is stored and unpacked, by architecture, by what it is, by kernel.

The sums are the files' sizes. What is compressed together shares its stored bytes in proportion to the unpacked ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache, partial
from os.path import basename
from typing import TYPE_CHECKING, Any

from spillscan.commands import _common, _policy
from spillscan.output.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spillscan.builds.coverage import Archs
    from spillscan.model import Issue
    from spillscan.output.terminal import Style
    from spillscan.reading.inputs.source import Source
    from spillscan.reports.portions import Portion, Weighed

NAME = "size"
HELP = "show what binaries weigh: by arch, kind, kernel, family, file"
EPILOG = "Example: spillscan size libgemm.so --by family,arch --top 10"
_LEVELS = ("arch", "kind", "section", "family", "kernel", "namespace", "object", "member", "file")
_OF_KERNELS = frozenset({"family", "kernel", "namespace"})
_GAPS_SHOWN = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "inputs", nargs="+", metavar="INPUT", help="library, executable, object, cubin, fat binary, wheel, or folder"
    )
    _common.add_levels(parser, _LEVELS, ("arch", "kind"))
    parser.add_argument(
        "--duplicates",
        action="store_true",
        help="show code that stands there several times, what that costs, and architectures whose code is equal",
    )
    parser.add_argument(
        "--gpus",
        action="store_true",
        help="show which GPUs run this: what machine code, what PTX their driver compiles, and what does not run there",
    )
    _policy.add_archs(parser)
    _policy.add_budget(parser)
    _policy.add_accept(parser)
    _common.add_rows(parser, 12, "groups of each group to show", "groups")
    _policy.add_file(parser)
    _common.add_formats(parser, ("text", "json", "csv", "parquet", "html"))


def run(arguments: argparse.Namespace) -> int:
    """0; 1 where a file is larger than the policy allows; 2 where an input cannot be read, or part of it could not, or
    code is missing that the policy requires."""
    from spillscan.builds import coverage
    from spillscan.judging.policy.effective import terms_of
    from spillscan.judging.verdict import holes_of_issues, verdict
    from spillscan.occupancy.text import sizes
    from spillscan.output.terminal import complain
    from spillscan.reports import portions

    forms = _common.forms_of(arguments)
    policy = _policy.policy_of(arguments)
    limits = _policy.unpacking(policy)
    if bool(arguments.base) + arguments.duplicates + arguments.gpus > 1:
        raise UsageError("--base, --duplicates and --gpus show different things", "give one of them")
    if any(form.name == "html" for form in forms) and (arguments.duplicates or arguments.gpus):
        raise UsageError("the page is a treemap of sizes", "leave --duplicates and --gpus away")
    issues: list[Issue] = []
    wanted = {
        "symbols": not _OF_KERNELS.isdisjoint(arguments.by) or arguments.duplicates,
        "copies": arguments.duplicates,
    }
    base = _weighed(arguments.base, limits, wanted, issues)
    weighed = _weighed(arguments.inputs, limits, wanted, issues)
    held = portions.archs(weighed)
    terms = cache(partial(terms_of, policy))
    oversized: list[dict[str, Any]] = [
        {"file": each.name, "bytes": size, "allowed": most}
        for each in weighed
        if (most := terms(each.name).max_file_bytes) is not None and (size := each.weight.stored_bytes) > most
    ]
    most = _common.rows_of(arguments)
    if arguments.duplicates:
        _show_duplicates(forms, weighed, most)
    elif arguments.gpus:
        _show_gpus(forms, [archs.for_driver(terms(name).driver_release) for name, archs in held.items()])
    else:
        levels = arguments.by
        if len(weighed) > 1 and "file" not in levels:
            levels = ("file", *levels)
        whole = portions.tree(weighed, levels, base)
        document = whole.document(portions.BYTES)
        gaps = portions.unexplained(weighed)
        _common.answer(
            forms,
            text=lambda style: _text(whole, gaps, most, style),
            json=lambda: {"by": levels, **document, "unexplained": gaps, "oversized": oversized},
            csv=lambda: (portions.heads(levels, portions.BYTES, bool(base)), *(row[1:] for row in whole.rows())),
            html=lambda: _common.page_of(f"Size of {basename(weighed[0].name)}", [document], portions.BYTES),
        )
    holes = [*holes_of_issues(issues, frozenset(), strict=policy.strict)]
    holes += coverage.holes(held, terms)
    issues += coverage.notes(held, terms)
    for each in oversized:
        found, allowed = sizes(each["bytes"], each["allowed"])
        complain(f"{each['file']}: error: {found}, {allowed} allowed [max_file_bytes]")
    return _common.conclude(verdict((), holes, policy, oversized=bool(oversized)), issues)


def _weighed(
    inputs: Sequence[str], limits: dict[str, int], wanted: dict[str, bool], issues: list[Issue]
) -> list[Weighed]:
    from spillscan.output.progress import Progress, Reading
    from spillscan.reading.inputs import source

    sources = source.expand(inputs)
    weighed: list[Weighed] = []
    with Progress("weighing") as progress:
        reading = Reading(progress)
        reading.expect(sources)
        for each in sources:
            weighed.append(_of_one(each, limits, wanted, issues))
            reading.read(each, each.bytes)
    return weighed


def _of_one(each: Source, limits: dict[str, int], wanted: dict[str, bool], issues: list[Issue]) -> Weighed:
    from spillscan.reading.binary.size_accounting import weigh
    from spillscan.reading.binary.window import Limits
    from spillscan.reading.inputs.source import kind_of_binary
    from spillscan.reports.portions import Weighed

    with each.open() as stream:
        if each.explicit and kind_of_binary(stream.head()) is None:
            raise InputError(f"{each.uri} is no binary", "give a library, an object, a cubin or a wheel")
        buffer = stream.buffer()
    weight = weigh(buffer, each.bytes or len(buffer), Limits(**limits), **wanted)
    if weight.damages:
        from spillscan.reading.binary.records import damages

        issues += damages(weight.damages, each.uri)
    return Weighed(each.uri, weight)


def _text(whole: Portion, gaps: list[dict[str, Any]], most: int | None, style: Style) -> Iterator[str]:
    from spillscan.reports import portions

    yield from portions.lines([whole], portions.BYTES, most, style)
    for gap in gaps[:_GAPS_SHOWN]:
        where = f"{gap['file']}{' > ' * bool(gap['member'])}{gap['member']}"
        yield f"unexplained: {gap['bytes']:,} bytes at {gap['offset']:#x} of {where}"
    if len(gaps) > _GAPS_SHOWN:
        yield f"… and {len(gaps) - _GAPS_SHOWN:,} more places"


def _show_duplicates(forms: Sequence[Any], weighed: Sequence[Weighed], most: int | None) -> None:
    from msgspec.structs import astuple

    from spillscan.naming import Names
    from spillscan.occupancy.text import size
    from spillscan.reports.portions import Duplicate, alike, duplicates

    found, pairs = duplicates(weighed), alike(weighed)
    names = Names(dict.fromkeys(each.symbol for each in found))
    total = sum(copy.code_bytes for each in weighed for copy in each.weight.copies)
    saved = sum(each.saved_bytes for each in found)
    stored = sum(each.saved_stored_bytes for each in found)
    more = [
        f"{len(found):,} functions stand there several times: {size(saved)} of {size(total)} of code are copies, "
        f"{size(stored)} as stored",
        *(
            f"{' and '.join(pair.archs)}: {pair.equal:,} of {pair.functions:,} functions have equal code, "
            f"{size(pair.equal_bytes)}" + (": all of them" if pair.identical else "")
            for pair in pairs
        ),
    ]
    heads = ("kernel", "copies", "objects", "archs", "files", "each", "saved", "saved as stored")
    rows = [
        (
            names.of(each.symbol),
            each.copies,
            each.objects,
            " ".join(each.archs),
            each.files,
            *map(size, (each.code_bytes, each.saved_bytes, each.saved_stored_bytes)),
        )
        for each in found
    ]
    _common.show(
        forms,
        heads,
        rows,
        left=("kernel", "archs"),
        most=most,
        more=more,
        empty="no code stands there twice",
        machine=(Duplicate.__struct_fields__, [astuple(each) for each in found]),
    )


def _show_gpus(forms: Sequence[Any], files: Iterable[Archs]) -> None:
    from spillscan.occupancy.devices import devices

    held = [each for each in files if each.machine or each.portable]
    rows = []
    for device in devices():
        found = [each.for_gpu(device.target) for each in held]
        lost = sum(not machine and not portable for machine, portable in found)
        native = " ".join(dict.fromkeys(machine[-1] for machine, _ in found if machine))
        compiled = " ".join(dict.fromkeys(portable[-1] for machine, portable in found if portable and not machine))
        names = ", ".join(gpu.name for gpu in device.gpus[:2])
        rows.append((device.compute_capability, names, native or None, compiled or None, len(held) - lost, lost))
    heads = ("capability", "such as", "runs", "driver compiles", "files run", "files do not")
    machine = ("compute_capability", "gpus", "machine_code", "compiled_ptx", "files_run", "files_do_not_run")
    _common.show(forms, heads, rows, left=heads[:4], machine=(machine, rows))
