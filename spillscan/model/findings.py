"""What is judged: how two records differ, what that means, and what rules find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from spillscan.model.build import Kernel
from spillscan.model.gaps import Hidden
from spillscan.model.usage import Origin, Severity
from spillscan.output.nouns import count

if TYPE_CHECKING:
    import pandas

BaselineState = Literal["new", "worse", "known", "better", "suppressed"]
Judged = Literal["build", "change"]
Level = Literal["error", "warning", "note", "off"]
"""What a policy may say of a rule; ``off``: it finds nothing."""

SEVERITIES: tuple[Severity, ...] = ("note", "warning", "error")
"""From mild to severe."""


def at_least(severity: Severity, threshold: str) -> bool:
    """Whether ``severity`` reaches ``threshold``; nothing reaches ``never``."""
    return threshold != "never" and SEVERITIES.index(severity) >= [*SEVERITIES].index(threshold)  # type: ignore[arg-type]


Metric = tuple[str, int | None, int | None]
"""(name, before, after) of one figure; ``None`` where that build does not report it."""


class Effect(Struct, frozen=True, kw_only=True):
    """What a change makes of a kernel's residency on one device; pairs are (before, after)."""

    device: str
    """The kernel's own target (``sm_90``), or the device as the user named it (``H200``)."""
    threads_per_block: int | None = None
    """The launch; ``None`` where it is not known how the kernel is launched: then there are no blocks to compare."""
    dynamic_shared_bytes: int | None = None
    """Dynamic shared memory of the launch, bytes per block; ``None`` where the launch is unknown."""
    launch_source: str | None = None
    """Where the launch comes from: ``policy``, ``sidecar``, ``bounds`` (its launch bounds) …; ``None`` where it is
    unknown."""
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


CodeVerdict = Literal["differs", "not compared", "identical"]

EvidenceKind = Literal["identity", "substitution", "stated"]
"""Equal names, whatever checkout or toolkit wrote them; a substitution that explains all kernels of a function; stated
by the user."""


class Evidence(Struct, frozen=True, kw_only=True):
    """Why two kernels are taken for one."""

    kind: EvidenceKind = "identity"
    rule: str = ""
    """The substitution: ``flash → fa3``."""
    explains: int = 0
    """How many names the substitution explains."""


IDENTITY = Evidence()
"""Of all kernels that kept their names: there are very many."""


class Change(Struct, frozen=True, kw_only=True):
    """What became of one kernel between two builds."""

    state: Literal["added", "removed", "changed", "renamed", "unknown", "recoded", "equal"]
    """``unknown``: nothing is known to differ, but one build does not report all that the other reports. ``recoded``:
    other machine code, by its digest or its opcodes, and the same figures. Such pairs are in no list of changes,
    nor is one that is ``equal``."""
    before: Kernel | None
    """The kernel in the base build; ``None`` where it was added."""
    after: Kernel | None
    """The kernel in the head build; ``None`` where it was removed."""
    metrics: tuple[Metric, ...] = ()
    """Each figure that is known of both builds and differs."""
    evidence: Evidence = IDENTITY
    """Why they are taken for one kernel."""
    unknown: tuple[Metric, ...] = ()
    """Each figure that only one of the builds reports: neither equal nor different."""
    appeared: tuple[str, ...] = ()
    """Kinds of compiler messages that only the head build has for this kernel."""
    vanished: tuple[str, ...] = ()
    """Kinds of compiler messages that only the base build has for this kernel."""
    effects: tuple[Effect, ...] = ()
    """Residency by device; of pairs only."""
    code: CodeVerdict | None = None
    """Result of comparing the machine code of both; ``None``: nobody did."""
    code_reason: str = ""
    """What differs, or why the code was not compared, one line."""

    @property
    def bounds(self) -> tuple[int | None, int | None] | None:
        """Threads per block that the code of either side is made for, where they differ; ``None`` of a side: any."""
        return None if self.before is None or self.after is None else moved_bounds(self.before, self.after)

    @property
    def differs(self) -> bool:
        """Whether more than its name is known to be other than before."""
        return bool(self.metrics or self.appeared or self.vanished or self.bounds)

    @property
    def toolkits(self) -> tuple[str, str] | None:
        """Versions of the toolkits that made the two, where these are known to differ."""
        makers = [side.sass.maker if side and side.sass else None for side in (self.before, self.after)]
        if makers[0] is None or makers[1] is None or makers[0].version == makers[1].version:
            return None
        return makers[0].version, makers[1].version

    @property
    def kernel(self) -> Kernel:
        """The kernel as it is now, or was last."""
        found = self.after or self.before
        assert found is not None
        return found


def moved_bounds(before: Kernel, after: Kernel) -> tuple[int | None, int | None] | None:
    """Threads per block that the code of either is made for, where they differ; only code shows them."""
    if before.launch_bounds == after.launch_bounds or not (before.sass and after.sass):
        return None
    old, new = (side.launch_bounds.threads if side.launch_bounds else None for side in (before, after))
    return None if old == new else (old, new)


