"""Page data of single kernels."""

from __future__ import annotations

import json
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from spillscan import scan
from spillscan.model import Kernel, KernelKey, Launch, Usage
from spillscan.model.code import SassStats
from spillscan.occupancy.launches import LaunchMap
from spillscan.occupancy.summary import summarise
from spillscan.reading.machine.spillmap import where
from spillscan.reports.page.details import MAP_BYTES, _notes, details, spill_map, subject
from tests.conftest import FIXTURES

DUMP = FIXTURES / "sass" / "nvdisasm-gi-sm_80-13.5.sass"


@pytest.fixture(scope="module")
def kernels() -> dict[str, Kernel]:
    return {kernel.key.symbol: kernel for kernel in scan([str(DUMP)]).kernels}


@pytest.fixture(scope="module")
def spilling(kernels: dict[str, Kernel]) -> Kernel:
    return kernels["array_and_spills"]


def places(map_: dict[str, Any]) -> list[tuple[int, str, str, int]]:
    found, at = [], 0
    columns = zip(*(map_["marks"][name] for name in ("at", "what", "depth", "count")), strict=True)
    for step, what, depth, count in columns:
        at += step
        found.append((at * map_["marks"]["unit"], what, depth, count))
    return found


def test_the_strip_has_every_access_at_its_address(spilling: Kernel) -> None:
    found = spill_map(spilling)
    assert found is not None
    assert spilling.sass is not None
    letters = {"spill": "s", "array": "a", "frame": "f", "unknown": "u"}
    assert places(found) == [
        (access.address, letters[access.kind].upper() if access.store else letters[access.kind], str(access.depth), 1)
        for access in spilling.sass.local.accesses
    ]
    assert found["totals"]["spill"] == [40, 40, 160, 160]
    assert found["lines"] == list(dict.fromkeys(where(access.source) for access in spilling.sass.local.accesses))


def test_a_coarse_strip_counts_the_same(spilling: Kernel) -> None:
    fine, coarse = spill_map(spilling), spill_map(spilling, marks=20)
    assert fine is not None
    assert coarse is not None
    assert len(coarse["marks"]["at"]) < len(fine["marks"]["at"])
    for found in (fine, coarse):
        counted: Counter[tuple[str, str]] = Counter()
        for _, what, depth, count in places(found):
            counted[what, depth] += count
        assert counted == Counter((what, depth) for _, what, depth, _ in places(fine))


def test_a_snapshot_has_values_but_no_places(spilling: Kernel) -> None:
    assert spilling.sass is not None
    local = spilling.sass.local
    kept = replace(local, accesses=(), kept=tuple(local.groups.items()))
    found = spill_map(replace(spilling, sass=replace(spilling.sass, local=kept)))
    assert found is not None
    assert found["marks"] is None
    assert found["totals"]["spill"] == [40, 40, 160, 160]


def test_a_kernel_without_local_memory_has_no_map(kernels: dict[str, Kernel]) -> None:
    assert spill_map(kernels["plain"]) is None


def test_an_unknown_launch_is_a_bound() -> None:
    found = subject(summarise(Usage(registers=72), "sm_90"))
    assert found["assumed"] is True
    assert found["launch"].startswith("896 threads, 72 registers")
    assert found["notes"] == ["Barriers not reported: 1 assumed."]


def test_a_known_launch_has_its_limits() -> None:
    launch = Launch(threads_per_block=256, source="policy")
    found = subject(summarise(Usage(registers=72, barriers=1), "sm_90", launch))
    assert "assumed" not in found
    assert (found["title"], found["share"]) == ("sm_90 (Hopper GH100)", 375)
    assert found["result"] == "3 blocks/SM, 24 of 64 warps, occupancy 37.5%, limited by registers"
    assert found["limits"][:3] == [
        ["warp slots", "8", False],
        ["registers", "3", True],
        ["shared memory", "228", False],
    ]


@pytest.mark.parametrize(
    ("usage", "arch", "why"),
    [
        (Usage(), "sm_90", "no registers in the input"),
        (Usage(registers=32), None, "the input names no arch"),
        (Usage(registers=32), "sm_999", "unknown"),
    ],
)
def test_unknown_values_are_not_drawn(usage: Usage, arch: str | None, why: str) -> None:
    found = subject(summarise(usage, arch))
    assert "result" not in found
    assert why in found["unknown"]


def test_kernels_of_equal_values_share_a_subject() -> None:
    many = [
        Kernel(key=KernelKey(symbol=f"k{number}", arch="sm_90"), role="entry", usage=Usage(registers=8 * (number % 4)))
        for number in range(4000)
    ]
    found = details(many, LaunchMap())
    assert [row[0] for row in found["details"][:5]] == [0, 1, 2, 3, 0]
    assert len(found["subjects"]) == 4
    assert len(json.dumps(found["details"])) < 4000 * 6


def test_device_functions_are_never_launched(spilling: Kernel) -> None:
    [row] = details([replace(spilling, role="function")], LaunchMap())["details"]
    assert row[0] == -1
    assert row[1]["totals"]


def test_maps_take_no_more_than_their_share(spilling: Kernel) -> None:
    rows = details([spilling] * 1000, LaunchMap())["details"]
    taken = sum(len(json.dumps(row[1], separators=(",", ":"))) for row in rows if row[1])
    assert 0.9 * MAP_BYTES < taken < 1.1 * MAP_BYTES
    assert rows[0][1]
    assert rows[-1][1] is False


def test_unreported_local_memory_is_no_map() -> None:
    bare = Kernel(
        key=KernelKey(symbol="k", arch="sm_90"),
        role="entry",
        usage=Usage(registers=32),
        sass=SassStats(instructions=4, code_bytes=64, opcodes=(("EXIT", 4),)),
    )
    assert details([bare], LaunchMap())["details"] == [[0]]


def test_earlier_values_are_reported_if_they_can_be_drawn() -> None:
    def reported(registers: int | None) -> Kernel:
        return Kernel(key=KernelKey(symbol="k", arch="sm_90"), role="entry", usage=Usage(registers=registers))

    kernels = [reported(64), reported(64), reported(64)]
    found = details(kernels, LaunchMap(), {0: reported(96), 1: reported(64), 2: reported(None)})
    assert list(found["before"]) == [0], "the same metrics, and none, are nothing to draw"
    assert "96 registers" in found["subjects"][found["before"][0]]["launch"]
    assert not details(kernels, LaunchMap())["before"]


def test_the_memory_that_a_stack_reserves_is_noted() -> None:
    local: Any = SimpleNamespace(matters=True, total_bytes=910 << 20, stack_bytes=4312, gpu="A100", multiprocessors=108)
    of_kernel: Any = {
        "occupancy": None,
        "local_memory": local,
    }
    note = "local memory: a 4,312 B stack reserves 910 MiB on one A100 (108 SMs)"
    assert _notes(SimpleNamespace(**of_kernel)) == [note]  # type: ignore[arg-type]
