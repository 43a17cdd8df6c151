"""Truth table: the place that a report names for a source line, and for what was inlined there."""

from __future__ import annotations

import pytest

from spillscan.judging.places import Tree, placed
from spillscan.model.local import SourceLine

TREE = Tree(root="/src/repo", holds=lambda path: path in ("k.cu", "lib/h.cuh"))
KERNEL = SourceLine(file="/src/repo/k.cu", line=10)


def inlined(file: str, line: int, at: SourceLine = KERNEL) -> SourceLine:
    return SourceLine(file=file, line=line, inlined_at=at)


@pytest.mark.parametrize(
    ("line", "path", "number", "inner"),
    [
        (KERNEL, "k.cu", 10, ""),
        (inlined("/src/repo/lib/h.cuh", 3), "lib/h.cuh", 3, ""),  # the innermost that the repository holds
        (inlined("/usr/include/cuda/math.h", 7), "k.cu", 10, "math.h:7"),
        (inlined("/usr/include/cuda/math.h", 7, inlined("/src/repo/lib/h.cuh", 3)), "lib/h.cuh", 3, "math.h:7"),
        (inlined("/usr/include/cuda/x.cu", 10), "k.cu", 10, "x.cu:10"),
        (SourceLine(file="/other/place/k.cu", line=0), "k.cu", 1, ""),
    ],
)
def test_placed(line: SourceLine, path: str, number: int, inner: str) -> None:
    place = placed(line, TREE)
    assert (place.path, place.line, place.inner) == (path, number, inner)
