"""Sweep curves as text, JSON, CSV, Markdown and a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import structs

from spillscan.advice.sweep.curves import Curve, Point
from spillscan.model.symbols import demangle
from spillscan.naming import Names
from spillscan.output.markdown import words
from spillscan.output.nouns import count, of_number
from spillscan.output.safe import clip, printable
from spillscan.output.terminal import BOLD, Style, fold, paint
from spillscan.reports.page import document as page
from spillscan.reports.page.columns import shown_arch
from spillscan.reports.table import Column, Table

VERSION = 1
_LONGEST_REASON, _LONGEST_SENTENCE = 400, 600
LEGEND = "* best trade-offs: fewer spills would cost resident warps, and more warps would cost spills"
IN_PTX = "in PTX: the setting could not be added to the source, so its PTX was edited; nvcc may give other results"
_HEAD = ("input", "symbol", "arch", "toolkit")


def _spills(point: Point) -> str | None:
    spills = point.kernel.spills if point.kernel else None
    return "{:,}/{:,}".format(*spills) if spills and any(spills) else "0" if spills else None


def _part(point: Point, at: int) -> int | None:
    return point.kernel.spills[at] if point.kernel and point.kernel.spills else None


def _occupancy(point: Point) -> float | None:
    return point.summary.occupancy.fraction if point.summary and point.summary.occupancy else None


def _limiters(point: Point) -> list[str]:
    if point.summary is None or point.summary.occupancy is None:
        return []
    return list(point.summary.limiters) if point.summary.occupancy.can_launch else ["cannot launch"]


def _cell(point: Point, name: str) -> str | None:
    """Residency for people, with a mark if it is a bound."""
    return point.summary.cells[name] or None if point.summary else None


def _marked_label(point: Point) -> str:
    return f"{'*' if point.best else ' '} {point.setting.label}{' (in PTX)' if point.in_ptx else ''}"


_COLUMNS: tuple[Column[Point], ...] = (
    Column("setting", "setting", lambda each: each.setting.label, True, text=_marked_label),
    Column(None, "limit", lambda each: each.setting.limit),
    Column(None, "threads", lambda each: each.setting.threads),
    Column(None, "blocks", lambda each: each.setting.blocks),
    Column("regs", "registers", lambda each: each.registers),
    Column("spill st/ld", None, _spills),
    Column(None, "spill_store_bytes", lambda each: _part(each, 0)),
    Column(None, "spill_load_bytes", lambda each: _part(each, 1)),
    Column("in loops, B", "loop_spill_bytes", lambda each: each.loop_spill_bytes),
    Column("stack", "stack_bytes", lambda each: each.kernel.usage.stack_bytes if each.kernel else None, spare=2),
    Column(None, "code_bytes", lambda each: each.code_bytes),
    Column("blocks/SM", "blocks_per_sm", lambda each: each.blocks),
    Column("warps", "warps_per_sm", lambda each: each.warps, spare=1, text=lambda each: _cell(each, "warps")),
    Column("occ", "occupancy", _occupancy, text=lambda each: _cell(each, "occupancy")),
    Column("limited by", "limiters", _limiters, True, text=lambda each: _cell(each, "limiter")),
    Column(None, "best", lambda each: each.best),
    Column(None, "tried_in_ptx", lambda each: each.in_ptx),
    Column(None, "final", lambda each: each.kernel.final if each.kernel else None),
    Column(None, "failure", lambda each: each.failure),
)


def point_data(point: Point) -> dict[str, Any]:
    """One point as a JSON object; unknown values are ``None``."""
    return {each.name: each.value(point) for each in _COLUMNS if each.name is not None}


def document(curves: Sequence[Curve]) -> dict[str, Any]:
    """The curves as a JSON object."""
    return {
        "version": VERSION,
        "curves": [
            {name: getattr(curve, name) for name in _HEAD}
            | {"name": demangle(curve.symbol), "launch": curve.launch and structs.asdict(curve.launch)}
            | {"points": [point_data(each) for each in curve.points]}
            for curve in curves
        ],
    }


def records(curves: Sequence[Curve]) -> Iterator[Sequence[Any]]:
    """CSV records, one per kernel and setting, heads first."""
    yield [*_HEAD, *(each.name for each in _COLUMNS if each.name is not None)]
    for curve in curves:
        head = [getattr(curve, name) for name in _HEAD]
        yield from ([*head, *point_data(each).values()] for each in curve.points)


def text(curves: Sequence[Curve], style: Style) -> Iterator[str]:
    """Lines for people: a table per kernel, the kernels that spill most first."""
    ordered = worst_first(curves)
    symbols = list(dict.fromkeys(curve.symbol for curve in ordered))
    called = Names(symbols)
    for curve in ordered:
        if curve.symbol in symbols[: style.rows]:
            yield paint(title(curve, called), BOLD, style)
            narrow = style._replace(width=style.width - 2)
            yield from (f"  {line}" for line in Table(columns=_COLUMNS, rows=curve.points).text(narrow))
            yield from (f"  {line}" for line in sentences(curve))
            yield ""
    more = len(symbols) - len(symbols[: style.rows])
    yield from fold(more, style, f" {of_number(more, 'kernel')}")
    yield LEGEND
    yield from [IN_PTX] * any(point.in_ptx for curve in curves for point in curve.points)


def markdown(curves: Sequence[Curve]) -> Iterator[str]:
    """A section per kernel, the kernels that spill most first."""
    called = Names(curve.symbol for curve in curves)
    for curve in worst_first(curves):
        yield from (*Table(columns=_COLUMNS, rows=curve.points, title=title(curve, called)).markdown(), "")
        yield from (each for line in sentences(curve) for each in (words(line), ""))


def title(curve: Curve, names: Names) -> str:
    """``gemm<8> (sm_90, ptxas 13.0.88): 256 threads``; ``no options`` if the source was compiled without any."""
    launch = "block size unknown, upper bounds shown (≤)"
    if curve.launch is not None:
        launch = count(curve.launch.threads_per_block, "thread")
        if curve.launch.dynamic_shared_bytes is None:
            launch += ", dynamic shared memory unknown, upper bounds shown (≤)"
        elif curve.launch.dynamic_shared_bytes:
            launch += f", {curve.launch.dynamic_shared_bytes:,} B dynamic shared memory"
        launch += " (launch bounds)" * (curve.launch.source == "bounds")
    unlinked = any(each.kernel and each.kernel.final is False for each in curve.points)
    ptxas = f"ptxas {curve.toolkit}{', no options' * curve.bare}{', before the link' * unlinked}"
    return printable(f"{names.of(curve.symbol)} ({curve.arch}, {ptxas}): {launch}")


def sentences(curve: Curve) -> Iterator[str]:
    """Failures, each with the settings where it occurs."""
    failures: dict[str, list[str]] = {}
    for each in (point for point in curve.points if point.failure):
        failures.setdefault(each.failure, []).append(each.setting.label)
    yield from (f"{', '.join(labels)}: {printable(line, _LONGEST_REASON)}" for line, labels in failures.items())


def worst_first(curves: Sequence[Curve]) -> list[Curve]:
    """Curves of the kernel that spills most unchanged first; curves of one kernel together, in their own order."""
    ranked = sorted(curves, key=lambda each: (-(each.as_is.spill_bytes or 0), -(each.as_is.registers or 0)))
    place = {curve.symbol: at for at, curve in reversed(list(enumerate(ranked)))}
    return sorted(curves, key=lambda curve: place[curve.symbol])


def html(curves: Sequence[Curve]) -> Iterator[str]:
    """Yield the page in pieces, in the order of ``curves``."""
    called = Names(curve.symbol for curve in curves)
    swept = [
        {
            "name": called.of(curve.symbol),
            "arch": shown_arch(curve.arch),
            "facts": [clip(each, _LONGEST_SENTENCE) for each in sentences(curve)],
            "points": [
                {name: getattr(each, name) for name in ("registers", "spill_bytes", "blocks", "warps", "best")}
                | {"label": each.setting.label, "failure": clip(each.failure, _LONGEST_SENTENCE)}
                for each in curve.points
            ],
        }
        for curve in curves
    ]
    inputs = ", ".join(dict.fromkeys(curve.input for curve in curves))
    payload = {**page.head(inputs, "sweep", {"sweep": "Sweep"}), "swept": swept}
    return page.document(inputs, payload, ("sweep",), text(curves, page.STATIC))
