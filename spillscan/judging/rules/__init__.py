"""Rules, and their findings in a build or between two builds.

Each module of this folder declares its ``CHECKS``: rules with the functions that decide them. A function gives the
findings for one kernel or change, or the reason why it cannot decide; :class:`Terms` are the policy's settings for the
kernel. The severity follows the effect, unless the policy sets another. It never falls when a metric gets worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import NamedTuple, Protocol

from msgspec import Struct

from spillscan.judging.rules._declared import Check, Measure, Said, Terms, Undecided
from spillscan.judging.rules._findings import distinct, finding, worst_first
from spillscan.model import SEVERITIES, Build, Change, Finding, Hidden, Judged, Kernel, Rule, Severity, at_least
from spillscan.output import folders

__all__ = [
    "Check",
    "Judgement",
    "Said",
    "Terms",
    "Undecided",
    "all_rules",
    "check",
    "checks",
    "finding",
    "judged",
    "measure",
    "measures",
    "recorded_as",
    "regressions",
    "undecided_changes",
]


class Demands(Protocol):
    """Source of the terms of kernels: a policy."""

    def terms_of(self, kernel: Kernel) -> Terms:
        """Terms for ``kernel``."""


class Judgement(Struct, frozen=True, kw_only=True):
    """Findings of the rules in a build."""

    findings: tuple[Finding, ...]
    """Most severe first."""
    undecided: tuple[Undecided, ...]
    """In the order of the checks."""
    terms: tuple[Terms, ...] = ()
    """Distinct terms of all kernels."""


class _Answer(NamedTuple):
    """Answer of a check for kernels with equal metrics, at the severity in effect."""

    place: int
    """Index of the check, which orders undecided answers."""
    rule: Rule
    severity: Severity
    text: str
    decided: bool
    """Whether it is a finding."""


@cache
def checks() -> tuple[Check, ...]:
    """Checks of all modules of this folder, by module name."""
    modules = (import_module(f"{__name__}.{name}") for name in folders.modules(__path__))
    return tuple(each for module in modules for each in module.CHECKS)


@cache
def all_rules() -> Mapping[str, Rule]:
    """All rules by id, in alphabetical order."""
    return {each.id: each for each in sorted((each.rule for each in checks()), key=lambda rule: rule.id)}


@cache
def measures() -> Mapping[str, Measure]:
    """Measures by rule id: the values by which findings get worse."""
    return {each.rule.id: each.measure for each in checks() if each.measure is not None}


def check(build: Build, policy: Demands) -> Judgement:
    """Check each kernel of ``build`` against its terms; kernels with equal metrics are checked once."""
    asked: dict[int, tuple[Terms, list[tuple[int, Check]]]] = {}
    known: dict[object, list[_Answer]] = {}
    found: list[Finding] = []
    undecided: list[tuple[int, Undecided]] = []
    for kernel in build.kernels:
        terms = policy.terms_of(kernel)
        if id(terms) not in asked:
            asked[id(terms)] = terms, _asked(terms, "build")
        same = _figures(kernel, terms)
        answers = known.get(same) if same is not None else None
        if answers is None:
            answers = [*_of_kernel(kernel, *asked[id(terms)])]
            if same is not None:
                known[same] = answers
        for each in answers:
            if each.decided:
                found.append(finding(each.rule, each.text, kernel, each.severity))
            else:
                undecided.append((each.place, _undecided(each, kernel)))
    return Judgement(
        findings=tuple(distinct(worst_first(found))),
        undecided=tuple(each for _, each in sorted(undecided, key=lambda each: each[0])),
        terms=tuple(terms for terms, _ in asked.values()),
    )


def _asked(terms: Terms, by: Judged) -> list[tuple[int, Check]]:
    return [(place, each) for place, each in enumerate(checks()) if each.is_asked(terms, by)]


def _of_kernel(kernel: Kernel, terms: Terms, asked: Iterable[tuple[int, Check]]) -> Iterator[_Answer]:
    """Findings for one kernel, and unknowns of the checks without findings."""
    for place, each in asked:
        found = [*each.find(kernel, terms)] if each.find else []
        if found:
            yield from _in_force(found, each.rule, terms, place)
        elif each.unknown and (reason := each.unknown(kernel, terms)):
            yield from _in_force([Said(reason)], each.rule, terms, place, decided=False)


def regressions(changes: Sequence[Change], policy: Demands) -> list[Finding]:
    """Findings between two builds, most severe first, then in the order of ``changes``.

    Findings about removed kernels refer to the record of the older build.
    """

    def said(change: Change, terms: Terms) -> Iterator[_Answer]:
        for place, each in _asked(terms, "change"):
            if each.find_change is not None:
                yield from _in_force(each.find_change(change, terms), each.rule, terms, place)

    found = [
        finding(each.rule, each.text, change.kernel, each.severity)
        for change, answers in _of_changes(changes, policy, said)
        for each in answers
    ]
    return distinct(sorted(found, key=lambda each: -SEVERITIES.index(each.severity)))


def undecided_changes(changes: Sequence[Change], policy: Demands) -> list[Undecided]:
    """Kernels that may have regressed, in the order of ``changes``."""

    def said(change: Change, terms: Terms) -> Iterator[_Answer]:
        for place, each in _asked(terms, "change"):
            if each.unknown_change is not None and (reason := each.unknown_change(change, terms)):
                yield from _in_force([Said(reason)], each.rule, terms, place, decided=False)

    return [
        _undecided(each, change.kernel) for change, answers in _of_changes(changes, policy, said) for each in answers
    ]


def _of_changes(
    changes: Iterable[Change], policy: Demands, said: Callable[[Change, Terms], Iterable[_Answer]]
) -> Iterator[tuple[Change, list[_Answer]]]:
    """Each change with its answers; equal changes are checked once."""
    known: dict[object, tuple[list[_Answer], Terms]] = {}
    for change in changes:
        terms = policy.terms_of(change.kernel)
        same = _sides(change, terms)
        answers = known[same][0] if same is not None and same in known else [*said(change, terms)]
        if same is not None:
            known[same] = answers, terms  # keeps the terms alive, so that no others get their id
        yield change, answers


def _in_force(said: Iterable[Said], rule: Rule, terms: Terms, place: int, *, decided: bool = True) -> Iterator[_Answer]:
    """Answers at the severity that the policy sets; none if it is off."""
    for each in said:
        level = terms.level(rule, each.severity)
        if level != "off":
            yield _Answer(place, rule, level, each.text, decided)


def _undecided(answer: _Answer, kernel: Kernel) -> Undecided:
    return Undecided(rule=answer.rule, severity=answer.severity, kernel=kernel, reason=answer.text)


def _figures(kernel: Kernel, terms: Terms) -> tuple[object, ...] | None:
    """Key that is equal for kernels with equal metrics and terms; ``None`` if more than a log's metrics is known."""
    if kernel.sass or kernel.reasons or kernel.advisories or kernel.launch_bounds or kernel.dynamic_shared is not None:
        return None
    known = kernel.key.arch, kernel.role, kernel.final, kernel.confidence, kernel.launch
    return id(kernel.usage), *known, id(terms)


