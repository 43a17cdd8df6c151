"""The vocabulary between readers, rules and reports: frozen records, nothing that acts.

``None`` means that the input did not say. It is never 0, and 0 is never invented.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Literal

from spillscan import names

if TYPE_CHECKING:
    import pandas

    from spillscan.sass.model import SassStats

Role = Literal["entry", "function", "unknown"]
Confidence = Literal["certain", "ambiguous"]
Severity = Literal["error", "warning", "note"]
BaselineState = Literal["new", "worse", "outstanding", "better", "suppressed"]
Judged = Literal["build", "change"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a record was read."""

    input: str
    """Path or URI as the user gave it; ``-`` is standard input."""
    line: int | None = None
    """1-based line of the (decompressed, decoded) input."""
    format: str = "ptxas"
    """Which reader's format the record had: ``ptxas``, ``nvlink``, ``snapshot`` …"""

    def __str__(self) -> str:
        return self.input if self.line is None else f"{self.input}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelKey:
    """What a kernel is called in one build."""

    symbol: str
    """The symbol as the tool printed it: mangled, unless somebody piped the log through a demangler."""
    arch: str | None = None
    """Compilation target such as ``sm_90a``; ``None`` where the log does not say."""
    unit: str = ""
    """Object or source of the build step that compiled it; empty where the log does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Resources of one kernel or device function, as ptxas or nvlink counted them."""

    registers: int | None = None
    """32-bit registers per thread."""
    stack_bytes: int | None = None
    """Stack frame, bytes per thread. A stack frame alone is not a spill."""
    cumulative_stack_bytes: int | None = None
    """Deepest stack over the call tree, bytes per thread (ptxas 12.4 and later, where it is not 0)."""
    spill_store_bytes: int | None = None
    """Bytes per thread that spill stores write, counted once per instruction, loops or not."""
    spill_load_bytes: int | None = None
    """Bytes per thread that spill loads read, counted once per instruction, loops or not."""
    local_bytes: int | None = None
    """``lmem``, bytes per thread: printed by nvlink and for modules without the ABI."""
    shared_bytes: int | None = None
    """Static shared memory, bytes per block, without the driver's reserve."""
    constant_bytes: tuple[tuple[int, int], ...] | None = None
    """(bank, bytes) pairs; ``None`` where the tool prints no banks at all (sm_90 and later)."""
    barriers: int | None = None
    """Named barriers per block (ptxas 12.6 and later)."""
    textures: int | None = None
    """Texture references or indirect textures."""
    surfaces: int | None = None
    """Surface references."""
    samplers: int | None = None
    """Sampler references."""
    unknown_clauses: tuple[str, ...] = ()
    """Clauses of a known line that this version does not know, as printed."""

    @property
    def spills(self) -> tuple[int, int] | None:
        """(spill store bytes, spill load bytes) per thread; ``None`` unless the input told both."""
        if self.spill_store_bytes is None or self.spill_load_bytes is None:
            return None
        return self.spill_store_bytes, self.spill_load_bytes

    @property
    def spill_bytes(self) -> int | None:
        """Spill stores plus spill loads; ``None`` unless the input told both."""
        return None if self.spills is None else sum(self.spills)


def agreement(usages: Sequence[Usage]) -> Usage:
    """The figures on which all ``usages`` (at least one) agree; the others are unknown."""
    first = usages[0]
    differing = [f.name for f in fields(Usage) if any(getattr(u, f.name) != getattr(first, f.name) for u in usages)]
    unknown = {name: () if name == "unknown_clauses" else None for name in differing}
    return replace(first, **unknown)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchBounds:
    """What a kernel's code says of how it may be launched."""

    max_threads: int | None = None
    """Most threads per block: first argument of ``__launch_bounds__``, ``.maxntid``."""
    required_threads: int | None = None
    """Threads that each block has: ``.reqntid``, ``__block_size__``."""

    @property
    def threads(self) -> int | None:
        """The block size that it is made for."""
        return self.required_threads or self.max_threads


