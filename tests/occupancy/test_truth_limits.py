"""Truth table: which resource bounds the blocks of an SM. One fact a row, every limit of it, and why.

Limits are in the order of ``LIMITERS``: warps, registers, shared memory, blocks, barriers, virtual resources; ``None``
where a resource does not limit.
"""

from __future__ import annotations

from typing import Any

import pytest

from spillscan.occupancy import occupancy
from spillscan.occupancy.headroom import headroom
from spillscan.occupancy.model import LIMITERS
from spillscan.occupancy.summary import clusters
from spillscan.output.errors import UsageError

K = 1024
Limits = tuple[int | None, ...]

ROWS: list[tuple[str, str, dict[str, Any], int, Limits, tuple[str, ...], int]] = [
    # why, arch, launch, blocks, limits, what binds, shared memory that an SM is set to
    (
        "64 registers x 256 threads are a quarter of 64 K",
        *("sm_90", {"registers": 64, "threads_per_block": 256}),
        *(4, (8, 4, 228, 32, 64, None), ("registers",), 228 * K),
    ),
    (
        "a tie: both bind",
        *("sm_90", {"registers": 32, "threads_per_block": 256}),
        *(8, (8, 8, 228, 32, 64, None), ("warps", "registers"), 228 * K),
    ),
    (
        "a tie of three",
        *("sm_86", {"registers": 40, "threads_per_block": 256, "static_shared_bytes": 15 * K}),
        *(6, (6, 6, 6, 16, None, None), ("warps", "registers", "shared_memory"), 100 * K),
    ),
    (
        "32 block slots, however small the block",
        *("sm_90", {"registers": 16, "threads_per_block": 32}),
        *(32, (64, 128, 228, 32, 64, None), ("blocks",), 228 * K),
    ),
    (
        "no registers: they do not limit",
        *("sm_90", {"registers": 0, "threads_per_block": 128}),
        *(16, (16, None, 228, 32, 64, None), ("warps",), 228 * K),
    ),
    (
        "5 warps go into partitions of 12: 48 warps are 9 blocks, not 10",
        *("sm_90", {"registers": 40, "threads_per_block": 160}),
        *(9, (12, 9, 228, 32, 64, None), ("registers",), 228 * K),
    ),
    (
        "65 registers are allocated as 72: 1,024 threads do not fit",
        *("sm_90", {"registers": 65, "threads_per_block": 1024}),
        *(0, (2, 0, 228, 32, 64, None), ("registers",), 228 * K),
    ),
    (
        "a block of 5.3 has 32 K registers, of an SM's 64 K",
        *("sm_53", {"registers": 40, "threads_per_block": 1024}),
        *(0, (2, 0, None, 32, None, None), ("registers",), 64 * K),
    ),
    (
        "from 9.0 on named barriers limit: 64 an SM",
        *("sm_90", {"registers": 16, "threads_per_block": 64, "barriers": 4}),
        *(16, (32, 64, 228, 32, 16, None), ("barriers",), 228 * K),
    ),
    (
        "before 9.0 they do not",
        *("sm_80", {"registers": 16, "threads_per_block": 64, "barriers": 16}),
        *(32, (32, 64, 164, 32, None, None), ("warps", "blocks"), 164 * K),
    ),
    (
        "from 10.0 on there are virtual resources",
        *("sm_100", {"registers": 32, "threads_per_block": 128, "virtual_resources": 1}),
        *(16, (16, 16, 228, 32, 64, 128), ("warps", "registers"), 228 * K),
    ),
    (
        "the driver's reserve: 16 KB take 17, of 164 KB 9 and not 10",
        *("sm_80", {"registers": 16, "threads_per_block": 128, "static_shared_bytes": 16 * K}),
        *(9, (16, 32, 9, 32, None, None), ("shared_memory",), 164 * K),
    ),
    (
        "before 8.0 there is no reserve",
        *("sm_75", {"registers": 16, "threads_per_block": 128, "static_shared_bytes": 16 * K}),
        *(4, (8, 32, 4, 16, None, None), ("shared_memory",), 64 * K),
    ),
    (
        "a carve-out of 50% of 228 KB is 114, and the next step 132",
        *("sm_90", {"registers": 16, "threads_per_block": 128, "static_shared_bytes": 7 * K, "carveout_percent": 50}),
        *(16, (16, 32, 16, 32, 64, None), ("warps", "shared_memory"), 132 * K),
    ),
    (
        "a carve-out that holds no block is the least that does",
        *("sm_90", {"registers": 16, "threads_per_block": 128, "static_shared_bytes": 16 * K, "carveout_percent": 0}),
        *(1, (16, 32, 1, 32, 64, None), ("shared_memory",), 32 * K),
    ),
    (
        "48 KB without opt-in",
        *("sm_90", {"registers": 16, "threads_per_block": 128, "dynamic_shared_bytes": 48 * K}),
        *(4, (16, 32, 4, 32, 64, None), ("shared_memory",), 228 * K),
    ),
    (
        "a byte more needs it",
        *("sm_90", {"registers": 16, "threads_per_block": 128, "dynamic_shared_bytes": 48 * K + 1}),
        *(0, (16, 32, 0, 32, 64, None), ("shared_memory",), 228 * K),
    ),
    (
        "no more than the kernel opted in for",
        "sm_90",
        {
            "registers": 16,
            "threads_per_block": 128,
            "dynamic_shared_bytes": 5000,
            "max_dynamic_shared_bytes": 4000,
        },
        *(0, (16, 32, 0, 32, 64, None), ("shared_memory",), 228 * K),
    ),
]


