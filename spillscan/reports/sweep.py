"""A sweep in each of its formats: for people a table a kernel, its best points marked, and the trade-off in a sentence;
values of JSON, a page. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from spillscan.advice.sweep import timing
from spillscan.advice.sweep.curves import damage
from spillscan.advice.sweep.kept import VERSION, curve_data
from spillscan.advice.sweep.model import AS_IS, Advice, Curve, Point, Ran
from spillscan.advice.sweep.timing import INTERRUPTED, figure
from spillscan.naming import Names
from spillscan.occupancy.binding import limited_by
from spillscan.occupancy.summary import percent
from spillscan.output.nouns import count, listed
from spillscan.output.safe import clip, printable
from spillscan.output.terminal import BOLD, DIM, GREEN, RED, Row, Style, paint, table
from spillscan.reports.page.columns import letters, shown_arch, shown_name
from spillscan.reports.page.document import STATIC
from spillscan.reports.page.series import sweep_document

NOT_SAID = "-"
BEST, PLAIN = "*", " "
_LONGEST_REASON, _LONGEST_SENTENCE = 400, 600
_HEADER = ["point", "regs", "spill st/ld", "by depth", "stack", "blocks", "warps", "occ", "limited by"]
_MOST_LABELS = 4
"""Points that are named of which the same is said."""
_TIMES = ["time", "spread"]
_LEFT = ("point", "limited by")
_SPARE = ("spread", "warps", "stack")
LEGEND = (
    f"{BEST} best: no other point has more resident warps without more spills, or fewer spills without fewer warps",
    "by depth: spill instructions by the number of loops around them, innermost first (2:8 is 8 in two loops)",
)
LEGEND_OF_TIMES = "time: median of the runs of the program at that point; spread: largest less smallest, of the median"


def lines(curve: Curve, style: Style, names: Names) -> Iterator[str]:
    """One kernel: title, table, failures, facts, flags, advice."""
    yield paint(title(curve, names), BOLD, style)
    shown = shown_points(curve)
    timed = any(point.timing for point in shown)
    header = [*_HEADER, *_TIMES] if timed else _HEADER
    rows: list[Row] = [(cells(group) + (times(group[0]) if timed else []), _color(group)) for group in _alike(shown)]
    for line in table(header, rows, style._replace(width=style.width - 2), left=_LEFT, spare=_SPARE):
        yield f"  {line}"
    yield from (f"  {line}" for line in sentences(curve))


def shown_points(curve: Curve) -> list[Point]:
    """What has a row: not what bounds of the kernel's own override, unless the program was run with it."""
    return [point for point in curve.points if not point.overridden or point.timing]


def sentences(curve: Curve) -> Iterator[str]:
    """What is said below the table, on the page too: failures, facts, flags, advice."""
    said = [(point, text) for point in shown_points(curve) for text in dict.fromkeys(_said(point))]
    for text in dict.fromkeys(text for _, text in said):
        labels = [point.setting.label for point, its in said if its == text]
        named = listed(labels[:_MOST_LABELS], len(labels) - _MOST_LABELS)
        yield f"{named}: {printable(text, _LONGEST_REASON)}"
    yield from filter(None, (curve.facts, curve.loops, curve.measured, *curve.spills_and_times))
    yield from (f"note: {printable(flag, _LONGEST_REASON)}" for flag in curve.flags)
    if curve.no_advice:
        lead = "no step to more blocks" if curve.advice else "no advice"
        yield f"{lead}: {printable(curve.no_advice, _LONGEST_REASON)}"
    yield from advice_lines(curve)


def title(curve: Curve, names: Names) -> str:
    """``gemm<8> (sm_90, ptxas 13.0.88): 256 threads, its launch bounds``."""
    if curve.launch is None:
        launch = "block size not known, best case shown (≤)"
    else:
        launch = count(curve.launch.threads_per_block, "thread")
        if curve.launch.dynamic_shared_bytes:
            launch += f", {curve.launch.dynamic_shared_bytes:,} B dynamic shared memory"
        elif curve.launch.dynamic_shared_bytes is None:
            launch += ", dynamic shared memory not known, best case shown (≤)"
        launch += ", its launch bounds" if curve.launch.source == "bounds" else ""
    return printable(f"{names.of(curve.symbol)} ({curve.arch}, ptxas {curve.toolkit}): {launch}")


