"""Truth table: how a kernel is launched by what its compiler wrote beside its code."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from spillscan.model import Kernel, KernelKey, Launch, LaunchBounds, Origin, Sidecar, Usage
from spillscan.model.code import SassStats
from spillscan.reading.inputs.sidecars import _tiles, place_of
from spillscan.reading.join import attach_sidecars

BESIDE = Origin(input="/cache/one/k.json")
CODE = SassStats(instructions=1, code_bytes=16, opcodes=(("EXIT", 1),), origin=Origin(input="/cache/one/k.cubin"))
KERNEL = Kernel(key=KernelKey(symbol="k", arch="sm_90", unit=""), role="entry", usage=Usage(registers=32), sass=CODE)
PLACE = place_of("/cache/one/k.cubin")


def sidecar(symbol: str = "k", **fields: Any) -> Sidecar:
    return Sidecar(**{"place": PLACE, "symbol": symbol, "origin": BESIDE, **fields})


WARPS = {"threads_per_block": 128, "dynamic_shared_bytes": 0}
SAID = Launch(threads_per_block=128, source="sidecar")


@pytest.mark.parametrize(
    ("kernel", "beside", "launch", "issues"),
    [
        (KERNEL, [sidecar(**WARPS)], SAID, 0),
        (KERNEL, [sidecar(**WARPS, cluster_blocks=1)], SAID, 0),
        (KERNEL, [sidecar(**WARPS, cluster_blocks=4)], replace(SAID, cluster_blocks=4), 0),
        (KERNEL, [sidecar(**WARPS), sidecar("", cluster_blocks=2)], replace(SAID, cluster_blocks=2), 0),
        (
            KERNEL,
            [sidecar(threads_per_block=128, dynamic_shared_bytes=512)],
            replace(SAID, dynamic_shared_bytes=512, max_dynamic_shared_bytes=512),
            0,
        ),
        (KERNEL, [sidecar(threads_per_block=128)], None, 0),  # nobody says what dynamic shared memory it has
        (replace(KERNEL, dynamic_shared=False), [sidecar(threads_per_block=128)], SAID, 0),
        (KERNEL, [sidecar(**WARPS), sidecar(threads_per_block=256)], None, 0),  # they differ
        (KERNEL, [sidecar("other", **WARPS)], None, 0),
        (KERNEL, [sidecar(place="/elsewhere", **WARPS)], None, 0),
        (replace(KERNEL, role="function"), [sidecar(**WARPS)], None, 0),
        (replace(KERNEL, sass=None), [sidecar(**WARPS)], None, 0),
        (replace(KERNEL, launch_bounds=LaunchBounds(max_threads=128)), [sidecar(**WARPS)], SAID, 0),
        (replace(KERNEL, launch_bounds=LaunchBounds(max_threads=127)), [sidecar(**WARPS)], None, 1),
        (replace(KERNEL, launch_bounds=LaunchBounds(max_threads=256)), [sidecar(**WARPS)], SAID, 0),
        (replace(KERNEL, launch_bounds=LaunchBounds(required_threads=256)), [sidecar(**WARPS)], None, 1),
        (replace(KERNEL, launch_bounds=LaunchBounds(required_threads=128)), [sidecar(**WARPS)], SAID, 0),
        (replace(KERNEL, launch_bounds=LaunchBounds(required_threads=128)), [sidecar(dynamic_shared_bytes=0)], SAID, 0),
        (replace(KERNEL, launch_bounds=LaunchBounds(max_threads=128)), [sidecar(dynamic_shared_bytes=0)], None, 0),
    ],
)
def test_launched(kernel: Kernel, beside: list[Sidecar], launch: Launch | None, issues: int) -> None:
    (found,), said = attach_sidecars([kernel], beside)
    assert found.launch == launch
    assert len(said) == issues


@pytest.mark.parametrize(
    ("text", "symbol", "tile"),
    [
        ("tt.func public @k(%a) {\n tt.store %p : tensor<128x!tt.ptr<f32>>\n}", "k", "128"),
        ('tt.func public @"a kernel"(%a) {\n tt.store %p : tensor<128x!tt.ptr<f32>>\n}', "a kernel", "128"),
        (
            "tt.func public @k(%a) {\n tt.store %p : tensor<8x!tt.ptr<f32>>\n"
            " tt.store %q : tensor<4x16x!tt.ptr<f32>>\n tt.store %r : tensor<16x!tt.ptr<f32>>\n}",
            "k",
            "4×16",
        ),
        (
            "tt.func public @k(%a) {\n tt.store %p : tensor<512x512x!tt.ptr<f32>>\n"
            " %x = tt.dot %a, %b, %c : tensor<64x32xf16> * tensor<32x128xf16> -> tensor<64x128xf32>\n"
            " %y = tt.dot %a, %b, %c : tensor<16x32xf16> * tensor<32x16xf16> -> tensor<16x16xf32>\n}",
            "k",
            "64×128×32",
        ),
        ("tt.func public @k(%a) {\n}", None, ""),
        ("tt.func public @k() {\n}\ntt.func public @j() {\n tt.store %p : tensor<8x!tt.ptr<f32>>\n}", None, ""),
    ],
)
def test_the_tile_of_a_module(text: str, symbol: str | None, tile: str) -> None:
    found = [(each.symbol, each.configuration) for each in _tiles(text, PLACE, BESIDE)]
    assert found == ([] if symbol is None else [(symbol, (("tile", tile),))])
