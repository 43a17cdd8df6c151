"""The rules of ``rules.py`` over whole columns: a million configurations in well under two seconds on one
core.

Same figures as the scalar path, bit for bit (a test compares them); here a limit that does not bind is
``NO_LIMIT``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spillscan.errors import UsageError
from spillscan.occupancy import formula as rules
from spillscan.occupancy.devices import Device, device, devices
from spillscan.occupancy.model import LIMITERS

Ints = NDArray[np.int64]

NO_LIMIT = rules.NO_LIMIT
NOT_SET = -1
"""In ``carveout_percent`` and ``max_dynamic_shared_bytes``: no preference, not opted in."""

DEFAULTS = {
    "static_shared_bytes": 0,
    "dynamic_shared_bytes": 0,
    "carveout_percent": NOT_SET,
    "barriers": 1,
    "max_dynamic_shared_bytes": NOT_SET,
    "virtual_resources": 0,
}
"""Optional columns, and what an absent column or an empty cell means."""
REQUIRED = ("arch", "registers", "threads_per_block")
CODES = {"cache_preference": ("none", "shared", "l1", "equal"), "global_caching": ("off", "on", "strict")}
"""Optional columns of words; absent, empty or the first word: the default."""


def occupancy_table(columns: Mapping[str, Any], first_row: int = 1) -> dict[str, NDArray[Any]]:
    """Occupancy of many configurations: a mapping of columns (a pandas ``DataFrame`` is one) to result
    columns.

    Needs ``arch``, ``registers`` and ``threads_per_block``; may have ``static_shared_bytes``,
    ``dynamic_shared_bytes``, ``carveout_percent``, ``barriers``, ``max_dynamic_shared_bytes``,
    ``virtual_resources``, ``cache_preference`` and ``global_caching``. Other columns are ignored. NaN, NA and
    None mean the default.

    Gives ``resident_blocks``, ``active_warps``, ``max_warps``, ``occupancy``, ``limit_*`` (``NO_LIMIT`` where
    a resource does not limit), ``limiters`` (bits in the order of ``LIMITERS``),
    ``allocated_registers_per_block``, ``allocated_shared_bytes_per_block``, ``shared_bytes_per_sm`` and
    ``global_caching`` (0 off, 1 on, 2 strict).

    A launch that does not fit (also: 1,025 threads) has 0 blocks. A missing column, an unknown arch, a
    negative figure, 0 threads or a carve-out above 100 raises :class:`~spillscan.errors.UsageError` with the
    row.
    """
    for name in REQUIRED:
        if name not in columns:
            raise UsageError(f"column {name} is missing", "needed are " + ", ".join(REQUIRED))
    archs = columns["arch"]
    rows = len(archs)
    known, which = _archs(archs, first_row)
    tables = _Tables(known)
    figures = {name: _whole(columns[name], name, None, first_row) for name in REQUIRED[1:]}
    for name, default in DEFAULTS.items():
        figures[name] = (
            _whole(columns[name], name, default, first_row) if name in columns else np.full(rows, default, np.int64)
        )
    for name, figure in figures.items():
        if len(figure) != rows:
            raise UsageError(f"column {name} has {len(figure)} rows, arch has {rows}")
        least = {"threads_per_block": 1, "carveout_percent": -1, "max_dynamic_shared_bytes": -1}.get(name, 0)
        _bounds(figure, name, least, first_row)
    words = {
        name: _words(columns[name], name, codes) if name in columns else np.zeros(rows, np.int64)
        for name, codes in CODES.items()
    }
    return _resident(tables, which, figures, words)


class _Tables:
    """Figures of the devices in use as arrays, one entry a device."""

    def __init__(self, known: Sequence[Device]) -> None:
        def figures(name: str) -> Ints:
            return np.array([getattr(one, name) or 0 for one in known], np.int64)

        self.registers_per_sm = figures("registers_per_sm")
        self.registers_per_block = figures("registers_per_block")
        self.checked_registers = np.array([rules.checked_registers(one) for one in known], np.int64)
        self.register_alloc_unit = figures("register_alloc_unit")
        self.partitions = figures("sub_partitions")
        self.max_threads_per_block = figures("max_threads_per_block")
        self.max_warps = figures("max_warps_per_sm")
        self.max_blocks = figures("max_blocks_per_sm")
        self.reserve = figures("shared_bytes_reserved_per_block")
        self.shared_unit = figures("shared_alloc_unit")
        self.shared_most = figures("shared_bytes_per_sm")
        self.limit_default = np.array([rules.shared_limit_per_block(one, False, 0) for one in known], np.int64)
        self.limit_opted = np.array([rules.shared_limit_per_block(one, True, 2**31) for one in known], np.int64)
        self.opt_in_from = figures("shared_bytes_per_block")
        self.barriers = np.array([one.barriers_per_sm or 0 if one.version >= (9, 0) else 0 for one in known], np.int64)
        self.virtual = figures("virtual_resources_per_sm")
        self.caching = figures("partitioned_global_caching")
        self.is_60 = np.array([one.version == (6, 0) for one in known])
        # preferred[device, preference, percent + 1] and step[device, KB rounded up]: carve-out as look-ups
        self.preferred = np.array(
            [
                [
                    [rules.preferred_shared_bytes(one, None if pct < 0 else pct, name) for pct in range(-1, 101)]
                    for name in ("none", "shared", "l1", "equal")
                ]
                for one in known
            ],
            np.int64,
        ).reshape(len(known), 4, 102)
        most = max((one.shared_bytes_per_sm for one in known), default=0) // 1024
        self.step = np.array(
            [
                [
                    rules.carveout_step(one, 1024 * kb)
                    if one.version >= (7, 0) and 1024 * kb <= one.shared_bytes_per_sm
                    else one.shared_bytes_per_sm
                    for kb in range(most + 1)
                ]
                for one in known
            ],
            np.int64,
        ).reshape(len(known), most + 1)


def _resident(
    tables: _Tables, which: Ints, figures: Mapping[str, Ints], words: Mapping[str, Ints]
) -> dict[str, NDArray[Any]]:
    registers, threads = figures["registers"], figures["threads_per_block"]
    warps = (threads + 31) // 32
    max_warps = tables.max_warps[which]

    # Registers: allocated per warp, checked per block, floored per sub-partition (rules.register_limit).
    unit = tables.register_alloc_unit[which]
    warp = (registers * 32 + unit - 1) // unit * unit
    columns = {"registers": registers, "warp": warp, "warps": warps, **words}
    by_registers, caching = _register_limit(tables, which, tables.partitions[which], columns)
    if tables.is_60[which].any():
        on_61, _ = _register_limit(tables, which, np.full_like(which, 4), columns)
        by_registers = np.where(tables.is_60[which] & (on_61 == 0), 0, by_registers)

    half = max_warps // 2 // warps * 2
    by_warps = np.where(caching != 0, half, max_warps // warps)
    by_warps = np.where(threads > tables.max_threads_per_block[which], 0, by_warps)

    # Shared memory: reserve, allocation unit, per-block limit, carve-out step (rules.shared_limit).
    static, dynamic, attribute = (
        figures["static_shared_bytes"],
        figures["dynamic_shared_bytes"],
        figures["max_dynamic_shared_bytes"],
    )
    reserve, shared_unit = tables.reserve[which], tables.shared_unit[which]
    allocated = (static + dynamic + reserve + shared_unit - 1) // shared_unit * shared_unit
    opted_in = attribute >= 0
    wide = opted_in & (static + reserve + attribute > tables.opt_in_from[which])
    limit = np.where(wide, tables.limit_opted[which], tables.limit_default[which])
    refused = (allocated > limit) | (opted_in & (dynamic > attribute))
    preferred = tables.preferred[which, words["cache_preference"], figures["carveout_percent"] + 1]
    kilobytes = np.minimum((allocated + 1023) // 1024, tables.step.shape[1] - 1)
    shared_per_sm = np.where(refused | (preferred >= allocated), preferred, tables.step[which, kilobytes])
    by_shared = np.where(allocated > 0, shared_per_sm // np.maximum(allocated, 1), NO_LIMIT)
    by_shared[refused] = 0

    def share(available: Ints, used: Ints) -> Ints:
        return np.where((available > 0) & (used > 0), available // np.maximum(used, 1), NO_LIMIT)

    limits = (
        by_warps,
        by_registers,
        by_shared,
        tables.max_blocks[which],
        share(tables.barriers[which], figures["barriers"]),
        share(tables.virtual[which], figures["virtual_resources"]),
    )
    blocks = limits[0]
    for one in limits[1:]:
        blocks = np.minimum(blocks, one)
    binding = np.zeros(len(which), np.uint8)
    for bit, one in enumerate(limits):
        binding |= (one == blocks).astype(np.uint8) << np.uint8(bit)
    active = blocks * warps
    return {
        "resident_blocks": blocks,
        "active_warps": active,
        "max_warps": max_warps,
        "occupancy": active / max_warps,
        "limiters": binding,
        **{f"limit_{name}": limit for name, limit in zip(LIMITERS, limits, strict=True)},
        "allocated_registers_per_block": warp * warps,
        "allocated_shared_bytes_per_block": allocated,
        "shared_bytes_per_sm": shared_per_sm,
        "global_caching": caching,
    }


def _register_limit(tables: _Tables, which: Ints, partitions: Ints, columns: Mapping[str, Ints]) -> tuple[Ints, Ints]:
    registers, warp, warps = columns["registers"], columns["warp"], columns["warps"]
    caching = np.where(tables.caching[which] > 0, columns["global_caching"], 0)
    assumed = warp * ((warps + partitions - 1) // partitions * partitions)
    refused = (assumed > tables.registers_per_block[which]) | (registers > tables.checked_registers[which])
    in_partition = tables.registers_per_sm[which] // partitions // np.maximum(warp, 1)
    spread = in_partition * partitions // warps
    if caching.any():
        halves = np.where(caching != 0, in_partition * (partitions // 2) // warps * 2, 0)
        dropped = (halves == 0) & (caching != 2)
        blocks = np.where(dropped, spread, halves)
        caching_left = np.where(refused | (warp == 0) | ~dropped, caching, 0)
    else:
        blocks, caching_left = spread, caching
    blocks = np.where(warp == 0, NO_LIMIT, blocks)
    return np.where(refused, 0, blocks), caching_left


def limiter_names() -> list[str]:
    """Names for every value of the ``limiters`` column, joined with ``+``."""
    return [
        "+".join(name for bit, name in enumerate(LIMITERS) if mask >> bit & 1) for mask in range(1 << len(LIMITERS))
    ]


def _archs(archs: Any, first_row: int) -> tuple[list[Device], Ints]:
    known: list[Device] = []
    place: dict[Any, int] = {}
    targets: dict[str, int] = {}
    names = archs.tolist() if hasattr(archs, "tolist") else list(archs)
    try:
        for name in dict.fromkeys(names):
            found = device(name if isinstance(name, float | int) else str(name))
            if found.target not in targets:
                targets[found.target] = len(known)
                known.append(found)
            place[name] = targets[found.target]
    except UsageError as error:
        raise UsageError(f"row {names.index(name) + first_row}: {error.what}", error.hint) from None
    return known or [devices()[0]], np.fromiter((place[name] for name in names), np.int64, len(names))


def _whole(values: Any, name: str, default: int | None, first_row: int) -> Ints:
    if hasattr(values, "to_numpy") and getattr(values.dtype, "na_value", None) is not None and values.hasnans:
        values = values.to_numpy(dtype=float, na_value=np.nan)
    array = np.asarray(values)
    if array.dtype.kind in "iub":
        return array.astype(np.int64, copy=False)
    if array.dtype.kind == "O":
        array = np.array([np.nan if _is_empty(value) else value for value in array])
    try:
        array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise UsageError(f"column {name} must hold whole numbers") from None
    empty = np.isnan(array)
    if default is None and empty.any():
        raise UsageError(f"row {int(empty.argmax()) + first_row}: {name} is empty")
    array = np.where(empty, 0 if default is None else default, array)
    uneven = (array != np.floor(array)) | (np.abs(array) > 2**53)
    if uneven.any():
        row = int(uneven.argmax())
        raise UsageError(f"row {row + first_row}: {name} must be a whole number, not {array[row]:g}")
    return array.astype(np.int64)


def _is_empty(value: Any) -> bool:
    """None, an empty cell, NaN, or the NA of pandas (which is not imported for it)."""
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value == ""


def _bounds(figure: Ints, name: str, least: int, first_row: int) -> None:
    most = 100 if name == "carveout_percent" else 2**31 - 1
    wrong = (figure < least) | (figure > most)
    if wrong.any():
        row = int(wrong.argmax())
        if name == "carveout_percent":
            bounds = "0 to 100"
        else:
            bounds = f"at least {max(least, 0)}" if figure[row] < least else f"at most {most:,}"
        raise UsageError(f"row {row + first_row}: {name} must be {bounds}, not {figure[row]:,}")


def _words(values: Any, name: str, codes: Sequence[str]) -> Ints:
    place: dict[Any, int] = {word: code for code, word in enumerate(codes)}
    try:
        return np.fromiter((0 if _is_empty(value) else place[value] for value in values), np.int64, len(values))
    except KeyError as error:
        raise UsageError(f"{name} must be one of {', '.join(codes)}, not {error.args[0]!r}") from None
