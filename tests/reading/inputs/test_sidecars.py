"""Caches of Python kernel compilers: every kernel is read, with the launch of its metadata."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from spillscan import scan
from spillscan.judging import rules
from spillscan.judging.compare.pairing import diff
from spillscan.judging.policy.effective import Policy
from spillscan.model import Build, Kernel, Launch, LaunchBounds
from spillscan.naming import Names
from spillscan.occupancy.devices import devices
from spillscan.occupancy.launches import settled
from spillscan.occupancy.summary import summarise
from spillscan.reading.inputs import sidecars
from spillscan.reading.join import attach_sidecars
from tests.conftest import FIXTURES, run
from tests.oracle import occupancy_header as header

CACHES = sorted(path.name.removesuffix(".tar.xz") for path in (FIXTURES / "caches").iterdir())
LAUNCHED = [name for name in CACHES if name.startswith(("triton", "inductor", "warp", "cutile"))]
"""File with the launch of all its kernels."""
TRITON = [name for name in CACHES if name.startswith("triton")]


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {}
    for name in CACHES:
        folders[name] = tmp_path_factory.mktemp(name)
        with tarfile.open(FIXTURES / "caches" / f"{name}.tar.xz") as archive:
            archive.extractall(folders[name])
    return folders


def entries(folder: Path) -> list[Kernel]:
    build = scan(folder)
    assert not [issue for issue in build.issues if issue.severity != "note"]
    return [kernel for kernel in build.kernels if kernel.role == "entry"]


@pytest.mark.parametrize("name", TRITON)
def test_a_triton_kernel_has_the_launch_of_its_metadata(name: str, caches: dict[str, Path]) -> None:
    files = {path: json.loads(path.read_text()) for path in caches[name].rglob("*.json")}
    kernels = entries(caches[name])
    assert len(kernels) == len(files) == 5
    for kernel in kernels:
        assert kernel.sass is not None
        assert kernel.sass.origin is not None
        metadata = files[Path(kernel.sass.origin.input).with_suffix(".json")]
        launch = settled(kernel, None)
        assert launch is kernel.launch is not None
        assert (launch.threads_per_block, launch.dynamic_shared_bytes, launch.source) == (
            32 * metadata["num_warps"],
            metadata["shared"],
            "sidecar",
        )
        assert kernel.key.symbol == metadata["name"]
        assert dict(kernel.configuration)["num_stages"] == str(metadata["num_stages"])
    tiles = {(kernel.key.symbol, *dict(kernel.configuration).values()) for kernel in kernels}
    assert tiles == {
        ("mm", "32×64×32", "4", "2"),
        ("mm", "64×64×32", "4", "3"),
        ("mm", "64×32×32", "2", "2"),
        ("softmax", "2048", "8", "3"),
        ("add", "1024", "4", "3"),
    }


def test_inductor_configs_have_the_launches_of_their_metadata(caches: dict[str, Path]) -> None:
    cache = caches["inductor-2.15.0"]
    metadata = {path.parent.name: json.loads(path.read_text()) for path in cache.rglob("*.json")}
    kernels = entries(cache)
    assert len(kernels) == len(metadata) == 11
    assert {kernel.key.symbol for kernel in kernels} >= {"triton_red_fused_1", "triton_per_fused_2"}
    for kernel in kernels:
        assert kernel.sass is not None
        assert kernel.sass.origin is not None
        assert kernel.launch is not None
        one = metadata[Path(kernel.sass.origin.input).parent.name]
        found = (kernel.key.symbol, kernel.launch.threads_per_block, kernel.launch.dynamic_shared_bytes)
        assert found == (one["name"], 32 * one["num_warps"], one["shared"])
    names = Names([kernel.named_by for kernel in kernels])
    shown = {names.of(kernel.named_by) for kernel in kernels}
    assert len(shown) == 11
    assert {"red1[64×1, 8 warps, 1 stage]", "red1[64×1, 16 warps, 1 stage]"} < shown


def test_a_warp_kernel_is_launched_with_the_blocks_of_its_source_and_the_memory_of_its_metadata(
    caches: dict[str, Path],
) -> None:
    (meta,) = caches["warp-1.19.0"].rglob("*.meta")
    metadata = json.loads(meta.read_text())
    launches = {kernel.key.symbol: kernel.launch for kernel in entries(caches["warp-1.19.0"])}
    assert {f"{symbol}_smem_bytes" for symbol in launches} <= set(metadata)
    assert len(launches) >= 3
    for symbol, launch in launches.items():
        assert launch is not None
        assert (launch.threads_per_block, launch.dynamic_shared_bytes) == (256, metadata[f"{symbol}_smem_bytes"])
    assert {launch.dynamic_shared_bytes for launch in launches.values() if launch} >= {0, 16384}


def test_a_cutile_kernel_has_all_its_shared_memory_in_its_code(caches: dict[str, Path]) -> None:
    kernels = entries(caches["cutile-1.7.0"])
    assert max(kernel.usage.shared_bytes or 0 for kernel in kernels) > 48 * 1024
    for kernel in kernels:
        found = summarise(kernel.usage, kernel.key.arch, settled(kernel, None))
        assert found.occupancy is not None
        assert found.occupancy.can_launch
        assert (found.at_most, found.mark, kernel.dynamic_shared) == (False, "", False)


def reported(folder: Path) -> dict[str, tuple[str | None, int | None, int | None, str]]:
    """Per kernel, by its readable name: source of its launch, the launch, and the mark of its occupancy."""
    kernels = entries(folder)
    names = Names([kernel.named_by for kernel in kernels])
    found = {}
    for kernel in kernels:
        launch = settled(kernel, None)
        mark = summarise(kernel.usage, kernel.key.arch, launch).mark
        source = None if launch is None else launch.source
        threads = None if launch is None else launch.threads_per_block
        dynamic = None if launch is None else launch.dynamic_shared_bytes
        found[names.of(kernel.named_by)] = (source, threads, dynamic, mark)
    return found


def test_caches_without_launches_have_those_by_bounds(caches: dict[str, Path]) -> None:
    assert reported(caches["cupy-14.2.0"]) == {
        "raw_sum": ("bounds", 256, None, "≤"),
        "turn<double, 64>": (None, None, None, "≤"),
        "turn<float, 128>": (None, None, None, "≤"),
    }
    assert reported(caches["numba-0.30.4"]) == {
        "__main__::turn": ("bounds", 256, 0, "~"),
        "__main__::add~285a": (None, None, None, "≤"),
        "__main__::add~5986": (None, None, None, "≤"),
    }
    assert reported(caches["cute-4.8.1"]) == {"turn_tensorptrf32gmemo10241__0": ("required", 256, None, "≤")}
    assert len(entries(caches["cute-4.8.1"])) == 2  # the disassembly, and the object of export_to_c


def test_a_cubin_may_lack_the_last_byte_that_cupy_takes_and_no_more(caches: dict[str, Path], tmp_path: Path) -> None:
    kept = next(path for path in caches["cupy-14.2.0"].iterdir() if "raw_sum" in path.read_text("latin-1"))
    data = kept.read_bytes()
    (tmp_path / "whole.cubin").write_bytes(data[40:] + b"\0")
    (whole,) = entries(tmp_path)
    (one,) = [kernel for kernel in entries(caches["cupy-14.2.0"]) if kernel.key.symbol == "raw_sum"]
    assert (whole.usage, whole.spills, whole.launch_bounds) == (one.usage, one.spills, one.launch_bounds)
    (tmp_path / "whole.cubin").write_bytes(data[:-1])
    done = run("scan", tmp_path / "whole.cubin")
    assert (done.returncode, b"bytes expected" in done.stderr) == (2, True)


def test_occupancy_is_that_of_the_header(caches: dict[str, Path]) -> None:
    kernels = [kernel for name in LAUNCHED for kernel in entries(caches[name])]
    launches = [launch for kernel in kernels if (launch := settled(kernel, None)) is not None]
    assert len(launches) == len(kernels) >= 15
    rows = header.configurations(len(kernels), seed=1)
    place = [one.target for one in devices()].index("sm_90")
    figures = {
        "device": [place] * len(kernels),
        "registers": [kernel.usage.registers for kernel in kernels],
        "threads_per_block": [launch.threads_per_block for launch in launches],
        "static_shared_bytes": [kernel.usage.shared_bytes for kernel in kernels],
        "dynamic_shared_bytes": [launch.dynamic_shared_bytes for launch in launches],
        "max_dynamic_shared_bytes": [200_000] * len(kernels),
        "carveout_percent": [header.NOT_SET] * len(kernels),
        "barriers": [kernel.usage.barriers for kernel in kernels],
        **dict.fromkeys(("cache_preference", "global_caching", "virtual_resources"), [0] * len(kernels)),
    }
    truth = header.ask(header.build(), rows | {name: np.array(column, np.int64) for name, column in figures.items()})
    for number, (kernel, launch) in enumerate(zip(kernels, launches, strict=True)):
        found = summarise(kernel.usage, "sm_90", launch).occupancy
        assert found is not None
        assert found.resident_blocks == truth["resident_blocks"][number]


def test_more_dynamic_shared_memory_of_the_same_code_is_a_change(caches: dict[str, Path]) -> None:
    before = next(each for each in entries(caches[TRITON[0]]) if each.key.symbol == "softmax")
    assert before.launch is not None
    more = {"dynamic_shared_bytes": 100_000, "max_dynamic_shared_bytes": 100_000}
    after = replace(before, launch=replace(before.launch, **more))
    changes = diff(Build(kernels=(before,)), Build(kernels=(after,)))
    assert ("dynamic_shared_bytes", 32, 100_000) in changes[0].metrics
    assert [each.rule for each in rules.check_changes(changes, Policy()).findings] == ["blocks-lost", "shared-growth"]
    assert diff(Build(kernels=(before,)), Build(kernels=(before,))) == []


def test_configs_are_named_and_selected_by_their_parameters(caches: dict[str, Path]) -> None:
    cache, name = caches[TRITON[0]], "mm[64×64×32, 4 warps, 3 stages]"
    assert name in run("scan", cache).stdout.decode()
    (chosen,) = json.loads(run("scan", cache, "--kernel", name, "-f", "json").stdout)["kernels"]
    assert (chosen["symbol"], dict(chosen["configuration"])["tile"]) == ("mm", "64×64×32")
    wide, narrow = (
        run("diff", cache, caches[TRITON[1]], env={**os.environ, "COLUMNS": columns}).stdout.decode()
        for columns in ("120", "80")
    )
    assert name in wide
    assert name not in narrow
    assert name in run("diff", cache, caches[TRITON[1]], "-f", "markdown").stdout.decode()


def test_the_policy_wins_with_override(caches: dict[str, Path]) -> None:
    metadata = run("occupancy", caches[TRITON[0]], "-f", "json", "--all", "--launch", "mm=32,1024,override").stdout
    found = {(each["symbol"], each["threads_per_block"], each["launch_source"]) for each in json.loads(metadata)}
    assert found == {("mm", 32, "override"), ("softmax", 256, "sidecar"), ("add", 128, "sidecar")}


def test_the_policy_may_speak_of_one_candidate(caches: dict[str, Path]) -> None:
    call = ("occupancy", caches[TRITON[0]], "-f", "json", "--all", "--launch")
    found = {
        (dict(each)["threads_per_block"], dict(each)["launch_source"])
        for each in json.loads(run(*call, "mm[[]64×64×32,*=32,1024,override").stdout)
        if each["symbol"] == "mm"
    }
    assert found == {(32, "override"), (128, "sidecar"), (64, "sidecar")}
    assert run(*call, "mm[[]16×*=32,1024").returncode == 2


def test_a_cubin_alone_takes_its_sidecars(caches: dict[str, Path]) -> None:
    path = next(caches[TRITON[0]].rglob("softmax.cubin"))
    (kernel,) = scan(path).kernels
    assert kernel.launch is not None
    assert dict(kernel.configuration)["tile"] == "2048"


def test_metadata_of_another_compilation_is_not_used(caches: dict[str, Path], tmp_path: Path) -> None:
    path = next(caches[TRITON[0]].rglob("softmax.cubin"))
    (tmp_path / "softmax.cubin").write_bytes(path.read_bytes())
    other = json.loads(path.with_suffix(".json").read_text()) | {"num_warps": 4}
    (tmp_path / "softmax.json").write_text(json.dumps(other))
    build = scan(tmp_path)
    assert [issue.code for issue in build.issues] == ["launch-mismatch"]
    assert build.issues[0].message.endswith("softmax.json; the code allows 256")
    found = settled(build.kernels[0], None)
    assert found is not None
    assert (found.source, found.dynamic_shared_bytes) == ("required", None)


@pytest.mark.parametrize(
    "text",
    [
        '{"hash": "x", "num_warps": 4, "shared": -1, "name": "k"}',
        '{"hash": "x", "num_warps": 64, "shared": 0, "name": "k"}',
        '{"hash": "x", "num_warps": true, "shared": 0, "name": "k"}',
        '{"hash": "x", "num_warps": 4, "shared": 0, "name": ["k"]}',
        '{"hash": "x", "num_warps": 4, "shared": 99999999999, "name": "k"}',
        '{"hash": "x", "num_warps": 4, "shared": 0, "name": "k"',
        '{"hash": ' + "[" * 100_000,
        '{"k_smem_bytes": -5}',
        "#define WP_TILE_BLOCK_DIM 4096\n",
    ],
)
def test_damaged_metadata_is_ignored(text: str, tmp_path: Path) -> None:
    path = tmp_path / "k.json"
    path.write_text(text)
    with sidecars.Stream(path.open("rb"), str(path)) as stream:
        assert sidecars.read(stream, str(path)).sidecars == []


@pytest.mark.parametrize(
    ("lines", "symbol", "tile"),
    [
        (["@k()", "tt.dot %a, %b : tensor<16x32xf16> * tensor<32x64xf16> -> x"], "k", "16×64×32"),
        (['@"k<1>"()', "tt.store %a, %b : tensor<16x!tt.ptr<f32>>"], "k<1>", "16"),
        (["@k$1.b()", "tt.store %a, %b : tensor<16x8x!tt.ptr<f32>>"], "k$1.b", "16×8"),
        (
            ["@k()", "tt.store %a, %b : tensor<16x!tt.ptr<f32>>", "tt.store %a, %b : tensor<4x8x!tt.ptr<f32>>"],
            "k",
            "4×8",
        ),
        (
            ["@k()", "tt.store %a, %b : tensor<512x!tt.ptr<f32>>", "tt.store %a, %b : tensor<4x!tt.ptr<f32>>"],
            "k",
            "512",
        ),
        (["@k()", "tt.return"], None, None),
        (["@k()", "tt.func public @l()", "tt.store %a, %b : tensor<16x!tt.ptr<f32>>"], None, None),
    ],
)
def test_a_tile_is_the_largest_product_or_store_of_the_only_kernel(
    lines: list[str], symbol: str | None, tile: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "k.ttir"
    path.write_text("module {\n  tt.func public " + "\n    ".join(lines) + "\n}\n")
    with sidecars.Stream(path.open("rb"), str(path)) as stream:
        found = [(each.symbol, each.configuration) for each in sidecars.read(stream, str(path)).sidecars]
    assert found == ([] if tile is None else [(symbol, (("tile", tile),))])


def test_sidecars_of_other_code_are_not_taken(caches: dict[str, Path]) -> None:
    kernel = next(each for each in entries(caches[TRITON[0]]) if each.key.symbol == "softmax")
    bare = replace(kernel, launch=None, configuration=())
    found, _ = attach_sidecars([bare], [])
    assert found == [bare]
    bounds = LaunchBounds(max_threads=64)
    assert settled(replace(bare, launch_bounds=bounds), None) == Launch(
        threads_per_block=64, dynamic_shared_bytes=None, source="bounds"
    )
