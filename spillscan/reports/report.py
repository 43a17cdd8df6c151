"""Data of a report: a build with its findings and changes; every format renders the same object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from spillscan.judging.places import Tree, source_of
from spillscan.model import Build, Change, Finding, Gap, Issue, Kernel
from spillscan.naming import Names
from spillscan.naming.libraries import copies, library_of
from spillscan.occupancy.launches import Launches, LaunchMap

if TYPE_CHECKING:
    from spillscan.advice.families import Advice
    from spillscan.advice.ranking import Ranked
    from spillscan.judging.compare.causes import Growth
    from spillscan.judging.verdict import BaselineResult
    from spillscan.model.code import CodeText
    from spillscan.model.findings import CodeChange
    from spillscan.reading.binary.pressure import Pressure
    from spillscan.reports.groups import By

Kind = Literal["scan", "check", "diff"]
ALL_KINDS: tuple[Kind, ...] = ("scan", "check", "diff")
FIRST = 8
"""Families for which a page has advice."""
EXPLAINED = 20
"""Changes whose growth a report explains."""
_GROWTH = frozenset({"registers", "spill_store_bytes", "spill_load_bytes", "spill_bytes"})
GATE_KINDS: tuple[Kind, ...] = ("check", "diff")
"""Commands that have findings; ``scan`` checks nothing."""


class NextStep(Struct, frozen=True, kw_only=True):
    """Next step for the findings of one family."""

    finding: Finding
    """First finding of the family; if findings are listed one by one, the next step is below it."""
    made: Advice
    """Advice on the family's worst kernel."""
    command: str
    """Next command, to be pasted; empty if the input cannot be read again."""

    @property
    def kernel(self) -> Kernel:
        """The worst kernel of the family."""
        return self.made.ranked.worst

    @property
    def lines(self) -> Iterator[tuple[str, str]]:
        """(heading, text): the first cause, the first fix of each kind, and the command."""
        yield from (("cause", each) for each in self.made.causes[:1])
        yield from {each.kind: each for each in reversed(self.made.fixes)}.values()
        if self.command:
            yield "next", self.command


class Details(Struct, frozen=True, kw_only=True):
    """Details of the kernels shown, read once these are known."""

    code: Mapping[int, Pressure]
    """Live registers of kernels that are shown in detail, by the ``id`` of the kernel."""
    sources: Mapping[str, Sequence[str]]
    """Lines of source files, by the file's name in the debug information."""
    texts: Mapping[int, CodeText] = field(default_factory=dict)
    """The code of kernels that are shown in detail, by the ``id`` of the kernel."""
    steps: Sequence[NextStep] = ()
    """Next steps for the findings; empty if nothing fails, or they are not wanted."""
    accept: Sequence[str] = ()
    """Command that accepts what fails."""
    not_checked: Sequence[str] = ()
    """Values that the input lacks and that no gate requires."""


class Report(Struct, frozen=True, kw_only=True, dict=True):
    """Data of a report: a build, with findings after ``check`` and changes after ``diff``."""

    kind: Kind
    """Command of the report."""
    build: Build
    """The build; for a diff, the head."""
    base: Build | None = None
    """The base of a diff."""
    by: By | None = None
    """Grouping of kernels for people; ``None``: by family if not all of them are shown."""
    sort: str | None = None
    """Metric that sorts kernels in tables for people, largest first; ``None``: worst first."""
    read: tuple[Build, ...] = ()
    """All builds read, of which ``build`` may be a part: names do not depend on what is shown."""
    findings: tuple[Finding, ...] = ()
    """Most severe first."""
    changes: tuple[Change, ...] = ()
    """Worst first."""
    unsettled: tuple[Change, ...] = ()
    """Pairs of a diff without a known difference, for which a build does not report everything."""
    recoded: tuple[Change, ...] = ()
    """Pairs of a diff with equal metrics and different machine code."""
    code_changes: tuple[CodeChange, ...] | None = None
    """Comparison of machine code in a diff, certain differences first; ``None`` if not requested."""
    launches: Launches = LaunchMap()
    """Launches of kernels, as far as known."""
    gaps: tuple[Gap, ...] = ()
    """Missing input that could hide a finding."""
    accepted: tuple[Gap, ...] = ()
    """Gaps that the policy accepts."""
    fail_on: str = "error"
    """Lowest severity that fails the check, or ``never``."""
    tree: Tree = Tree()
    """Repository that places are relative to."""
    details: Details = Details(code={}, sources={})
    """Machine code, sources and next steps, for the formats that show them."""
    baseline: BaselineResult | None = None
    """Comparison of the findings with the baseline; ``None`` without one."""

    @cached_property
    def names(self) -> Names:
        """Names of kernels in this report, by the instances in all of its builds."""
        return names_of(self.read or (self.build, *([self.base] if self.base is not None else [])))

    def extended(self, tree: Tree | None = None, **details: Any) -> Report:
        """The report with another tree or more details; keeps cached values, which depend on neither."""
        copy = replace(self, tree=tree or self.tree, details=replace(self.details, **details))
        vars(copy).update(vars(self))
        return copy

    @property
    def of_baseline(self) -> list[Issue]:
        """Issues of the baseline itself: kernels that it does not know, unused suppressions."""
        return [each for each in self.build.issues if each.origin is not None and each.origin.format == "baseline"]

    @property
    def toolkits(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Toolkit versions that made the code of the base and of the head, as far as known."""
        return self.base.toolkits if self.base is not None else (), self.build.toolkits

    @cached_property
    def copies(self) -> Mapping[int, str]:
        """Library, object or source of each kernel that its name and arch do not tell from others, by its ``id``."""
        base = self.base.kernels if self.base is not None else ()
        return {**copies(base, _holder), **copies(self.build.kernels, _holder)}

    @cached_property
    def inputs(self) -> int:
        """Number of inputs with kernels of the build."""
        return len({each.origins[0].input for each in self.build.kernels if each.origins and not each.is_helper})

    @cached_property
    def grown(self) -> list[Change]:
        """The pairs of a diff whose registers or spills grew, the worst first."""
        return [
            change
            for change in self.changes
            if any(name in _GROWTH and (after or 0) > (before or 0) for name, before, after in change.metrics)
            and change.before is not None
        ]

    @cached_property
    def first(self) -> list[Ranked]:
        """Families to fix first."""
        from spillscan.advice.ranking import ranked

        return ranked(self.build.kernels, self.names, self.launches)[:FIRST]

    def advice(self, about: Ranked) -> Advice:
        """Advice on a family, as ``advise`` gives it."""
        from spillscan.advice.families import advice

        code = None if about.worst.caller else self.details.code.get(id(about.worst))  # includes the caller's code
        return advice(about, self.launches, self.tree, code)

    def growths(self, most: int) -> list[Growth]:
        """Causes of growth of the first ``most`` kernels that grew; those without a known cause are omitted."""
        from spillscan.judging.compare.causes import Growth

        pairs = [(each.before, each.after) for each in self.grown[:most] if each.before and each.after]
        every = (Growth(before, after, self.details.code) for before, after in pairs)
        return [each for each in every if each.causes]

    @property
    def open_findings(self) -> tuple[Finding, ...]:
        """Findings that are not accepted, most severe first."""
        return tuple(finding for finding in self.findings if not finding.accepted)


def names_of(builds: Iterable[Build]) -> Names:
    """Names of the kernels of all ``builds``."""
    return Names(
        *([each.named_by if each.configuration else each.key.symbol for each in build.kernels] for build in builds)
    )


def _holder(kernel: Kernel) -> str:
    return library_of(kernel, str) or kernel.key.unit or source_of(kernel)