def _alike(points: Sequence[Point]) -> list[list[Point]]:
    """Neighbours of one kind of setting of which ptxas made the same share a row."""
    groups: list[list[Point]] = []
    for point in points:
        if groups and point.setting.kind in ("cap", "maxnreg") and _figures(groups[-1][0]) == _figures(point):
            groups[-1].append(point)
        else:
            groups.append([point])
    return groups


def _figures(point: Point) -> tuple[object, ...]:
    plain = structs.replace(point, setting=AS_IS, best=False, ran=Ran())
    return point.setting.kind, point.setting.knobs, plain


def cells(group: Sequence[Point]) -> list[str]:
    """One row; of several points, ``cap 80-255``."""
    point = group[0]
    mark = BEST if any(each.best for each in group) else PLAIN
    label = f"{mark} {point.setting.label}"
    if len(group) > 1:
        caps = f"{point.setting.kind} {group[-1].setting.registers}-{point.setting.registers}"
        label = " ".join((mark, caps, *(each.label for each in point.setting.knobs)))
    if point.failure:
        return [label, *([NOT_SAID] * (len(_HEADER) - 2)), "failed" if point.ran.status else "not there"]
    assumed = "≤" if point.blocks is None else ""
    fraction = point.fraction
    return [
        label,
        _number(point.registers) + ("*" if point.final is False and point.registers is not None else ""),
        f"{_number(point.spill_store_bytes)}/{_number(point.spill_load_bytes)}"
        if point.spill_bytes
        else _number(point.spill_bytes),
        by_depth(point),
        _number(point.stack_bytes),
        _number(point.blocks),
        NOT_SAID if point.warps is None else f"{assumed}{point.warps}",
        NOT_SAID if fraction is None else f"{assumed}{percent(fraction, bool(assumed))}".replace(" ", ""),
        limited_by(point.limiters) or NOT_SAID,
    ]


def times(point: Point) -> list[str]:
    """What the program took, and how much its runs differ; ``failed`` where a run ended badly."""
    timed = point.timing
    if timed is None:
        return [NOT_SAID, NOT_SAID]
    if timed.failure and not timed.figures:
        return ["failed" if timed.failure != INTERRUPTED else INTERRUPTED, NOT_SAID]
    mark = "!" if timed.failure else ""
    spread = NOT_SAID if timed.spread is None else f"{100 * timed.spread:.1f}%"
    return [f"{mark}{figure(timed)}", spread]


def by_depth(point: Point) -> str:
    """``2:8 1:20 0:31``; ``0`` where nothing spills."""
    if point.depths is None:
        return NOT_SAID
    return (
        " ".join(f"{'?' if each.depth is None else each.depth}:{each.instructions:,}" for each in point.depths) or "0"
    )


def _said(point: Point) -> tuple[str, ...]:
    """Why it failed, or what ptxas said of it, and how its runs ended."""
    said = (point.failure,) if point.failure else tuple(f"ptxas: {text}" for text in point.remarks)
    timing = point.timing
    if timing is None or not timing.failure:
        return said
    runs = len(timing.figures)
    after = f" after {count(runs, 'run')}" if runs else ""
    return (*said, f"run: {timing.failure}{after}")


def advice_lines(curve: Curve) -> Iterator[str]:
    """``__maxnreg__(64), at most 64 registers: ptxas uses 64, spills 96 B (none in loops); 3 -> 4 blocks/SM``.

    Ways to one cap of which ptxas makes the same share a line; the best are marked.
    """
    ways: dict[tuple[int, str], list[Advice]] = {}
    for entry in curve.advice:
        made = "; ".join(
            (_made(curve.as_is, entry), *(f"ptxas: {text}" for text in dict.fromkeys(entry.point.remarks)))
        )
        ways.setdefault((entry.cap, made), []).append(entry)
    for (cap, made), entries in ways.items():
        sources = " or ".join(entry.point.setting.source for entry in entries)
        best = f"{BEST} " if any(entry.point.best for entry in entries) else ""
        yield f"{best}{sources}, at most {cap} registers: {printable(made, _LONGEST_REASON)}"


