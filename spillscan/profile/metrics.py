"""Which of the profiler's metrics are read, under every name that it gives them, and how it prints numbers and units.

A figure has names of metrics (raw page, ``--metrics``) and labels (details page), best first: where several are there,
the first counts. Names are those of Nsight Compute 2020.1 to 2025.3; what a release does not collect is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

# ---- numbers and units -----------------------------------------------------------------------------------------------


Kind = Literal["count", "bytes", "percent", "time", "number"]

# Thousands are set apart by commas in the C locale, by blanks or apostrophes in others.
_NUMBER = re.compile(
    r"([-+]?(?:\d{1,3}(?:(?P<mark>[,'\u2019\u00a0\u202f ])\d{3})(?:(?P=mark)\d{3})*|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?)"
    r"(?: [({].*)?",  # the instances of a metric, which --print-metric-instances puts behind the sum
    re.DOTALL,
)
_DECIMAL_COMMA = re.compile(r"[-+]?\d+(?:\.\d{3})*,\d+|[-+]?\d{1,3}(?:\.\d{3}){2,}")
_ABSENT = frozenset({"", "no data", "n/a", "(!) n/a", "nan", "-nan", "inf", "-inf", "N/A"})
_SEPARATORS = str.maketrans("", "", ",'\u2019\u00a0\u202f ")

_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_TIMES = {
    "nsecond": 1.0, "ns": 1.0, "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6, "second": 1e9, "s": 1e9, "sec": 1e9
}  # fmt: skip
_BYTES = re.compile(r"([kKMGTP]?)byte(?:/block)?")
_COUNTS = re.compile(
    r"([kKMGTP]?)(?:inst|sector|request|block|cluster|warp|thread|register/thread|cycle)?(?:/block|/thread)?"
)


class NotANumberError(ValueError):
    """What is printed is neither a number nor a word for an absent one."""


def number(text: str) -> float | None:
    """The number that ``text`` prints; ``None`` where it says that there is none (``no data``)."""
    found = _NUMBER.fullmatch(text)
    if found:
        return float(found[1].translate(_SEPARATORS))
    if text in _ABSENT:
        return None
    if _DECIMAL_COMMA.fullmatch(text):
        raise NotANumberError(f"{text!r} is written in a language that puts a comma before decimals")
    raise NotANumberError(f"{text!r} is not a number")


def decimals(text: str) -> int:
    """How many decimals ``text`` prints: two of ``16.38``, six of ``16.384000``."""
    return len(re.split(r"[^\d]", text.strip().partition(".")[2], maxsplit=1)[0])


def factor(unit: str, kind: Kind) -> float | None:
    """What a figure in ``unit`` is multiplied by to be in base units (bytes, nanoseconds, percent, one); ``None`` where
    the unit is none of that kind."""
    if kind == "percent":
        return 1.0 if unit in ("%", "pct") else None
    if kind == "time":
        return _TIMES.get(unit)
    if kind == "number":
        return 1.0
    found = (_BYTES if kind == "bytes" else _COUNTS).fullmatch(unit)
    return None if found is None else _PREFIXES[found[1]]


# ---- figures ---------------------------------------------------------------------------------------------------------


SECTOR_BYTES = 32
"""Bytes of a sector of L1 and L2 (Nsight Compute, Profiling Guide: Memory Tables)."""


@dataclass(frozen=True, slots=True)
class MetricName:
    """One name of one figure."""

    figure: str
    """Field of :class:`~spillscan.profile.model.Measured`."""
    kind: Kind
    """What it counts."""
    rank: int
    """0 is the best name of the figure."""
    scale: int = 1
    """What it is multiplied by to be the figure."""


def _names(figure: str, kind: Kind, *names: str) -> dict[str, MetricName]:
    return {name: MetricName(figure, kind, rank) for rank, name in enumerate(names)}


def _traffic(figure: str, space: str, way: str) -> dict[str, MetricName]:
    stem = f"pipe_lsu_mem_{space}_op_{way}.sum"
    return {
        f"l1tex__t_bytes_{stem}": MetricName(figure, "bytes", 0),
        f"l1tex__t_sectors_{stem}": MetricName(figure, "count", 1, SECTOR_BYTES),
    }


METRICS: Mapping[str, MetricName] = {
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