@pytest.mark.parametrize(
    ("why", "arch", "launch", "blocks", "limits", "binding", "shared"), ROWS, ids=[row[0] for row in ROWS]
)
def test_limits(
    why: str,
    arch: str,
    launch: dict[str, Any],
    blocks: int,
    limits: Limits,
    binding: tuple[str, ...],
    shared: int,
) -> None:
    found = occupancy(arch, **launch)
    assert (found.resident_blocks, found.limiters, found.shared_bytes_per_sm) == (blocks, binding, shared), why
    assert found.limits == dict(zip(LIMITERS, limits, strict=True)), why
    assert bool(found.reasons) == (blocks == 0), "what cannot launch says why"


Step = tuple[int, int] | None
STEPS: list[tuple[str, dict[str, Any], dict[str, tuple[Step, int, Step]]]] = [
    # why, launch on 9.0, by resource: (figure, blocks) with a block more; what is free; (figure, blocks) with fewer
    (
        "41 registers are allocated as 48: 7 are free, one less is a step",
        {"registers": 41, "threads_per_block": 256},
        {
            "registers": ((40, 6), 7, (49, 4)),
            "shared": (None, 44 * K + 512, (44 * K + 513, 4)),
            "barriers": (None, 11, (13, 4)),
        },
    ),
    (
        "where warps bind, fewer registers bring nothing",
        {"registers": 32, "threads_per_block": 256},
        {
            "registers": (None, 0, (33, 6)),
            "shared": (None, 27 * K + 512, (27 * K + 513, 7)),
            "barriers": (None, 7, (9, 7)),
        },
    ),
    (
        "barriers alone bind: one fewer a block brings blocks",
        {"registers": 16, "threads_per_block": 64, "barriers": 4},
        {
            "registers": (None, 48, (65, 14)),
            "shared": (None, 13 * K + 256, (13 * K + 257, 15)),
            "barriers": ((3, 21), 0, (5, 12)),
        },
    ),
    (
        "what cannot launch has nothing free, and a step back to launching",
        {"registers": 65, "threads_per_block": 1024},
        {"registers": ((64, 1), 0, None), "shared": (None, 0, None), "barriers": (None, 0, None)},
    ),
]


@pytest.mark.parametrize(("why", "launch", "expected"), STEPS, ids=[step[0] for step in STEPS])
def test_headroom(why: str, launch: dict[str, Any], expected: dict[str, tuple[Step, int, Step]]) -> None:
    found = {}
    for way in headroom(occupancy("sm_90", **launch)):
        more, fewer = (
            None if step is None else (step.after, step.blocks_after) for step in (way.more_blocks, way.fewer_blocks)
        )
        found[way.resource] = (more, way.free, fewer)
    assert found == expected, why


CLUSTERS: list[tuple[str, int, int | None, tuple[bool, int | None, bool]]] = [
    # why, blocks of a cluster, SMs, (portable, active, exact); 32 blocks an SM
    ("no more than 8 blocks of an SM are counted", 1, 132, (True, 1056, True)),
    ("two blocks a cluster", 2, 132, (True, 528, True)),
    ("from three on the layout of the GPU decides", 3, 132, (True, 352, False)),
    ("eight is the largest that every GPU takes", 8, 132, (True, 132, False)),
    ("beyond it takes an attribute", 9, 132, (False, 117, False)),
    ("sixteen is the largest", 16, 132, (False, 66, False)),
    ("SMs that are not known are none to count", 4, None, (True, None, False)),
]


@pytest.mark.parametrize(("why", "blocks", "multiprocessors", "expected"), CLUSTERS, ids=[row[0] for row in CLUSTERS])
def test_clusters(why: str, blocks: int, multiprocessors: int | None, expected: tuple[bool, int | None, bool]) -> None:
    found = clusters(occupancy("sm_90", registers=32, threads_per_block=32), blocks, multiprocessors)
    assert (found.portable, found.active, found.exact) == expected, why


@pytest.mark.parametrize(("arch", "blocks"), [("sm_80", 2), ("sm_90", 0), ("sm_90", 17)])
def test_no_such_clusters(arch: str, blocks: int) -> None:
    with pytest.raises(UsageError):
        clusters(occupancy(arch, registers=32, threads_per_block=32), blocks)