@dataclass(frozen=True, slots=True, kw_only=True)
class Advisory:
    """What the compiler said about a kernel besides its figures."""

    kind: str
    """Stable name of the message, from the grammar: ``wgmma_serialized``, ``register_limit_overridden`` …"""
    text: str
    """The message as printed, without tool, severity and code."""
    severity: str
    """As the tool printed it: ``info``, ``warning``, ``error`` or ``fatal``."""
    code: str | None = None
    """``C7519`` and the like. Their meaning changes between releases: judge by ``kind``."""
    location: str | None = None
    """``file.ptx, line 47`` where the tool gave one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One kernel (or device function) of one arch in one translation unit."""

    key: KernelKey
    """Symbol, arch and unit."""
    role: Role
    """Entry, device function, or unknown where only a warning names it."""
    usage: Usage
    """Its figures."""
    confidence: Confidence = "certain"
    """``ambiguous`` where interleaved output does not decide which figures belong to it."""
    reasons: tuple[str, ...] = ()
    """Why it is ambiguous."""
    final: bool | None = None
    """``False``: relocatable code, the linker decides registers and stack. ``True``: the linker has spoken.
    ``None``: nothing in the log says that it was compiled relocatable."""
    advisories: tuple[Advisory, ...] = ()
    """Compiler messages that name this kernel, in the order printed."""
    origins: tuple[Origin, ...] = ()
    """Where it was read; the first is where its record begins."""
    compile_ms: float | None = None
    """Compile time as printed (ptxas 12.8 and later); never the same twice, never judged."""
    source: str = ""
    """Source file that the build step compiles, as its command line names it; empty where no line tells."""
    sass: SassStats | None = None
    """What a SASS dump or a binary says of it; ``None`` where none was read."""
    launch_bounds: LaunchBounds | None = None
    """Of its binary; ``None`` where none was read, or it has no bounds."""

    @property
    def spills(self) -> tuple[int, int] | None:
        """(spill store bytes, spill load bytes) per thread: as the compiler counted, else as its code shows; ``None``
        where no input tells.
        """
        if self.usage.spills is None and self.sass is not None:
            spilled = self.sass.local.spill
            return spilled.store_bytes, spilled.load_bytes
        return self.usage.spills

    @property
    def name(self) -> str:
        """Full demangled name."""
        return names.demangle(self.key.symbol)

    @property
    def short_name(self) -> str:
        """Base name for tables: no parameters, no namespaces, template arguments folded."""
        return names.short_name(self.key.symbol)


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """Something in the input that was not understood, is contradictory, or cannot be decided."""

    code: str
    """Stable name: ``unknown-line``, ``truncated``, ``unattributed-registers`` …"""
    message: str
    """One line: what, and what to do where something can be done."""
    severity: Severity = "warning"
    """``error`` where figures are missing because of it, ``warning`` where they might be, ``note`` otherwise."""
    origin: Origin | None = None
    """Where it was seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """How much was read, and how much of it was understood."""

    inputs: int = 0
    """Inputs read."""
    lines: int = 0
    """Lines read."""
    bytes: int = 0
    """Bytes read, after decompression."""
    recognised_lines: int = 0
    """Lines that a grammar rule describes."""
    unknown_lines: int = 0
    """Lines of a known tool that no grammar rule describes."""
    unknown_clauses: int = 0
    """Clauses of known lines that no grammar rule describes."""

    def __add__(self, other: Stats) -> Stats:
        return Stats(
            inputs=self.inputs + other.inputs,
            lines=self.lines + other.lines,
            bytes=self.bytes + other.bytes,
            recognised_lines=self.recognised_lines + other.recognised_lines,
            unknown_lines=self.unknown_lines + other.unknown_lines,
            unknown_clauses=self.unknown_clauses + other.unknown_clauses,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """All that was read from the inputs of one build."""

    kernels: tuple[Kernel, ...] = ()
    """In the order of the inputs; one symbol may stand in several archs and units."""
    issues: tuple[Issue, ...] = ()
    """What was not understood, in the order of the inputs."""
    stats: Stats = field(default_factory=Stats)
    """How much was read."""

    def to_pandas(self) -> pandas.DataFrame:
        """One row a kernel, nullable integer columns; absent figures are ``<NA>``."""
        from spillscan.frame import to_pandas

        return to_pandas(self)


Metric = tuple[str, int | None, int | None]
"""(name, before, after) of one figure; ``None`` where that build does not tell it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a change makes of a kernel's residency on one device; pairs are (before, after)."""

    device: str
    """The kernel's own target (``sm_90``), or the device as the user named it (``H200``)."""
    threads_per_block: int | None = None
    """The launch; ``None`` where nobody said how the kernel is launched: then there are no blocks to compare."""
    dynamic_shared_bytes: int = 0
    """Dynamic shared memory of the launch, bytes per block."""
    launch_source: str | None = None
    """Where the launch comes from: ``policy``, ``maxntid`` (its launch bounds) …; ``None`` where it is unknown."""
    resident_blocks: tuple[int | None, int | None] = (None, None)
    """Blocks per SM; 0: cannot launch; ``None`` where the input leaves them open."""
    active_warps: tuple[int | None, int | None] = (None, None)
    """Resident warps per SM."""
    limiters: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """What binds; empty where the blocks are unknown."""
    footprint_bytes: tuple[int | None, int | None] = (None, None)
    """Local memory that the stack reserves on the whole GPU; ``None`` where stack or number of SMs is unknown."""
    gpu: str | None = None
    """The GPU that the footprint is for; ``None`` where there is none."""
    unknown: str = ""
    """Why the blocks are not known on both sides, one line; empty where they are."""

    @property
    def blocks(self) -> tuple[int, int] | None:
        """Resident blocks (before, after); ``None`` unless known on both sides."""
        before, after = self.resident_blocks
        return None if before is None or after is None else (before, after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What became of one kernel between two builds."""

    state: Literal["added", "removed", "changed", "renamed", "unknown"]
    """``renamed`` pairs carry a score below 1. ``unknown``: nothing is known to differ, but one build does not tell all
    that the other tells; such a pair is in no list of changes."""
    before: Kernel | None
    """The kernel in the base build; ``None`` where it was added."""
    after: Kernel | None
    """The kernel in the head build; ``None`` where it was removed."""
    metrics: tuple[Metric, ...] = ()
    """Each figure that both builds tell and that differs."""
    score: float = 1.0
    """How alike the two are; 1 where the identity is the same, whatever checkout or toolkit wrote the symbol."""
    unknown: tuple[Metric, ...] = ()
    """Each figure that only one of the builds tells: neither equal nor different."""
    appeared: tuple[str, ...] = ()
    """Kinds of compiler messages that only the head build has for this kernel."""
    vanished: tuple[str, ...] = ()
    """Kinds of compiler messages that only the base build has for this kernel."""
    effects: tuple[Effect, ...] = ()
    """Residency by device; of pairs only."""

    @property
    def kernel(self) -> Kernel:
        """The kernel as it is now, or was last."""
        found = self.after or self.before
        assert found is not None
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What is judged, and all that there is to say of it: the one place from which a rule is documented.

    Texts are plain sentences; names of options and of policy keys stand in backquotes.
    """

    id: str
    """Stable name, lower case with hyphens: what findings, policies and baselines call it."""
    severity: Severity
    """Severity of its findings unless a policy says another. A milder or graver case is a rule of its own."""
    judges: tuple[Judged, ...]
    """Whether it looks at one build, at what changed between two, or at both."""
    title: str
    """One line, a sentence without its full stop: what is so where it finds something."""
    means: str
    """What exactly it looks at, and what its figures are."""
    matters: str
    """Why that is worth somebody's time."""
    remedy: str
    """What to do."""
    tuning: str
    """Limits that it obeys, and what else keeps it quiet where it is not wanted."""
    recorded_as: str = ""
    """Of a rule of changes: the rule of builds whose recorded figures excuse its findings in a baseline; empty for its
    own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A rule's verdict on one kernel or change."""

    rule: str
    """The ``id`` of the :class:`Rule`: ``spill``, ``registers`` …"""
    severity: Severity
    """What ``--fail-on`` compares."""
    message: str
    """One line, with short names: what is so, in figures."""
    kernel: Kernel
    """The kernel it is about."""
    fingerprint: str
    """Equal for the same finding in another build, whatever the line numbers."""
    origin: Origin | None = None
    """Where to look."""
    baseline_state: BaselineState | None = None
    """What it is to the baseline: not recorded, worse than recorded, as recorded, better, or excused by hand; ``None``
    where it was held against no baseline."""
    suppression: str | None = None
    """Of a suppressed finding: the reason that somebody wrote down."""

    @property
    def excused(self) -> bool:
        """Whether a baseline excuses it, so that no gate fails by it."""
        return self.baseline_state in ("outstanding", "better", "suppressed")
