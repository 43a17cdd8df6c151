"""What a compiler says of one kernel: where it was read, how it is called, its resources, its launch bounds.

``None`` means that the input did not say. It is never 0, and 0 is never invented. A build has a hundred thousand of
these records, and none leads back to itself: the garbage collector need not look at them (``gc=False``).
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
    """Where a record was read."""

    input: str
    """Path or URI as the user gave it; ``-`` is standard input."""
    line: int | None = None
    """1-based line of the (decompressed, decoded) input."""
    format: str = "ptxas"
    """Which reader's format the record had: ``ptxas``, ``nvlink``, ``snapshot`` …"""

    def __str__(self) -> str:
        return self.input if self.line is None else f"{self.input}:{self.line}"


class KernelKey(Struct, frozen=True, kw_only=True, gc=False):
    """What a kernel is called in one build."""

    symbol: str
    """The symbol as the tool printed it: mangled, unless the log went through a demangler."""
    arch: str | None = None
    """Compilation target such as ``sm_90a``; ``None`` where the log does not say."""
    unit: str = ""
    """Object or source of the build step that compiled it; empty where the log does not say."""


class Figure(Struct, frozen=True, kw_only=True):
    """All that there is to say of one figure: outputs, comparisons, options, schemas and docs follow from it."""

    name: str
    """As in JSON and SQL: ``spill_store_bytes``."""
    label: str
    """As people read it: ``spill stores``."""
    about: str
    """What it counts, and per what; one line, for the documentation."""
    unit: str = ""
    """``B`` for bytes; empty for counts."""
    source: Literal["printed", "code", "launch"] = "printed"
    """Where it comes from: a compiler or linker prints it; the machine code shows it; a launch on a device makes it."""
    kind: Literal["number", "keyed"] = "number"
    """One whole number; or (key, number) pairs, such as bytes by constant bank."""
    rank: int = 100
    """Place among what is compared, worst first; of equal ones in the order of declaration."""
    worse: Literal["more", "fewer"] = "more"
    """Which way is worse."""
    compared: bool = True
    """Whether a difference of it is a change; else it is made of figures that are compared themselves."""
    severe: bool = False
    """Whether more of it costs a kernel so surely that tables colour it."""
    since: int | None = 1
    """The version of the dataset's schema that has a column for it first; ``None``: it has none."""
    clause: str = ""
    """The grammar's name of the clause that prints it on a registers line; empty: another line does, or none."""
    linker: str = ""
    """The field of the linker's record that holds it: what the linker decides of relocatable code; empty: the compiler
    has the last word."""
    listed: bool = False
    """Whether ``cuobjdump -res-usage`` lists it, too."""
    contradicts: bool = False
    """Whether a log and a binary that differ in it are of different compilations."""
    get: Callable[[Any], Any] | None = None
    """Its value of a kernel; ``None``: it is not the kernel's alone."""

    @property
    def head(self) -> str:
        """``spill stores, B``: what stands above its numbers."""
        return f"{self.label}, {self.unit}" if self.unit else self.label


def figure(label: str, **declared: Any) -> dict[str, Any]:
    """What a field of :class:`Usage` declares of its :class:`Figure`."""
    return {"label": label, **declared}


class Usage(Struct, frozen=True, kw_only=True, gc=False):
    """Resources of one kernel or device function, as ptxas or nvlink counted them: a field for each figure, and the
    only place to declare it.
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
            "call stack",  # ptxas 12.4 and later print it, where it is not 0
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
            "call spill stores",  # of a kernel whose callees a log lists behind it, or its code holds
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
            "local",  # nvlink prints it, and ptxas for modules without the ABI
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
        """The same of the kernel and its callees together; ``None`` unless the input shows callees."""
        if self.cumulative_spill_store_bytes is None or self.cumulative_spill_load_bytes is None:
            return None
        return self.cumulative_spill_store_bytes, self.cumulative_spill_load_bytes

    @property
    def spill_bytes(self) -> int | None:
        """Spill stores plus spill loads; ``None`` unless the input has both."""
        return None if self.spills is None else sum(self.spills)


def agreement(usages: Sequence[Usage]) -> Usage:
    """The figures on which all ``usages`` (at least one) agree; the others are unknown."""
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
"""What compilers and linkers print, in the order of every table."""
NUMBERS = tuple(each.name for each in PRINTED if each.kind == "number")
"""The names of those that are one number."""


class LaunchBounds(Struct, frozen=True, kw_only=True):
    """What a kernel's code says of how it may be launched."""

    max_threads: int | None = None
    """Most threads per block: first argument of ``__launch_bounds__``, ``.maxntid``."""
    required_threads: int | None = None
    """Threads that each block has: ``.reqntid``, ``__block_size__``."""
    cluster_blocks: int | None = None
    """Blocks that each cluster has: ``.reqnctapercluster``, ``__cluster_dims__``."""

    @property
    def threads(self) -> int | None:
        """The block size that it is made for."""
        return self.required_threads or self.max_threads


LaunchSource = Literal["given", "policy", "override", "profile", "sidecar", "required", "bounds", "baseline", "assumed"]


class Launch(Struct, frozen=True, kw_only=True):
    """How a kernel is launched, and who says so: what no build log does."""

    threads_per_block: int
    """Threads per block."""
    dynamic_shared_bytes: int | None = 0
    """Dynamic shared memory, bytes per block; ``None``: not known, so that its occupancy is no more than a bound."""
    max_dynamic_shared_bytes: int | None = None
    """The kernel's ``MaxDynamicSharedMemorySize`` attribute, bytes; ``None``: not opted in."""
    carveout_percent: int | None = None
    """Preferred shared memory, percent of the SM's maximum; ``None``: no preference."""
    cluster_blocks: int = 1
    """Blocks per cluster; 1: no cluster."""
    source: LaunchSource = "given"
    """Where these figures come from: ``given`` by a caller, the ``policy`` or its options, its ``override`` of what
    the code says, a ``profile``, the
    ``sidecar`` that the compiler wrote beside the code, the code where it has a ``required`` block size, its launch
    ``bounds`` (which promise no more than a largest one), a ``baseline`` that recorded it; ``assumed``: none says."""


LOST_SETTING = "setmaxnreg_ignored"
"""Kind of the message that the registers of a kernel's warps are not as its source sets them."""


class Advisory(Struct, frozen=True, kw_only=True, gc=False):
    """What the compiler said about a kernel besides its figures."""

    kind: str
    """Stable name of the message, from the grammar: ``wgmma_serialized``, ``register_limit_overridden`` …"""
    text: str
    """The message as printed, without tool, severity and code."""
    severity: Printed
    """As the tool printed it."""
    code: str | None = None
    """``C7519`` and the like. Their meaning changes between releases: judge by ``kind``."""
    location: str | None = None
    """``file.ptx, line 47`` where the tool gave one."""
