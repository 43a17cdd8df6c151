"""Table of metrics: each is declared once, and what is printed, compared, queried and documented follows from it.

Metrics that a compiler or linker prints are fields of :class:`~spillscan.model.usage.Usage`; the others follow from the
machine code, or from a launch on a device.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from spillscan.model.build import Kernel
    from spillscan.model.code import SassStats
    from spillscan.model.local import AccessClass


class Metric(Struct, frozen=True, kw_only=True):
    """Declaration of one metric, from which outputs, comparisons, options, schemas and docs follow."""

    name: str
    """Name in JSON and SQL: ``spill_store_bytes``."""
    label: str
    """Name for people: ``spill stores``."""
    about: str
    """Description in one line, for the documentation: what it counts, and per what."""
    rank: int
    """Position among compared metrics, worst first; ties are in the order of declaration."""
    source: Literal["printed", "code", "launch"] = "printed"
    """Source: printed by a compiler or linker, shown by the machine code, or the result of a launch on a device."""
    kind: Literal["number", "keyed"] = "number"
    """One whole number; or (key, number) pairs, such as bytes by constant bank."""
    worse: Literal["more", "fewer"] = "more"
    """Direction that is worse."""
    compared: bool = True
    """Whether a difference is a change; if not, the metric follows from others that are compared themselves."""
    severe: bool = False
    """Whether an increase is so surely harmful that tables color it."""
    stored: bool = True
    """Whether datasets have a column for it."""
    clause: str = ""
    """Name in the grammar of the clause that prints it on a registers line; empty if another line does, or none."""
    linker: str = ""
    """Field of the linker's record that contains it, for metrics of relocatable code that the linker decides.

    Empty if the compiler's value is final.
    """
    listed: bool = False
    """Whether ``cuobjdump -res-usage`` lists it, too."""
    contradicts: bool = False
    """Whether a log and a binary with different values are of different compilations."""
    get: Callable[[Any], Any] | None = None
    """Getter of its value for a kernel; ``None`` if it depends on more than the kernel."""

    @property
    def unit(self) -> str:
        """``B`` for bytes; empty for counts."""
        return "ms" if self.name.endswith("_ms") else "B" if "_bytes" in self.name else ""

    @property
    def head(self) -> str:
        """``spill stores, B``: head of its column."""
        return f"{self.label}, {self.unit}" if self.unit else self.label


def static_shared(kernel: Kernel) -> int | None:
    """Bytes of static shared memory per block.
    ptxas prints none if a kernel has none, and omits what the linker places in relocatable code (that of templates;
    measured, 13.0). A missing value therefore does not mean 0 in relocatable code, nor if several registers lines may
    be the kernel's.
    """
    usage = kernel.usage
    whole = usage.registers is not None and kernel.final is not False and kernel.confidence == "certain"
    return 0 if whole and usage.shared_bytes is None else usage.shared_bytes


_COUNTED = "as reported by the compiler, or found in the code; each instruction counted once"
_TREE = "of a kernel and its callees, bytes per thread, if the input lists the callees"
_TEXTS = {
    "registers": ("registers", "32-bit registers per thread"),
    "stack_bytes": ("stack", "stack frame, bytes per thread; a stack frame alone is not a spill"),
    "cumulative_stack_bytes": ("call stack", "deepest stack over the call tree, bytes per thread"),
    "spill_store_bytes": ("spill stores", f"bytes written per thread by spill stores, {_COUNTED}"),
    "spill_load_bytes": ("spill loads", f"bytes read per thread by spill loads, {_COUNTED}"),
    "cumulative_spill_store_bytes": ("call spill stores", f"spill stores {_TREE}"),
    "cumulative_spill_load_bytes": ("call spill loads", f"spill loads {_TREE}"),
    "local_bytes": ("local", "local memory (`lmem`), bytes per thread, if the input lists it"),
    "shared_bytes": ("shared", "static shared memory, bytes per block, without the driver's reserve"),
    "constant_bytes": (
        "cmem",
        "constant memory, bytes per bank; logs of ptxas for sm_90 and later do not list it",
    ),
    "barriers": ("barriers", "named barriers per block"),
    "textures": ("textures", "textures, as listed by the compiler or linker"),
    "surfaces": ("surfaces", "surface references"),
    "samplers": ("samplers", "sampler references"),
    "spill_bytes": (
        "spills",
        "spill stores and loads, bytes per thread; as reported by the compiler, else from the code",
    ),
    "resident_blocks": ("blocks/SM", "resident blocks per SM, if the block size is known; not for `scan --sort`"),
    "active_warps": ("warps/SM", "resident warps per SM, if the block size is known; not for --sort or --metric"),
    "footprint_bytes": ("GPU memory", "GPU memory that the driver reserves for stacks; not for --sort or --metric"),
    "dynamic_shared_bytes": (
        "dynamic shared",
        "dynamic shared memory, bytes per block, if the compiler's metadata has it",
    ),
    "compile_ms": (
        "compile time",
        "milliseconds that ptxas took, if it prints them (12.8 and later); varies between runs",
    ),
    "spills_in_loops": ("spills in loops", "number of spill instructions inside loops, including callees"),
    "spill_loop_depth": ("spill loop depth", "loop depth of the innermost spill instruction"),
    "live_registers": (
        "live registers",
        "peak number of live general registers; known with `scan --with live`, or from `nvdisasm -plr`",
    ),
    "setmaxnreg": ("setmaxnreg", "number of `setmaxnreg` instructions"),
    "role_registers": (
        "registers of role",
        "registers per thread after `setmaxnreg`, for each role of specialized warps; role 1 has the fewest",
    ),
    "shared_spills": ("spills to shared", "accesses to shared memory that ptxas annotates as spills"),
    "code_bytes": ("code", "bytes of machine code, to the end of the last instruction"),
    "instructions": ("instructions", "machine instructions, padding included"),
}
"""(label, description) of each metric, by name."""


def _metric(name: str, rank: int, **declared: Any) -> Metric:
    label, about = _TEXTS[name]
    return Metric(name=name, label=label, about=about, rank=rank, **declared)


def _printed(name: str, rank: int, **declared: Any) -> Metric:
    """Declaration of the metric of a field of ``Usage``."""
    return _metric(name, rank, **{"get": attrgetter(f"usage.{name}"), **declared})


def _spills(name: str, rank: int, pair: str, way: int) -> Metric:
    """Declaration of a metric that is element ``way`` of a kernel's ``pair``: as printed, else from the code."""

    def value(kernel: Kernel) -> int | None:
        spills = None if kernel.sass is None else getattr(kernel, pair)
        printed: int | None = getattr(kernel.usage, name) if spills is None else spills[way]
        return printed

    return _metric(name, rank, severe=True, get=value)


