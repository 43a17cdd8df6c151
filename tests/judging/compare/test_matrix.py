"""Several builds and archs side by side, and candidates of a tuner: one fact a row."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from spillscan.judging.compare.matrix import ABSENT, By, candidates, matrix, over_builds, side_by_side, spread
from spillscan.model import Build, Kernel, LaunchBounds
from spillscan.occupancy.launches import LaunchMap
from tests.naming.identity.test_pairs import kernel


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        ([["64", "0"]], ["64", "0"]),
        ([["64", "0"], ["64", "8"]], ["64", "0 → 8"]),
        ([["64", "0"], None], [f"64 → {ABSENT}", f"0 → {ABSENT}"]),
        ([None, ["64", "0"], ["72", "0"]], [f"{ABSENT} → 64 → 72", f"{ABSENT} → 0 → 0"]),
    ],
)
def test_over_builds(cells: Sequence[Sequence[str] | None], found: list[str]) -> None:
    assert over_builds(cells) == found


def build(*kernels: Kernel) -> Build:
    return Build(kernels=kernels)


def of(symbol: str, registers: int, arch: str = "sm_80", unit: str = "") -> Kernel:
    return kernel(symbol, registers, arch=arch, unit=unit)


K90 = "sm_90"
ROWS: list[tuple[str, By, list[Build], list[list[int | None]]]] = [
    ("one build", "build", [build(of("a", 10), of("b", 20))], [[10], [20]]),
    ("two", "build", [build(of("a", 10)), build(of("a", 12))], [[10, 12]]),
    ("a kernel that is gone", "build", [build(of("a", 10), of("b", 20)), build(of("b", 21))], [[10, None], [20, 21]]),
    ("a new one", "build", [build(of("b", 20)), build(of("a", 10), of("b", 21))], [[20, 21], [None, 10]]),
    ("one that came back", "build", [build(of("a", 10)), build(), build(of("a", 12))], [[10, None, 12]]),
    ("new ones in their order", "build", [build(), build(of("b", 20), of("a", 10))], [[None, 20], [None, 10]]),
    ("by build each arch has its row", "build", [build(of("a", 10), of("a", 11, K90))], [[10], [11]]),
    ("by arch they share one", "arch", [build(of("a", 11, K90), of("a", 10))], [[10, 11]]),
    (
        "which another kernel may lack",
        "arch",
        [build(of("a", 10), of("b", 20), of("a", 11, K90))],
        [[10, 11], [20, None]],
    ),
    (
        "a column a build that has the arch",
        "arch",
        [build(of("a", 10), of("a", 11, K90)), build(of("a", 12))],
        [[10, 12, 11]],
    ),
    (
        "namesakes by unit",
        "arch",
        [build(of("a", 1, unit="x"), of("a", 2, unit="y"), of("a", 4, K90, "y"), of("a", 3, K90, "x"))],
        [[1, 3], [2, 4]],
    ),
    (
        "units of which one is in doubt, in their order",
        "arch",
        [build(of("a", 1, unit="x"), of("a", 2, unit="x"), of("a", 3, K90, "x"))],
        [[1, 3], [2, None]],
    ),
    ("alone in each arch: whatever the unit", "arch", [build(of("a", 1, unit="x"), of("a", 2, K90, "y"))], [[1, 2]]),
]


@pytest.mark.parametrize(("why", "by", "builds", "registers"), ROWS, ids=[row[0] for row in ROWS])
def test_rows(why: str, by: By, builds: list[Build], registers: list[list[int | None]]) -> None:
    found = matrix(builds, [f"v{number}" for number in range(len(builds))], by, ["registers"])
    assert [list(found.values(row, "registers")) for row in found.rows] == registers, why
    if by == "build":  # the latest record stands for the kernel
        latest = [[value for value in values if value is not None][-1] for values in registers]
        assert [row.kernel.usage.registers for row in found.rows] == latest


def test_a_function_is_no_kernel_of_another_arch() -> None:
    builds = [build(of("a", 1), replace(of("a", 2, K90), role="function"))]
    assert len(matrix(builds, ["v"], "arch", ["registers"]).rows) == 2
    assert [(each.build, each.arch) for each in matrix(builds, ["v"], "arch", []).columns] == [(0, "sm_80"), (0, K90)]
    assert [(each.build, each.arch) for each in matrix(builds * 2, ["v", "w"], "build", []).columns] == [
        (0, None),
        (1, None),
    ]


@pytest.mark.parametrize(
    ("values", "expected"), [([], 0), ([None], 0), ([5], 0), ([5, None, 2], 3), ([None, 7, 7], 0), ([0, 9], 9)]
)
def test_spread(values: list[int | None], expected: int) -> None:
    assert spread(values) == expected


def test_ranks_and_figures() -> None:
    kernels = [of("a", 10), of("b", 90), of("c", 20), of("d", 20)]
    after = [of("a", 11), of("b", 90), of("c", 40), of("d", 40)]
    found = matrix([build(*kernels), build(*after)], ["v", "w"], "build", ["registers"])
    assert [row.kernel.key.symbol for row in found.ranked("registers")] == ["c", "d", "a", "b"]
    usage = replace(kernels[0].usage, spill_store_bytes=8, spill_load_bytes=4, constant_bytes=((0, 300), (2, 20)))
    spilling = replace(kernels[0], usage=usage)
    assert [found.value(spilling, metric) for metric in ("spill_bytes", "constant_bytes", "stack_bytes")] == [
        12,
        320,
        None,
    ]
    assert found.value(spilling, "resident_blocks") is None
    bounded = replace(spilling, launch_bounds=LaunchBounds(required_threads=256), dynamic_shared=False)
    assert found.value(bounded, "resident_blocks") == 8


def tuned(tile: str, registers: int, *, threads: int = 128, symbol: str = "k", spills: int | None = 0) -> Kernel:
    item = of(symbol, registers)
    return replace(
        item,
        usage=replace(item.usage, spill_store_bytes=spills, spill_load_bytes=spills, shared_bytes=0),
        configuration=(("tile", tile), ("warps", str(threads // 32))),
        launch_bounds=LaunchBounds(required_threads=threads),
        dynamic_shared=False,
    )


CANDIDATES: list[tuple[str, list[Kernel], list[tuple[str, int | None, bool]]]] = [
    ("one alone", [tuned("64", 40)], [("64", 40, True)]),
    ("fewer registers", [tuned("64", 40), tuned("64", 32)], [("64", 32, True), ("64", 40, False)]),
    ("equal ones do not beat each other", [tuned("64", 40), tuned("64", 40)], [("64", 40, True), ("64", 40, True)]),
    ("nor does another tile", [tuned("64", 40), tuned("32", 32)], [("32", 32, True), ("64", 40, True)]),
    ("nor another kernel", [tuned("64", 40), tuned("64", 32, symbol="l")], [("64", 40, True), ("64", 32, True)]),
    (
        "fewer registers and more spills",
        [tuned("64", 40), tuned("64", 32, spills=8)],
        [("64", 40, True), ("64", 32, True)],
    ),
    (
        "what is not known beats nothing",
        [tuned("64", 40), tuned("64", 32, spills=None)],
        [("64", 40, True), ("64", 32, True)],
    ),
    ("no configuration, no candidate", [of("k", 40)], []),
]


@pytest.mark.parametrize(("why", "kernels", "expected"), CANDIDATES, ids=[row[0] for row in CANDIDATES])
def test_candidates(why: str, kernels: list[Kernel], expected: list[tuple[str, int | None, bool]]) -> None:
    found = candidates(kernels, LaunchMap())
    shown = [(dict(each.kernel.configuration)["tile"], each.kernel.usage.registers, each.unbeaten) for each in found]
    assert sorted(shown, key=str) == sorted(expected, key=str), why


def test_figures_of_a_candidate() -> None:
    (found,) = candidates([tuned("64", 40, threads=256, spills=8)], LaunchMap())
    assert found.row == ("k", "sm_80", found.configuration, 256, 40, 16, 0, 6, 48, 0.75, False, True)
    assert found.texts("-") == ["256", "40", "16", "0", "6", "75 %", "yes"]
    (silent,) = candidates([replace(tuned("64", 40, spills=None), launch_bounds=None)], LaunchMap())
    assert silent.row[3:9] == (None, 40, None, None, None, 48)  # at most
    assert silent.texts("-") == ["-", "40", "-", "-", "-", "≤75 %", "yes"]


def test_candidates_of_several_builds_are_one_by_what_they_were_tuned_for() -> None:
    builds = [build(tuned("64", 40), tuned("32", 24)), build(tuned("32", 26), tuned("16", 20))]
    rows = side_by_side(builds, LaunchMap())
    shown = {
        tuple(
            None if cell is None else (dict(cell.kernel.configuration)["tile"], cell.kernel.usage.registers)
            for cell in row.cells
        )
        for row in rows
    }
    assert shown == {(("64", 40), None), (("32", 24), ("32", 26)), (None, ("16", 20))}
    assert rows[-1].latest.kernel.usage.registers == 40, "what is gone stands last"
