"""What files weigh, as a page: a treemap that opens group by group, and the same as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from spillscan import __version__
from spillscan.output.safe import clip
from spillscan.page.columns import LONGEST_NAME
from spillscan.page.document import document
from spillscan.page.static import figure, table

_SIZES = ("stored_bytes", "bytes")


def weight_document(title: str, tree: Mapping[str, Any]) -> Iterator[str]:
    """The page's text, piece by piece; ``tree``: groups with ``label``, ``stored_bytes``, ``bytes`` and ``groups``."""
    payload = {
        "title": clip(title, LONGEST_NAME),
        "tool": f"spillscan {__version__}",
        "kind": "size",
        "views": [{"name": "size", "label": "Size"}],
        "tree": _node(tree),
    }
    yield from document(title, payload, ("size",), _static(clip(title, LONGEST_NAME), tree))


def _node(group: Mapping[str, Any]) -> dict[str, Any]:
    found = {"label": clip(group["label"], LONGEST_NAME), **{name: group[name] for name in _SIZES}}
    inner = sorted(group.get("groups", ()), key=lambda each: -each["stored_bytes"])
    return {**found, "groups": [_node(each) for each in inner]}


def _static(title: str, tree: Mapping[str, Any]) -> Iterator[str]:
    groups = tree.get("groups", ())
    rows = ((clip(each["label"], LONGEST_NAME), *(figure(each[name]) for name in _SIZES)) for each in groups)
    yield from table(title, ("what", "stored B", "unpacked B"), rows, len(groups), numbers=1)
