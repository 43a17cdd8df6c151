"""Compiler report on one kernel: where it was read, its identity, its resources, its launch bounds.

``None`` means that the input did not report a value. It is never 0, and 0 is never invented. A build has a hundred
thousand of these records, and none is part of a cycle: the garbage collector need not track them (``gc=False``).
"""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import astuple

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


class Usage(Struct, frozen=True, kw_only=True, gc=False):
    """Resources of one kernel or device function, as counted by ptxas or nvlink.

    There is a field for each metric that is printed; :data:`spillscan.model.metrics.PRINTED` describes them.
    """

    registers: int | None = None
    stack_bytes: int | None = None
    cumulative_stack_bytes: int | None = None
    spill_store_bytes: int | None = None
    spill_load_bytes: int | None = None
    cumulative_spill_store_bytes: int | None = None
    cumulative_spill_load_bytes: int | None = None
    local_bytes: int | None = None
    shared_bytes: int | None = None
    constant_bytes: tuple[tuple[int, int], ...] | None = None
    barriers: int | None = None
    textures: int | None = None
    surfaces: int | None = None
    samplers: int | None = None
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
    columns = zip(*map(astuple, usages), strict=True)
    agreed = (column[0] if column.count(column[0]) == len(column) else None for column in columns)
    values: dict[str, Any] = dict(zip(Usage.__struct_fields__, agreed, strict=True))
    return Usage(**values | {"unknown_clauses": values["unknown_clauses"] or ()})


NUMBERS = tuple(name for name in Usage.__struct_fields__ if name not in ("constant_bytes", "unknown_clauses"))
"""Names of the printed metrics that are a single number."""


class LaunchBounds(Struct, frozen=True, kw_only=True):
    """Launch constraints in a kernel's code."""

    max_threads: int | None = None
    """Most threads per block: first argument of ``__launch_bounds__``, ``.maxntid``."""
    required_threads: int | None = None
    """Exact number of threads per block: ``.reqntid``, ``__block_size__``."""
    required_depth: int | None = None
    """Depth (z) of the required block; ``None``: 1."""
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
    depth: int = 1
    """Depth (z) of the block that the code requires; 1: no depth is known."""
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
