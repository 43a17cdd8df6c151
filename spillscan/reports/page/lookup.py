"""The occupancy model as tables, for a page that looks up instead of computing.

The limits are separable: registers and warps depend on the block's warps and on the step of 8 registers, shared memory
on its allocation units and the carve-out, barriers on their number. Every figure comes from :mod:`spillscan.occupancy`;
tests hold the tables equal to ``occupancy()`` on every device.

Runs are flat lists ``[value, times, value, times, …]``. A limit that does not bind is ``None``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import groupby
from typing import Any

from spillscan.model.code import MOST_REGISTERS
from spillscan.occupancy.binding import LABELS
from spillscan.occupancy.bounds import register_cap
from spillscan.occupancy.devices import WARP_THREADS, Device, device
from spillscan.occupancy.formula import preferred_shared_bytes, registers_per_warp, resident
from spillscan.occupancy.model import LIMITERS, Configuration, Occupancy
from spillscan.occupancy.summary import percent
from spillscan.occupancy.text import title

TOO_MANY_FOR_BLOCK, TOO_MANY_FOR_PARTITIONS, NOT_SPREAD = -1, -2, -3
"""Instead of 0 blocks by registers: why (``formula.py`` has it in words)."""


@cache
def tables(targets: tuple[str, ...]) -> dict[str, Any]:
    """Tables for some devices; what several of them share stands once. They are made once a process.

    ``registers``, ``shared``, ``warps`` and ``percent`` are shared tables, which a device names by number or key.
    """
    registers: list[Any] = []
    shared: dict[str, dict[str, list[int]]] = {}
    warps: dict[str, list[int | None]] = {}
    percents: dict[str, list[str]] = {}
    found = {}
    for on in map(device, targets):
        by_registers = _registers(on.target)
        if by_registers not in registers:
            registers.append(by_registers)
        sizes = {bytes_per_sm for bytes_per_sm in on.carveout_steps if bytes_per_sm}
        kind = f"{on.shared_alloc_unit}/{on.shared_bytes_reserved_per_block}"
        shared.setdefault(kind, {}).update({str(size): _shared(on, size) for size in sorted(sizes)})
        slots = str(on.max_warps_per_sm)
        warps[slots] = _by_warps(on)
        percents[slots] = [percent(count / on.max_warps_per_sm) for count in range(on.max_warps_per_sm + 1)]
        found[on.target] = _device(on, registers.index(by_registers), kind)
    return {
        "limiters": [[name, LABELS[name]] for name in LIMITERS],
        "registers": registers,
        "shared": shared,
        "warps": warps,
        "percent": percents,
        "devices": found,
    }


def runs(values: Iterable[Any]) -> list[Any]:
    """``[value, times, …]``"""
    found: list[Any] = []
    for value, group in groupby(values):
        found += [value, sum(1 for _ in group)]
    return found


def _device(on: Device, registers: int, shared: str) -> dict[str, Any]:
    barriers = on.version >= (9, 0)
    return {
        "title": title(on),
        "name": f"{on.architecture} {on.chip or ''}".strip(),
        "gpus": [gpu.name for gpu in on.gpus],
        "warps": on.max_warps_per_sm,
        "blocks": on.max_blocks_per_sm,
        "threads": on.max_threads_per_block,
        "registers": registers,
        "registers_per_sm": on.registers_per_sm,
        "registers_per_block": on.registers_per_block,
        "registers_per_thread": on.max_registers_per_thread,
        "partitions": on.sub_partitions,
        "partitions_checked": _checked_partitions(on),
        "shared": shared,
        "shared_unit": on.shared_alloc_unit,
        "shared_reserve": on.shared_bytes_reserved_per_block,
        "shared_per_block": on.shared_bytes_per_block,
        "shared_per_block_optin": on.shared_bytes_per_block_optin,
        "shared_limit": on.shared_limit_per_block,
        "shared_limit_optin": on.shared_limit_per_block_optin,
        "carveout": _carveout(on),
        "carveout_steps": [step for step in on.carveout_steps if step],
        "barriers_per_block": on.barriers_per_block,
        "barriers_per_sm": on.barriers_per_sm if barriers else None,
        "barriers": [_at(on, barriers=count).limit_barriers for count in range(on.barriers_per_block + 1)]
        if barriers
        else None,
        "cap_by_sm": runs(_cap_by_sm(on)),
        "cap_by_block": runs(
            register_cap(on, WARP_THREADS * count).registers for count in range(1, _block_warps(on) + 1)
        ),
    }


def _at(on: Device, registers: int = 0, threads_per_block: int = WARP_THREADS, barriers: int = 0) -> Occupancy:
    return resident(
        Configuration(device=on, registers=registers, threads_per_block=threads_per_block, barriers=barriers)
    )


def _block_warps(on: Device) -> int:
    return on.max_threads_per_block // WARP_THREADS


def _by_warps(on: Device) -> list[int | None]:
    """Blocks by warp slots, for blocks of 1, 2, … warps."""
    return runs(_at(on, threads_per_block=WARP_THREADS * warps).limit_warps for warps in range(1, _block_warps(on) + 1))


@cache
def _registers(target: str) -> dict[str, Any]:
    """``step``: registers a thread of one step; ``rows``: runs of blocks over 1, 2, … warps a block, 0 blocks as why;
    ``of_step``: the row of each step, from 0 registers on; ``fit``: warps that the checked partitions hold."""
    on = device(target)
    step = on.register_alloc_unit // WARP_THREADS
    partitions = _checked_partitions(on)
    rows: list[list[int | None]] = []
    of_step = []
    fit: list[int | None] = []
    for registers in range(0, MOST_REGISTERS + step, step):
        per_warp = registers_per_warp(on, registers)
        fit.append(on.registers_per_sm // partitions // per_warp * partitions if per_warp else None)
        row = runs(_by_registers(on, registers, warps, fit[-1]) for warps in range(1, _block_warps(on) + 1))
        if row not in rows:
            rows.append(row)
        of_step.append(rows.index(row))
    return {"step": step, "rows": rows, "of_step": of_step, "fit": fit}


def _by_registers(on: Device, registers: int, warps: int, fit: int | None) -> int | None:
    registers = min(registers, MOST_REGISTERS)
    limit = _at(on, registers=registers, threads_per_block=WARP_THREADS * warps).limit_registers
    if limit != 0 or fit is None:
        return limit
    if registers_per_warp(on, registers) * warps > on.registers_per_block:
        return TOO_MANY_FOR_BLOCK
    return TOO_MANY_FOR_PARTITIONS if fit < warps else NOT_SPREAD


def _checked_partitions(on: Device) -> int:
    """6.0 runs nothing that 6.1 with its four partitions could not run."""
    return 4 if on.version == (6, 0) else on.sub_partitions


def _shared(on: Device, bytes_per_sm: int) -> list[int]:
    """``[blocks, most units a block, …]`` for an SM that is set to so many bytes, most blocks first."""
    unit = on.shared_alloc_unit
    least = max(on.shared_bytes_reserved_per_block // unit, 1)
    found: list[int] = []
    for units in range(least, bytes_per_sm // unit + 1):
        blocks = bytes_per_sm // (units * unit)
        if found and found[-2] == blocks:
            found[-1] = units
        else:
            found += [blocks, units]
    return found


def _carveout(on: Device) -> list[int] | None:
    """Bytes per SM that preferences of 0 to 100 percent ask for, as runs; ``None`` where there is no such choice."""
    if on.version < (7, 0):
        return None
    return runs(preferred_shared_bytes(on, share, "none") for share in range(101))


def _cap_by_sm(on: Device) -> list[int]:
    """The register cap of launch bounds that ask for 1, 2, … resident warps, in blocks as small as they can be.

    A cap is the less of this and of what a block's own warps allow. Numbers of warps that no blocks make up get what
    one warp less gets.
    """
    found: list[int] = []
    for warps in range(1, on.max_warps_per_sm + 1):
        blocks = [count for count in range(min(warps, on.max_blocks_per_sm), 0, -1) if warps % count == 0]
        fitting = [count for count in blocks if warps // count <= _block_warps(on)]
        found.append(
            register_cap(on, WARP_THREADS * warps // fitting[0], fitting[0]).registers if fitting else found[-1]
        )
    return found
