"""Published examples: their true values."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from spillscan.occupancy import device, occupancy
from spillscan.occupancy.bounds import register_limit

EXAMPLES = yaml.safe_load(Path(__file__).with_name("published.yaml").read_bytes())


def by_kind(kind):
    return [pytest.param(one, id=one["id"]) for one in EXAMPLES if one["kind"] == kind]


@pytest.mark.parametrize("example", by_kind("occupancy"))
def test_occupancy(example):
    check_occupancy(example)


def check_occupancy(example):
    found, want = occupancy(**example["given"]), dict(example["actual"])
    assert (found.resident_blocks, found.active_warps) == (want.pop("blocks"), want.pop("warps"))
    assert 100 * found.fraction == pytest.approx(want.pop("percent"), abs=0.006)
    assert list(found.limiters) == want.pop("limiters")
    assert {name: getattr(found, name) for name in want} == want


@pytest.mark.parametrize("example", by_kind("bounds"))
def test_launch_bounds(example):
    for (threads, blocks), registers in example["actual"]:
        assert register_limit(device(example["arch"]), threads, blocks).registers == registers
    if "then" in example:
        check_occupancy(example["then"])
