"""Results of checks: differences of two records, their effects, and the findings of rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from spillscan.model.build import Kernel
from spillscan.model.gaps import Hidden
from spillscan.model.usage import Origin, Severity

if TYPE_CHECKING:
    import pandas

BaselineState = Literal["new", "worse", "known", "better", "suppressed"]
Scope = Literal["build", "change"]
Level = Literal["error", "warning", "note", "off"]
"""Severity that a policy may set for a rule; ``off``: it finds nothing."""

SEVERITIES: tuple[Severity, ...] = ("note", "warning", "error")
"""Severities, lowest first."""


def at_least(severity: Severity, threshold: str) -> bool:
    """Whether ``severity`` reaches ``threshold``; nothing reaches ``never``."""
    return threshold != "never" and SEVERITIES.index(severity) >= [*SEVERITIES].index(threshold)  # type: ignore[arg-type]


Delta = tuple[str, int | None, int | None]
"""(name, before, after) of one metric; ``None`` if that build does not report it."""


class Effect(Struct, frozen=True, kw_only=True):
    """Effect of a change on a kernel's residency on one device; pairs are (before, after)."""

    device: str
    """The kernel's own target (``sm_90``), or the device as the user named it (``H200``)."""
    threads_per_block: int | None = None
    """Block size of the launch; ``None`` if the launch is unknown, so that there are no blocks to compare."""
    dynamic_shared_bytes: int | None = None
    """Dynamic shared memory of the launch, bytes per block; ``None`` if the launch is unknown."""
    launch_source: str | None = None
    """Source of the launch: ``policy``, ``sidecar``, ``bounds`` (its launch bounds) …; ``None`` if unknown."""
    resident_blocks: tuple[int | None, int | None] = (None, None)
    """Blocks per SM; 0: cannot launch; ``None`` if unknown."""
    active_warps: tuple[int | None, int | None] = (None, None)
    """Resident warps per SM."""
    limiters: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """Limiting resources; empty if the blocks are unknown."""
    footprint_bytes: tuple[int | None, int | None] = (None, None)
    """Local memory that the stack reserves on the whole GPU; ``None`` if stack or number of SMs is unknown."""
    gpu: str | None = None
    """GPU that the footprint is for; ``None`` if there is none."""
    unknown: str = ""
    """Why the blocks of a side are unknown, in one line; empty if both are known."""

    @property
    def blocks(self) -> tuple[int, int] | None:
        """Resident blocks (before, after); ``None`` unless known on both sides."""
        before, after = self.resident_blocks
        return None if before is None or after is None else (before, after)


CodeVerdict = Literal["differs", "not compared", "identical"]

EvidenceKind = Literal["identity", "substitution", "stated"]
"""Evidence that two kernels are the same.

Equal names, regardless of checkout and toolkit; a substitution that explains all kernels of a function; stated by the
user.
"""


class Evidence(Struct, frozen=True, kw_only=True):
    """Why two kernels are considered the same."""

    kind: EvidenceKind = "identity"
    """``identity``: equal names, regardless of checkout and toolkit; ``substitution``: a rule that explains all kernels
    of a function; ``stated``: renamed in the policy or by ``--rename``."""
    rule: str = ""
    """Substitution: ``flash → fa3``."""
    explains: int = 0
    """Number of names that the substitution explains."""


IDENTITY = Evidence()
"""Evidence of all kernels that kept their names, shared since there are very many."""


class Change(Struct, frozen=True, kw_only=True):
    """Change of one kernel between two builds."""

    state: Literal["added", "removed", "changed", "renamed", "unknown", "recoded", "equal"]
    """Kind of the change.
    ``unknown``: nothing is known to differ, but one build does not report all that the other reports. ``recoded``:
    other machine code, by its digest or its opcodes, and equal metrics. Such pairs are in no list of changes, nor are
    ``equal`` ones.
    """
    before: Kernel | None
    """Kernel in the base build; ``None`` if it was added."""
    after: Kernel | None
    """Kernel in the head build; ``None`` if it was removed."""
    metrics: tuple[Delta, ...] = ()
    """Metrics that are known in both builds and differ."""
    evidence: Evidence = IDENTITY
    """Why the two are considered one kernel."""
    unknown: tuple[Delta, ...] = ()
    """Metrics that only one of the builds reports: neither equal nor different."""
    appeared: tuple[str, ...] = ()
    """Kinds of compiler messages that only the head build has for this kernel."""
    vanished: tuple[str, ...] = ()
    """Kinds of compiler messages that only the base build has for this kernel."""
    effects: tuple[Effect, ...] = ()
    """Residency by device; only for pairs."""
    code: CodeVerdict | None = None
    """Result of comparing the machine code of both; ``None`` if it was not compared."""
    code_reason: str = ""
    """What differs, or why the code was not compared, one line."""

    @property
    def bounds(self) -> tuple[int | None, int | None] | None:
        """Block sizes in the launch bounds of both sides, if they differ; ``None`` for a side without bounds."""
        return None if self.before is None or self.after is None else moved_bounds(self.before, self.after)

    @property
    def differs(self) -> bool:
        """Whether anything but its name is known to have changed."""
        return bool(self.metrics or self.appeared or self.vanished or self.bounds)

    @property
    def toolkits(self) -> tuple[str, str] | None:
        """Toolkit versions that made the two, if they are known to differ."""
        makers = [side.sass.maker if side and side.sass else None for side in (self.before, self.after)]
        if makers[0] is None or makers[1] is None or makers[0].version == makers[1].version:
            return None
        return makers[0].version, makers[1].version

    @property
    def kernel(self) -> Kernel:
        """The kernel in the head, or in the base if it was removed."""
        found = self.after or self.before
        assert found is not None
        return found