PRINTED = (
    _printed("registers", 40, severe=True, linker="registers", listed=True, contradicts=True),
    _printed("stack_bytes", 50, clause="stack"),
    # by ptxas 12.4 and later if it is not 0
    _printed("cumulative_stack_bytes", 51, clause="cumulative_stack", linker="stack_bytes", listed=True),
    _spills("spill_store_bytes", 10, "spills", 0),
    _spills("spill_load_bytes", 11, "spills", 1),
    # for a kernel whose callees are listed after it in a log, or contained in its code
    _spills("cumulative_spill_store_bytes", 12, "cumulative_spills", 0),
    _spills("cumulative_spill_load_bytes", 13, "cumulative_spills", 1),
    # by nvlink, and by ptxas for modules without the ABI
    _printed("local_bytes", 53, clause="local", linker="local_bytes", listed=True),
    _printed(
        "shared_bytes", 60, get=static_shared, clause="shared", linker="shared_bytes", listed=True, contradicts=True
    ),
    _printed("constant_bytes", 100, kind="keyed", linker="constant_bytes", listed=True),
    _printed("barriers", 100, clause="barriers", linker="barriers"),  # by ptxas 12.6 and later
    _printed("textures", 100, clause="textures", linker="textures", listed=True),
    _printed("surfaces", 100, clause="surfaces", linker="surfaces", listed=True),
    _printed("samplers", 100, clause="samplers", linker="samplers", listed=True),
)
"""Metrics that compilers and linkers print, in the order of all tables."""


def _code(name: str, rank: int, get: Callable[[SassStats], Any], *, stored: bool = False, **more: Any) -> Metric:
    """Declaration of a metric of the machine code."""
    label, about = _TEXTS.get(name) or more.pop("text")

    def value(kernel: Kernel) -> Any:
        return None if kernel.sass is None or not kernel.sass.instructions else get(kernel.sass)

    about = f"{about} (needs machine code)"
    return Metric(name=name, label=label, about=about, rank=rank, source="code", stored=stored, get=value, **more)


def _local(kind: AccessClass, prefix: str, label: str, what: str) -> Iterator[Metric]:
    """Metrics of the accesses to one class of local memory: bytes, and instructions. Bytes of spills are printed."""
    for way, done, moved in (("store", "stored", f"to {what}"), ("load", "loaded", f"from {what}")):
        if kind != "spill":
            text = f"{label} {way}s", f"bytes {done} per thread {moved}, each instruction counted once"
            yield _code(f"{prefix}_{way}_bytes", 72, _traffic(kind, f"{way}_bytes"), text=text)
        text, rank = (f"{label} {way} instr.", f"instructions that {way} {moved}"), 71 if kind == "spill" else 73
        yield _code(f"{prefix}_{way}s", rank, _traffic(kind, f"{way}s"), text=text)


def _traffic(kind: AccessClass, name: str) -> Callable[[SassStats], int | None]:
    """Getter of a sum over the accesses of one class; unknown if some accesses are of no known class."""

    def value(sass: SassStats) -> int | None:
        doubtful = sass.local.doubtful if kind == "spill" else sass.local.of("unknown").accesses
        return None if doubtful and kind != "unknown" else int(getattr(sass.local.of(kind), name))

    return value


