"""The page's look-up in Python: what ``assets/lookup.js`` does with the tables, and nothing of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Tables = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Answer:
    blocks: int
    limits: dict[str, int | None]
    limiters: tuple[str, ...]
    registers: int
    shared: int
    shared_per_sm: int


def in_runs(runs: list[Any], place: int) -> Any:
    for value, times in zip(runs[::2], runs[1::2], strict=True):
        if place < times:
            return value
        place -= times
    raise IndexError(place)


def look_up(
    tables: Tables,
    target: str,
    *,
    registers: int,
    threads: int,
    static: int,
    dynamic: int,
    attribute: int | None,
    carveout: int | None,
    barriers: int,
) -> Answer:
    on = tables["devices"][target]
    warps = -(-threads // 32)
    by_registers = tables["registers"][on["registers"]]
    step = -(-registers // by_registers["step"])
    register_limit = in_runs(by_registers["rows"][by_registers["of_step"][step]], warps - 1)
    unit = on["shared_unit"]
    allocated = -(-(static + dynamic + on["shared_reserve"]) // unit) * unit
    shared_limit, per_sm = shared(tables, on, static, dynamic, attribute, carveout, allocated)
    limits = {
        "warps": in_runs(tables["warps"][str(on["warps"])], warps - 1),
        "registers": None if register_limit is None else max(register_limit, 0),
        "shared_memory": shared_limit,
        "blocks": on["blocks"],
        "barriers": None if on["barriers"] is None else on["barriers"][barriers],
        "virtual_resources": None,
    }
    blocks = min(limit for limit in limits.values() if limit is not None)
    return Answer(
        blocks=blocks,
        limits=limits,
        limiters=tuple(name for name, limit in limits.items() if limit == blocks),
        registers=step * by_registers["step"] * 32 * warps,
        shared=allocated,
        shared_per_sm=per_sm,
    )


def shared(
    tables: Tables,
    on: dict[str, Any],
    static: int,
    dynamic: int,
    attribute: int | None,
    carveout: int | None,
    allocated: int,
) -> tuple[int | None, int]:
    steps = on["carveout_steps"]
    set_to = steps[-1] if on["carveout"] is None or carveout is None else in_runs(on["carveout"], carveout)
    opted_in = attribute is not None and static + on["shared_reserve"] + attribute > on["shared_per_block"]
    if allocated > on["shared_limit_optin" if opted_in else "shared_limit"]:
        return 0, set_to
    if attribute is not None and dynamic > attribute:
        return 0, set_to
    if not allocated:
        return None, set_to
    if set_to < allocated:
        set_to = next(size for size in steps if size >= allocated)
    by_units = tables["shared"][on["shared"]][str(set_to)]
    units = allocated // on["shared_unit"]
    blocks = next(count for count, last in zip(by_units[::2], by_units[1::2], strict=True) if units <= last)
    return blocks, set_to
