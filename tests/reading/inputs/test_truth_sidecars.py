"""Contents of sidecars: one fact per row. Typed by hand."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from spillscan.model import Sidecar
from spillscan.reading.inputs import formats, sidecars
from spillscan.reading.inputs.source import Stream

MOST = sidecars.LARGEST_SHARED_BYTES
PLAIN = {"hash": "x", "name": "k", "num_warps": 4, "shared": 0, "num_stages": 3}


def found(text: str | bytes, name: str = "c/k.json") -> list[Sidecar]:
    data = text.encode() if isinstance(text, str) else text
    assert formats.text_reader_of(data) == "inputs.sidecars"
    return sidecars.read(Stream(io.BytesIO(data), name), name).sidecars


@pytest.mark.parametrize(
    ("more", "threads", "shared", "cluster", "why"),
    [
        ({}, 128, 0, 1, "four warps of 32"),
        ({"warp_size": 64}, 256, 0, 1, "of 64"),
        ({"num_warps": 32, "shared": MOST}, 1024, MOST, 1, "as many as there may be"),
        ({"num_ctas": 16}, 128, 0, 16, "the largest cluster"),
        ({"cluster_dims": [2, 2, 1]}, 128, 0, 4, "its dimensions"),
        ({"cluster_dims": [1, 1, 1], "num_ctas": 2}, 128, 0, 2, "the larger of both"),
        ({"cluster_dims": [2, 2]}, 128, 0, 1, "which are three"),
        ({"cluster_dims": [0, 17, 2]}, 128, 0, 2, "each of 1 to 16"),
        ({"num_ctas": 17}, 128, 0, 1, "what is no number of blocks is none"),
    ],
)
def test_launches_of_triton(more: dict[str, Any], threads: int, shared: int, cluster: int, why: str) -> None:
    (one,) = found(json.dumps(PLAIN | more))
    assert (one.place, one.symbol) == ("c/k", "k")
    assert (one.threads_per_block, one.dynamic_shared_bytes, one.cluster_blocks) == (threads, shared, cluster), why


@pytest.mark.parametrize(
    "more",
    [
        {"num_warps": 0},
        {"num_warps": 33},
        {"num_warps": True},
        {"num_warps": "4"},
        {"warp_size": 65},
        {"warp_size": 0},
        {"shared": -1},
        {"shared": MOST + 1},
        {"shared": 0.5},
        {"name": None},
        {"cluster_dims": [4, 4, 2]},
    ],
)
def test_impossible_triton_metadata(more: dict[str, Any]) -> None:
    assert found(json.dumps(PLAIN | more)) == []


@pytest.mark.parametrize(
    ("more", "configuration"),
    [
        ({}, {"num_warps": "4", "num_stages": "3"}),
        ({"num_stages": 0}, {"num_warps": "4", "num_stages": "0"}),
        ({"num_stages": 65}, {"num_warps": "4"}),
        ({"num_ctas": 2}, {"num_warps": "4", "num_stages": "3", "num_ctas": "2"}),
        ({"num_ctas": 1}, {"num_warps": "4", "num_stages": "3"}),
        ({"maxnreg": 255}, {"num_warps": "4", "num_stages": "3", "maxnreg": "255"}),
        ({"maxnreg": 256}, {"num_warps": "4", "num_stages": "3"}),
        ({"maxnreg": None}, {"num_warps": "4", "num_stages": "3"}),
    ],
)
def test_triton_parameters(more: dict[str, Any], configuration: dict[str, str]) -> None:
    (one,) = found(json.dumps(PLAIN | more))
    assert dict(one.configuration) == configuration


HEAD = "tt.func public @mm(%a: i32) {\n"
DOT = "%r = tt.dot %a, %b, %c : tensor<{0}x{2}xf16> * tensor<{2}x{1}xf16> -> tensor<{0}x{1}xf32>\n"
STORE = "tt.store %p, %v : tensor<{}x!tt.ptr<f32>>\n"


@pytest.mark.parametrize(
    ("body", "tile", "why"),
    [
        (DOT.format(64, 32, 16), "64×32×16", "rows, columns, depth"),
        (DOT.format(16, 16, 16) + DOT.format(64, 32, 16), "64×32×16", "of the largest product"),
        (DOT.format(16, 16, 16) + STORE.format("128x64"), "16×16×16", "a product, whatever is stored"),
        (STORE.format("1024"), "1024", "else what is stored"),
        (STORE.format("32x4") + STORE.format("64x8"), "64×8", "the largest"),
        ("", None, "there is none"),
        (DOT.format(64, 32, 16) + HEAD.replace("mm", "nn"), None, "of which of two is not said"),
    ],
)
def test_tiles(body: str, tile: str | None, why: str) -> None:
    shapes = [(each.symbol, *each.configuration) for each in found(HEAD + body, "k.ttir")]
    assert shapes == ([] if tile is None else [("mm", ("tile", tile))]), why


def test_a_quoted_name() -> None:
    (one,) = found(HEAD.replace("mm", '"a b"') + STORE.format("8"), "k.source")
    assert one.symbol == "a b"


@pytest.mark.parametrize(
    ("value", "shared"), [(0, 0), (MOST, MOST), (MOST + 1, None), (-1, None), ("4", None), (True, None)]
)
def test_shared_memory_of_warp(value: object, shared: int | None) -> None:
    text = json.dumps({"first_smem_bytes": 1, "second_smem_bytes": value, "other": 5})
    expected = [("first", 1), *([] if shared is None else [("second", shared)])]
    assert [(each.symbol, each.dynamic_shared_bytes) for each in found(text, "m.meta")] == expected


@pytest.mark.parametrize(("threads", "known"), [(1, True), (256, True), (1024, True), (1025, False), (0, False)])
def test_threads_of_warp(threads: int, known: bool) -> None:
    said = found(f"#include <x>\n#define WP_TILE_BLOCK_DIM {threads}\n", "wp_m.cu")
    assert [(each.place, each.symbol, each.threads_per_block) for each in said] == [("wp_m", "", threads)] * known


@pytest.mark.parametrize(
    ("path", "place"), [("a/b.c.json", "a/b"), ("b.json", "b"), ("a.d/b.sm90.cubin", "a.d/b"), ("a/b", "a/b")]
)
def test_files_of_one_stem(path: str, place: str) -> None:
    assert sidecars.place_of(path) == place


@pytest.mark.parametrize("text", ['{"hash": "x", "num_warps": 4, "shared": 0', '{"a_smem_bytes": 1'])
def test_damage_is_ignored(text: str) -> None:
    assert found(text) == []
