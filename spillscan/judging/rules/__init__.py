"""Rules, and their findings in a build or between two builds.

Each module of this folder declares its ``CHECKS``: rules with the functions that decide them. A function gives the
findings for one kernel or change, or the reason why it cannot decide; :class:`Terms` are the policy's settings for the
kernel. The severity follows the effect, unless the policy sets another. It never falls when a metric gets worse.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from spillscan.judging.compare.metrics import growth, record_of
from spillscan.model import (
    SEVERITIES,
    Build,
    Change,
    Finding,
    Hidden,
    Kernel,
    Launch,
    Level,
    Limit,
    Rule,
    Scope,
    Severity,
    at_least,
)
from spillscan.model.build import damage
from spillscan.model.metrics import find_metric
from spillscan.naming.symbol import canonical, digest, source_file
from spillscan.output.files import modules

# ---- declaration of a rule ------------------------------------------------------------------------------------------


class Terms(Struct, frozen=True, kw_only=True):
    """Settings of the policy for one kernel."""

    limits: Mapping[str, int | None] = field(default_factory=dict)
    """Limits by name; ``None``: no limit. A missing name has the default of its :class:`~spillscan.model.Limit`."""
    levels: Mapping[str, Level] = field(default_factory=dict)
    """Severities by rule id, if they are not the rule's own."""
    launch: Launch | None = None
    """Launch of the kernel; ``None`` if unknown."""
    launch_from: str = ""
    """Place where the launch is set: ``spillscan.yaml:4``, ``--launch``; empty if neither sets it."""
    devices: tuple[str, ...] = ()
    """Devices whose occupancy counts; empty: the kernel's own arch."""

    def limit(self, limit: Limit) -> int | None:
        """Value of ``limit`` for this kernel; ``None``: no limit."""
        return self.limits.get(limit.name, limit.default)

    def level(self, rule: Rule, own: Severity | None = None) -> Level:
        """Severity of the rule's findings for this kernel; ``own``: severity of a case with less effect."""
        return self.levels.get(rule.id, own or rule.severity)


class Undecided(Struct, frozen=True, kw_only=True):
    """A kernel for which a rule cannot decide."""

    rule: Rule
    """The rule."""
    severity: Severity
    """Severity that a finding would have."""
    kernel: Kernel
    """The kernel; for a change, its newer record."""
    reason: str
    """What is unknown, and what to do."""


class Violation(NamedTuple):
    """Text and severity of a finding, before it has a kernel and a fingerprint."""

    text: str
    """One line, with values."""
    severity: Severity | None = None
    """Severity by effect, if it is not the rule's own."""


Measure = Callable[[Kernel, Terms], Mapping[str, int] | None]
"""Function for the values by which findings of a rule get worse; greater is worse.

It returns ``None`` if the input does not report them.
"""


_Find = Callable[[Any, Terms], Iterable[Violation]]
_Unknown = Callable[[Any, Terms], str]


