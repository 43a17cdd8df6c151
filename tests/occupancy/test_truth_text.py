"""What people read of an occupancy, one fact a row. Typed by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest

from spillscan.occupancy import Launch, device, devices, occupancy
from spillscan.occupancy.binding import advice
from spillscan.occupancy.text import _wrapped, cluster_line, size
from spillscan.occupancy.whole_gpu import Clusters


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        ((1 << 20) - 1, "1,048,575 B"),
        (1 << 20, "1 MiB"),
        (-(1 << 20), "-1 MiB"),
        (999 << 20, "999 MiB"),
        (1000 << 20, "1,000 MiB"),
        ((1 << 30) - 1, "1,024 MiB"),
        (1 << 30, "1 GiB"),
        (3 << 29, "1.5 GiB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("blocks", "portable", "active", "exact", "line"),
    [
        (2, True, None, True, "how many are active depends on the GPU; name one (--arch H200)"),
        (2, True, 132, True, "132 active on the GPU"),
        (2, True, 0, True, "0 active on the GPU"),
        (4, True, 66, False, "at most 66 active on the GPU (the layout of its clusters of SMs decides)"),
        (16, False, None, False, "how many are active depends on the GPU; name one (--arch H200); non-portable, needs"),
    ],
)
def test_clusters(blocks: int, portable: bool, active: int | None, exact: bool, line: str) -> None:
    found = cluster_line(Clusters(cluster_blocks=blocks, portable=portable, active=active, exact=exact))
    assert found.removesuffix(" the attribute") == f"clusters of {blocks}: {line}"


@pytest.mark.parametrize("width", [1, 5, 10, 36, 37, 38])
def test_cells_are_wrapped_and_none_is_lost(width: int) -> None:
    cells = [f"{number:0{width}d}" for number in range(40)]
    lines = _wrapped(cells)
    assert [line[:2] for line in lines] == ["  "] * len(lines)
    assert ", ".join(line[2:] for line in lines).split(", ") == cells
    assert all(len(line) <= 78 for line in lines)
    for line, following in pairwise(lines):
        assert len(line) + len(following.split(", ")[0].strip()) > 76


@pytest.mark.parametrize(
    ("arch", "registers", "threads", "finding", "remedy"),
    [
        ("sm_90", 16, 1024, "all 64 warp slots are in use", ""),
        ("sm_90", 16, 768, "blocks of 24 warps leave 16 of 64 slots empty", "another block size: 32 threads"),
    ],
)
def test_what_warps_advise(arch: str, registers: int, threads: int, finding: str, remedy: str) -> None:
    found = {each.limiter: each for each in advice(occupancy(arch, registers=registers, threads_per_block=threads))}
    assert found["warps"].finding == finding
    assert bool(found["warps"].remedy) == bool(remedy)
    assert found["warps"].remedy.startswith(remedy.partition(":")[0])


def test_one_register_more_than_the_header_checks_cannot_launch() -> None:
    for one in devices():
        most = 256 if float(one.compute_capability) >= 7 else 255
        assert one.checked_registers == most
        assert one.version == tuple(map(int, one.compute_capability.split(".")))


def test_launches_of_a_policy_know_their_blocks() -> None:
    assert Launch(threads_per_block=128, source="policy").cluster_blocks == 1
    assert device("sm_90").clusters
    assert not device("sm_89").clusters
