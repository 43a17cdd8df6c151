"""Pages that stand alone, of figures over register caps, and of what is added up in groups of groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from spillscan import __version__
from spillscan.output.safe import clip
from spillscan.reports.page.columns import LONGEST_NAME
from spillscan.reports.page.document import document

_LONGEST_LABEL = 60


def sweep_document(title: str, swept: Sequence[Mapping[str, Any]], lines: Iterable[str]) -> Iterator[str]:
    """The page of a sweep, piece by piece; ``swept``: kernels, the most to gain first, as ``sweep.js`` reads them;
    ``lines``: what a terminal shows."""
    payload = {**head(title, "sweep", "Sweep"), "swept": swept}
    yield from document(title, payload, ("sweep",), lines)


def head(title: str, view: str, label: str) -> dict[str, Any]:
    """What every such page says of itself."""
    return {
        "title": clip(title, LONGEST_NAME),
        "tool": f"spillscan {__version__}",
        "kind": view,
        "views": [{"name": view, "label": label}],
    }


BEFORE = "base_"
"""Before the name of a measure: its value in the older inputs."""

Measure = tuple[str, str, int, bool]
"""Name of a figure of the groups, head of its column, digits behind the point, whether it is bytes."""


def weight_document(
    title: str, groups: Sequence[Mapping[str, Any]], measures: Sequence[Measure], lines: Iterable[str] = ()
) -> Iterator[str]:
    """The page's text, piece by piece; ``lines``: what a terminal shows. Each group has a ``label``, its ``measures``,
    perhaps also those before, and ``groups``; areas are the first measure."""
    names = [name for name, *_ in measures]
    root = groups[0] if len(groups) == 1 else {"label": "all", "groups": groups}  # what has no sum
    compared = f"{BEFORE}{names[0]}" in groups[0]
    payload = {
        **head(title, "size", "Size"),
        "measures": [{"head": head, "digits": digits, "bytes": is_bytes} for _, head, digits, is_bytes in measures],
        "compared": compared,
        "tree": _node(root, names),
    }
    yield from document(title, payload, ("treemap", "size"), lines)


def _node(group: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"label": clip(group["label"], LONGEST_NAME)}
    if names[0] in group:
        found["values"] = [group[name] for name in names]
    if f"{BEFORE}{names[0]}" in group:
        found["before"] = [group[f"{BEFORE}{name}"] for name in names]
    return {**found, "groups": [_node(each, names) for each in group.get("groups", ())]}
