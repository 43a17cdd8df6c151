"""Occupancy as text for people, one fact per row. Typed by hand."""

from __future__ import annotations

import pytest

from spillscan.model import Usage
from spillscan.occupancy import device, devices, occupancy
from spillscan.occupancy.devices import runs_on
from spillscan.occupancy.model import findings
from spillscan.occupancy.summary import Clusters, summarise
from spillscan.occupancy.text import cluster_line
from spillscan.output.nouns import size


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
        (
            2,
            True,
            None,
            True,
            "active clusters unknown: pass a GPU such as H200 instead of an arch",
        ),
        (2, True, 132, True, "132 active on the GPU"),
        (2, True, 0, True, "0 active on the GPU"),
        (4, True, 66, False, "at most 66 active on the GPU (depends on the layout of its SM clusters)"),
        (
            16,
            False,
            None,
            False,
            "active clusters unknown: pass a GPU such as H200 instead of an arch; non-portable size, needs",
        ),
    ],
)
def test_clusters(blocks: int, portable: bool, active: int | None, exact: bool, line: str) -> None:
    found = cluster_line(Clusters(cluster_blocks=blocks, portable=portable, active=active, exact=exact))
    assert found.removesuffix(" NonPortableClusterSizeAllowed") == f"clusters of {blocks}: {line}"


@pytest.mark.parametrize(
    ("threads", "finding"),
    [(1024, "all 64 warp slots are in use"), (768, "blocks of 24 warps leave 16 of 64 slots empty")],
)
def test_warp_slots(threads: int, finding: str) -> None:
    assert dict(findings(occupancy("sm_90", registers=16, threads_per_block=threads)))["warps"] == finding


def test_one_register_more_than_the_header_checks_cannot_launch() -> None:
    for one in devices():
        most = 256 if float(one.compute_capability) >= 7 else 255
        assert one.checked_registers == most
        assert one.version == tuple(map(int, one.compute_capability.split(".")))


@pytest.mark.parametrize(
    ("target", "normal", "opted_in"),
    [
        ("sm_35", 48, 48),
        ("sm_52", 48, 48),
        ("sm_61", 48, 48),
        ("sm_70", 48, 96),
        ("sm_75", 48, 64),
        ("sm_80", 49, 164),
        ("sm_86", 49, 100),
        ("sm_89", 49, 100),
        ("sm_90", 49, 228),
    ],
)
def test_shared_memory_of_one_block(target: str, normal: int, opted_in: int) -> None:
    """KiB, with the driver's reserve of 1 KiB from 8.0 on (CUDA C++ Programming Guide, technical specifications)."""
    one = device(target)
    assert one.shared_limit_per_block == normal * 1024
    assert one.shared_limit_per_block_optin == opted_in * 1024


@pytest.mark.parametrize(
    ("arch", "target", "runs"),
    [
        ("sm_101f", "sm_101", True),
        ("sm_101f", "sm_100", False),
        ("sm_100f", "sm_101", False),
        ("sm_100f", "sm_100", True),
        ("sm_103f", "sm_100", False),
        ("sm_120f", "sm_121", True),
        ("sm_121f", "sm_120", False),
        ("sm_120f", "sm_100", False),
        ("sm_90a", "sm_90", True),
        ("sm_120a", "sm_121", False),
        ("sm_75", "sm_70", False),
        ("sm_70", "sm_75", True),
    ],
)
def test_devices_that_run_code(arch: str, target: str, runs: bool) -> None:
    assert runs_on(arch, target) == runs


@pytest.mark.parametrize("registers", [24, 40, 41, 72, 130, 168, 255])
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_90"])
def test_a_bound_is_never_rounded_down(arch: str, registers: int) -> None:
    found = summarise(Usage(registers=registers, shared_bytes=0, barriers=1), arch)
    assert found.occupancy is not None
    shown = float(found.line.removeprefix("at most ").partition("%")[0])
    assert shown >= 100 * found.occupancy.fraction - 1e-9