class Check(Struct, frozen=True, kw_only=True):
    """A rule and its functions.

    A rule without limits is always checked, any other only if one of its limits is set.
    """

    rule: Rule
    """The rule."""
    find: Callable[[Kernel, Terms], Iterable[Violation]] | None = None
    """Findings in a build; ``None``: the rule does not check builds."""
    unknown: Callable[[Kernel, Terms], str] | None = None
    """Why the rule cannot decide on a kernel; empty if it can."""
    find_change: Callable[[Change, Terms], Iterable[Violation]] | None = None
    """Findings between two builds; ``None``: the rule does not compare."""
    unknown_change: Callable[[Change, Terms], str] | None = None
    """Why the rule cannot decide on a change."""
    measure: Measure | None = None
    """Values by which findings get worse; without them, a baseline knows a finding as a whole, or not at all."""

    def functions(self, scope: Scope) -> tuple[_Find | None, _Unknown | None]:
        """Functions for the findings in a ``build`` or ``change``, and for why it is undecided."""
        return (self.find, self.unknown) if scope == "build" else (self.find_change, self.unknown_change)

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Inputs that the rule checks: builds, changes, or both."""
        names: tuple[Scope, ...] = ("build", "change")
        return tuple(name for name in names if self.functions(name)[0] is not None)

    def applies(self, terms: Terms, scope: Scope) -> bool:
        """Whether the rule applies to a ``build``, or to a ``change``, under these terms."""
        limits = [limit for limit in self.rule.limits if limit.scope == scope]
        return scope in self.scopes and (not limits or any(terms.limit(limit) is not None for limit in limits))


def threshold(
    rule: Rule,
    metric: Callable[[Kernel, Terms], int | None],
    *,
    key: str,
    message: Callable[[Kernel, Terms, int, int], str],
    unknown: Callable[[Kernel, Terms], str],
    linked: bool = True,
) -> Check:
    """Check of a value against the rule's limit.
    ``metric``: the value as far as known; ``message``: text from kernel, terms, value and limit; ``unknown``: why the
    value is unknown or not final; ``key``: its name in a baseline; ``linked``: whether it is final only after the link.
    """
    (limit,) = rule.limits

    def find(kernel: Kernel, terms: Terms) -> Iterator[Violation]:
        most, value = terms.limit(limit), metric(kernel, terms)
        if most is not None and value is not None and value > most:
            yield Violation(message(kernel, terms, value, most))

    def measure(kernel: Kernel, terms: Terms) -> dict[str, int] | None:
        value = metric(kernel, terms)
        if value is None or (linked and kernel.final is False) or unknown(kernel, terms):
            return None
        return {key: value}

    return Check(rule=rule, find=find, unknown=unknown, measure=measure)


def delta(label: str, before: int, after: int, unit: str) -> str:
    """``stack 0 → 64 B (+64)``."""
    return f"{label} {before:,} → {after:,}{' ' if unit else ''}{unit} ({after - before:+,})"


def changed(change: Change, names: Collection[str]) -> list[str]:
    """``stack 0 → 64 B (+64)`` for each of these metrics that changed."""
    chosen = ((find_metric(name), old, new) for name, old, new in change.metrics if name in names)
    return [delta(metric.label, old or 0, new or 0, metric.unit) for metric, old, new in chosen]


def grown(change: Change, names: Collection[str]) -> list[str]:
    """:func:`changed` of the metrics that grew."""
    return changed(change, [name for name in names if growth(change, name) > 0])


def unlinked(kernel: Kernel, what: str) -> str:
    """Why a value of a kernel (``what``: ``stack``) is not final before the link; empty if it is linked."""
    return f"relocatable code: {what} not final before the link" if kernel.final is False else ""


def because(kernel: Kernel, otherwise: str) -> str:
    """Why a value of ``kernel`` is unknown: the kernel's own reasons, else ``otherwise``."""
    return "; ".join(kernel.reasons) or otherwise


# ---- checking -----------------------------------------------------------------------------------------------------


class TermsSource(Protocol):
    """Source of the terms of kernels: a policy."""

    def terms_of(self, kernel: Kernel) -> Terms:
        """Terms for ``kernel``."""


class Outcome(Struct, frozen=True, kw_only=True):
    """Findings of the rules in a build, or between two."""

    findings: tuple[Finding, ...]
    """Most severe first."""
    undecided: tuple[Undecided, ...]
    """In the order of the checks."""
    terms: tuple[Terms, ...] = ()
    """Distinct terms of all kernels."""


_Answer = tuple[Rule, Severity, str, bool]
"""Answer of a check for kernels or changes with equal metrics: the severity in effect, and whether it is a finding."""


@cache
def checks() -> tuple[Check, ...]:
    """Checks of all modules of this folder, by module name."""
    rule_modules = (import_module(f"{__name__}.{name}") for name in modules(__path__))
    return tuple(each for module in rule_modules for each in module.CHECKS)


@cache
def all_rules() -> Mapping[str, Rule]:
    """All rules by id, in alphabetical order."""
    return {each.id: each for each in sorted((each.rule for each in checks()), key=lambda rule: rule.id)}


@cache
def _measures() -> Mapping[str, Measure]:
    """Measures by rule id."""
    return {each.rule.id: each.measure for each in checks() if each.measure is not None}


def check(build: Build, policy: TermsSource) -> Outcome:
    """Check each kernel of ``build`` against its terms."""
    findings, undecided, terms = _check_all(build.kernels, "build", policy)
    return Outcome(findings=tuple(_distinct(_worst_first(findings))), undecided=undecided, terms=terms)


def check_changes(changes: Sequence[Change], policy: TermsSource) -> Outcome:
    """Check each change against the terms of its kernel; findings of equal severity are in the order of ``changes``.

    Findings about removed kernels refer to the record of the older build.
    """
    findings, undecided, terms = _check_all(changes, "change", policy)
    findings.sort(key=lambda each: -SEVERITIES.index(each.severity))
    return Outcome(findings=tuple(_distinct(findings)), undecided=undecided, terms=terms)


