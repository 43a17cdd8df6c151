"""What a report is of: a build, with what was judged and compared; every format renders the same one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from spillscan.judging.places import Tree, annotated_place, in_diff, source_of
from spillscan.model import Build, Change, Finding, Gap, Issue, Kernel
from spillscan.naming import Names
from spillscan.naming.identity.libraries import copies, library_of
from spillscan.occupancy.launches import Launches, LaunchMap

if TYPE_CHECKING:
    from spillscan.advice.families import Advice
    from spillscan.advice.ranking import Ranked
    from spillscan.judging.baseline.model import BaselineResult
    from spillscan.judging.compare.causes import Growth
    from spillscan.judging.compare.matrix import Matrix
    from spillscan.model.code import CodeText
    from spillscan.model.findings import CodeChange
    from spillscan.reading.binary.pressure import Pressure
    from spillscan.reports.groups import By

Kind = Literal["scan", "check", "diff", "matrix"]
ALL_KINDS: tuple[Kind, ...] = ("scan", "check", "diff")
FIRST = 8
"""Families that a page says what to do about."""
EXPLAINED = 20
"""Changes of which a report says why they grew."""
_GROWTH = frozenset({"registers", "spill_store_bytes", "spill_load_bytes", "spill_bytes"})
JUDGED: tuple[Kind, ...] = ("check", "diff")
"""The commands that have findings; ``scan`` judges nothing."""


class Way(Struct, frozen=True, kw_only=True):
    """The way on from the findings of one family."""

    finding: Finding
    """The first of them: where findings stand one by one, it shows the way."""
    made: Advice
    """Advice on its worst kernel."""
    command: str
    """What leads on from here, to be pasted; empty where the input cannot be read again."""

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
    """What is shown of kernels beside their figures, read once it is known which are shown."""

    code: Mapping[int, Pressure]
    """Live registers of kernels that are shown in detail, by the ``id`` of the kernel."""
    sources: Mapping[str, Sequence[str]]
    """Lines of source files, by the name that debug information gives the file."""
    texts: Mapping[int, CodeText] = field(default_factory=dict)
    """The code of kernels that are shown in detail, by the ``id`` of the kernel."""
    ways: Sequence[Way] = ()
    """The way on from the findings; none where nothing fails, or it is not wanted."""
    accept: Sequence[str] = ()
    """How to accept what fails."""
    not_checked: Sequence[str] = ()
    """What the input leaves open, without a gate that asks for it."""


class Report(Struct, frozen=True, kw_only=True, dict=True):
    """What a report is of: a build, with findings after ``check``, with changes after ``diff``."""

    kind: Kind
    """Which command asks; ``matrix`` is ``diff`` with several builds or archs side by side."""
    build: Build
    """The build; of a diff, the head."""
    base: Build | None = None
    """Of a diff, the base."""
    by: By | None = None
    """How kernels are grouped for people; ``None``: by family where not all of them are shown."""
    sort: str | None = None
    """The figure by which kernels stand in a table for people, the largest first; ``None``: worst first."""
    read: tuple[Build, ...] = ()
    """All that was read, of which ``build`` may be a part: what kernels are called does not depend on what is shown."""
    findings: tuple[Finding, ...] = ()
    """Most severe first."""
    changes: tuple[Change, ...] = ()
    """Worst first."""
    unsettled: tuple[Change, ...] = ()
    """Of a diff, the pairs in which nothing is known to differ, but a build does not report all."""
    recoded: tuple[Change, ...] = ()
    """Of a diff, the pairs of equal figures and other machine code."""
    code_changes: tuple[CodeChange, ...] | None = None
    """Of a diff, what became of machine code, what surely differs first; ``None``: it was not asked for."""
    matrix: Matrix | None = None
    """Of a matrix, the table."""
    launches: Launches = LaunchMap()
    """How kernels are launched, as far as it is known."""
    gaps: tuple[Gap, ...] = ()
    """What may be hidden of what the rules judge."""
    accepted: tuple[Gap, ...] = ()
    """What may be hidden, and the policy accepts."""
    fail_on: str = "error"
    """Mildest severity that fails the check; ``never``."""
    tree: Tree = Tree()
    """The repository that places are relative to."""
    details: Details = Details(code={}, sources={})
    """Machine code and sources, for the formats that show them."""
    baseline: BaselineResult | None = None
    """What the baseline makes of the findings; ``None`` without one."""

    @cached_property
    def names(self) -> Names:
        """What kernels are called in this report: by the instances in all of its builds."""
        builds = self.read or (self.build, *([self.base] if self.base is not None else []))
        columns = zip(*(row.cells for row in self.matrix.rows), strict=True) if self.matrix is not None else ()
        kernels = (*(build.kernels for build in builds), *columns)
        named = (
            [kernel.named_by if kernel.configuration else kernel.key.symbol for kernel in each if kernel is not None]
            for each in kernels
        )
        return Names(*named)

    def extended(self, tree: Tree | None = None, **details: Any) -> Report:
        """The report with another tree, or more details. What was worked out of its kernels stays: none of it depends
        on these."""
        found = replace(self, tree=tree or self.tree, details=replace(self.details, **details))
        vars(found).update(vars(self))
        return found

    @property
    def annotated(self) -> Sequence[Finding]:
        """What is annotated, in order: of a request what its diff shows goes first."""
        if self.tree.changed is None:
            return self.open_findings

        def elsewhere(finding: Finding) -> bool:
            return not in_diff(annotated_place(finding, self.tree), self.tree)

        return sorted(self.open_findings, key=elsewhere)

    @property
    def of_baseline(self) -> list[Issue]:
        """What there is to say of the baseline itself: kernels that it does not know, suppressions that are idle."""
        return [each for each in self.build.issues if each.origin is not None and each.origin.format == "baseline"]

    @property
    def toolkits(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Of a diff, versions of the toolkits that made the code of the base and of the head, as far as it says."""
        return self.base.toolkits if self.base is not None else (), self.build.toolkits

    @cached_property
    def holders(self) -> Mapping[str, set[str]]:
        """The inputs that hold a shared library, by its name."""
        found: dict[str, set[str]] = {}
        for kernel in self.build.kernels:
            if kernel.origins:
                found.setdefault(library_of(kernel, str), set()).add(kernel.origins[0].input)
        return found

    @cached_property
    def libraries(self) -> Mapping[int, str]:
        """The library of each kernel that its name and arch do not tell from copies in others, by its ``id``."""
        return self._copies(lambda kernel: library_of(kernel, str))

    @cached_property
    def places(self) -> Mapping[int, str]:
        """The library, source or unit of each kernel that its name and arch do not tell from others, by its ``id``."""
        return self._copies(lambda kernel: library_of(kernel, str) or source_of(kernel) or kernel.key.unit)

    @cached_property
    def units(self) -> Mapping[int, str]:
        """The object of each kernel that was built from its source more than once (Debug, Release), by its ``id``."""
        by_source: dict[str, list[Kernel]] = {}
        for kernel in self.build.kernels:
            by_source.setdefault(kernel.source, []).append(kernel)
        return {each: unit for kernels in by_source.values() for each, unit in copies(kernels, _unit).items()}

    def _copies(self, holder: Callable[[Kernel], str]) -> dict[int, str]:
        base = self.base.kernels if self.base is not None else ()
        return {**copies(base, holder), **copies(self.build.kernels, holder)}

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
        """The families that come first of what there is to do."""
        from spillscan.advice.ranking import ranked

        return ranked(self.build.kernels, self.names, self.launches)[:FIRST]

    def advice(self, about: Ranked) -> Advice:
        """Advice on a family, as ``advise`` gives it."""
        from spillscan.advice.families import advice

        code = None if about.worst.caller else self.details.code.get(id(about.worst))  # the caller's is in it
        return advice(about, self.launches, self.tree, code)

    def growths(self, most: int) -> list[Growth]:
        """Why some of these grew, as far as anything that is known explains it."""
        from spillscan.judging.compare.causes import Growth, makers

        code, old, new = self.details.code, makers(self.base or self.build), makers(self.build)
        found = [
            Growth(base, head, code.get(id(base)), code.get(id(head)), (old(base), new(head)))
            for base, head in ((change.before, change.after) for change in self.grown[:most])
            if base is not None and head is not None
        ]
        return [each for each in found if each.causes]

    @property
    def open_findings(self) -> tuple[Finding, ...]:
        """The findings that no baseline excuses, most severe first."""
        return tuple(finding for finding in self.findings if not finding.excused)


def _unit(kernel: Kernel) -> str:
    return kernel.key.unit
