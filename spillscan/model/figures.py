"""Table of metrics: each is declared once, and what is printed, compared, queried and documented follows from it.

Metrics that a compiler prints are declared by the fields of :class:`~spillscan.model.usage.Usage`; those of the machine
code, and of a launch on a device, are declared below.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from spillscan.model.build import Kernel
from spillscan.model.usage import PRINTED, Figure, Usage

if TYPE_CHECKING:
    from spillscan.model.code import AccessClass, SassStats


def static_shared(kernel: Kernel) -> int | None:
    """Bytes of static shared memory per block.
    ptxas prints none if a kernel has none, and omits what the linker places in relocatable code (that of templates;
    measured, 13.0). A missing value therefore does not mean 0 in relocatable code, nor if several registers lines may
    be the kernel's.
    """
    usage = kernel.usage
    whole = usage.registers is not None and kernel.final is not False and kernel.confidence == "certain"
    return 0 if whole and usage.shared_bytes is None else usage.shared_bytes


def _spills(name: str, pair: str, way: int) -> Callable[[Kernel], int | None]:
    """Getter of the metric ``name``, element ``way`` of ``pair``: as counted by the compiler, else from the code."""
    printed: Callable[[Usage], int | None] = attrgetter(name)

    def value(kernel: Kernel) -> int | None:
        found = None if kernel.sass is None else getattr(kernel, pair)
        return printed(kernel.usage) if found is None else found[way]

    return value


_SILENT: dict[str, Callable[[Kernel], int | None]] = {
    "shared_bytes": static_shared,
    "spill_store_bytes": _spills("spill_store_bytes", "spills", 0),
    "spill_load_bytes": _spills("spill_load_bytes", "spills", 1),
    "cumulative_spill_store_bytes": _spills("cumulative_spill_store_bytes", "cumulative_spills", 0),
    "cumulative_spill_load_bytes": _spills("cumulative_spill_load_bytes", "cumulative_spills", 1),
}
"""Getters of metrics that are known even if the line that prints them omits them."""


def _code(name: str, label: str, about: str, get: Callable[[SassStats], Any], **declared: Any) -> Figure:
    """Declaration of a metric of the machine code."""
    return Figure(
        name=name,
        label=label,
        about=f"{about}, where the machine code was read",
        source="code",
        get=lambda kernel: None if kernel.sass is None or not kernel.sass.instructions else get(kernel.sass),
        **{"since": None, **declared},
    )


def _traffic(prefix: str, label: str, kind: AccessClass, what: str) -> tuple[Figure, ...]:
    """Metrics of the accesses to one class of local memory: bytes, and numbers of instructions.

    Bytes of spills are declared where they are printed.
    """

    def part(name: str) -> Callable[[SassStats], int | None]:
        def value(sass: SassStats) -> int | None:
            certain = kind == "unknown" or not sass.local.of("unknown").accesses
            return int(getattr(sass.local.of(kind), name)) if certain else None

        return value

    sizes = [
        _code(
            f"{prefix}_{way}_bytes",
            f"{label} {way}s",
            f"bytes per thread that {way}s move {'to' if way == 'store' else 'from'} {what}, each instruction once",
            part(f"{way}_bytes"),
            unit="B",
            rank=72,
        )
        for way in ("store", "load")
        if kind != "spill"
    ]
    counts = [
        _code(
            f"{prefix}_{way}s",
            f"{label} {way} instr.",
            f"{way} instructions {'to' if way == 'store' else 'from'} {what}",
            part(f"{way}s"),
            rank=73 if sizes else 71,
        )
        for way in ("store", "load")
    ]
    return (*sizes, *counts)


_DERIVED = (
    Figure(
        name="spill_bytes",
        label="spills",
        unit="B",
        about="spill stores and loads, bytes per thread: as the compiler counted, else as the code shows",
        rank=9,
        compared=False,
        severe=True,
        since=2,
        get=lambda kernel: None if kernel.spills is None else sum(kernel.spills),
    ),
    Figure(
        name="resident_blocks",
        label="blocks/SM",
        about="blocks that are resident on an SM, where the launch is known",
        rank=20,
        worse="fewer",
        source="launch",
        since=None,
    ),
    Figure(
        name="active_warps",
        label="warps/SM",
        about="warps that are resident on an SM, where the launch is known",
        rank=21,
        worse="fewer",
        source="launch",
        since=None,
    ),
    _code(
        "spills_in_loops",
        "spills in loops",
        "spill instructions inside loops",
        lambda sass: sum(sass.local.spills_in_loops.values()) if sass.local.spills_placed else None,
        rank=30,
        severe=True,
        since=2,
    ),
    _code(
        "spill_loop_depth",
        "spill loop depth",
        "loops around the spill instruction that stands deepest",
        lambda sass: max(sass.local.spills_in_loops, default=0) if sass.local.spills_placed else None,
        rank=31,
        severe=True,
    ),
    _code(
        "live_registers",
        "live registers",
        "most general registers that are live at once (`nvdisasm -plr`, `scan --with live`); never compared",
        lambda sass: None if sass.live_peak is None or sass.live_peak.at_least else sass.live_peak.registers,
        rank=41,
        compared=False,
    ),
    Figure(
        name="dynamic_shared_bytes",
        label="dynamic shared",
        unit="B",
        about="dynamic shared memory, bytes per block, where the compiler wrote it beside the code",
        rank=62,
        source="launch",
        since=5,
        get=lambda kernel: None if kernel.launch is None else kernel.launch.dynamic_shared_bytes,
    ),
    Figure(
        name="footprint_bytes",
        label="GPU memory",
        unit="B",
        about="local memory that the stack reserves on the whole GPU",
        rank=52,
        source="launch",
        since=None,
    ),
    _code(
        "setmaxnreg",
        "setmaxnreg",
        "instructions that give a warp another number of registers (`setmaxnreg`)",
        lambda sass: sass.setmaxnreg,
        rank=38,
        worse="fewer",
        severe=True,
        since=5,
    ),
    _code(
        "role_registers",
        "registers of role",
        "registers per thread that warps have from their `setmaxnreg` on; roles by that number, from 1",
        lambda sass: tuple(enumerate((role.registers for role in sass.roles if role.registers is not None), 1)) or None,
        kind="keyed",
        rank=39,
    ),
    _code(
        "shared_spills",
        "spills to shared",
        "accesses to shared memory that ptxas annotates as spills",
        lambda sass: sass.shared_spills,
        rank=61,
    ),
    _code(
        "code_bytes",
        "code",
        "bytes of machine code, to the end of the last instruction",
        lambda sass: sass.code_bytes,
        unit="B",
        rank=90,
        since=6,
    ),
    _code(
        "instructions",
        "instructions",
        "machine instructions, padding included",
        lambda sass: sass.instructions,
        rank=91,
        since=6,
    ),
    Figure(
        name="compile_ms",
        label="compile time",
        unit="ms",
        about="whole milliseconds that ptxas took, where it prints them (12.8 and later); never the same twice, and "
        "never compared",
        rank=95,
        compared=False,
        since=None,
        get=lambda kernel: None if kernel.compile_ms is None else round(kernel.compile_ms),
    ),
    *_traffic("spill", "spill", "spill", "spill slots"),
    *_traffic("array", "array", "array", "arrays in local memory"),
    *_traffic("frame", "frame", "frame", "frames of callees, stack arguments and saved registers"),
    *_traffic("unclassified", "other local", "unknown", "local memory that is none of these"),
)

FIGURES: tuple[Figure, ...] = tuple(
    sorted(
        (*(replace(each, get=_SILENT.get(each.name, each.get)) for each in PRINTED), *_DERIVED),
        key=lambda each: each.rank,
    )
)
"""All metrics, worst first."""

COMPARED = tuple(each for each in FIGURES if each.compared and each.kind == "number")
"""Metrics by which two records are compared."""
KEYED = tuple(each for each in FIGURES if each.compared and each.kind == "keyed")
"""Metrics compared value by value: constant memory by bank, registers by role."""
KEPT = tuple(each for each in FIGURES if each.since is not None and each.kind == "number")
"""Metrics of each kernel in a dataset."""

RANKED = tuple(each for each in FIGURES if each in KEPT or each.name == "compile_ms")
"""Metrics by which kernels of a dataset are ranked."""

METRICS = tuple(each for each in FIGURES if each.get is not None or each.name == "resident_blocks")
"""Metrics that a table of builds shows for each kernel on request."""
FOLLOWED = tuple(each for each in FIGURES if each in KEPT or each.name == "resident_blocks")
"""Metrics tracked over the builds of a dataset by default."""
TRACED = tuple(each for each in FIGURES if each in FOLLOWED or each in RANKED)
"""Metrics that can be tracked, including compile times, which differ in every run."""

BY_NAME = {each.name: each for each in FIGURES}
_RANK = {each.name: place for place, each in enumerate(FIGURES)}


def figure(name: str) -> Figure:
    """Metric called ``name``; a key in brackets (``constant_bytes[2]``, ``resident_blocks[H200]``) joins its label."""
    base, bracket, key = name.partition("[")
    known = BY_NAME[base]
    if not bracket:
        return known
    label = f"{known.label}[{key}" if known.kind == "keyed" else f"{known.label} {key[:-1]}"
    return replace(known, name=name, label=label)


def value_of(name: str, kernel: Kernel) -> Any:
    """Value of the metric ``name`` for one kernel; ``None`` if unknown, or if it depends on more than the kernel."""
    get = BY_NAME[name].get
    return None if get is None else get(kernel)


def rank(name: str) -> tuple[int, str]:
    """Sort key of metric names, worst first; the rank ignores keys in brackets."""
    return _RANK[name.partition("[")[0]], name
