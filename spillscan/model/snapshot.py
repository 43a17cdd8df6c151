"""What a build is in JSON, stated once: these classes are written and read as they stand, and
``schema/build.schema.json`` is made from them.

The docstrings of their fields are its descriptions; a field without one is what the model's field of that name is.
Where JSON has just what a record of the model has, the model's own class is written.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from spillscan.model import Advisory, Confidence, Hidden, Launch, LaunchBounds, Origin, Role, Severity
from spillscan.model.code import (
    AccessClass,
    CodeText,
    Evidence,
    FlowKind,
    LivePeak,
    Maker,
    PortableCode,
    Traffic,
    WarpRole,
    WeighedLine,
)
from spillscan.model.usage import NUMBERS

SCHEMA_VERSION = 1

Count = Annotated[int, msgspec.Meta(ge=0)]
Milliseconds = Annotated[float, msgspec.Meta(ge=0)]

UsageJson = msgspec.defstruct(
    "UsageJson",
    [
        *((name, Count | None, None) for name in NUMBERS),
        ("constant_bytes", dict[Count, Count] | None, None),
        ("unknown_clauses", tuple[str, ...], ()),
        ("compile_ms", Milliseconds | None, None),
    ],
    gc=False,
    namespace={"__doc__": "Figures as ptxas or nvlink printed them; null where the input does not say."},
)


class DepthJson(msgspec.Struct, gc=False):
    """Accesses to local memory by what they are, under one number of loops."""

    depth: Count | None
    """natural loops around them; null where control flow cannot be followed"""
    spill: Count
    """spill slots"""
    array: Count
    """arrays in local memory"""
    frame: Count
    """frames of callees, stack arguments, saved registers"""
    unknown: Count
    """none of these, as far as is known"""
    helper: Count = 0
    """in code that ptxas brings along, such as a division: no log counts its spills"""


class GroupJson(msgspec.Struct, gc=False):
    """Accesses to local memory that no figure distinguishes."""

    kind: AccessClass = msgspec.field(name="class")
    """what they are"""
    depth: Count | None
    """natural loops around them; null where control flow cannot be followed"""
    own: bool
    """false: in a callee that the listing holds after the function"""
    store: bool
    """a store, else a load"""
    bytes: Count
    """width of the access per thread"""
    count: Count
    """instructions"""


class CodeSizeJson(msgspec.Struct, gc=False):
    """How much code a function has."""

    instructions: Count
    code_bytes: Count


class LocalJson(CodeSizeJson, gc=False):
    """What a function does with local memory; bytes per thread, each instruction once."""

    stl_count: Count
    """stores to local memory"""
    ldl_count: Count
    """loads from local memory"""
    stl_bytes: Count
    """bytes that the stores write"""
    ldl_bytes: Count
    """bytes that the loads read"""
    spill_store_count: Count
    """stores to spill slots"""
    spill_load_count: Count
    """loads from spill slots"""
    spill_store_bytes: Count
    """bytes that these write"""
    spill_load_bytes: Count
    """bytes that these read"""
    by_loop_depth: tuple[DepthJson, ...]
    local: tuple[GroupJson, ...]
    """accesses to local memory in groups; the counts add up to stl_count and ldl_count"""
    frame: Traffic | None
    flow: FlowKind
    evidence: Evidence
    """why spills are held apart from other local memory: ptxas's own annotation, the last-use rule confirmed by the
    log, the log's byte counts, the last-use rule alone; none: no local memory"""


class SassJson(LocalJson, gc=False):
    """What a SASS dump or a binary says of the kernel; bytes per thread, each instruction once."""

    shared_spills: Count | None
    opcode_classes: dict[str, Count]
    opcodes: dict[str, Count]
    """instructions by mnemonic"""
    unknown_opcodes: tuple[str, ...]
    registers: Count | None
    live_peak: LivePeak | None
    """most live general registers (nvdisasm -plr, scan --with live)"""
    origin: Origin | None
    maker: Maker | None = None
    lines: tuple[WeighedLine, ...] = ()
    """source lines of accesses to local memory, the heaviest first, no more than a hundred: bytes weigh ten times as
    much for each loop around them; empty without line information"""
    roles: tuple[WarpRole, ...] = ()
    """code that runs with registers of its own (setmaxnreg): the start, then by registers; empty: there is none"""
    digest: str | None = None
    """stands for the code: the same where that is the same byte for byte; null from a dump"""
    register_cap: Count | None = None
    """most registers per thread that ptxas was allowed, 255: as many as an instruction can name; null from a dump"""
    text: CodeText | None = None
    """the code itself, where scan --with code kept it"""


class KernelJson(msgspec.Struct, gc=False):
    """One kernel or device function of one arch in one translation unit."""

    symbol: str
    name: str
    short_name: str
    arch: str | None
    unit: str
    role: Role
    confidence: Confidence
    reasons: tuple[str, ...]
    final: bool | None
    usage: UsageJson  # type: ignore[valid-type]
    advisories: tuple[Advisory, ...] = ()
    origins: tuple[Origin, ...] = ()
    source: str = ""
    sass: SassJson | None = None
    launch_bounds: LaunchBounds | None = None
    dynamic_shared: bool | None = None
    launch: Launch | None = None
    configuration: dict[str, str] = {}
    caller: str | msgspec.UnsetType = msgspec.UNSET
    """of a device function: the symbol of the kernel whose copy of it this is; missing: it stands alone"""


class IssueJson(msgspec.Struct, gc=False):
    """Something in the input that was not understood, is contradictory, or cannot be decided."""

    code: str
    severity: Severity
    message: str
    origin: Origin | None = None
    hides: tuple[Hidden, ...] | None = None
    """what it may hide from a gate; empty: nothing"""
    symbol: str = ""


class StatsJson(msgspec.Struct, gc=False):
    """How much was read, and how much of it was understood."""

    inputs: Count = 0
    lines: Count = 0
    bytes: Count = 0
    recognised_lines: Count = 0
    unknown_lines: Count = 0
    unknown_clauses: Count = 0
    kernels: Count = 0
    """entry functions"""
    functions: Count = 0
    """device functions, and what only a message names"""
    ambiguous: Count = 0
    """of both: those that interleaved output leaves in doubt"""


class VersionJson(msgspec.Struct):
    """What every version of a snapshot says."""

    schema_version: int


class SnapshotJson(msgspec.Struct, gc=False):
    """What of a report is a build."""

    schema_version: Literal[1]
    kernels: tuple[KernelJson, ...]
    issues: tuple[IssueJson, ...] | None = None
    stats: StatsJson | None = None
    portable: tuple[PortableCode, ...] = ()
    empty_units: tuple[str, ...] = ()
    tool_version: str = ""