def _made(before: Point, entry: Advice) -> str:
    point = entry.point
    if point.failure:
        return f"ptxas fails: {point.failure}"
    spills = f"spills {point.spill_bytes:,} B" if point.spill_bytes else "no spills"
    if point.spill_bytes and point.loop_spill_bytes is not None:
        spills += f" ({point.loop_spill_bytes:,} B in loops)" if point.loop_spill_bytes else " (none in loops)"
    blocks = f"{_number(before.blocks)} -> {_number(point.blocks)} blocks/SM"
    if entry.direction == "no spills":
        missed = ", the smallest step that ends its spills"
        if point.spill_bytes:
            missed = f", no bounds end its spills ({_number(before.spill_bytes)} B as it is)"
    else:
        missed = "" if entry.gain > 0 else ", the step is not reached"
    return f"ptxas uses {_number(point.registers)}, {spills}; {blocks}{missed}"


def legend(style: Style, timed: bool = False) -> Iterator[str]:
    """What marks and columns mean; ``timed``: those of times, too."""
    yield from (paint(line, DIM, style) for line in (*LEGEND, *([LEGEND_OF_TIMES] if timed else [])))


def _color(group: Sequence[Point]) -> str:
    if group[0].failure:
        return RED
    return GREEN if any(point.best for point in group) else ""


def _number(value: int | None) -> str:
    return NOT_SAID if value is None else f"{value:,}"


def document(curves: Sequence[Curve]) -> dict[str, Any]:
    """The curves as JSON."""
    return {
        "version": VERSION,
        "over_all": [each._asdict() for each in over_all(curves)],
        "curves": [curve_data(curve) for curve in curves],
    }


def text(curves: Sequence[Curve], style: Style) -> Iterator[str]:
    """The curves as lines; the kernel that spills most as it is first."""
    ordered = worst_first(curves)
    names = list(dict.fromkeys(curve.symbol for curve in ordered))
    shown = names[: style.rows]
    called = Names(names)
    yield from over_all_lines(curves, style)
    for curve in ordered:
        if curve.symbol in shown:
            yield from lines(curve, style, called)
            yield ""
    if len(shown) < len(names):
        yield f"… {count(len(names) - len(shown), 'more kernel')} (--all shows them)"
    yield from legend(style, timed=any(point.timing for curve in curves for point in curve.points))


class Sum(NamedTuple):
    """What a point makes of all kernels that were swept."""

    arch: str
    toolkit: str
    point: str
    """Its label."""
    kernels: int
    """Compiled at it."""
    failed: int
    """Rejected at it."""
    spilling: int
    spill_bytes: int
    """Stores and loads of all, each instruction once."""
    warps: int
    """Resident per SM, of all together."""
    code_bytes: int
    best: bool = False
    """No other point of that arch and release at which as many compile has more warps without more spills, or fewer
    spills without fewer warps."""


def over_all(curves: Sequence[Curve]) -> list[Sum]:
    """A row a point, where several kernels were swept."""
    if len({(curve.input, curve.symbol) for curve in curves}) < 2:
        return []
    groups: dict[tuple[str, str, str], list[Point]] = {}
    for curve in curves:
        for each in curve.points:
            groups.setdefault((curve.arch, curve.toolkit, each.setting.label), []).append(each)
    sums = []
    for about, points in groups.items():
        made = [each for each in points if not each.failure and each.spill_bytes is not None]
        spills = [each.spill_bytes or 0 for each in made]
        sums.append(
            Sum(
                *about,
                kernels=len(made),
                failed=sum(bool(each.failure and each.ran.status) for each in points),
                spilling=sum(map(bool, spills)),
                spill_bytes=sum(spills),
                warps=sum(each.warps or 0 for each in made),
                code_bytes=sum(each.code_bytes or 0 for each in made),
            )
        )
    return [
        each._replace(best=not any(_beats(sums, at, number) for at in range(len(sums))))
        for number, each in enumerate(sums)
    ]


