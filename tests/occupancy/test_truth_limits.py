"""Truth tables of ``limits.yaml``: which resource limits the blocks of an SM, what is free, and clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from spillscan.occupancy import occupancy
from spillscan.occupancy.headroom import headroom
from spillscan.occupancy.model import LIMITERS
from spillscan.occupancy.summary import clusters
from spillscan.output.errors import UsageError

ROWS: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("limits.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("why", ROWS["limits"])
def test_limits(why: str) -> None:
    arch, launch, blocks, limits, limiters, shared = ROWS["limits"][why]
    found = occupancy(arch, **launch)
    assert [found.resident_blocks, [*found.limiters], found.shared_bytes_per_sm] == [blocks, limiters, shared]
    assert found.limits == dict(zip(LIMITERS, limits, strict=True))
    assert bool(found.reasons) == (blocks == 0), "what cannot launch says why"


@pytest.mark.parametrize("why", ROWS["headroom"])
def test_headroom(why: str) -> None:
    launch, expected = ROWS["headroom"][why]
    found = {}
    for way in headroom(occupancy("sm_90", **launch)):
        steps = [step and [step.after, step.blocks_after] for step in (way.more_blocks, way.fewer_blocks)]
        found[way.resource] = [steps[0], way.free, steps[1]]
    assert found == expected


@pytest.mark.parametrize("why", ROWS["clusters"])
def test_clusters(why: str) -> None:
    blocks, multiprocessors, expected = ROWS["clusters"][why]
    found = clusters(occupancy("sm_90", registers=32, threads_per_block=32), blocks, multiprocessors)
    assert [found.portable, found.active, found.exact] == expected


@pytest.mark.parametrize(("arch", "blocks"), [("sm_80", 2), ("sm_90", 0), ("sm_90", 17)])
def test_no_such_clusters(arch: str, blocks: int) -> None:
    with pytest.raises(UsageError):
        clusters(occupancy(arch, registers=32, threads_per_block=32), blocks)
