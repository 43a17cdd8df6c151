"""What rules are declared with: the terms of a kernel, what a rule says, a family of rules, a rule of one threshold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct, field, structs

from spillscan.model import SEVERITIES, Change, Finding, Kernel, Launch, Level, Limit, Rule, Severity
from spillscan.naming.identity import canonical, digest, source_file


class Terms(Struct, frozen=True, kw_only=True):
    """What is demanded of one kernel."""

    limits: Mapping[str, int | str | None] = field(default_factory=dict)
    """By name; ``None`` sets none. What stands here not is as its :class:`~spillscan.model.Limit` has it."""
    levels: Mapping[str, Level] = field(default_factory=dict)
    """Severity by rule id, where another than the rule's own holds."""
    launch: Launch | None = None
    """How it is launched; ``None`` where that is not known."""
    launch_from: str = ""
    """Where the policy or an option sets the launch: ``spillscan.yaml:4``, ``--launch``; empty: neither does."""
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

    def level(self, rule: Rule, own: Severity | None = None) -> Level:
        """Severity of the rule's findings for this kernel; ``own``: of a case that has one of its own."""
        return self.levels.get(rule.id, own or rule.severity)


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


Said = tuple[Rule, str] | tuple[Rule, str, Severity]
"""(rule, one line): what it finds, or why it cannot decide; third, a severity that is not the rule's own."""
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


# Findings: made of a rule and a kernel, in order, each with a fingerprint of its own.


def finding(rule: Rule, message: str, kernel: Kernel, severity: Severity | None = None) -> Finding:
    """A finding at the kernel's own place, as severe as its rule unless another ``severity`` holds. Its fingerprint is
    of the rule and the identity that a baseline has for the kernel: no line number, checkout or object changes it."""
    role = "function" if kernel.role == "function" else ""
    identity = "\0".join((rule.id, canonical(kernel.key.symbol), kernel.key.arch or "", role))
    return Finding(
        rule=rule.id,
        severity=severity or rule.severity,
        message=message,
        kernel=kernel,
        fingerprint=digest(identity, 16),
        origin=kernel.origins[0] if kernel.origins else None,
    )


def distinct(found: list[Finding]) -> list[Finding]:
    """``found``, in its order; of findings that share a fingerprint (namesakes: hidden kernels of two files, lambdas of
    one function, a template in two objects) all but the first are numbered, since services keep one of several equals.

    Which is the first depends on neither the damage nor on hashes of paths: files, objects, then the names decide.
    """
    namesakes: dict[str, list[Finding]] = {}
    for each in found:
        namesakes.setdefault(each.fingerprint, []).append(each)
    if len(namesakes) == len(found):
        return found
    numbered = {
        id(each): structs.replace(each, fingerprint=f"{each.fingerprint}:{number}")
        for group in namesakes.values()
        for number, each in enumerate(sorted(group, key=_place), 1)
        if number > 1
    }
    return [numbered.get(id(each), each) for each in found]


def _place(finding: Finding) -> tuple[object, ...]:
    symbol, origin = finding.kernel.key.symbol, finding.origin
    first = (origin.input, origin.line or 0) if origin else ("", 0)
    return source_file(symbol), finding.kernel.source, finding.kernel.key.unit, len(symbol), symbol, *first


def worst_first(found: list[Finding]) -> list[Finding]:
    """Most severe, most spilled bytes, most registers first; then by names."""

    def damage(finding: Finding) -> tuple[object, ...]:
        usage, key = finding.kernel.usage, finding.kernel.key
        rank = -SEVERITIES.index(finding.severity)
        return (
            rank,
            -(usage.spill_bytes or 0),
            -(usage.registers or 0),
            key.symbol,
            key.arch or "",
            key.unit,
            finding.rule,
        )

    return sorted(found, key=damage)