def moved_bounds(before: Kernel, after: Kernel) -> tuple[int | None, int | None] | None:
    """Block sizes in the launch bounds of both kernels, if they differ; only code shows them."""
    if before.launch_bounds == after.launch_bounds or not (before.sass and after.sass):
        return None
    old, new = (side.launch_bounds.threads if side.launch_bounds else None for side in (before, after))
    return None if old == new else (old, new)


Moved = tuple[str, int, int]
"""(name, count before, count after)."""


class Hunk(Struct, frozen=True, kw_only=True):
    """Source line whose instructions differ in the code of two kernels."""

    place: str
    """``gemm.cu:31``; empty without line information."""
    opcodes: tuple[Moved, ...]
    """Opcodes with more or fewer instructions, the largest change first."""
    altered: tuple[tuple[str, int], ...]
    """Opcodes with as many instructions, some of which have other modifiers or constants."""


class CodeChange(Struct, frozen=True, kw_only=True):
    """Comparison of one kernel's machine code in two builds."""

    change: Change
    """The pair."""
    verdict: CodeVerdict
    """``identical``: equal instructions in equal order, up to one renaming of registers, and equal data and attributes
    that the kernel refers to."""
    reasons: tuple[str, ...]
    """What differs, or why it was not compared, one line each."""
    instructions: tuple[int | None, int | None]
    """Number of instructions before and after; ``None`` if unknown."""
    hunks: tuple[Hunk, ...] = ()
    """Source lines whose instructions differ, the most changed first."""
    text: tuple[str, ...] = ()
    """Unified diff of the instructions, if requested."""


class Changes(list[Change]):
    """Changes between two builds, worst first."""

    def to_pandas(self) -> pandas.DataFrame:
        """One row per changed metric; one without a metric per kernel that was added or removed."""
        import pandas

        names = ("state", "short_name", "arch", "metric", "before", "after")
        rows = [
            (each.state, each.kernel.short_name, each.kernel.key.arch, *metric)
            for each in self
            for metric in each.metrics or ((None, None, None),)
        ]
        frame = pandas.DataFrame.from_records(rows, columns=names)
        return frame.astype({"before": "Int64", "after": "Int64"})


class Gap(Struct, frozen=True, kw_only=True):
    """Missing input that keeps a gate from passing, since it may hide something that the gate checks."""

    code: str
    """Kind of the gap, as declared by :data:`spillscan.model.gaps.KINDS`."""
    message: str
    """Missing data and the reason, in one line."""
    hides: tuple[Hidden, ...]
    """Data that may be hidden."""
    origin: Origin | None = None
    """Place to look at."""
    kernel: Kernel | None = None
    """Kernel that it is about; ``None`` for a whole input, or more."""
    names: tuple[str, ...] = ()
    """Other names by which a policy may refer to it: a unit, an arch."""
    accepted: str | None = None
    """Why the policy accepts it, in its own words; ``None`` if it does not."""


class Limit(Struct, frozen=True):
    """Key of the policy that a rule uses."""

    name: str
    """Name of the key: ``max_registers``."""
    scope: Scope
    """Whether it limits a build or a change."""
    default: int | None = None
    """Its value if the policy does not set it; ``None``: no limit."""


class Rule(Struct, frozen=True):
    """A rule, which ``docs/explain/rules.md`` explains."""

    id: str
    """Stable name in findings, policies and baselines, in lower case with hyphens."""
    severity: Severity
    """Highest severity of its findings, unless the policy sets another."""
    needs: tuple[Hidden, ...] = ()
    """Data that it needs: if an input may hide some of it, a gate by this rule cannot pass."""
    limits: tuple[Limit, ...] = ()
    """Keys of the policy that it uses."""
    recorded_as: str = ""
    """For a rule on changes: the rule on builds whose recorded values suppress its findings in a baseline.

    Empty if it is the rule itself.
    """
    least: Severity | None = None
    """Severity of findings with the least effect, if the effect decides."""

    @property
    def severities(self) -> str:
        """``error``, or ``note to error`` if the effect decides."""
        return f"{self.least} to {self.severity}" if self.least else self.severity


class Finding(Struct, frozen=True, kw_only=True):
    """Result of a rule for one kernel or change."""

    rule: str
    """The ``id`` of the :class:`Rule`: ``spill``, ``registers`` …"""
    severity: Severity
    """Severity that ``--fail-on`` compares."""
    message: str
    """One line, with short names and values."""
    kernel: Kernel
    """Kernel that it is about."""
    fingerprint: str
    """Hash that is equal for the same finding in another build, whatever the line numbers."""
    origin: Origin | None = None
    """Place to look at."""
    baseline_state: BaselineState | None = None
    """State in the baseline: not recorded, worse than recorded, as recorded, better, or suppressed by hand.

    ``None`` if it was not compared with a baseline.
    """
    suppression: str | None = None
    """Reason of a suppressed finding, as written down."""

    @property
    def accepted(self) -> bool:
        """Whether baseline or policy accept it, so that it fails no gate."""
        return self.baseline_state in ("known", "better", "suppressed")
