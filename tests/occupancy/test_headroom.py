"""Headroom, cliffs, curves, best sizes, launch bounds: each against plain search over the rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillscan.occupancy import Configuration, Launch, device, devices, occupancy
from spillscan.occupancy.bounds import bounds_for_more_blocks, bounds_for_more_registers, largest_block, register_limit
from spillscan.occupancy.devices import Gpu, runs_on
from spillscan.occupancy.formula import launched, resident
from spillscan.occupancy.headroom import (
    available_dynamic_shared_bytes,
    best_block_sizes,
    changed,
    current,
    headroom,
    next_block,
    with_shared,
)
from spillscan.occupancy.summary import clusters, footprint
from spillscan.output.errors import UsageError

configurations = st.builds(
    Configuration,
    device=st.sampled_from(devices()),
    registers=st.integers(0, 255),
    threads_per_block=st.integers(1, 1024),
    static_shared_bytes=st.integers(0, 49152),
    dynamic_shared_bytes=st.sampled_from([0, 0, 1, 4000, 16384]),
    max_dynamic_shared_bytes=st.sampled_from([None, None, 16384, 100_000]),
    carveout_percent=st.one_of(st.none(), st.integers(0, 100)),
    barriers=st.integers(0, 16),
    global_caching=st.sampled_from(["off", "on", "strict"]),
)


@given(configurations)
def test_headroom_is_the_nearest_step_each_way(configuration):
    now = resident(configuration)
    for way in headroom(now):

        def blocks(value, resource=way.resource):
            return resident(changed(configuration, resource, value)).resident_blocks

        start = {
            "registers": configuration.registers,
            "shared": configuration.user_shared_bytes,
            "barriers": configuration.barriers,
        }[way.resource]
        if way.more_blocks is None:
            assert blocks(0) <= now.resident_blocks
        else:
            assert blocks(way.more_blocks.after) == way.more_blocks.blocks_after > now.resident_blocks
            assert blocks(way.more_blocks.after + 1) <= now.resident_blocks
        if way.free:
            assert blocks(start + way.free) >= now.resident_blocks
        if way.fewer_blocks is not None:
            assert way.fewer_blocks.after == start + way.free + 1
            assert blocks(way.fewer_blocks.after) == way.fewer_blocks.blocks_after < max(now.resident_blocks, 1)


def test_the_published_example():
    ways = {way.resource: way for way in headroom(occupancy("sm_80", registers=41, threads_per_block=256))}
    step = ways["registers"].more_blocks
    assert (step.before, step.after, step.blocks_before, step.blocks_after) == (41, 40, 5, 6)
    assert ways["registers"].free == 7
    assert "barriers" not in ways


@given(configurations, st.integers(1, 32))
def test_free_dynamic_shared_memory_is_free(configuration, blocks):
    free = available_dynamic_shared_bytes(configuration, blocks)
    if free is not None:
        there = with_shared(configuration, configuration.static_shared_bytes)
        assert resident(there).resident_blocks >= min(blocks, 1)
        from msgspec.structs import replace

        assert resident(replace(configuration, dynamic_shared_bytes=free)).resident_blocks >= blocks


def test_the_bug_of_the_driver_is_not_copied():
    """CUDA 13.0 says 46,592 B for 5 blocks on 9.0; with that, 4 are resident."""
    most = 232448
    base = occupancy("sm_90", registers=32, threads_per_block=128, max_dynamic_shared_bytes=most)
    assert available_dynamic_shared_bytes(base.configuration, 5) == 45568
    given_by_driver = occupancy(
        "sm_90",
        registers=32,
        threads_per_block=128,
        dynamic_shared_bytes=46592,
        max_dynamic_shared_bytes=most,
    )
    assert given_by_driver.resident_blocks == 4


def test_best_block_sizes():
    best = best_block_sizes(occupancy("sm_80", registers=41, threads_per_block=256).configuration)
    assert (best.threads_per_block, best.resident_blocks) == (640, 2)
    assert best.alternatives == (640, 320, 256, 160, 128, 64)
    assert best.resident_blocks * 108 == 216
    bound = best_block_sizes(occupancy("sm_80", registers=41, threads_per_block=256).configuration, max_threads=200)
    assert bound.threads_per_block == 160


# What ptxas made of a kernel with 300 live values: "Used N registers" (11.8.89, 12.9.86 and 13.0.88).
PROBED = [
    ("sm_80", 256, 6, 40), ("sm_80", 256, 5, 48), ("sm_90", 128, 5, 96), ("sm_61", 96, 7, 80),
    ("sm_60", 96, 7, 80), ("sm_86", 1024, 1, 64), ("sm_75", 768, 1, 80), ("sm_37", 256, 6, 80),
    ("sm_37", 256, 5, 96), ("sm_37", 128, 5, 200), ("sm_37", 96, 7, 168), ("sm_53", 1024, 1, 32),
    ("sm_62", 768, 1, 40), ("sm_80", 100, 20, 32), ("sm_80", 65, 30, 32), ("sm_80", 129, 15, 32),
    ("sm_89", 64, 24, 40), ("sm_89", 32, 24, 80), ("sm_120", 32, 20, 96), ("sm_90", 256, 8, 32),
    ("sm_90", 256, 2, 128),
]  # fmt: skip


@pytest.mark.parametrize(("target", "threads", "blocks", "registers"), PROBED)
def test_register_limit_of_ptxas(target, threads, blocks, registers):
    limit = register_limit(device(target), threads, blocks)
    assert (limit.registers, limit.ignored) == (registers, "")


@pytest.mark.parametrize(("target", "threads", "blocks"), [("sm_75", 256, 5), ("sm_89", 32, 25), ("sm_86", 256, 8)])
def test_ptxas_ignores_more_blocks_than_the_sm_holds(target, threads, blocks):
    limit = register_limit(device(target), threads, blocks)
    assert limit.ignored
    assert limit.registers == register_limit(device(target), threads).registers


@given(configurations)
def test_bounds_give_the_promised_blocks(configuration):
    now = resident(configuration)
    bounds = bounds_for_more_blocks(now)
    if bounds is not None:
        limit = register_limit(configuration.device, bounds.threads, bounds.blocks)
        assert limit.registers == bounds.registers == configuration.registers - bounds.shed
        assert resident(changed(configuration, "registers", limit.registers)).resident_blocks >= bounds.blocks
        assert bounds.blocks > now.resident_blocks


def test_bounds_by_example():
    bounds = bounds_for_more_blocks(occupancy("sm_80", registers=41, threads_per_block=256))
    assert (bounds.threads, bounds.blocks, bounds.registers, bounds.shed) == (256, 6, 40, 1)
    wide = bounds_for_more_blocks(occupancy("sm_80", registers=40, threads_per_block=128))
    assert (wide.blocks, wide.registers) == (16, 32)  # the limit for 13 blocks brings 16
    assert bounds_for_more_blocks(occupancy("sm_80", registers=16, threads_per_block=128)) is None


@pytest.mark.parametrize(("threads", "blocks"), [(0, 1), (1025, 1), (256, 0), (-5, 2)])
def test_impossible_bounds(threads, blocks):
    with pytest.raises(UsageError):
        register_limit(device("sm_80"), threads, blocks)


def test_footprint():
    local = footprint(device("sm_90"), 4312)
    assert (local.gpu, local.multiprocessors, local.total_bytes) == ("H100", 132, 4312 * 2048 * 132)
    assert round(local.total_bytes / 2**30, 1) == 1.1
    assert local.matters
    assert not footprint(device("sm_90"), 1024).matters  # every context reserves so much
    assert footprint(device("sm_90"), 1025).matters
    just = Gpu(name="just", multiprocessors=1, source=())
    assert [footprint(device("sm_90"), stack, just).matters for stack in ((32 << 10) - 1, 32 << 10)] == [False, True]
    assert not footprint(device("sm_53"), 4312).matters  # one SM
    unknown = footprint(device("sm_100"), 4312)
    assert unknown.total_bytes is None
    assert not unknown.matters
    with pytest.raises(UsageError):
        footprint(device("sm_90"), -1)


def test_clusters():
    found = occupancy("H200", registers=32, threads_per_block=32)
    assert clusters(found, 1, 132).active == 8 * 132
    pair = clusters(found, 2, 132)
    assert (pair.active, pair.exact, pair.portable) == (528, True, True)
    large = clusters(found, 16, 132)
    assert (large.exact, large.portable) == (False, False)
    assert clusters(found, 4).active is None
    for count in (0, 17, -1):
        with pytest.raises(UsageError):
            clusters(found, count)
    with pytest.raises(UsageError):
        clusters(occupancy("sm_80", registers=32, threads_per_block=32), 2)


@given(configurations)
def test_bounds_for_more_registers_are_every_step(configuration):
    steps = bounds_for_more_registers(configuration)
    here, threads = configuration.device, configuration.threads_per_block
    every = [
        register_limit(here, threads, blocks)
        for blocks in range(1, here.max_blocks_per_sm + 1)
        if threads <= here.max_threads_per_block
    ]
    more = {limit.registers for limit in every if not limit.ignored and limit.registers > configuration.registers}
    assert [limit.registers for limit in steps] == sorted(more)
    for step in steps:
        beyond = [limit for limit in every if not limit.ignored and limit.blocks > step.blocks]
        assert all(limit.registers < step.registers for limit in beyond), "the most blocks that leave as many"


@pytest.mark.parametrize(
    ("registers", "threads"),
    [(0, 1024), (64, 1024), (65, 896), (72, 896), (128, 512), (168, 384), (255, 256), (256, 0)],
)
def test_the_largest_block_of_so_many_registers(registers: int, threads: int) -> None:
    assert largest_block(device("sm_90"), registers) == threads
    assert all(
        not resident(Configuration(device=device("sm_90"), registers=registers, threads_per_block=more)).resident_blocks
        for more in range(threads + 1, 1025, 32)
        if registers <= 255
    )


def test_a_kernel_as_it_is_launched() -> None:
    launch = Launch(threads_per_block=96, dynamic_shared_bytes=500, max_dynamic_shared_bytes=1000, carveout_percent=50)
    found = launched(device("sm_90"), launch, registers=40, static_shared_bytes=24, barriers=2)
    assert found == Configuration(
        device=device("sm_90"),
        registers=40,
        threads_per_block=96,
        static_shared_bytes=24,
        dynamic_shared_bytes=500,
        max_dynamic_shared_bytes=1000,
        carveout_percent=50,
        barriers=2,
    )
    unknown = launched(device("sm_90"), Launch(threads_per_block=96), registers=40, static_shared_bytes=24)
    assert (unknown.dynamic_shared_bytes, unknown.barriers) == (0, 1)


@pytest.mark.parametrize(
    ("arch", "where", "does"),
    [
        ("sm_80", "sm_80", True), ("sm_80", "sm_86", True), ("sm_86", "sm_80", False),
        ("sm_80", "sm_90", False), ("sm_90a", "H100", True), ("sm_100a", "sm_103", False),
        ("sm_100f", "sm_103", True), ("sm_103f", "sm_100", False), ("sm_120f", "sm_121", True),
        ("sm_7", "sm_70", False),
    ],
)  # fmt: skip
def test_devices_for_code(arch: str, where: str, does: bool) -> None:
    assert runs_on(arch, where) is does


RESOURCES = ("threads", "registers", "shared", "barriers")


@given(configurations)
def test_the_next_block_needs_exactly_these_values(configuration: Configuration) -> None:
    now = resident(configuration)
    found = next_block(now)

    def blocks(values: dict[str, int]) -> int:
        changing = configuration
        for varied, value in values.items():
            changing = changed(changing, varied, value)  # type: ignore[arg-type]
        return resident(changing).resident_blocks

    if found is None:
        least = {"threads": min(32, configuration.threads_per_block), "registers": 1, "shared": 0, "barriers": 0}
        assert blocks(least) <= now.resident_blocks
        return
    values = {name: getattr(found, name) for name in RESOURCES}
    needs: dict[str, int] = {name: value for name, value in values.items() if value is not None}
    assert found.blocks == now.resident_blocks + 1 <= blocks(needs)
    for varied, value in needs.items():
        more = value + (32 if varied == "threads" else 1)
        if more <= current(configuration, varied):  # type: ignore[arg-type]
            assert blocks(needs | {varied: more}) < found.blocks
