"""Which of the profiler's metrics are read, under every name that it gives them.

A figure has names of metrics (raw page, ``--metrics``) and labels (details page), best first: where several are there,
the first counts. Names are those of Nsight Compute 2020.1 to 2025.3; what a release does not collect is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spillscan.profile.numbers import Kind

SECTOR_BYTES = 32
"""Bytes of a sector of L1 and L2 (Nsight Compute, Profiling Guide: Memory Tables)."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One name of one figure."""

    figure: str
    """Field of :class:`~spillscan.profile.model.Measured`."""
    kind: Kind
    """What it counts."""
    rank: int
    """0 is the best name of the figure."""
    scale: int = 1
    """What it is multiplied by to be the figure."""


def _names(figure: str, kind: Kind, *names: str) -> dict[str, Metric]:
    return {name: Metric(figure, kind, rank) for rank, name in enumerate(names)}


def _traffic(figure: str, space: str, way: str) -> dict[str, Metric]:
    stem = f"pipe_lsu_mem_{space}_op_{way}.sum"
    return {
        f"l1tex__t_bytes_{stem}": Metric(figure, "bytes", 0),
        f"l1tex__t_sectors_{stem}": Metric(figure, "count", 1, SECTOR_BYTES),
    }


METRICS: Mapping[str, Metric] = {
    **_names("registers", "count", "launch__registers_per_thread", "Registers Per Thread"),
    **_names("static_shared_bytes", "bytes", "launch__shared_mem_per_block_static", "Static Shared Memory Per Block"),
    **_names(
        "dynamic_shared_bytes", "bytes", "launch__shared_mem_per_block_dynamic", "Dynamic Shared Memory Per Block"
    ),
    **_names("driver_shared_bytes", "bytes", "launch__shared_mem_per_block_driver", "Driver Shared Memory Per Block"),
    **_names("shared_config_bytes", "bytes", "launch__shared_mem_config_size", "Shared Memory Configuration Size"),
    **_names("barriers", "count", "launch__barrier_count"),
    **_names("cluster_blocks", "count", "launch__cluster_size", "Cluster Size"),
    **_names("block_threads", "count", "launch__block_size", "Block Size"),
    **_names("capability_major", "count", "device__attribute_compute_capability_major"),
    **_names("capability_minor", "count", "device__attribute_compute_capability_minor"),
    **_names("waves", "number", "launch__waves_per_multiprocessor", "Waves Per SM"),
    **_names("theoretical_percent", "percent", "sm__maximum_warps_per_active_cycle_pct", "Theoretical Occupancy"),
    **_names("achieved_percent", "percent", "sm__warps_active.avg.pct_of_peak_sustained_active", "Achieved Occupancy"),
    **_names("limit_warps", "count", "launch__occupancy_limit_warps", "Block Limit Warps"),
    **_names("limit_blocks", "count", "launch__occupancy_limit_blocks", "Block Limit SM"),
    **_names("limit_registers", "count", "launch__occupancy_limit_registers", "Block Limit Registers"),
    **_names("limit_shared_memory", "count", "launch__occupancy_limit_shared_mem", "Block Limit Shared Mem"),
    **_names("limit_barriers", "count", "launch__occupancy_limit_barriers", "Block Limit Barriers"),
    **_names("duration_ns", "time", "gpu__time_duration.sum", "gpu__time_duration.avg", "Duration"),
    **_names(
        "compute_percent",
        "percent",
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "Compute (SM) Throughput",
        "SM Throughput",
        "SOL SM",
    ),
    **_names(
        "memory_percent",
        "percent",
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
        "Memory Throughput",
        "SOL Memory",
    ),
    **_names("instructions", "count", "smsp__inst_executed.sum", "inst_executed", "Executed Instructions"),
    **_names(
        "spill_instructions",
        "count",
        "sass__inst_executed_register_spilling",
        "derived__local_spilling_requests",
        "Local Memory Spilling Requests",
    ),
    **_names(
        "local_load_instructions",
        "count",
        "smsp__sass_inst_executed_op_local_ld.sum",
        "smsp__inst_executed_op_local_ld.sum",
        "sass__inst_executed_local_loads",
    ),
    **_names(
        "local_store_instructions",
        "count",
        "smsp__sass_inst_executed_op_local_st.sum",
        "smsp__inst_executed_op_local_st.sum",
        "sass__inst_executed_local_stores",
    ),
    **_traffic("local_load_bytes", "local", "ld"),
    **_traffic("local_store_bytes", "local", "st"),
    **_traffic("global_load_bytes", "global", "ld"),
    **_traffic("global_store_bytes", "global", "st"),
}
"""By metric name or label."""
