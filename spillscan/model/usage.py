"""Compiler report on one kernel: where it was read, its identity, its resources, its launch bounds.

``None`` means that the input did not report a value. It is never 0, and 0 is never invented. A build has a hundred
thousand of these records, and none is part of a cycle: the garbage collector need not track them (``gc=False``).
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Annotated, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

Role = Literal["entry", "function", "unknown"]
Confidence = Literal["certain", "ambiguous"]
Severity = Literal["error", "warning", "note"]
Printed = Literal["info", "warning", "error", "fatal"]


class Origin(Struct, frozen=True, kw_only=True, gc=False):
    """Place where a record was read."""

    input: str
    """Path or URI as the user gave it; ``-`` is standard input."""
    line: int | None = None
    """1-based line of the (decompressed, decoded) input."""
    format: str = "ptxas"
    """Format of the record: ``ptxas``, ``nvlink``, ``snapshot`` …"""

    def __str__(self) -> str:
        return self.input if self.line is None else f"{self.input}:{self.line}"


class KernelKey(Struct, frozen=True, kw_only=True, gc=False):
    """Identity of a kernel in one build."""

    symbol: str
    """Symbol as the tool printed it: mangled, unless the log went through a demangler."""
    arch: str | None = None
    """Compilation target such as ``sm_90a``; ``None`` if the log does not name it."""
    unit: str = ""
    """Object or source of the build step that compiled it; empty if the log does not name it."""


class Figure(Struct, frozen=True, kw_only=True):
    """Declaration of one metric, from which outputs, comparisons, options, schemas and docs follow."""

    name: str
    """Name in JSON and SQL: ``spill_store_bytes``."""
    label: str
    """Name for people: ``spill stores``."""
    about: str
    """Description in one line, for the documentation: what it counts, and per what."""
    unit: str = ""
    """``B`` for bytes; empty for counts."""
    source: Literal["printed", "code", "launch"] = "printed"
    """Source: printed by a compiler or linker, shown by the machine code, or the result of a launch on a device."""
    kind: Literal["number", "keyed"] = "number"
    """One whole number; or (key, number) pairs, such as bytes by constant bank."""
    rank: int = 100
    """Position among compared metrics, worst first; ties are in the order of declaration."""
    worse: Literal["more", "fewer"] = "more"
    """Direction that is worse."""
    compared: bool = True
    """Whether a difference is a change; if not, the metric follows from others that are compared themselves."""
    severe: bool = False
    """Whether an increase is so surely harmful that tables color it."""
    since: int | None = 1
    """First version of the dataset's schema with a column for it; ``None`` if there is no column."""
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
    def head(self) -> str:
        """``spill stores, B``: head of its column."""
        return f"{self.label}, {self.unit}" if self.unit else self.label


def figure(label: str, **declared: Any) -> dict[str, Any]:
    """Declaration of the :class:`Figure` of a field of :class:`Usage`."""
    return {"label": label, **declared}


class Usage(Struct, frozen=True, kw_only=True, gc=False):
    """Resources of one kernel or device function, as counted by ptxas or nvlink.

    There is a field for each metric, and it is the only place to declare it.
    """

    registers: Annotated[
        int | None,
        figure(
            "registers",
            about="32-bit registers per thread",
            rank=40,
            severe=True,
            linker="registers",
            listed=True,
            contradicts=True,
        ),
    ] = None
    stack_bytes: Annotated[
        int | None,
        figure(
            "stack",
            unit="B",
            about="stack frame, bytes per thread; a stack frame alone is not a spill",
            rank=50,
            clause="stack",
        ),
    ] = None
    cumulative_stack_bytes: Annotated[
        int | None,
        figure(
            "call stack",  # printed by ptxas 12.4 and later if it is not 0
            unit="B",
            about="deepest stack over the call tree, bytes per thread",
            rank=51,
            clause="cumulative_stack",
            linker="stack_bytes",
            listed=True,
        ),
    ] = None
    spill_store_bytes: Annotated[
        int | None,
        figure(
            "spill stores",
            unit="B",
            about="bytes per thread that spill stores write, as the compiler counted: each instruction once",
            rank=10,
            severe=True,
        ),
    ] = None
    spill_load_bytes: Annotated[
        int | None,
        figure(
            "spill loads",
            unit="B",
            about="bytes per thread that spill loads read, as the compiler counted: each instruction once",
            rank=11,
            severe=True,
        ),
    ] = None
    cumulative_spill_store_bytes: Annotated[
        int | None,
        figure(
            "call spill stores",  # for a kernel whose callees are listed after it in a log, or contained in its code
            unit="B",
            about="spill stores of a kernel and of its callees together, bytes per thread, where callees are shown",
            rank=12,
            severe=True,
            since=5,
        ),
    ] = None
    cumulative_spill_load_bytes: Annotated[
        int | None,
        figure(
            "call spill loads",
            unit="B",
            about="spill loads of a kernel and of its callees together, bytes per thread, where callees are shown",
            rank=13,
            severe=True,
            since=5,
        ),
    ] = None
    local_bytes: Annotated[
        int | None,
        figure(
            "local",  # printed by nvlink, and by ptxas for modules without the ABI
            unit="B",
            about="local memory (`lmem`), bytes per thread, where the tool prints it",
            rank=53,
            clause="local",
            linker="local_bytes",
            listed=True,
        ),
    ] = None
    shared_bytes: Annotated[
        int | None,
        figure(
            "shared",
            unit="B",
            about="static shared memory, bytes per block, without the driver's reserve",
            rank=60,
            clause="shared",
            linker="shared_bytes",
            listed=True,
            contradicts=True,
        ),
    ] = None
    constant_bytes: Annotated[
        tuple[tuple[int, int], ...] | None,
        figure(
            "cmem",
            unit="B",
            about="constant banks and their bytes; none where the tool prints no banks at all (sm_90 and later)",
            kind="keyed",
            linker="constant_bytes",
            listed=True,
        ),
    ] = None
    barriers: Annotated[
        int | None,
        figure(
            "barriers",  # ptxas 12.6 and later
            about="named barriers per block",
            clause="barriers",
            linker="barriers",
        ),
    ] = None
    textures: Annotated[
        int | None,
        figure(
            "textures",
            about="texture references, or indirect textures",
            clause="textures",
            linker="textures",
            listed=True,
        ),
    ] = None
    surfaces: Annotated[
        int | None, figure("surfaces", about="surface references", clause="surfaces", linker="surfaces", listed=True)
    ] = None
    samplers: Annotated[
        int | None, figure("samplers", about="sampler references", clause="samplers", linker="samplers", listed=True)
    ] = None
    unknown_clauses: tuple[str, ...] = ()
    """Clauses of a known line that this version does not know, as printed."""

    @property
    def spills(self) -> tuple[int, int] | None:
        """(spill store bytes, spill load bytes) per thread; ``None`` unless the input has both."""
        if self.spill_store_bytes is None or self.spill_load_bytes is None:
            return None
        return self.spill_store_bytes, self.spill_load_bytes

    @property
    def cumulative_spills(self) -> tuple[int, int] | None:
        """Spills of the kernel with its callees; ``None`` unless the input has callees."""
        if self.cumulative_spill_store_bytes is None or self.cumulative_spill_load_bytes is None:
            return None
        return self.cumulative_spill_store_bytes, self.cumulative_spill_load_bytes

    @property
    def spill_bytes(self) -> int | None:
        """Spill stores plus spill loads; ``None`` unless the input has both."""
        return None if self.spills is None else sum(self.spills)


