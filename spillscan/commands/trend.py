"""How a kernel's registers, spills and resident blocks went over the builds of a dataset, drawn here or as a page."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from spillscan.commands import _common, _dataset, _policy

if TYPE_CHECKING:
    from spillscan.dataset.builds import KeptBuild
    from spillscan.dataset.history import Series
    from spillscan.output.files import Target

NAME = "trend"
HELP = "how a kernel's figures went over the builds of a dataset"
ORDER = 73
EPILOG = "Example: spillscan trend 'gemm*' --launch 'gemm*=256'"

_SHOWN = ("registers", "spill_bytes", "resident_blocks")
_STEPS_SHOWN = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("kernel", metavar="KERNEL", help="any name of a kernel, a glob, or re:EXPRESSION")
    parser.add_argument("--arch", action="append", default=[], metavar="ARCH", help="only this arch; repeatable")
    _common.add_metric(parser, "FOLLOWED", f"what is drawn (default: {', '.join(_SHOWN)})")
    parser.add_argument("--last", type=_common.whole_number, default=0, metavar="N", help="only the last N builds")
    _dataset.add_dataset(parser)
    _dataset.add_order(parser)
    _common.add_launches(parser)
    _policy.add_file(parser)
    parser.add_argument(
        "-f",
        "--format",
        type=_format,
        default=("text", None),
        metavar="FORMAT",
        help="text (default), json, csv, html (a page that stands alone); html:FILE writes it to FILE",
    )
    rows = parser.add_mutually_exclusive_group()
    rows.add_argument("--top", type=_common.whole_number, default=10, metavar="N", help="kernels to draw (default: 10)")
    rows.add_argument("--all", action="store_true", help="draw all kernels")


def run(arguments: argparse.Namespace) -> int:
    """0; 2 where no kernel is called so."""
    from spillscan.dataset.history import histories
    from spillscan.model.figures import FOLLOWED

    dataset = _dataset.dataset_of(arguments)
    builds = _dataset.builds_of(dataset, arguments)[-arguments.last :]
    found = histories(dataset, builds, arguments.kernel, _policy.policy_of(arguments), arguments.arch)
    form, target = arguments.format
    if form in ("json", "csv"):
        columns = ("label", "time", "canonical", "name", "arch", "copies", *(each.name for each in FOLLOWED))
        _dataset.show(columns, list(_rows(found, builds)), form)
        return 0
    metrics = tuple(dict.fromkeys(arguments.metric)) or _SHOWN
    found.sort(key=lambda series: _liveliest(series, metrics))
    shown = found if arguments.all else found[: arguments.top]
    if form == "html":
        page = "".join(_page(arguments.kernel, shown, builds, metrics))
        if target is None:
            _common.say(page)
        else:
            target.write(page)
        return 0
    width = min(_dataset.width(), 100)
    ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf") or os.environ.get("TERM") == "dumb"
    for series in shown:
        _common.say("\n".join(_lines(series, builds, metrics, width, ascii_only)) + "\n")
    if len(shown) < len(found):
        _common.say(f"… {len(found) - len(shown):,} more kernels (--all draws them)")
    return 0


def _format(text: str) -> tuple[str, Target | None]:
    from spillscan.output.files import Target

    name, colon, path = text.partition(":")
    target = Target.parse(path) if name == "html" and colon else None
    if name not in ("text", "json", "csv", "html") or (colon and target is None):
        raise argparse.ArgumentTypeError(f"{text!r} is none of text, json, csv, html, html:FILE")
    return name, target


def _page(pattern: str, shown: Sequence[Series], builds: Sequence[KeptBuild], metrics: Sequence[str]) -> Iterator[str]:
    from spillscan.names import display_name
    from spillscan.page import Line, Trend, trend_document

    lines = (
        Line(
            name=display_name(series.kernel.key.symbol),
            metric=metric,
            values=tuple(series.values(metric)),
            arch=series.kernel.key.arch,
        )
        for series in shown
        for metric in metrics
    )
    told = tuple(line for line in lines if any(value is not None for value in line.values))
    return trend_document(Trend(title=pattern, builds=tuple(build.label for build in builds), series=told))


def _liveliest(series: Series, metrics: Sequence[str]) -> tuple[Any, ...]:
    """Those that changed most first."""
    from spillscan.dataset.history import steps

    return -sum(len(list(steps(series, metric))) for metric in metrics), series.canonical, series.kernel.key.arch or ""


def _rows(found: Sequence[Series], builds: Sequence[KeptBuild]) -> Iterator[list[Any]]:
    from spillscan.model.figures import FOLLOWED

    for series in found:
        kernel = series.kernel
        for build, point in zip(builds, series.points, strict=True):
            if point is not None:
                identity = [build.label, build.time, series.canonical, kernel.name, kernel.key.arch, series.copies]
                yield identity + [point[each.name] for each in FOLLOWED]


def _lines(
    series: Series, builds: Sequence[KeptBuild], metrics: Sequence[str], width: int, ascii_only: bool
) -> Iterator[str]:
    from spillscan.dataset.chart import draw, ends
    from spillscan.dataset.history import steps
    from spillscan.model.figures import figure
    from spillscan.names import display_name
    from spillscan.output.safe import clip, printable

    kernel = series.kernel
    labels = [clip(printable(build.label), 24) for build in builds]
    held = sum(point is not None for point in series.points)
    copies = f", up to {series.copies} copies, the worst counts" if series.copies > 1 else ""
    yield f"{printable(display_name(kernel.key.symbol))}  {printable(kernel.key.arch or 'arch unknown')}  " + (
        f"in {held} of {len(builds)} builds{copies}"
    )
    for metric in metrics:
        shown = figure(metric)
        label = metric.replace("_", " ") if shown.unit else shown.label
        values = series.values(metric)
        known = [value for value in values if value is not None]
        if not known:
            if metric == "resident_blocks":
                yield f"  {label}: not known, for nobody says how it is launched (--launch 'GLOB=THREADS')"
            else:
                yield f"  {label}: not known"
            continue
        changed = list(steps(series, metric))
        if not changed:
            yield f"  {label}: {known[0]:,}"
            continue
        yield f"  {label}: {known[0]:,} → {known[-1]:,}"
        yield from draw(values, width, fewer_is_worse=shown.worse == "fewer", ascii_only=ascii_only)
        yield ends(labels[0], labels[-1], len(values), width)
        for step in changed[-_STEPS_SHOWN:]:
            yield f"    {labels[step.first]}: {step.before:,} → {step.after:,} ({step.after - step.before:+,})"
        if len(changed) > _STEPS_SHOWN:
            yield f"    {len(changed) - _STEPS_SHOWN} earlier changes"
