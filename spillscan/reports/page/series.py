"""Standalone pages: metrics by register limit, and sums in nested groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from spillscan import __version__
from spillscan.output.safe import clip
from spillscan.reports.page.columns import LONGEST_NAME
from spillscan.reports.page.document import document

_LONGEST_LABEL = 60


def sweep_document(title: str, swept: Sequence[Mapping[str, Any]], lines: Iterable[str]) -> Iterator[str]:
    """Yield the page of a sweep in pieces.

    ``swept``: kernels as ``sweep.js`` reads them, those with the most to gain first; ``lines``: the terminal's output.
    """
    payload = {**head(title, "sweep", "Sweep"), "swept": swept}
    yield from document(title, payload, ("sweep",), lines)


def head(title: str, view: str, label: str) -> dict[str, Any]:
    """Payload fields common to these pages."""
    return {
        "title": clip(title, LONGEST_NAME),
        "tool": f"spillscan {__version__}",
        "kind": view,
        "views": [{"name": view, "label": label}],
    }


BEFORE = "base_"
"""Prefix of a measure's name for its value in the older inputs."""

Measure = tuple[str, str, int, bool]
"""Name of a measure, head of its column, decimals, and whether it is in bytes."""


def weight_document(
    title: str, groups: Sequence[Mapping[str, Any]], measures: Sequence[Measure], lines: Iterable[str] = ()
) -> Iterator[str]:
    """Yield the page of sizes in pieces.
    Each group has a ``label``, its ``measures``, possibly those of older inputs, and ``groups``; areas are proportional
    to the first measure. ``lines``: the terminal's output.
    """
    names = [name for name, *_ in measures]
    root = groups[0] if len(groups) == 1 else {"label": "all", "groups": groups}  # several roots have no sum
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
