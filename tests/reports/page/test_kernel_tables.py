"""The tables of the page against the model."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from spillscan.occupancy.bounds import register_cap
from spillscan.occupancy.devices import devices
from spillscan.occupancy.formula import NO_LIMIT, NOT_SET
from spillscan.occupancy.model import LIMITERS
from spillscan.occupancy.table import limiter_names, occupancy_table
from spillscan.reports.page.lookup import tables
from tests.reports.page.lookup import Tables, in_runs, look_up

CONFIGURATIONS = 40_000


@pytest.fixture(scope="module")
def all_tables() -> Tables:
    """As the page gets them: through JSON."""
    found: Tables = json.loads(json.dumps(tables(tuple(each.target for each in devices()))))
    return found


def test_the_tables_of_all_devices_are_small(all_tables: Tables) -> None:
    assert len(json.dumps(all_tables, separators=(",", ":"))) < 60_000


def test_tables_reproduce_the_model_on_every_device(all_tables: Tables) -> None:
    chance = random.Random(2026)
    known = devices()
    rows = []
    for place in range(CONFIGURATIONS):
        on = known[place % len(known)]
        most = on.shared_bytes_per_block_optin
        static = chance.choice((0, 0, chance.randrange(49_153), 128 * chance.randrange(385)))
        dynamic = chance.choice((0, chance.randrange(49_153), chance.randrange(most + 2048), most - static))
        attribute = chance.choice((None, dynamic, most - static, chance.randrange(most + 1)))
        rows.append(
            (
                on.target,
                chance.randrange(256),
                chance.choice((chance.randint(1, 1024), 32 * chance.randint(1, 32))),
                static,
                max(dynamic, 0),
                None if attribute is None else max(attribute, 0),
                chance.choice((None, chance.randrange(101))),
                chance.randrange(on.barriers_per_block + 1),
            )
        )
    names = (
        "arch",
        "registers",
        "threads_per_block",
        "static_shared_bytes",
        "dynamic_shared_bytes",
        "max_dynamic_shared_bytes",
        "carveout_percent",
        "barriers",
    )
    columns = {
        name: list(cells) if name == "arch" else np.array([NOT_SET if cell is None else cell for cell in cells])
        for name, cells in zip(names, zip(*rows, strict=True), strict=True)
    }
    found = {name: column.tolist() for name, column in occupancy_table(columns).items()}
    masks = limiter_names()
    for place, (target, registers, threads, static, dynamic, attribute, carveout, barriers) in enumerate(rows):
        answer = look_up(
            all_tables,
            target,
            registers=registers,
            threads=threads,
            static=static,
            dynamic=dynamic,
            attribute=attribute,
            carveout=carveout,
            barriers=barriers,
        )
        limits = {name: NO_LIMIT if limit is None else limit for name, limit in answer.limits.items()}
        assert (answer.blocks, "+".join(answer.limiters), limits) == (
            found["resident_blocks"][place],
            masks[found["limiters"][place]],
            {name: found[f"limit_{name}"][place] for name in LIMITERS},
        ), rows[place]
        assert (answer.registers, answer.shared, answer.shared_per_sm) == (
            found["allocated_registers_per_block"][place],
            found["allocated_shared_bytes_per_block"][place],
            found["shared_bytes_per_sm"][place],
        ), rows[place]


def test_tables_tell_the_cap_of_all_launch_bounds(all_tables: Tables) -> None:
    for on in devices():
        table = all_tables["devices"][on.target]
        for threads in [*range(32, 1025, 32), 1, 100, 1000]:
            warps = -(-threads // 32)
            for blocks in range(1, on.max_blocks_per_sm + 1):
                cap = register_cap(on, threads, blocks)
                if cap.ignored:
                    break
                wanted = min(warps * blocks, on.max_warps_per_sm)
                looked_up = min(in_runs(table["cap_by_sm"], wanted - 1), in_runs(table["cap_by_block"], warps - 1))
                assert looked_up == cap.registers, (on.target, threads, blocks)