def agreement(usages: Sequence[Usage]) -> Usage:
    """Metrics on which all ``usages`` (at least one) agree; the others are unknown."""
    first = usages[0]
    differing = [
        name for name in Usage.__struct_fields__ if any(getattr(u, name) != getattr(first, name) for u in usages)
    ]
    unknown = {name: () if name == "unknown_clauses" else None for name in differing}
    return replace(first, **unknown)


PRINTED: tuple[Figure, ...] = tuple(
    Figure(name=name, get=attrgetter(f"usage.{name}"), **declared.__metadata__[0])
    for name, declared in Usage.__annotations__.items()
    if hasattr(declared, "__metadata__")
)
"""Metrics that compilers and linkers print, in the order of all tables."""
NUMBERS = tuple(each.name for each in PRINTED if each.kind == "number")
"""Names of the printed metrics that are a single number."""


class LaunchBounds(Struct, frozen=True, kw_only=True):
    """Launch constraints in a kernel's code."""

    max_threads: int | None = None
    """Most threads per block: first argument of ``__launch_bounds__``, ``.maxntid``."""
    required_threads: int | None = None
    """Exact number of threads per block: ``.reqntid``, ``__block_size__``."""
    cluster_blocks: int | None = None
    """Exact number of blocks per cluster: ``.reqnctapercluster``, ``__cluster_dims__``."""

    @property
    def threads(self) -> int | None:
        """Block size that the code is made for."""
        return self.required_threads or self.max_threads


LaunchSource = Literal["given", "policy", "override", "profile", "sidecar", "required", "bounds", "baseline", "assumed"]


class Launch(Struct, frozen=True, kw_only=True):
    """Launch of a kernel, with its source; build logs do not contain it."""

    threads_per_block: int
    """Threads per block."""
    dynamic_shared_bytes: int | None = 0
    """Dynamic shared memory, bytes per block; ``None`` if unknown, so that the occupancy is only a bound."""
    max_dynamic_shared_bytes: int | None = None
    """The kernel's ``MaxDynamicSharedMemorySize`` attribute, bytes; ``None`` if not opted in."""
    carveout_percent: int | None = None
    """Preferred shared memory, percent of the SM's maximum; ``None`` without preference."""
    cluster_blocks: int = 1
    """Blocks per cluster; 1: no cluster."""
    source: LaunchSource = "given"
    """Source of these values.
    ``given`` by a caller; the ``policy`` or its options; its ``override`` of the code; a ``profile``; the ``sidecar``
    that the compiler wrote next to the code; code with a ``required`` block size; its launch ``bounds`` (only a
    maximum); a ``baseline`` that recorded it; ``assumed`` if unknown.
    """


LOST_SETTING = "setmaxnreg_ignored"
"""Kind of the message that a kernel's warps do not have the registers that its source sets."""


class Advisory(Struct, frozen=True, kw_only=True, gc=False):
    """Compiler message about a kernel."""

    kind: str
    """Stable name of the message, from the grammar: ``wgmma_serialized``, ``register_limit_overridden`` …"""
    text: str
    """The message as printed, without tool, severity and code."""
    severity: Printed
    """Severity as the tool printed it."""
    code: str | None = None
    """``C7519`` and the like. Its meaning changes between releases: use ``kind`` in checks."""
    location: str | None = None
    """``file.ptx, line 47``, if the tool printed one."""
