"""Truth table of launches by sidecars. One fact per row, typed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from spillscan.model import Kernel, KernelKey, LaunchBounds, Origin, Sidecar, Usage
from spillscan.model.code import SassStats
from spillscan.reading.join import attach_sidecars

PLACE = "cache/k"


def siblings(symbol: str = "k", place: str = PLACE, **said: Any) -> Sidecar:
    return Sidecar(place=place, symbol=symbol, origin=Origin(input=f"{place}.json"), **said)


TABLE: list[tuple[str, dict[str, Any], list[Sidecar], tuple[int, int, int | None, int] | None, int]] = [
    ("nothing beside it", {}, [], None, 0),
    ("threads alone: dynamic memory is open", {}, [siblings(threads_per_block=64)], None, 0),
    ("dynamic memory alone: threads are open", {}, [siblings(dynamic_shared_bytes=64)], None, 0),
    (
        "both, and one block a cluster where nobody says more",
        {},
        [siblings(threads_per_block=64, dynamic_shared_bytes=512)],
        (64, 512, 512, 1),
        0,
    ),
    (
        "a cluster that it names",
        {},
        [siblings(threads_per_block=64, dynamic_shared_bytes=512, cluster_blocks=4)],
        (64, 512, 512, 4),
        0,
    ),
    (
        "from two files of one place, one of them for all its kernels",
        {},
        [siblings(dynamic_shared_bytes=0), siblings(symbol="", threads_per_block=64)],
        (64, 0, None, 1),
        0,
    ),
    ("two that differ say nothing", {}, [siblings(threads_per_block=64), siblings(threads_per_block=32)], None, 0),
    ("of another kernel", {}, [siblings("l", threads_per_block=64, dynamic_shared_bytes=0)], None, 0),
    ("of another place", {}, [siblings(place="cache/l", threads_per_block=64, dynamic_shared_bytes=0)], None, 0),
    (
        "its code has no dynamic memory",
        {"dynamic_shared": False},
        [siblings(threads_per_block=64)],
        (64, 0, None, 1),
        0,
    ),
    (
        "its code promises a block size",
        {"launch_bounds": LaunchBounds(required_threads=128)},
        [siblings(dynamic_shared_bytes=8)],
        (128, 8, 8, 1),
        0,
    ),
    (
        "and another is no launch of this code",
        {"launch_bounds": LaunchBounds(required_threads=128)},
        [siblings(threads_per_block=127, dynamic_shared_bytes=8)],
        None,
        128,
    ),
    (
        "as many as its bounds allow",
        {"launch_bounds": LaunchBounds(max_threads=128)},
        [siblings(threads_per_block=128, dynamic_shared_bytes=8)],
        (128, 8, 8, 1),
        0,
    ),
    (
        "more than they allow",
        {"launch_bounds": LaunchBounds(max_threads=128)},
        [siblings(threads_per_block=129, dynamic_shared_bytes=8)],
        None,
        128,
    ),
    ("a function has none", {"role": "function"}, [siblings(threads_per_block=64, dynamic_shared_bytes=8)], None, 0),
]


def kernel_of(**facts: Any) -> Kernel:
    sass = SassStats(instructions=1, code_bytes=16, opcodes=(("NOP", 1),), origin=Origin(input=f"{PLACE}.cubin"))
    fields = {"key": KernelKey(symbol="k", arch="sm_90", unit=""), "role": "entry", "usage": Usage(), "sass": sass}
    return Kernel(**fields | facts)


def test_the_tile_is_the_first_setting() -> None:
    (found,), _ = attach_sidecars([kernel_of()], [siblings(configuration=(("num_warps", "4"), ("tile", "16×8")))])
    assert found.configuration == (("tile", "16×8"), ("num_warps", "4"))


@pytest.mark.parametrize(("why", "kernel", "sidecars", "launch", "contradicted"), TABLE, ids=[row[0] for row in TABLE])
def test_launches(
    why: str,
    kernel: dict[str, Any],
    sidecars: list[Sidecar],
    launch: tuple[int, int, int | None, int] | None,
    contradicted: int,
) -> None:
    (found,), reported = attach_sidecars([kernel_of(**kernel)], sidecars)
    got = found.launch and (
        found.launch.threads_per_block,
        found.launch.dynamic_shared_bytes,
        found.launch.max_dynamic_shared_bytes,
        found.launch.cluster_blocks,
    )
    assert got == launch, why
    threads = sidecars[0].threads_per_block if sidecars else None
    said = f"k: {threads} threads per block in {PLACE}.json; the code allows {contradicted}"
    assert [(each.code, each.message) for each in reported] == [("launch-mismatch", said)] * bool(contradicted)
