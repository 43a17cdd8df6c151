"""Records equal to an independent reading, on everything that real tools printed."""

from __future__ import annotations

import re

import pytest

from tests import reference
from tests.conftest import FIXTURES, manifest, read_any, read_log, read_text, record, sized

LOG_FORMATS = ("ptxas", "mixed", "nvlink", "library", "build")

# Parallel make is not sequential; ninja and make -Otarget write each compilation whole.
SEQUENTIAL = [
    entry["file"]
    for entry in manifest()
    if entry["format"] in LOG_FORMATS and not re.search(r"/capture-|make-j\d+-(?!otarget)", entry["file"])
]


def expected_from_reference(file: str) -> list[dict[str, object]]:
    """Records of a fixture by the naive reading."""
    return reference.read(read_text(FIXTURES / file))


@pytest.mark.parametrize("file", [file for file in SEQUENTIAL if "/pip-" not in file])  # it knows no prefixes
def test_equals_the_naive_reading(file: str) -> None:
    # nvlink's values replace ptxas's only when inputs are joined; a reader's own records are the compiler's.
    ours = [record(kernel) for kernel in read_any(FIXTURES / file).kernels if kernel.role != "unknown"]
    expected = expected_from_reference(file)
    for mine, theirs in zip(ours, expected, strict=False):
        differing = [name for name in theirs if mine.get(name) != theirs[name]]
        assert not differing, [(theirs["symbol"], name, mine.get(name), theirs[name]) for name in differing]
    assert ours == expected


@pytest.mark.parametrize("file", [file for file in SEQUENTIAL if file.startswith("large/")])
def test_large_logs_hold_thousands_of_kernels(file: str) -> None:
    kernels = [kernel for kernel in read_any(FIXTURES / file).kernels if kernel.role == "entry"]
    assert len(kernels) >= 5000
    assert all(kernel.confidence == "certain" and kernel.usage.registers for kernel in kernels)
    assert any(kernel.usage.spill_bytes for kernel in kernels)


@pytest.mark.parametrize(
    "file", [file for file in SEQUENTIAL if file.startswith(("large/kernels5000-13", "ptxas/"))][:: sized(4, 1)]
)
def test_both_ways_of_reading_agree(file: str) -> None:
    """Cargo's mark before each line keeps whole blocks from matching: every line goes through the grammar by itself."""
    text = read_text(FIXTURES / file)
    marked = "".join(f"cargo:warning={line}" for line in text.splitlines(keepends=True))
    fast, slow = read_log(text), read_log(marked)
    assert fast.kernels == slow.kernels
    assert fast.issues == slow.issues
    assert fast.stats.recognised_lines == slow.stats.recognised_lines


@pytest.mark.parametrize("tail", ["", "\n", "a", "a\n", "a\nb", "\n\n", "a\n" * 4000, "a\n" * 4000 + "b"])
@pytest.mark.parametrize("head", ["", "ptxas info    : 0 bytes gmem\n", "x\n" * 3])
def test_lines_are_counted_to_the_end(head: str, tail: str) -> None:
    assert read_log(head + tail).stats.lines == len((head + tail).splitlines())