def _sides(change: Change, terms: Terms) -> tuple[object, ...] | None:
    """Key that is equal for changes with equal sides and terms; ``None`` if more than metrics decides."""
    if change.before is None or change.after is None or change.state == "renamed" or change.code is not None:
        return None
    sides = [_figures(side, terms) for side in (change.before, change.after)]
    same = (*sides, change.state, id(change.metrics), id(change.unknown), id(change.effects))
    return None if None in sides else same


def measure(rule: str, kernel: Kernel, terms: Terms) -> tuple[tuple[str, int], ...] | None:
    """(name, value) of each figure by which findings of ``rule`` get worse, sorted by name; greater is worse.

    ``None`` if the input does not report them, and for rules without a measure.
    """
    get = measures().get(rule)
    figures = None if get is None else get(kernel, terms)
    return None if figures is None else tuple(sorted(figures.items()))


def judged(held: Iterable[Terms], by: Judged, fail_on: str) -> frozenset[Hidden]:
    """Data that a gate needs under these terms: the needs of all rules whose findings can reach ``fail_on``."""
    needs: set[Hidden] = set()
    for terms in held:
        for _, each in _asked(terms, by):
            level = terms.level(each.rule)
            if level != "off" and at_least(level, fail_on):
                needs.update(each.rule.needs)
    return frozenset(needs)


def recorded_as(rule: str) -> str:
    """Rule under which a baseline records findings of ``rule``."""
    known = all_rules().get(rule)
    return known.recorded_as or rule if known else rule
