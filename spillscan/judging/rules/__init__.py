"""One module a family of rules, found by being there.

A module declares its ``FAMILIES``: rules with what they judge by. A rule of one threshold is a
:class:`~spillscan.judging.rules._declared.Threshold`, from which findings, undecided kernels and measures follow; the
others have functions for these. A function says of a kernel or a change only which of its rules finds what, or cannot
decide and why; ``Terms`` are what the policy demands of the kernel, and severities are put in force here. A rule that
has limits says nothing where none of them is set. What is asked of one rule is asked of that rule alone.

Severity follows effect: a less severe case is a rule of its own. It never falls where a figure gets worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import NamedTuple, Protocol, cast

from msgspec import Struct

from spillscan.judging.rules._declared import (
    Family,
    Measure,
    Said,
    Terms,
    Threshold,
    Undecided,
    distinct,
    finding,
    worst_first,
)
from spillscan.model import SEVERITIES, Build, Change, Finding, Hidden, Judged, Kernel, Limit, Rule, Severity, at_least
from spillscan.output import folders

__all__ = [
    "Family",
    "Judgement",
    "Terms",
    "Threshold",
    "Undecided",
    "all_limits",
    "all_rules",
    "check",
    "distinct",
    "families",
    "finding",
    "judged",
    "measure",
    "recorded_as",
    "regressions",
    "undecided_changes",
]


class Demands(Protocol):
    """Anything that knows what is demanded of kernels: a policy."""

    def terms_of(self, kernel: Kernel) -> Terms:
        """What holds for ``kernel``."""


class Plugin(Protocol):
    """A module of this folder."""

    FAMILIES: tuple[Family, ...]


class Judgement(Struct, frozen=True, kw_only=True):
    """What the rules make of a build."""

    findings: tuple[Finding, ...]
    """Most severe first."""
    undecided: tuple[Undecided, ...]
    """In the order of the families."""
    terms: tuple[Terms, ...] = ()
    """All that kernels were held against, each once."""


class Judge(NamedTuple):
    """What judges kernels of a build: a threshold, or the functions of a family."""

    rules: tuple[Rule, ...]
    """All that it may speak of."""
    findings: Callable[[Kernel, Terms], Iterable[Said]] | None
    """What is wrong with a kernel."""
    undecided: Callable[[Kernel, Terms], Said | None] | None
    """On what it cannot decide, and why."""


class Spoken(NamedTuple):
    """What a rule says, at the severity that is in force."""

    rule: Rule
    severity: Severity
    text: str
    place: int = 0
    """Which judge says it: the order of what is undecided."""


@cache
def families() -> tuple[Family, ...]:
    """All that the modules of this folder declare, by the names of these."""
    modules = (cast(Plugin, import_module(f"{__name__}.{name}")) for name in folders.modules(__path__))
    return tuple(family for module in modules for family in module.FAMILIES)


def judges() -> Iterator[Judge]:
    """What judges kernels of a build, in the order of the families."""
    for family in families():
        yield from (Judge((each.rule,), each.findings, each.undecided) for each in family.thresholds)
        yield Judge(family.rules, family.findings, family.undecided)


@cache
def all_rules() -> Mapping[str, Rule]:
    """Every rule that a module of this folder declares, by id in alphabetical order."""
    rules = [rule for family in families() for rule in (*(each.rule for each in family.thresholds), *family.rules)]
    return {rule.id: rule for rule in sorted(rules, key=lambda rule: rule.id)}


@cache
def all_limits() -> tuple[Limit, ...]:
    """Every limit that a rule obeys, in the order of lists."""
    return tuple(sorted({limit for rule in all_rules().values() for limit in rule.limits}, key=lambda each: each.order))


@cache
def measures() -> Mapping[str, Measure]:
    """By rule id: the figures by which its findings get worse."""
    declared = {each.rule.id: each.measure for family in families() for each in family.thresholds}
    return declared | {rule.id: get for family in families() for rule, get in family.measures.items()}


def check(build: Build, policy: Demands) -> Judgement:
    """Holds each kernel of ``build`` against what ``policy`` demands of it."""
    terms_of_each = [*map(policy.terms_of, build.kernels)]
    terms_by_id = dict(zip(map(id, terms_of_each), terms_of_each, strict=True))
    asked = {
        number: [
            (at, each) for at, each in enumerate(judges()) if any(_is_asked(r, terms, "build") for r in each.rules)
        ]
        for number, terms in terms_by_id.items()
    }
    timed = {number: _is_timed(terms) for number, terms in terms_by_id.items()}
    # What rules say of one kernel, they say of those of the same figures: names and places decide nothing.
    known: dict[object, tuple[list[Spoken], list[Spoken]]] = {}
    found: list[Finding] = []
    undecided: list[tuple[int, Undecided]] = []
    for kernel, terms in zip(build.kernels, terms_of_each, strict=True):
        same = _figures(kernel, terms, timed=timed[id(terms)])
        said = known.get(same)
        if said is None:
            said = _spoken(asked[id(terms)], kernel, terms)
            if same is not None:
                known[same] = said
        if said is not _NOTHING:
            found += [finding(each.rule, each.text, kernel, each.severity) for each in said[0]]
            undecided += [(each.place, _undecided(each, kernel)) for each in said[1]]
    return Judgement(
        findings=tuple(distinct(worst_first(found))),
        undecided=tuple(each for _, each in sorted(undecided, key=lambda each: each[0])),
        terms=tuple(terms_by_id.values()),
    )


def _spoken(asked: Iterable[tuple[int, Judge]], kernel: Kernel, terms: Terms) -> tuple[list[Spoken], list[Spoken]]:
    """(findings, what is undecided) of one kernel; a rule that finds something has decided."""
    findings: list[Spoken] = []
    open_ends: list[Spoken] = []
    for place, judge in asked:
        mine = list(judge.findings(kernel, terms)) if judge.findings else []
        findings += _in_force(mine, terms, place)
        open_end = judge.undecided(kernel, terms) if judge.undecided else None
        if open_end is not None and all(each[0] != open_end[0] for each in mine):
            open_ends += _in_force((open_end,), terms, place)
    return (findings, open_ends) if findings or open_ends else _NOTHING


_NOTHING: tuple[list[Spoken], list[Spoken]] = ([], [])
"""What rules say of most kernels."""


def regressions(changes: Sequence[Change], policy: Demands) -> list[Finding]:
    """What got worse by more than ``policy`` tolerates, most severe first, then in the order of ``changes``."""
    judges = [family.regressions for family in families() if family.regressions]

    def said(change: Change, terms: Terms) -> Iterator[Said]:
        for judge in judges:
            yield from judge(change, terms)

    found = [
        finding(each.rule, each.text, change.kernel, each.severity)
        for change, spoken in _of_changes(changes, policy, said)
        for each in spoken
    ]
    return distinct(sorted(found, key=lambda each: -SEVERITIES.index(each.severity)))


def undecided_changes(changes: Sequence[Change], policy: Demands) -> list[Undecided]:
    """Kernels of which it is not known whether they got worse, in the order of ``changes``."""
    judges = [family.undecided_change for family in families() if family.undecided_change]

    def said(change: Change, terms: Terms) -> Iterator[Said]:
        yield from filter(None, (judge(change, terms) for judge in judges))

    return [_undecided(each, change.kernel) for change, spoken in _of_changes(changes, policy, said) for each in spoken]


def _of_changes(
    changes: Iterable[Change], policy: Demands, said: Callable[[Change, Terms], Iterable[Said]]
) -> Iterator[tuple[Change, list[Spoken]]]:
    """Each change with what is ``said`` of it; of equal ones it is asked once."""
    known: dict[object, tuple[list[Spoken], Terms]] = {}
    last, timed = None, False
    for change in changes:
        terms = policy.terms_of(change.kernel)
        if terms is not last:
            last, timed = terms, _is_timed(terms)
        same = _sides(change, terms, timed=timed)
        spoken = known[same][0] if same in known and same is not None else list(_in_force(said(change, terms), terms))
        if same is not None:
            known[same] = spoken, terms  # kept, so that no other takes their place
        yield change, spoken


def _in_force(said: Iterable[Said], terms: Terms, place: int = 0) -> Iterator[Spoken]:
    """What is said at the severities that hold for the kernel, without what is off."""
    for rule, text, *own in said:
        level = terms.level(rule, *own)
        if level != "off":
            yield Spoken(rule, level, text, place)


def _undecided(spoken: Spoken, kernel: Kernel) -> Undecided:
    return Undecided(rule=spoken.rule, severity=spoken.severity, kernel=kernel, reason=spoken.text)


def _figures(kernel: Kernel, terms: Terms, *, timed: bool) -> tuple[object, ...] | None:
    """Equal for kernels of equal figures and terms, compile times included where they are ``timed``; ``None`` for those
    of which more is known than a log says."""
    if kernel.sass or kernel.reasons or kernel.advisories or kernel.launch_bounds or kernel.dynamic_shared is not None:
        return None
    time = kernel.compile_ms if timed else None
    return (
        id(kernel.usage),
        kernel.key.arch,
        kernel.role,
        kernel.final,
        kernel.confidence,
        kernel.launch,
        time,
        id(terms),
    )


def _sides(change: Change, terms: Terms, *, timed: bool) -> tuple[object, ...] | None:
    """Equal for changes of which all rules say the same under these terms; ``None`` where more than figures decides."""
    if change.before is None or change.after is None or change.state == "renamed":
        return None
    sides = [_figures(side, terms, timed=timed) for side in (change.before, change.after)]
    same = (*sides, change.state, id(change.metrics), id(change.unknown), id(change.effects))
    return None if None in sides else same


def _is_timed(terms: Terms) -> bool:
    """Whether compile times have a limit."""
    limits = (limit for rule in all_rules().values() if "time" in rule.needs for limit in rule.limits)
    return any(terms.limit(limit) is not None for limit in limits)


def measure(rule: str, kernel: Kernel, terms: Terms) -> tuple[tuple[str, int], ...] | None:
    """(name, value) of each figure by which findings of ``rule`` get worse, by name; greater is worse.

    ``None`` where the input does not give them, and for rules without figures: such a finding cannot be compared with
    an older one, so that no baseline excuses it.
    """
    get = measures().get(rule)
    figures = None if get is None else get(kernel, terms)
    return None if figures is None else tuple(sorted(figures.items()))


def judged(held: Iterable[Terms], by: Judged, fail_on: str) -> frozenset[Hidden]:
    """What a gate must know of kernels under these terms: the needs of every rule whose findings are at least
    ``fail_on``."""
    needs: set[Hidden] = set()
    for terms in held:
        for rule in all_rules().values():
            level = terms.level(rule)
            if _is_asked(rule, terms, by) and level != "off" and at_least(level, fail_on):
                needs.update(rule.needs)
    return frozenset(needs)


def _is_asked(rule: Rule, terms: Terms, by: Judged) -> bool:
    """Whether the rule may say anything of a build, or of a change: where it has limits, one must be set."""
    limits = [limit for limit in rule.limits if limit.judges == by]
    return by in rule.judges and (
        not limits or any(terms.demanded(limit) if limit.words else terms.limit(limit) is not None for limit in limits)
    )


def recorded_as(rule: str) -> str:
    """The rule under which a baseline records what ``rule`` finds."""
    known = all_rules().get(rule)
    return known.recorded_as or rule if known else rule
