"""What is added up in groups of groups, as a page: a treemap that opens group by group, and the same as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spillscan import __version__
from spillscan.occupancy.text import size
from spillscan.output.safe import clip
from spillscan.page.columns import LONGEST_NAME
from spillscan.page.document import document
from spillscan.page.static import figure, table

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
