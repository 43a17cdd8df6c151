"""Rules, and their findings in a build or between two builds.

Each module of this folder declares its ``CHECKS``: rules with the functions that decide them. A function gives the
findings for one kernel or change, or the reason why it cannot decide; :class:`Terms` are the policy's settings for the
kernel. The severity follows the effect, unless the policy sets another. It never falls when a metric gets worse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import NamedTuple, Protocol

from msgspec import Struct
from msgspec.structs import replace

from spillscan.judging.compare.metrics import record_of
from spillscan.judging.rules._declared import Check, Found, Measure, Terms, Undecided
from spillscan.model import SEVERITIES, Build, Change, Finding, Hidden, Judged, Kernel, Rule, Severity, at_least
from spillscan.model.build import damage
from spillscan.naming.symbol import canonical, digest, source_file
from spillscan.output.files import modules

__all__ = ["Check", "Found", "Terms", "Undecided", "finding"]


class Demands(Protocol):
    """Source of the terms of kernels: a policy."""

    def terms_of(self, kernel: Kernel) -> Terms:
        """Terms for ``kernel``."""


class Judgement(Struct, frozen=True, kw_only=True):
    """Findings of the rules in a build, or between two."""

    findings: tuple[Finding, ...]
    """Most severe first."""
    undecided: tuple[Undecided, ...]
    """In the order of the checks."""
    terms: tuple[Terms, ...] = ()
    """Distinct terms of all kernels."""


class _Answer(NamedTuple):
    """Answer of a check for kernels or changes with equal metrics, at the severity in effect."""

    rule: Rule
    severity: Severity
    text: str
    decided: bool
    """Whether it is a finding."""


@cache
def checks() -> tuple[Check, ...]:
    """Checks of all modules of this folder, by module name."""
    found = (import_module(f"{__name__}.{name}") for name in modules(__path__))
    return tuple(each for module in found for each in module.CHECKS)


@cache
def all_rules() -> Mapping[str, Rule]:
    """All rules by id, in alphabetical order."""
    return {each.id: each for each in sorted((each.rule for each in checks()), key=lambda rule: rule.id)}


@cache
def _measures() -> Mapping[str, Measure]:
    """Measures by rule id."""
    return {each.rule.id: each.measure for each in checks() if each.measure is not None}


def check(build: Build, policy: Demands) -> Judgement:
    """Check each kernel of ``build`` against its terms."""
    found, undecided, terms = _judged(build.kernels, "build", policy)
    return Judgement(findings=tuple(_distinct(_worst_first(found))), undecided=undecided, terms=terms)


def check_changes(changes: Sequence[Change], policy: Demands) -> Judgement:
    """Check each change against the terms of its kernel; findings of equal severity are in the order of ``changes``.

    Findings about removed kernels refer to the record of the older build.
    """
    found, undecided, terms = _judged(changes, "change", policy)
    found.sort(key=lambda each: -SEVERITIES.index(each.severity))
    return Judgement(findings=tuple(_distinct(found)), undecided=undecided, terms=terms)


def _judged(
    subjects: Sequence[Kernel] | Sequence[Change], by: Judged, policy: Demands
) -> tuple[list[Finding], tuple[Undecided, ...], tuple[Terms, ...]]:
    """Findings, undecided rules in the order of the checks, and distinct terms; equal subjects are checked once."""
    asked: dict[int, tuple[Terms, list[Check]]] = {}  # keeps the terms alive, so that no others get their id
    known: dict[object, list[_Answer]] = {}
    found: list[Finding] = []
    undecided: list[Undecided] = []
    for subject in subjects:
        kernel = subject.kernel if isinstance(subject, Change) else subject
        terms = policy.terms_of(kernel)
        if id(terms) not in asked:
            asked[id(terms)] = terms, _asked(terms, by)
        same = _same(subject, terms) or id(subject)
        if same not in known:
            known[same] = [*_answers(subject, by, *asked[id(terms)])]
        for rule, severity, text, decided in known[same]:
            if decided:
                found.append(finding(rule, text, kernel, severity))
            else:
                undecided.append(Undecided(rule=rule, severity=severity, kernel=kernel, reason=text))
    places = {each.rule.id: place for place, each in enumerate(checks())}
    undecided.sort(key=lambda each: places[each.rule.id])
    return found, tuple(undecided), tuple(terms for terms, _ in asked.values())


def _asked(terms: Terms, by: Judged) -> list[Check]:
    return [each for each in checks() if each.is_asked(terms, by)]


def _answers(subject: Kernel | Change, by: Judged, terms: Terms, asked: Iterable[Check]) -> Iterator[_Answer]:
    """Findings for one kernel or change, and unknowns of the checks without findings; none of rules that are off."""
    for each in asked:
        find, unknown = each.functions(by)
        texts = [*find(subject, terms)] if find else []
        decided = bool(texts)
        if not texts and unknown and (reason := unknown(subject, terms)):
            texts = [Found(reason)]
        for text, severity in texts:
            level = terms.level(each.rule, severity)
            if level != "off":
                yield _Answer(each.rule, level, text, decided)


def _same(subject: Kernel | Change, terms: Terms) -> tuple[object, ...] | None:
    """Key that is equal for kernels or changes with equal metrics and terms; ``None`` if more than a log's metrics
    is known."""
    if isinstance(subject, Change):
        if subject.before is None or subject.after is None or subject.state == "renamed" or subject.code is not None:
            return None
        sides = [_same(side, terms) for side in (subject.before, subject.after)]
        metrics = id(subject.metrics), id(subject.unknown), id(subject.effects)
        return None if None in sides else (*sides, subject.state, *metrics)
    record = record_of(subject)
    more = subject.reasons or subject.advisories or subject.launch_bounds or subject.dynamic_shared is not None
    return None if record is None or more else (*record, id(terms))


def measure(rule: str, kernel: Kernel, terms: Terms) -> Mapping[str, int] | None:
    """Values by which findings of ``rule`` get worse, by name; greater is worse.

    Empty for rules without a measure, whose recorded findings are known; ``None`` if the input does not report them.
    """
    get = _measures().get(rule)
    return {} if get is None else get(kernel, terms)


def judged(terms: Iterable[Terms], by: Judged, fail_on: str) -> frozenset[Hidden]:
    """Data that a gate needs under these terms: the needs of all rules whose findings can reach ``fail_on``."""
    needs: set[Hidden] = set()
    for each in terms:
        levels = ((asked.rule, each.level(asked.rule)) for asked in _asked(each, by))
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


def _distinct(found: list[Finding]) -> list[Finding]:
    """``found`` with unique fingerprints, in the same order.
    Findings that share a fingerprint (same-named kernels: hidden kernels of two files, lambdas of one function, a
    template in two objects) are numbered from the second on, because services keep one of several equal ones. The
    numbers follow files, objects, then names, not damage or hashes of paths.
    """
    alike: dict[str, list[Finding]] = {}
    for each in found:
        alike.setdefault(each.fingerprint, []).append(each)
    if len(alike) == len(found):
        return found
    numbered = {
        id(each): replace(each, fingerprint=f"{each.fingerprint}:{number}")
        for group in alike.values()
        for number, each in enumerate(sorted(group, key=_place), 1)
        if number > 1
    }
    return [numbered.get(id(each), each) for each in found]


def _place(finding: Finding) -> tuple[object, ...]:
    symbol, origin = finding.kernel.key.symbol, finding.origin
    first = (origin.input, origin.line or 0) if origin else ("", 0)
    return source_file(symbol), finding.kernel.source, finding.kernel.key.unit, len(symbol), symbol, *first


def _worst_first(found: list[Finding]) -> list[Finding]:
    """Findings by severity, then as kernels in all tables: by spills and registers, worst first; then by rule."""
    return sorted(found, key=lambda each: (-SEVERITIES.index(each.severity), *damage(each.kernel), each.rule))