Moved = tuple[str, int, int]
"""(name, count before, count after)."""


class Hunk(Struct, frozen=True, kw_only=True):
    """Where the code of two kernels differs: all instructions of one source line in as many loops."""

    depth: int | None
    """Loops around them; ``None`` where control is not known."""
    place: str
    """``gemm.cu:31``; empty without line information."""
    opcodes: tuple[Moved, ...]
    """Instructions of which there are more or fewer, those that moved most first."""
    altered: tuple[tuple[str, int], ...]
    """Instructions of which there are as many, and some have other modifiers or constants."""
    instructions: tuple[int, int]
    """How many stand there before and after."""
    live: tuple[int, int]
    """Most live registers there."""
    spills: tuple[int, int]
    """Spill stores and loads there."""


class CodeChange(Struct, frozen=True, kw_only=True):
    """Machine code of one kernel in two builds, compared."""

    change: Change
    """The pair."""
    verdict: CodeVerdict
    """``identical``: equal instructions in equal order, up to one renaming of registers, and equal data and attributes
    that the kernel refers to."""
    reasons: tuple[str, ...]
    """What differs, or why it was not compared, one line each."""
    instructions: tuple[int | None, int | None]
    """Number of instructions before and after; ``None``: unknown."""
    hunks: tuple[Hunk, ...] = ()
    """Where instructions differ, the deepest loop first."""
    text: tuple[str, ...] = ()
    """Unified diff of the instructions, if asked for."""


class Changes(list[Change]):
    """What changed between two builds, worst first."""

    def to_pandas(self) -> pandas.DataFrame:
        """One row a figure that changed; one a kernel that was added or removed, without a figure."""
        import pandas

        names = ("state", "short_name", "arch", "figure", "before", "after")
        rows = [
            (each.state, each.kernel.short_name, each.kernel.key.arch, *metric)
            for each in self
            for metric in each.metrics or ((None, None, None),)
        ]
        frame = pandas.DataFrame.from_records(rows, columns=names)
        return frame.astype({"before": "Int64", "after": "Int64"})

    def _repr_html_(self) -> str:
        """In a notebook: the worst changes, figure by figure."""
        frame = self.to_pandas()
        left = f"; the first {_SHOWN} of {count(len(frame), 'figure')}" if len(frame) > _SHOWN else ""
        table = frame.head(_SHOWN).astype(object).to_html(index=False, na_rep="-", border=0)
        return f"<p>{count(len(self), 'kernel')} changed{left}</p>{table}"


_SHOWN = 20


class Gap(Struct, frozen=True, kw_only=True):
    """What keeps a gate from passing: something that it judges may be hidden."""

    code: str
    """Its kind, as :data:`spillscan.model.gaps.KINDS` declares it."""
    message: str
    """One line: what is not known, and why."""
    hides: tuple[Hidden, ...]
    """What may be hidden."""
    origin: Origin | None = None
    """Where to look."""
    kernel: Kernel | None = None
    """The kernel that it is about; ``None``: a whole input, or more."""
    names: tuple[str, ...] = ()
    """What else a policy may call what it is about: a unit, an arch."""
    accepted: str | None = None
    """Why the policy accepts it, in its own words; ``None`` where it does not."""


class Limit(Struct, frozen=True):
    """A key of the policy that a rule obeys."""

    name: str
    """The key: ``max_registers``."""
    judges: Judged
    """Whether it limits a build or a change."""
    default: int | None = None
    """Its value if the policy does not set it; ``None``: no limit."""


class Rule(Struct, frozen=True):
    """What is checked; ``docs/explain/rules.md`` explains it."""

    id: str
    """Stable name, lower case with hyphens: what findings, policies and baselines call it."""
    severity: Severity
    """Highest severity of its findings, unless the policy sets another."""
    needs: tuple[Hidden, ...] = ()
    """What it must know of a kernel: if an input may hide that, a gate by this rule cannot pass."""
    limits: tuple[Limit, ...] = ()
    """Keys of the policy that it obeys."""
    recorded_as: str = ""
    """Of a rule of changes: the rule of builds whose recorded figures excuse its findings in a baseline; empty for its
    own."""
    least: Severity | None = None
    """Severity of findings with the least effect, where the effect decides."""

    @property
    def severities(self) -> str:
        """``error``, or ``note to error`` where the effect decides."""
        return f"{self.least} to {self.severity}" if self.least else self.severity


class Finding(Struct, frozen=True, kw_only=True):
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
    """Of a suppressed finding: the reason that was written down."""

    @property
    def excused(self) -> bool:
        """Whether a baseline excuses it, so that no gate fails by it."""
        return self.baseline_state in ("known", "better", "suppressed")
