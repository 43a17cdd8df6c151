"""Launches that machine code implies, and their effect on tables and gates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from spillscan.judging import rules
from spillscan.judging.compare.effects import effects
from spillscan.judging.policy.effective import Policy
from spillscan.judging.policy.reading import from_options
from spillscan.model import Build, Kernel, Launch, LaunchBounds
from spillscan.model.code import MOST_REGISTERS
from spillscan.occupancy.bounds import register_limit
from spillscan.occupancy.devices import device
from spillscan.occupancy.launches import LaunchMap, launch, settled
from spillscan.occupancy.summary import summarise
from spillscan.reading.join.code import attach_code
from tests.conftest import run
from tests.reading.binary.support import functions, stored

ARCHS = ("sm_80", "sm_90")


def kernels(name: str) -> dict[str, Kernel]:
    """Kernels of a fixture, by symbol, as from a scan."""
    found, _ = attach_code([], functions(name))
    return {kernel.key.symbol: kernel for kernel in found if kernel.role == "entry"}


@pytest.mark.parametrize("arch", ARCHS)
def test_code_shows_whether_launches_give_it_shared_memory(arch: str) -> None:
    whole = kernels(f"launches-{arch}-13.0.cubin")
    assert {name: kernel.dynamic_shared for name, kernel in whole.items() if name != "clustered"} == {
        "only_dynamic": True,
        "bounded_dynamic": True,
        "by_call": True,
        "both": None,
        "only_static": None,
        "nothing": False,
        "bounded": False,
    }
    plain = kernels(f"launches-plain-{arch}-13.0.cubin")
    assert {kernel.dynamic_shared for kernel in plain.values()} == {False}
    linked = kernels(f"launches-linked-{arch}-13.0.cubin")
    assert {name for name, kernel in linked.items() if kernel.dynamic_shared} == {
        "only_dynamic",
        "bounded_dynamic",
        "by_call",
    }
    assert linked["both"].dynamic_shared is None
    assert linked["only_static"].dynamic_shared is False


def test_cluster_dimensions_are_those_of_the_source() -> None:
    clustered = kernels("launches-sm_90-13.0.cubin")["clustered"]
    assert clustered.launch_bounds == LaunchBounds(max_threads=128, cluster_blocks=4)
    found = settled(clustered, None)
    assert found is not None
    assert (found.cluster_blocks, found.source, found.dynamic_shared_bytes) == (4, "bounds", 0)


def test_a_launch_is_the_users_then_the_sidecars_then_by_bounds() -> None:
    bounded = kernels("launches-sm_90-13.0.cubin")["bounded_dynamic"]
    of_bounds = settled(bounded, None)
    assert of_bounds == Launch(threads_per_block=256, dynamic_shared_bytes=None, source="bounds")
    written = replace(bounded, launch=Launch(threads_per_block=128, dynamic_shared_bytes=65536, source="sidecar"))
    assert settled(written, None) is written.launch
    shared = {"dynamic_shared_bytes": 65536, "max_dynamic_shared_bytes": 65536}
    same, other = launch(threads_per_block=128), launch(threads_per_block=64)
    assert settled(written, same) == replace(same, **shared)
    assert settled(written, other) == replace(same, source="sidecar", **shared), "the code says another block size"
    assert settled(bounded, other) == replace(other, dynamic_shared_bytes=None)
    unbounded = replace(bounded, launch_bounds=None)
    assert settled(unbounded, other) == replace(other, dynamic_shared_bytes=None)
    assert settled(replace(unbounded, dynamic_shared=None), other) == replace(other, dynamic_shared_bytes=0)
    exact = launch(threads_per_block=64, dynamic_shared_bytes=0)
    assert settled(unbounded, exact) == exact
    given = replace(other, source="override")
    assert settled(written, given) == replace(given, **shared), "the user says that it counts all the same"


def test_unknown_dynamic_shared_memory_is_a_bound() -> None:
    bounded = kernels("launches-sm_90-13.0.cubin")["bounded_dynamic"]
    found = summarise(bounded.usage, "sm_90", settled(bounded, None))
    assert found.at_most
    assert found.cells["occupancy"] == "≤100%"
    assert found.cells["blocks"] == "≤8"
    assert found.line.startswith("at most 8 blocks/SM")
    true = summarise(bounded.usage, "sm_90", launch(threads_per_block=256, dynamic_shared_bytes=100_000))
    assert not true.at_most
    assert true.occupancy is not None
    assert true.occupancy.resident_blocks == 2


@pytest.mark.parametrize(
    ("name", "least", "said", "found"),
    [
        ("bounded_dynamic", 9, "", "finding"),
        ("bounded_dynamic", 8, "", "undecided"),
        ("bounded_dynamic", 2, "bounded_dynamic=256,100000", ""),
        ("bounded_dynamic", 3, "bounded_dynamic=256,100000", "finding"),
        ("bounded", 8, "", ""),
        ("bounded", 9, "", "finding"),
        ("only_dynamic", 1, "", "undecided"),
    ],
)
def test_a_gate_decides_by_bounds_only_if_they_suffice(name: str, least: int, said: str, found: str) -> None:
    kernel = kernels("launches-sm_90-13.0.cubin")[name]
    policy = Policy((from_options({"min_blocks_per_sm": str(least)}, (), [said] if said else ()),))
    judged = rules.check(Build(kernels=(kernel,)), policy)
    assert [each.rule for each in judged.findings] == (["blocks-per-sm"] if found == "finding" else [])
    assert [each.rule.id for each in judged.undecided] == (["blocks-per-sm"] if found == "undecided" else [])


def test_a_limit_of_shared_memory_needs_the_dynamic_part() -> None:
    kernel = kernels("launches-sm_90-13.0.cubin")["only_dynamic"]
    policy = Policy((from_options({"max_shared_bytes": "1000"}),))
    judged = rules.check(Build(kernels=(kernel,)), policy)
    assert [each.rule.id for each in judged.undecided] == ["shared"]


def test_blocks_of_a_bound_are_neither_lost_nor_kept() -> None:
    before = kernels("launches-sm_90-13.0.cubin")["bounded_dynamic"]
    after = replace(before, usage=replace(before.usage, registers=128))
    (effect,) = effects(before, after, LaunchMap())
    assert effect.blocks is None
    assert "dynamic shared memory" in effect.unknown
    bounded = kernels("launches-sm_90-13.0.cubin")["bounded"]
    (lost,) = effects(bounded, replace(bounded, usage=replace(bounded.usage, registers=128)), LaunchMap())
    assert lost.blocks == (8, 2)
    assert lost.launch_source == "bounds"


def test_each_side_has_the_dynamic_shared_memory_that_its_compiler_wrote() -> None:
    kernel = kernels("launches-sm_90-13.0.cubin")["only_dynamic"]
    sides = [
        replace(kernel, launch=Launch(threads_per_block=128, dynamic_shared_bytes=size, source="sidecar"))
        for size in (30_000, 60_000)
    ]
    opted = [replace(side, launch=replace(side.launch, max_dynamic_shared_bytes=100_000)) for side in sides]  # type: ignore[type-var]
    (effect,) = effects(*opted, LaunchMap())
    assert effect.blocks == (7, 3)
    wider = replace(opted[1], launch=replace(opted[1].launch, threads_per_block=256))  # type: ignore[type-var]
    (other,) = effects(opted[0], wider, LaunchMap())
    assert other.blocks is None


def test_tables_mark_bounds(tmp_path: Path) -> None:
    path = tmp_path / "launches.cubin"
    path.write_bytes(stored("launches-sm_90-13.0.cubin"))
    said = run("scan", path).stdout.decode()
    assert "≤100%" in said
    assert "~100%" in said
    assert "≤ upper bound, dynamic shared memory unknown" in said
    assert "~ at the block size" in said
    listed = json.loads(run("occupancy", path, "-f", "json", "--all").stdout)
    (bounded,) = [each for each in listed if each["symbol"] == "bounded_dynamic"]
    assert (bounded["at_most"], bounded["resident_blocks"], bounded["dynamic_shared_bytes"]) == (True, None, None)


@pytest.mark.parametrize("release", ["12.4", "12.6", "13.5"])
def test_a_record_has_the_register_limit_of_ptxas(release: str) -> None:
    """The occupancy model derives the same limit from the bounds in the source."""
    bounds = {"bounds_128": (128, 1), "bounds_256_8": (256, 8), "bounds_1024_2": (1024, 2)}
    for kernel in kernels(f"bounds-{release}.cubin").values():
        assert kernel.sass is not None
        said = bounds.get(kernel.key.symbol)
        allowed = register_limit(device(kernel.key.arch or ""), *said).registers if said else MOST_REGISTERS
        assert kernel.sass.register_limit == min(allowed, MOST_REGISTERS)