def _beats(sums: Sequence[Sum], one: int, other: int) -> bool:
    """Of equal points the first is best."""
    if sums[one][:2] != sums[other][:2]:
        return False
    mine, its = ((each.kernels, each.warps, -each.spill_bytes) for each in (sums[one], sums[other]))
    return one < other if mine == its else all(a >= b for a, b in zip(mine, its, strict=True))


def over_all_lines(curves: Sequence[Curve], style: Style) -> Iterator[str]:
    """All kernels together: one table."""
    sums = over_all(curves)
    if not sums:
        return
    several = len({(each.arch, each.toolkit) for each in sums}) > 1
    rows: list[Row] = [
        (
            [
                f"{BEST if each.best else PLAIN} {each.point}",
                *([f"{each.arch} {each.toolkit}"] if several else []),
                *(f"{number:,}" for number in each[3:9]),
            ],
            RED if each.failed else GREEN if each.best else "",
        )
        for each in sums
    ]
    header = ["point", *(["for"] if several else []), "kernels", "failed", "spilling", "spill B", "warps", "code B"]
    yield paint("all kernels together", BOLD, style)
    lines = table(
        header, rows, style._replace(width=style.width - 2), left=("point", "for"), spare=("code B", "failed")
    )
    yield from (f"  {line}" for line in lines)
    yield ""


def worst_first(curves: Sequence[Curve]) -> list[Curve]:
    """The kernel that spills most as it is first; the curves of one kernel together, in their own order."""
    place = {curve.symbol: at for at, curve in reversed(list(enumerate(sorted(curves, key=damage))))}
    return sorted(curves, key=lambda curve: place[curve.symbol])


def html(curves: Sequence[Curve]) -> Iterator[str]:
    """The page, piece by piece, in the order of ``curves``; a kernel by several releases has a chart of each."""
    inputs = list(dict.fromkeys(curve.input for curve in curves))
    several = len({curve.toolkit for curve in curves}) > 1
    called = Names(curve.symbol for curve in curves)
    swept = [_swept(curve, several, called) for curve in curves]
    legend = letters((curve.symbol for curve in curves), called)
    return sweep_document(", ".join(inputs), swept, legend, text(curves, STATIC))


def _swept(curve: Curve, several: bool, called: Names) -> dict[str, Any]:
    """What the page shows of one kernel."""
    shown = list(shown_points(curve))
    settings = {point.setting for point in shown}
    shown += [entry.point for entry in curve.advice if entry.point.setting not in settings]
    winner = timing.winner(curve.points)
    return {
        "name": shown_name(curve.symbol, called),
        "arch": shown_arch(f"{curve.arch}, {curve.toolkit}" if several else curve.arch),
        "facts": [clip(fact, _LONGEST_SENTENCE) for fact in sentences(curve)],
        "time_unit": next((point.timing.unit for point in shown if point.timing), ""),
        "points": [_point(point, point is winner) for point in shown],
    }


def _point(point: Point, fastest: bool) -> dict[str, Any]:
    setting, timed = point.setting, point.timing
    cap = setting.registers if setting.kind == "cap" and not setting.knobs else None
    failures = (point.failure, f"run: {timed.failure}" if timed and timed.failure else "")
    return {
        "cap": cap,
        **{name: getattr(point, name) for name in ("registers", "spill_bytes", "blocks", "warps", "best")},
        "label": setting.label,
        "failure": clip("; ".join(filter(None, failures)), _LONGEST_SENTENCE),
        "time": timed.median if timed else None,
        "time_text": timing.figure(timed) if timed and timed.figures else "",
        "fastest": fastest,
    }
