"""A sweep in each of its formats, in pieces of text. Pure: whoever asks puts them in their places."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence

from spillscan.output.json import harmless
from spillscan.reports import Style
from spillscan.sweep import chart, table
from spillscan.sweep.data import VERSION, curve_data, rows
from spillscan.sweep.model import Curve
from spillscan.sweep.results import damage

FORMATS = ("text", "json", "csv", "html")


def render(form: str, curves: Sequence[Curve], style: Style, *, plot: bool, ascii_only: bool) -> Iterator[str]:
    """``curves`` as one of :data:`FORMATS`; the style, ``plot`` and ``ascii_only`` are for text."""
    if form == "json":
        document = {"version": VERSION, "curves": [curve_data(curve) for curve in curves]}
        yield harmless(json.dumps(document, indent=1)) + "\n"
    elif form == "csv":
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows(curves))
        yield text.getvalue()
    elif form == "html":
        from spillscan.sweep import page

        yield from page.document(_worst_first(curves))
    else:
        yield from (f"{line}\n" for line in _text(curves, style, plot, ascii_only))


def _text(curves: Sequence[Curve], style: Style, plot: bool, ascii_only: bool) -> Iterator[str]:
    ordered = _worst_first(curves)
    names = list(dict.fromkeys(curve.symbol for curve in ordered))
    shown = names[: style.rows]
    for curve in ordered:
        if curve.symbol in shown:
            yield from table.lines(curve, style)
            if plot:
                yield from chart.draw(curve, style.width, style.color, ascii_only)
            yield ""
    if len(shown) < len(names):
        yield f"… {len(names) - len(shown):,} more kernels (--all shows them)"
    yield from table.legend(style, timed=any(point.timing for curve in curves for point in curve.points))


def _worst_first(curves: Sequence[Curve]) -> list[Curve]:
    """The kernel that spills most as it is first; the curves of one kernel together, in their own order."""
    place = {curve.symbol: at for at, curve in reversed(list(enumerate(sorted(curves, key=damage))))}
    return sorted(curves, key=lambda curve: place[curve.symbol])