def _check_all(
    subjects: Sequence[Kernel] | Sequence[Change], scope: Scope, policy: TermsSource
) -> tuple[list[Finding], tuple[Undecided, ...], tuple[Terms, ...]]:
    """Findings, undecided rules in the order of the checks, and distinct terms; equal subjects are checked once."""
    # Keeps the terms, and so their ids.
    by_terms: dict[int, tuple[Terms, list[Check], dict[object, list[_Answer]]]] = {}
    findings: list[Finding] = []
    undecided: list[Undecided] = []
    for subject in subjects:
        kernel = subject.kernel if isinstance(subject, Change) else subject
        terms = policy.terms_of(kernel)
        if id(terms) not in by_terms:
            by_terms[id(terms)] = terms, _applicable(terms, scope), {}
        _, wanted, known = by_terms[id(terms)]
        same = _same(subject) or id(subject)
        answers = known.get(same)
        if answers is None:
            answers = known[same] = [*_answers(subject, scope, terms, wanted)]
        for rule, severity, text, decided in answers:
            if decided:
                findings.append(finding(rule, text, kernel, severity))
            else:
                undecided.append(Undecided(rule=rule, severity=severity, kernel=kernel, reason=text))
    places = {each.rule.id: place for place, each in enumerate(checks())}
    undecided.sort(key=lambda each: places[each.rule.id])
    return findings, tuple(undecided), tuple(terms for terms, _, _ in by_terms.values())


def _applicable(terms: Terms, scope: Scope) -> list[Check]:
    return [each for each in checks() if each.applies(terms, scope)]


def _answers(subject: Kernel | Change, scope: Scope, terms: Terms, applicable: Iterable[Check]) -> Iterator[_Answer]:
    """Findings for one kernel or change, and unknowns of the checks without findings; none of rules that are off."""
    for each in applicable:
        find, unknown = each.functions(scope)
        texts = [*find(subject, terms)] if find else []
        decided = bool(texts)
        if not texts and unknown and (reason := unknown(subject, terms)):
            texts = [Violation(reason)]
        for text, severity in texts:
            level = terms.level(each.rule, severity)
            if level != "off":
                yield each.rule, level, text, decided


def _same(subject: Kernel | Change) -> tuple[object, ...] | None:
    """Key that is equal for kernels or changes with equal metrics; ``None`` if more than a log's metrics is known."""
    if isinstance(subject, Kernel):
        return record_of(subject)
    if subject.before is None or subject.after is None or subject.state == "renamed" or subject.code is not None:
        return None
    sides = record_of(subject.before), record_of(subject.after)
    metrics = id(subject.metrics), id(subject.unknown), id(subject.effects)
    return None if None in sides else (*sides, subject.state, *metrics)


def measure(rule: str, kernel: Kernel, terms: Terms) -> Mapping[str, int] | None:
    """Values by which findings of ``rule`` get worse, by name; greater is worse.

    Empty for rules without a measure, whose recorded findings are known; ``None`` if the input does not report them.
    """
    get = _measures().get(rule)
    return {} if get is None else get(kernel, terms)


def needed(terms: Iterable[Terms], scope: Scope, fail_on: str) -> frozenset[Hidden]:
    """Data that a gate needs under these terms: the needs of all rules whose findings can reach ``fail_on``."""
    needs: set[Hidden] = set()
    for each in terms:
        levels = ((rule_check.rule, each.level(rule_check.rule)) for rule_check in _applicable(each, scope))
        needs.update(*(rule.needs for rule, level in levels if level != "off" and at_least(level, fail_on)))
    return frozenset(needs)


def recorded_as(rule: str) -> str:
    """Rule under which a baseline records findings of ``rule``."""
    known = all_rules().get(rule)
    return known.recorded_as or rule if known else rule


# ---- findings -----------------------------------------------------------------------------------------------------


def finding(rule: Rule, message: str, kernel: Kernel, severity: Severity | None = None) -> Finding:
    """Finding at the kernel's own place.
    The fingerprint hashes the rule and the kernel's identity in a baseline: no line number, checkout or object changes
    it.
    """
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


def _distinct(findings: list[Finding]) -> list[Finding]:
    """``findings`` with unique fingerprints, in the same order.
    Findings that share a fingerprint (same-named kernels: hidden kernels of two files, lambdas of one function, a
    template in two objects) are numbered from the second on, because services keep one of several equal ones. The
    numbers follow files, objects, then names, not damage or hashes of paths.
    """
    alike: dict[str, list[Finding]] = {}
    for each in findings:
        alike.setdefault(each.fingerprint, []).append(each)
    numbered = {
        id(each): replace(each, fingerprint=f"{each.fingerprint}:{number}")
        for group in alike.values()
        if len(group) > 1
        for number, each in enumerate(sorted(group, key=_place)[1:], 2)
    }
    return [numbered.get(id(each), each) for each in findings]


def _place(finding: Finding) -> tuple[object, ...]:
    symbol, origin = finding.kernel.key.symbol, finding.origin
    first = (origin.input, origin.line or 0) if origin else ("", 0)
    return source_file(symbol), finding.kernel.source, finding.kernel.key.unit, len(symbol), symbol, *first


def _worst_first(findings: list[Finding]) -> list[Finding]:
    """Findings by severity, then as kernels in all tables: by spills and registers, worst first; then by rule."""
    return sorted(findings, key=lambda each: (-SEVERITIES.index(each.severity), *damage(each.kernel), each.rule))
