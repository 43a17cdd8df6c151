"""Pages that stand alone, of figures over builds and over register caps, and of what is added up in groups of groups:
who has the figures makes these records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from spillscan import __version__
from spillscan.model.figures import figure as declared
from spillscan.output.nouns import size
from spillscan.output.safe import clip
from spillscan.reports.page.columns import LONGEST_ARCH, LONGEST_NAME
from spillscan.reports.page.document import document, figure, table

_LONGEST_LABEL = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One figure of one kernel over the builds of a trend."""

    name: str
    """What tables call the kernel."""
    metric: str
    """As in JSON: ``spill_store_bytes``, ``registers`` …"""
    values: tuple[int | None, ...]
    """A value a build; ``None`` where the kernel is not in it, or the build does not say."""
    arch: str | None = None
    """Its target, where the line is of one."""
    brief: str = ""
    """A name of few characters that no other line has, for the end of the line; empty: the name's beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Where a line changed, or what became of its kernel."""

    name: str
    """What tables call the kernel."""
    arch: str | None
    """Its target."""
    metric: str | None
    """The figure; ``None``: it is of the kernel."""
    what: str
    """The figure's label, or ``new``, ``renamed from …``."""
    before: int | None
    """The figure before; ``None``: there was none."""
    after: int | None
    """The figure after."""
    last: int
    """Index of the last build before."""
    first: int
    """Index of the first build after."""
    worse: bool = False
    """Whether it is one for the worse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """Figures of kernels over builds."""

    title: str
    """What the builds are of."""
    builds: tuple[str, ...]
    """What each build is called, oldest first."""
    series: tuple[Line, ...]
    """Lines, those of most interest first."""
    left_out: int = 0
    """Kernels that have no line here."""
    turns: tuple[Turn, ...] = ()
    """What happened, the worst first."""
    turns_left_out: int = 0
    """How much more happened."""
    links: tuple[str, ...] = ()
    """Of each build the page of its commit, an address of the web, or nothing; empty: of none is one known."""
    legend: Sequence[tuple[str, str]] = ()
    """What letters in names stand for, by family."""


def trend_document(trend: Trend) -> Iterator[str]:
    """The page of a trend, piece by piece."""
    payload = {
        **_head(trend.title, "trend", "Trend"),
        "legend": trend.legend,
        "builds": [clip(build, _LONGEST_LABEL) for build in trend.builds],
        "metrics": [
            {"name": name, "label": declared(name).label, "unit": declared(name).unit}
            for name in dict.fromkeys(line.metric for line in trend.series)
        ],
        "left_out": trend.left_out,
        "links": trend.links,
        "turns": [asdict(each) | {"name": _name(each.name), "arch": _arch(each.arch)} for each in trend.turns],
        "turns_left_out": trend.turns_left_out,
        "series": [
            {
                "name": _name(line.name),
                "brief": clip(line.brief, LONGEST_NAME),
                "arch": _arch(line.arch),
                "metric": line.metric,
                "values": line.values,
            }
            for line in trend.series
        ],
    }
    yield from document(trend.title, payload, ("trend",), _static_trend(payload))


def sweep_document(title: str, swept: Sequence[Mapping[str, Any]], legend: Sequence[tuple[str, str]]) -> Iterator[str]:
    """The page of a sweep, piece by piece; ``swept``: kernels, the most to gain first, as ``sweep.js`` reads them."""
    payload = {**_head(title, "sweep", "Sweep"), "legend": legend, "swept": swept}
    yield from document(title, payload, ("sweep",), _static_sweep(swept))


def _head(title: str, view: str, label: str) -> dict[str, Any]:
    return {
        "title": clip(title, LONGEST_NAME),
        "tool": f"spillscan {__version__}",
        "kind": view,
        "views": [{"name": view, "label": label}],
    }


def _static_trend(payload: dict[str, Any]) -> Iterator[str]:
    for metric in payload["metrics"]:
        lines = [line for line in payload["series"] if line["metric"] == metric["name"]]
        rows = ((line["name"], line["arch"] or "", *map(figure, line["values"])) for line in lines)
        yield from table(metric["label"], ("kernel", "arch", *payload["builds"]), rows, len(lines), numbers=2)
    if turns := payload["turns"]:
        heads = ("kernel", "arch", "what", "before", "after", "first build", "last build before")
        builds = payload["builds"]
        rows = (
            (
                *(each["name"], each["arch"] or "", each["what"], figure(each["before"]), figure(each["after"])),
                *(builds[each["first"]], builds[each["last"]]),
            )
            for each in turns
        )
        yield from table("What happened", heads, rows, len(turns))


def _static_sweep(swept: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    rows = [
        (
            *(kernel["name"], kernel["arch"] or "", point["label"]),
            *(figure(point[name]) for name in ("registers", "spill_bytes", "blocks")),
            *(point["time_text"], ", ".join(filter(None, (point["best"] and "best", point["failure"])))),
        )
        for kernel in swept
        for point in kernel["points"]
    ]
    heads = ("kernel", "arch", "point", "registers", "spills (B)", "blocks/SM", "time", "")
    yield from table("Sweep", heads, rows, len(rows), numbers=2)
    said = [(kernel["name"], kernel["arch"] or "", fact) for kernel in swept for fact in kernel["facts"]]
    if said:
        yield from table("What it came to", ("kernel", "arch", ""), said, len(said))


def _name(name: str) -> str:
    return clip(name, LONGEST_NAME) or "(no name)"


def _arch(arch: str | None) -> str | None:
    return None if arch is None else clip(arch, LONGEST_ARCH)


BEFORE = "base_"
"""Before the name of a measure: its value in the older inputs."""

Measure = tuple[str, str, int, bool]
"""Name of a figure of the groups, head of its column, digits behind the point, whether it is bytes."""


def weight_document(title: str, groups: Sequence[Mapping[str, Any]], measures: Sequence[Measure]) -> Iterator[str]:
    """The page's text, piece by piece. Each group has a ``label``, its ``measures``, perhaps also those before, and
    ``groups``; areas are the first measure."""
    names = [name for name, *_ in measures]
    root = groups[0] if len(groups) == 1 else {"label": "all", "groups": groups}  # what has no sum
    compared = f"{BEFORE}{names[0]}" in groups[0]
    payload = {
        "title": clip(title, LONGEST_NAME),
        "tool": f"spillscan {__version__}",
        "kind": "size",
        "views": [{"name": "size", "label": "Size"}],
        "measures": [{"head": head, "digits": digits, "bytes": is_bytes} for _, head, digits, is_bytes in measures],
        "compared": compared,
        "tree": _node(root, names),
    }
    yield from document(
        title, payload, ("treemap", "size"), _static(clip(title, LONGEST_NAME), root, measures, compared)
    )


def _node(group: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"label": clip(group["label"], LONGEST_NAME)}
    if names[0] in group:
        found["values"] = [group[name] for name in names]
    if f"{BEFORE}{names[0]}" in group:
        found["before"] = [group[f"{BEFORE}{name}"] for name in names]
    return {**found, "groups": [_node(each, names) for each in group.get("groups", ())]}


def _static(title: str, tree: Mapping[str, Any], measures: Sequence[Measure], compared: bool) -> Iterator[str]:
    groups = tree.get("groups", ())

    def cells(group: Mapping[str, Any]) -> Iterator[str]:
        for name, _, digits, is_bytes in measures:
            yield size(round(group[name])) if is_bytes else figure(round(group[name], digits or None))
            if compared:
                change = group[name] - group[BEFORE + name]
                yield size(round(change), "+") if is_bytes else f"{change:+,.{digits}f}"

    heads = [text for _, head, *_ in measures for text in ((head, "change") if compared else (head,))]
    rows = ((clip(each["label"], LONGEST_NAME), *cells(each)) for each in groups)
    yield from table(title, ("what", *heads), rows, len(groups), numbers=1)
