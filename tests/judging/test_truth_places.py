"""Truth tables: which source line a finding is shown at. Typed by hand."""

from __future__ import annotations

import pytest

from spillscan.judging.places import Tree, placed
from spillscan.model.local import SourceLine

HELD = {"src/k.cu", "src/k.h"}
TREE = Tree(root="/app", has_file=HELD.__contains__)


def line(*calls: tuple[str, int]) -> SourceLine:
    """The line itself, and the calls through which it was inlined."""
    (file, number), *outer = calls
    return SourceLine(file=file, line=number, inlined_at=line(*outer) if outer else None)


@pytest.mark.parametrize(
    ("calls", "path", "number", "inner"),
    [
        ([("/app/src/k.cu", 7)], "src/k.cu", 7, ""),
        ([("/app/src/k.h", 3), ("/app/src/k.cu", 7)], "src/k.h", 3, ""),
        ([("/cuda/math.h", 90), ("/app/src/k.cu", 7)], "src/k.cu", 7, "math.h:90"),
        ([("/cuda/math.h", 90), ("/app/src/k.h", 3), ("/app/src/k.cu", 7)], "src/k.h", 3, "math.h:90"),
        ([("/cuda/math.h", 90)], "/cuda/math.h", 90, ""),
        ([("/cuda/math.h", 90), ("/cuda/math.h", 12)], "/cuda/math.h", 12, "math.h:90"),
        ([("/cuda/math.h", 90), ("/cuda/other.h", 90)], "/cuda/other.h", 90, "math.h:90"),
    ],
)
def test_the_first_line_that_the_repository_holds(
    calls: list[tuple[str, int]], path: str, number: int, inner: str
) -> None:
    found = placed(line(*calls), TREE)
    assert (found.path, found.line, found.inner, found.share) == (path, number, inner, None)


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/app/sub/src/k.cu", "sub/src/k.cu"),  # of this machine, whether it is there or not
        ("/other/app/src/k.cu", "src/k.cu"),
        ("gone/src/k.cu", "src/k.cu"),
        ("src/gone.cu", "src/gone.cu"),
        ("/other/gone.cu", "/other/gone.cu"),
        ("../gone.cu", "gone.cu"),
    ],
)
def test_names_of_files_in_the_repository(path: str, shown: str) -> None:
    assert TREE.relative(path) == shown
