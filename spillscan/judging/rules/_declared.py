"""What rules are declared with: the terms of a kernel, what a rule says, a family of rules, a rule of one threshold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct, field

from spillscan.model import Change, Kernel, Launch, Level, Limit, Rule, Severity


class Terms(Struct, frozen=True, kw_only=True):
    """What is demanded of one kernel."""

    limits: Mapping[str, int | str | None] = field(default_factory=dict)
    """By name; ``None`` sets none. What stands here not is as its :class:`~spillscan.model.Limit` has it."""
    levels: Mapping[str, Level] = field(default_factory=dict)
    """Severity by rule id, where another than the rule's own holds."""
    launch: Launch | None = None
    """How it is launched; ``None`` where that is not known."""
    devices: tuple[str, ...] = ()
    """Devices whose occupancy counts; empty: the one that it was compiled for."""

    def limit(self, limit: Limit) -> int | None:
        """What ``limit`` is for this kernel; ``None``: there is none."""
        found = self.limits.get(limit.name, limit.default)
        return found if isinstance(found, int) else None

    def demanded(self, limit: Limit) -> str:
        """The word that holds for this kernel, of a limit that is no number; empty: it demands nothing."""
        found = self.limits.get(limit.name)
        return found if isinstance(found, str) and found != limit.words[-1] else ""

    def level(self, rule: Rule) -> Level:
        """How severe the rule's findings are for this kernel."""
        return self.levels.get(rule.id, rule.severity)


class Undecided(Struct, frozen=True, kw_only=True):
    """A kernel on which a rule cannot decide."""

    rule: Rule
    """The rule that would have to know more."""
    severity: Severity
    """How severe a finding of it would be."""
    kernel: Kernel
    """The kernel of which the input does not say enough; of a change the newer record."""
    reason: str
    """What the input leaves open, and what to do."""


Said = tuple[Rule, str]
"""(rule, one line): what it finds, or why it cannot decide."""
Measure = Callable[[Kernel, Terms], Mapping[str, int] | None]
"""The figures by which findings of a rule get worse, greater is worse; ``None`` where the input does not give them."""


class Threshold(Struct, frozen=True, kw_only=True):
    """A rule of one build that is no more than a figure and its limit: what it finds, where it cannot decide, and by
    what its findings get worse all follow from this declaration."""

    rule: Rule
    """The rule; of its limits the one that judges builds."""
    key: str
    """What a baseline calls the figure."""
    figure: Callable[[Kernel, Terms], int | None]
    """The figure, or as much of it as is known: that may be too much already."""
    message: Callable[[Kernel, Terms, int, int], str]
    """What is found where the figure (third) exceeds its limit (fourth)."""
    silent: str
    """Why the figure is not known where nothing else says why."""
    unlinked: str = ""
    """What is not final before the link, as a sentence begins: ``its stack is``; empty: the linker decides nothing."""
    functions: bool = True
    """Whether a device function must give it, too."""
    open_end: Callable[[Kernel, Terms], str] | None = None
    """Why it is not known or not final, where that takes more than a look at the figure; empty where it is."""

    @property
    def limit(self) -> Limit:
        """Beyond which there is a finding."""
        return next(limit for limit in self.rule.limits if limit.judges == "build")

    def findings(self, kernel: Kernel, terms: Terms) -> Iterator[Said]:
        """The figure exceeds its limit."""
        most, value = terms.limit(self.limit), self.figure(kernel, terms)
        if most is not None and value is not None and value > most:
            yield self.rule, self.message(kernel, terms, value, most)

    def undecided(self, kernel: Kernel, terms: Terms) -> Said | None:
        """A limit is set, and the figure is not known or not final."""
        reason = "" if terms.limit(self.limit) is None else self._open_end(kernel, terms)
        return (self.rule, reason) if reason else None

    def measure(self, kernel: Kernel, terms: Terms) -> dict[str, int] | None:
        """The figure, where it is known and final."""
        value = self.figure(kernel, terms)
        if value is None or (self.unlinked and kernel.final is False) or self._open_end(kernel, terms):
            return None
        return {self.key: value}

    def _open_end(self, kernel: Kernel, terms: Terms) -> str:
        if kernel.role == "function" and not self.functions:
            return ""
        if self.open_end is not None:
            return self.open_end(kernel, terms)
        if self.figure(kernel, terms) is None:
            return because(kernel, self.silent) if self.unlinked else self.silent
        if self.unlinked and kernel.final is False and kernel.role != "function":
            return unlinked(self.unlinked)
        return ""


class Family(Struct, frozen=True, kw_only=True):
    """Rules that judge by the same figures."""

    thresholds: tuple[Threshold, ...] = ()
    """Those that are declared as data."""
    rules: tuple[Rule, ...] = ()
    """All others that the functions below say anything of."""
    findings: Callable[[Kernel, Terms], Iterable[Said]] | None = None
    """What is wrong with a kernel of one build."""
    undecided: Callable[[Kernel, Terms], Said | None] | None = None
    """The rule that cannot decide on a kernel, since the input leaves open what it must know."""
    regressions: Callable[[Change, Terms], Iterable[Said]] | None = None
    """What got worse between two builds; it is said of the newer kernel, where there is one."""
    undecided_change: Callable[[Change, Terms], Said | None] | None = None
    """The rule that cannot decide on a change, since one of the builds leaves open what it must know."""
    measures: Mapping[Rule, Measure] = field(default_factory=dict)
    """How bad it is, by rule. A rule without one has findings that no baseline excuses."""


def unlinked(what: str) -> str:
    """Why ``what`` (``its stack is``) of relocatable code is not known."""
    return f"relocatable code: {what} not final; give the link's log too (nvcc -Xnvlink -v)"


def because(kernel: Kernel, otherwise: str) -> str:
    """Why a log does not give a figure of ``kernel``: for its own reasons, else for what is said ``otherwise``."""
    return "; ".join(kernel.reasons) or otherwise