def _spills_in_loops(sass: SassStats) -> int | None:
    return sum(sass.local.spills_in_loops.values()) if sass.local.spills_placed else None


def _spill_depth(sass: SassStats) -> int | None:
    return max(sass.local.spills_in_loops, default=0) if sass.local.spills_placed else None


def _live_registers(sass: SassStats) -> int | None:
    return None if sass.live_peak is None or sass.live_peak.at_least else sass.live_peak.registers


def _role_registers(sass: SassStats) -> tuple[tuple[int, int], ...] | None:
    return tuple(enumerate((role.registers for role in sass.roles if role.registers is not None), 1)) or None


def _spill_bytes(kernel: Kernel) -> int | None:
    return None if kernel.spills is None else sum(kernel.spills)


def _dynamic_shared(kernel: Kernel) -> int | None:
    return None if kernel.launch is None else kernel.launch.dynamic_shared_bytes


def _compile_time(kernel: Kernel) -> int | None:
    return None if kernel.compile_ms is None else round(kernel.compile_ms)


_DERIVED = (
    _metric("spill_bytes", 9, compared=False, severe=True, get=_spill_bytes),
    _metric("resident_blocks", 20, worse="fewer", source="launch", stored=False),
    _metric("active_warps", 21, worse="fewer", source="launch", stored=False),
    _metric("footprint_bytes", 52, source="launch", stored=False),
    _metric("dynamic_shared_bytes", 62, source="launch", get=_dynamic_shared),
    _metric("compile_ms", 95, compared=False, stored=False, get=_compile_time),
    _code("spills_in_loops", 30, _spills_in_loops, severe=True, stored=True),
    _code("spill_loop_depth", 31, _spill_depth, severe=True),
    _code("live_registers", 41, _live_registers, compared=False),
    _code("setmaxnreg", 38, attrgetter("setmaxnreg"), worse="fewer", severe=True, stored=True),
    _code("role_registers", 39, _role_registers, kind="keyed"),
    _code("shared_spills", 61, attrgetter("shared_spills")),
    _code("code_bytes", 90, attrgetter("code_bytes"), stored=True),
    _code("instructions", 91, attrgetter("instructions"), stored=True),
    *_local("spill", "spill", "spill", "spill slots"),
    *_local("array", "array", "array", "arrays in local memory"),
    *_local("frame", "frame", "frame", "stack space for arguments, saved registers and callee frames"),
    *_local("unknown", "unclassified", "unclassified", "unclassified local memory"),
)

METRICS = tuple(sorted((*PRINTED, *_DERIVED), key=attrgetter("rank")))
"""All metrics, worst first."""

COMPARED = tuple(each for each in METRICS if each.compared and each.kind == "number")
"""Metrics by which two records are compared."""
KEYED = tuple(each for each in METRICS if each.compared and each.kind == "keyed")
"""Metrics compared value by value: constant memory by bank, registers by role."""
STORED = tuple(each for each in METRICS if each.stored and each.kind == "number")
"""Metrics of each kernel in a dataset."""
RANKED = tuple(each for each in METRICS if each in STORED or each.name == "compile_ms")
"""Metrics by which kernels of a dataset are ranked."""
OWN = tuple(each for each in METRICS if each.get is not None)
"""Metrics that a record has by itself; others need a block size and a device."""
TABULAR = tuple(each for each in METRICS if each in OWN or each.name == "resident_blocks")
"""Metrics that a table of builds shows for each kernel on request."""
TRACKED = tuple(each for each in METRICS if each in STORED or each.name == "resident_blocks")
"""Metrics tracked over the builds of a dataset by default."""
TRACEABLE = tuple(each for each in METRICS if each in TRACKED or each in RANKED)
"""Metrics that can be tracked, including compile times, which differ in every run."""

BY_NAME = {each.name: each for each in METRICS}
_RANK = {each.name: place for place, each in enumerate(METRICS)}


def find_metric(name: str) -> Metric:
    """Metric called ``name``; a key in brackets (``constant_bytes[2]``, ``resident_blocks[H200]``) joins its label."""
    base, bracket, key = name.partition("[")
    metric = BY_NAME[base]
    if not bracket:
        return metric
    label = f"{metric.label}[{key}" if metric.kind == "keyed" else f"{metric.label} {key[:-1]}"
    return replace(metric, name=name, label=label)


def labelled(label: str) -> str:
    """Name of the metric with this label, however written (``blocks_per_sm``); empty if there is none."""
    return next((each.name for each in METRICS if _letters(each.label) == _letters(label)), "")


def _letters(text: str) -> str:
    return re.sub(r"^(min|max)_|(?<![a-z])per(?![a-z])|[^a-z]", "", text.lower())


def value_of(name: str, kernel: Kernel) -> Any:
    """Value of the metric ``name`` for one kernel; ``None`` if unknown, or if it depends on more than the kernel."""
    get = BY_NAME[name].get
    return None if get is None else get(kernel)


def rank(name: str) -> tuple[int, str]:
    """Sort key of metric names, worst first; the rank ignores keys in brackets."""
    return _RANK[name.partition("[")[0]], name
