"""Archs of one or more builds side by side: one fact per row."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from spillscan.judging.compare.matrix import matrix
from spillscan.model import Build, Kernel, LaunchBounds, Usage
from spillscan.output.terminal import Style
from spillscan.reports.matrix import lines
from spillscan.reports.report import names_of
from tests.reporting import kernel


def build(*kernels: Kernel) -> Build:
    return Build(kernels=kernels)


def of(symbol: str, registers: int, arch: str = "sm_80", unit: str = "") -> Kernel:
    return kernel(symbol, registers=registers, arch=arch, unit=unit)


K90 = "sm_90"
ROWS: list[tuple[str, list[Build], list[list[int | None]]]] = [
    ("a kernel that is gone", [build(of("a", 10), of("b", 20)), build(of("b", 21))], [[10, None], [20, 21]]),
    ("one that came back", [build(of("a", 10)), build(), build(of("a", 12))], [[10, 12]]),
    ("archs of a kernel share a row", [build(of("a", 11, K90), of("a", 10))], [[10, 11]]),
    (
        "which another kernel may lack",
        [build(of("a", 10), of("b", 20), of("a", 11, K90))],
        [[10, 11], [20, None]],
    ),
    (
        "a column a build that has the arch",
        [build(of("a", 10), of("a", 11, K90)), build(of("a", 12))],
        [[10, 12, 11]],
    ),
    (
        "same-named kernels by unit",
        [build(of("a", 1, unit="x"), of("a", 2, unit="y"), of("a", 4, K90, "y"), of("a", 3, K90, "x"))],
        [[1, 3], [2, 4]],
    ),
    (
        "units of which one is in doubt, in their order",
        [build(of("a", 1, unit="x"), of("a", 2, unit="x"), of("a", 3, K90, "x"))],
        [[1, 3], [2, None]],
    ),
    ("alone in each arch: whatever the unit", [build(of("a", 1, unit="x"), of("a", 2, K90, "y"))], [[1, 2]]),
]


@pytest.mark.parametrize(("why", "builds", "registers"), ROWS, ids=[row[0] for row in ROWS])
def test_rows(why: str, builds: list[Build], registers: list[list[int | None]]) -> None:
    found = matrix(builds, [f"v{number}" for number in range(len(builds))], ["registers"])
    assert [list(found.values(row, "registers")) for row in found.rows] == registers, why


def test_a_function_is_no_kernel_of_another_arch() -> None:
    builds = [build(of("a", 1), replace(of("a", 2, K90), role="function"))]
    assert len(matrix(builds, ["v"], ["registers"]).rows) == 2
    assert [(each.build, each.arch) for each in matrix(builds, ["v"], []).columns] == [(0, "sm_80"), (0, K90)]


def test_ranks_and_values() -> None:
    kernels = [of("a", 10), of("b", 90), of("c", 20), of("d", 20), kernel("unknown", usage=Usage())]
    after = [of("a", 11), of("b", 90), of("c", 40), of("d", 40)]
    found = matrix([build(*kernels), build(*after)], ["v", "w"], ["registers"])
    assert [row.kernel.key.symbol for row in found.ranked("registers")] == ["c", "d", "a", "b", "unknown"]
    usage = replace(kernels[0].usage, spill_store_bytes=8, spill_load_bytes=4, stack_bytes=None)
    usage = replace(usage, constant_bytes=((0, 300), (2, 20)))
    spilling = replace(kernels[0], usage=usage)
    assert [found.value(spilling, metric) for metric in ("spill_bytes", "constant_bytes", "stack_bytes")] == [
        12,
        320,
        None,
    ]
    assert found.value(spilling, "resident_blocks") is None
    bounded = replace(spilling, launch_bounds=LaunchBounds(required_threads=256), dynamic_shared=False)
    assert found.value(bounded, "resident_blocks") == 8


@pytest.mark.parametrize(
    ("after", "rows", "notes"),
    [
        ((11, 21), 25, set()),
        ((11, 20), 25, {"1 kernel without a difference"}),
        ((10, 20), 25, {"no difference in 2 kernels"}),
        ((11, 20), None, set()),
        ((10,), 25, {"1 kernel without a difference"}),
        ((10, 20, 30), 25, {"2 kernels without a difference"}),
    ],
)
def test_omitted_equal_kernels_are_counted(after: tuple[int, ...], rows: int | None, notes: set[str]) -> None:
    builds = [build(of("a", 10), of("b", 20)), build(*map(of, "abc", after))]
    said = lines(matrix(builds, ["v", "w"], ["registers"]), names_of(builds), Style(rows=rows))
    assert {each.strip() for each in said if "difference" in each} == notes
