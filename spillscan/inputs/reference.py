"""``data/@v1``: a build of a dataset, where a path of an input can stand."""

from __future__ import annotations

import os
from typing import NamedTuple

_MARK = "/@"


class Reference(NamedTuple):
    """A build of a dataset."""

    root: str
    label: str


def parse(text: str) -> Reference | None:
    """``PLACE/@LABEL``; ``None`` for anything else, and for what is a file or folder of that name."""
    root, mark, label = text.partition(_MARK)
    if not mark or not root or not label or os.path.exists(text):
        return None
    return Reference(root, label)
