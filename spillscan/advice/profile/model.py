"""What a profiler saw: frozen records of launches, in which ``None`` means that the profile does not say; which of its
metrics are read, under every name that it gives them, and how it prints numbers and units.

A figure has names of metrics (raw page, ``--metrics``) and labels (details page), best first: where several are there,
the first counts. Names are those of Nsight Compute 2020.1 to 2025.3; what a release does not collect is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any, Literal, cast

from spillscan.model import Issue, Origin


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures of one launch, in base units."""

    figures: Mapping[str, Any]
    """By their names in :data:`FIGURES`; ``None``, or not there, where the profile does not give it."""
    rounded: frozenset[str] = frozenset()
    """Names of figures that were printed with a prefix (``16.38 Kbyte``) and are therefore rounded."""

    def figure(self, name: str) -> Any:
        """The figure of that name; ``None`` where the profile does not give it."""
        return self.figures.get(name)

    def total(self, *names: str) -> Any:
        """These figures together; ``None`` where one of them is not known."""
        found = [self.figures.get(name) for name in names]
        return None if None in found else sum(found)

    @property
    def local_share(self) -> float | None:
        """Local-memory traffic of local and global traffic together, 0 to 1; ``None`` where there is none of both."""
        local = self.total("local_load_bytes", "local_store_bytes")
        beside = self.total("global_load_bytes", "global_store_bytes")
        return None if local is None or beside is None or not local + beside else local / (local + beside)

    @property
    def spill_instruction_share(self) -> float | None:
        """Spill instructions of all instructions executed, 0 to 1."""
        spills, every = self.figure("spill_instructions"), self.figure("instructions")
        return None if spills is None or not every else spills / every


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledLaunch:
    """One launch of one kernel."""

    number: str = ""
    """The profiler's ID of the launch, unique in its process."""
    kernel: str
    """The kernel's name as the profiler printed it: mangled, demangled in NVIDIA's way, or the bare function."""
    process: str = ""
    """Process ID, with the process's name where it is printed."""
    context: str = ""
    """CUDA context."""
    stream: str = ""
    """CUDA stream."""
    device: str = ""
    """Device number."""
    block: tuple[int, ...] | None
    """Threads per block by dimension."""
    grid: tuple[int, ...] | None = None
    """Blocks by dimension."""
    capability: tuple[int, int] | None = None
    """Compute capability of the device."""
    measured: Measured
    """Its figures."""
    origin: Origin
    """Where it was read."""

    @property
    def arch(self) -> str | None:
        """The device's target: ``sm_90``."""
        return None if self.capability is None else "sm_{}{}".format(*self.capability)

    @property
    def threads(self) -> int | None:
        """Threads per block."""
        return self.measured.figure("block_threads") if self.block is None else prod(self.block)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """All launches of the inputs, in their order."""

    launches: tuple[ProfiledLaunch, ...] = ()
    """In the order of the inputs."""
    issues: tuple[Issue, ...] = field(default=())
    """What the profiler itself complained of."""


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
_NO_FIGURE = 1e30
"""Nothing that is counted comes to so much, in whatever unit."""
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
    if found and abs(value := float(found[1].translate(_SEPARATORS))) < _NO_FIGURE:
        return value
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
    """Its name, see :meth:`Measured.figure`."""
    kind: Kind
    """What it counts."""
    rank: int
    """0 is the best name of the figure."""
    scale: int = 1
    """What it is multiplied by to be the figure."""


_NAMES = """
registers               count   launch__registers_per_thread | Registers Per Thread
static_shared_bytes     bytes   launch__shared_mem_per_block_static | Static Shared Memory Per Block
dynamic_shared_bytes    bytes   launch__shared_mem_per_block_dynamic | Dynamic Shared Memory Per Block
driver_shared_bytes     bytes   launch__shared_mem_per_block_driver | Driver Shared Memory Per Block
shared_config_bytes     bytes   launch__shared_mem_config_size | Shared Memory Configuration Size
barriers                count   launch__barrier_count
cluster_blocks          count   launch__cluster_size | Cluster Size
block_threads           count   launch__block_size | Block Size
capability_major        count   device__attribute_compute_capability_major
capability_minor        count   device__attribute_compute_capability_minor
waves                   number  launch__waves_per_multiprocessor | Waves Per SM
theoretical_percent     percent sm__maximum_warps_per_active_cycle_pct | Theoretical Occupancy
achieved_percent        percent sm__warps_active.avg.pct_of_peak_sustained_active | Achieved Occupancy
limit_warps             count   launch__occupancy_limit_warps | Block Limit Warps
limit_blocks            count   launch__occupancy_limit_blocks | Block Limit SM
limit_registers         count   launch__occupancy_limit_registers | Block Limit Registers
limit_shared_memory     count   launch__occupancy_limit_shared_mem | Block Limit Shared Mem
limit_barriers          count   launch__occupancy_limit_barriers | Block Limit Barriers
duration_ns             time    gpu__time_duration.sum | gpu__time_duration.avg | Duration
compute_percent         percent sm__throughput.avg.pct_of_peak_sustained_elapsed | Compute (SM) Throughput
                                | SM Throughput | SOL SM
memory_percent          percent gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed | Memory Throughput
                                | SOL Memory
instructions            count   smsp__inst_executed.sum | inst_executed | Executed Instructions
spill_instructions      count   sass__inst_executed_register_spilling | derived__local_spilling_requests
                                | Local Memory Spilling Requests
local_load_instructions count   smsp__sass_inst_executed_op_local_ld.sum | smsp__inst_executed_op_local_ld.sum
                                | sass__inst_executed_local_loads
local_store_instructions count  smsp__sass_inst_executed_op_local_st.sum | smsp__inst_executed_op_local_st.sum
                                | sass__inst_executed_local_stores
"""
"""Of each figure what it counts, and its names, the best first. Registers are those that the driver set, 16 at least;
static shared memory is without the driver's; the limit by shared memory is at the carve-out that the driver chose, that
by barriers without any the block slots; a cluster of 0 blocks is none; bytes of local and global memory are what L1 was
asked for and sent; memory throughput is that of whichever unit of the memory system is busiest."""


def _metrics() -> Iterator[tuple[str, MetricName]]:
    for line in re.sub(r"\n +\|", " |", _NAMES.strip()).split("\n"):
        figure, kind, names = line.split(maxsplit=2)
        yield from ((name, MetricName(figure, cast("Kind", kind), at)) for at, name in enumerate(names.split(" | ")))
    for space, (way, short) in product(("local", "global"), (("load", "ld"), ("store", "st"))):
        figure, stem = f"{space}_{way}_bytes", f"pipe_lsu_mem_{space}_op_{short}.sum"
        yield f"l1tex__t_bytes_{stem}", MetricName(figure, "bytes", 0)
        yield f"l1tex__t_sectors_{stem}", MetricName(figure, "count", 1, SECTOR_BYTES)


METRICS: Mapping[str, MetricName] = dict(_metrics())
"""By metric name or label."""

FIGURES = tuple(dict.fromkeys(metric.figure for metric in METRICS.values()))
"""All figures, in the order of reports."""
