"""Occupancy and devices as plain data, for JSON and CSV. Keys are stable and contain their units."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from spillscan.occupancy.bounds import bounds_for_more_blocks
from spillscan.occupancy.devices import Device
from spillscan.occupancy.headroom import (
    available_dynamic_shared_bytes,
    best_block_sizes,
    headroom,
    next_block,
)
from spillscan.occupancy.model import Occupancy, findings
from spillscan.occupancy.summary import Summary


def as_data(occupancy: Occupancy, wanted_blocks: int | None = None) -> dict[str, Any]:
    """All data about one configuration, for JSON. Keys are stable and contain their units."""
    configuration = occupancy.configuration
    best = best_block_sizes(configuration)
    blocks = wanted_blocks or occupancy.resident_blocks
    given = {
        "arch": configuration.device.target,
        "registers": configuration.registers,
        "threads_per_block": configuration.threads_per_block,
        "static_shared_bytes": configuration.static_shared_bytes,
        "dynamic_shared_bytes": configuration.dynamic_shared_bytes,
        "max_dynamic_shared_bytes": configuration.max_dynamic_shared_bytes,
        "carveout_percent": configuration.carveout_percent,
        "cache_preference": configuration.cache_preference,
        "barriers": configuration.barriers,
        "global_caching": configuration.global_caching,
    }
    return {
        "configuration": given,
        **as_row(occupancy),
        "max_warps": occupancy.max_warps,
        "reasons": list(occupancy.reasons),
        "allocated_registers_per_block": occupancy.allocated_registers_per_block,
        "allocated_shared_bytes_per_block": occupancy.allocated_shared_bytes_per_block,
        "shared_bytes_per_sm": occupancy.shared_bytes_per_sm,
        "unused_warps": occupancy.unused_warps,
        "unused_registers": occupancy.unused_registers,
        "unused_shared_bytes": occupancy.unused_shared_bytes,
        "headroom": [to_builtins(way) for way in headroom(occupancy)],
        "next_block": to_builtins(next_block(occupancy)),
        "launch_bounds_for_more_blocks": to_builtins(bounds_for_more_blocks(occupancy)),
        "best_block_sizes": list(best.alternatives),
        "wanted_blocks": blocks,
        "available_dynamic_shared_bytes": available_dynamic_shared_bytes(configuration, blocks),
        "findings": [{"limiter": name, "finding": text} for name, text in findings(occupancy)],
    }


def as_row(occupancy: Occupancy) -> dict[str, Any]:
    """The result alone, as in one row of ``--from``."""
    return {
        "resident_blocks": occupancy.resident_blocks,
        "active_warps": occupancy.active_warps,
        "occupancy": occupancy.fraction,
        "limiters": list(occupancy.limiters),
        **{f"limit_{name}": limit for name, limit in occupancy.limits.items()},
    }


def summary_data(summary: Summary) -> dict[str, Any]:
    """One kernel's occupancy for JSON.

    If its launch or dynamic shared memory is unknown, ``resident_blocks`` is ``None`` and the rest are upper bounds.
    """
    result = summary.occupancy
    local = summary.local_memory
    return {
        "assumed": summary.assumed,
        "at_most": summary.at_most,
        "unknown": summary.unknown,
        "resident_blocks": None if result is None or summary.at_most else result.resident_blocks,
        "active_warps": None if result is None else result.active_warps,
        "max_warps": None if result is None else result.max_warps,
        "occupancy": None if result is None else result.fraction,
        "limiters": list(summary.limiters),
        "at_threads": {str(threads): occupancy.fraction for threads, occupancy in summary.at_threads},
        "threads_per_block": None if summary.launch is None else summary.launch.threads_per_block,
        "dynamic_shared_bytes": None if summary.launch is None else summary.launch.dynamic_shared_bytes,
        "launch_source": None if summary.launch is None else summary.launch.source,
        "reasons": [] if result is None else list(result.reasons),
        "local_memory_bytes": None if local is None else local.total_bytes,
    }


def device_data(device: Device) -> dict[str, Any]:
    """All data about one device, for JSON."""
    return {
        "target": device.target,
        "compute_capability": device.compute_capability,
        "architecture": device.architecture,
        "chip": device.chip,
        "status": device.status,
        "gpus": [to_builtins(gpu) for gpu in device.gpus],
        "values": {
            name: {"value": getattr(device, name), "source": list(keys)} for name, keys in device.sources.items()
        },
        "conflicts": [to_builtins(conflict) for conflict in device.conflicts],
        "notes": list(device.notes),
    }
