"""JSON form of a build, defined once: these classes are written and read as they are.

``schema/build.schema.json`` is made from them, with the docstrings of their fields as descriptions; a field without one
is described by the model's field of that name. If JSON has the same fields as a record of the model, the model's own
class is written.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from spillscan.model import Advisory, Confidence, Hidden, Launch, LaunchBounds, Origin, Role, Severity
from spillscan.model.code import CodeText, LivePeak, Maker, PortableCode, WarpRole
from spillscan.model.local import AccessClass, CostLine, Evidence, FlowKind, Traffic
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
    ],
    gc=False,
    namespace={"__doc__": "Metrics as ptxas or nvlink printed them; null if the input does not report them."},
)


class DepthJson(msgspec.Struct, gc=False):
    """Local-memory accesses by class, at one loop depth."""

    depth: Count | None
    """natural loops around them; null if control flow is unknown"""
    spill: Count
    """spill slots"""
    array: Count
    """arrays in local memory"""
    frame: Count
    """frames of callees, stack arguments, saved registers"""
    unknown: Count
    """accesses of unknown class"""
    helper: Count = 0
    """in helper code that ptxas adds, such as a division: no log counts its spills"""


class GroupJson(msgspec.Struct, gc=False):
    """Local-memory accesses with equal properties."""

    kind: AccessClass = msgspec.field(name="class")
    """class of the accesses"""
    depth: Count | None
    """natural loops around them; null if control flow is unknown"""
    own: bool
    """false: in a callee, after the function in the listing"""
    store: bool
    """true for stores, false for loads"""
    bytes: Count
    """width of the access per thread"""
    count: Count
    """number of instructions"""


class CodeSizeJson(msgspec.Struct, gc=False):
    """Size of a function's code."""

    instructions: Count
    code_bytes: Count


class LocalJson(CodeSizeJson, gc=False):
    """Use of local memory by a function; bytes per thread, each instruction counted once."""

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
    """bytes written to spill slots"""
    spill_load_bytes: Count
    """bytes read from spill slots"""
    by_loop_depth: tuple[DepthJson, ...]
    local: tuple[GroupJson, ...]
    """accesses to local memory in groups; the counts add up to stl_count and ldl_count"""
    frame: Traffic | None
    flow: FlowKind
    evidence: Evidence
    """evidence that tells spills from other local memory: annotation by ptxas, the last-use rule; none: no local
    memory"""


class SassJson(LocalJson, gc=False):
    """Contents of the kernel's machine code, from a disassembly or binary; bytes per thread, each instruction once."""

    shared_spills: Count | None
    opcode_classes: dict[str, Count]
    opcodes: dict[str, Count]
    """instructions by mnemonic"""
    unknown_opcodes: tuple[str, ...]
    registers: Count | None
    live_peak: LivePeak | None
    """peak of live general registers (nvdisasm -plr, scan --with live)"""
    origin: Origin | None
    maker: Maker | None = None
    lines: tuple[CostLine, ...] = ()
    """source lines of accesses to local memory, the costliest first, at most a hundred; the cost is bytes × 10 per
    enclosing loop; empty without line information
    """
    roles: tuple[WarpRole, ...] = ()
    """code with its own number of registers (setmaxnreg): the start, then by registers; empty if there is none"""
    digest: str | None = None
    """digest of the code: equal if the code is the same byte for byte; null for a disassembly"""
    register_limit: Count | None = None
    """register limit per thread that ptxas had; 255: as many as an instruction can name; null for a disassembly"""
    text: CodeText | None = None
    """the code itself, if scan --with code kept it"""


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
    compile_ms: Milliseconds | None = None
    """compile time in milliseconds as printed; null if the input does not report it"""
    caller: str | msgspec.UnsetType = msgspec.UNSET
    """for a device function: the symbol of the kernel whose copy it is; missing if it is standalone"""


class IssueJson(msgspec.Struct, gc=False):
    """Problem with the input: something that was not understood, is contradictory, or cannot be decided."""

    code: str
    severity: Severity
    message: str
    origin: Origin | None = None
    hides: tuple[Hidden, ...] | None = None
    """data that it may hide from a gate; empty: nothing"""
    symbol: str = ""


class StatsJson(msgspec.Struct, gc=False):
    """Amount of input, and how much of it was understood."""

    inputs: Count = 0
    lines: Count = 0
    bytes: Count = 0
    recognised_lines: Count = 0
    unknown_lines: Count = 0
    unknown_clauses: Count = 0
    kernels: Count = 0
    """entry functions"""
    functions: Count = 0
    """device functions, and kernels that only a message names"""
    ambiguous: Count = 0
    """kernels and device functions left ambiguous by interleaved output"""


class VersionJson(msgspec.Struct):
    """Field that every version of a snapshot has."""

    schema_version: int


class SnapshotJson(msgspec.Struct, gc=False):
    """The part of a report that is a build."""

    schema_version: Literal[1]
    kernels: tuple[KernelJson, ...]
    issues: tuple[IssueJson, ...] | None = None
    stats: StatsJson | None = None
    portable: tuple[PortableCode, ...] = ()
    empty_units: tuple[str, ...] = ()
    tool_version: str = ""
