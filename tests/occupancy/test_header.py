"""Against NVIDIA's cuda_occupancy.h: 20,000 configurations, in ``make oracle`` a million, and older headers, too."""

from __future__ import annotations

import numpy as np
import pytest

from spillscan.occupancy import devices, occupancy
from spillscan.occupancy.formula import resident
from spillscan.occupancy.headroom import available_dynamic_shared_bytes, best_block_sizes, headroom
from tests.conftest import sized
from tests.occupancy.deviations import header_mask
from tests.oracle import occupancy_header as header
from tests.oracle.occupancy_header import NOT_SET, configuration

SAMPLE = sized(20_000, 1_000_000)
OLDER = ("13.0.88", "12.9.79", "12.4.127", "11.8.89")
BITS = ("warps", "registers", "shared_memory", "blocks", "barriers", "virtual_resources")


@pytest.fixture(scope="module")
def rows():
    return header.configurations(SAMPLE, seed=20261121)


@pytest.fixture(scope="module")
def truth(rows):
    return header.ask(header.build(), rows)


@pytest.fixture(scope="module")
def ours(rows):
    return header.answers(rows)


def test_every_device_is_in_the_sample(rows):
    assert set(rows["device"]) == set(range(len(devices())))


def test_the_header_knows_every_row(rows, truth):
    strange = {devices()[place].target for place in rows["device"][truth["status"] != 0]}
    assert not strange, (
        f"this cuda_occupancy.h knows no {sorted(strange)}: set VERSION of one that does"
        " (tests/oracle/occupancy_header.py)"
    )


@pytest.mark.parametrize("field", [*header.FIELDS, "global_caching"])
def test_field(field, rows, truth, ours):
    different = np.flatnonzero(truth[field] != ours[field])
    if len(different):
        place = int(different[0])
        row = {name: int(column[place]) for name, column in rows.items()}
        pytest.fail(f"{len(different)} rows, first {row}: {truth[field][place]}, here {ours[field][place]}")


@pytest.mark.oracle
@pytest.mark.parametrize("version", OLDER)
def test_older_headers_differ_in_barriers_alone(version, rows):
    plain = {**rows, "virtual_resources": np.zeros(SAMPLE, np.int64)}  # headers before 13.0 have none
    old = header.ask(header.build(version), plain)
    differs = (old["status"] == 0) & (old["resident_blocks"] != header.answers(plain)["resident_blocks"])
    found = {devices()[place].compute_capability for place in rows["device"][differs]}
    assert found <= {"10.3"}  # up to 13.0 the header has 64 barriers there


def test_the_mask_of_the_header_is_explained(rows, truth):
    """Its bits are ours, but for those that it sets before barriers lower the result."""
    other = 0
    for place in range(0, SAMPLE, 2):
        one = resident(configuration(rows, place))
        bits = {name for bit, name in enumerate(BITS) if truth["mask"][place] >> bit & 1}
        assert bits == header_mask(one)
        if bits != set(one.limiters):
            other += 1
            assert "barriers" in one.limiters
    assert other > 0


def test_free_dynamic_shared_memory(rows, truth):
    for place in range(0, SAMPLE, 4):
        ours = available_dynamic_shared_bytes(configuration(rows, place), int(rows["wanted_blocks"][place]))
        theirs = None if truth["dynamic_status"][place] else int(truth["dynamic_bytes"][place])
        assert ours == theirs, configuration(rows, place)


def test_best_block_size():
    rows = header.configurations(1_000, seed=7)
    truth = header.ask(header.build(), rows, best=True)
    for place in range(1_000):
        ours = best_block_sizes(configuration(rows, place))
        assert ours.threads_per_block == truth["best_block"][place]
        assert ours.resident_blocks == truth["best_grid"][place]


def test_static_memory_above_48_kb_equals_the_header_with_opt_in():
    rows = header.configurations(2_000, seed=20261122)
    most = np.array([one.shared_bytes_per_block_optin for one in devices()])[rows["device"]]
    rows["static_shared_bytes"] = np.maximum(most - rows["dynamic_shared_bytes"] % 60_000, 49_153)
    rows["dynamic_shared_bytes"] = rows["dynamic_shared_bytes"] % 3_000
    rows["max_dynamic_shared_bytes"] = np.full(2_000, 300_000)
    truth = header.ask(header.build(), rows)
    rows["max_dynamic_shared_bytes"] = np.full(2_000, NOT_SET)
    ours = header.answers(rows)
    assert (truth["limit_shared_memory"] > 0).sum() > 500
    for field in header.FIELDS:
        assert (truth[field] == ours[field]).all(), field


def test_code_with_so_much_static_memory_is_opted_in_for_dynamic_memory_too():
    one = occupancy("sm_90", registers=32, threads_per_block=128, static_shared_bytes=68_608)
    assert one.resident_blocks == 3
    most = available_dynamic_shared_bytes(one.configuration, 1)
    assert most == 232_448 - 68_608
    both = {"registers": 32, "threads_per_block": 128, "static_shared_bytes": 68_608}
    assert occupancy("sm_90", **both, dynamic_shared_bytes=most).resident_blocks == 1
    assert "at most 232,448 B" in occupancy("sm_90", **both, dynamic_shared_bytes=most + 1).reasons[0]
    shared = next(way for way in headroom(one) if way.resource == "shared")
    assert (shared.more_blocks.blocks_after, shared.fewer_blocks.blocks_after) == (4, 2)
