"""One module a family of rules, found by being there.

A module declares its ``RULES``: id, severity and documentation of each; a finding can only be made of one of them. It
has ``findings(kernel, terms)``: what is wrong with one kernel, and ``undecided(kernel, terms)``: the rule that cannot
decide, and why, where the input leaves open what it must know. A module that judges changes has ``regressions(change,
terms)``: what got worse, and ``undecided_change(change, terms)``: like ``undecided``, where one of the builds leaves
open what it must know. ``terms`` is what the policy demands of the kernel; severities are put in force here. A module
whose findings in a build can get worse has ``measure(rule, kernel, terms)``: the figures by which they do. A rule that
has limits says nothing where none of them is set.

Severity follows effect: a less severe case is a rule of its own. It never falls where a figure gets worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field, structs
from msgspec.structs import replace

from spillscan.model import (
    SEVERITIES,
    Build,
    Change,
    Finding,
    Hidden,
    Judged,
    Kernel,
    Level,
    Limit,
    Rule,
    Severity,
    at_least,
)
from spillscan.naming.identity import canonical, digest, source_file
from spillscan.output import folders

if TYPE_CHECKING:
    from spillscan.model import Launch


class Terms(Struct, frozen=True, kw_only=True):
    """What is demanded of one kernel."""

    limits: Mapping[str, int | None] = field(default_factory=dict)
    """By name; ``None`` sets none. What stands here not is as its :class:`~spillscan.model.Limit` has it."""
    levels: Mapping[str, Level] = field(default_factory=dict)
    """Severity by rule id, where another than the rule's own holds."""
    launch: Launch | None = None
    """How it is launched; ``None`` where that is not known."""
    devices: tuple[str, ...] = ()
    """Devices whose occupancy counts; empty: the one that it was compiled for."""

    def limit(self, limit: Limit) -> int | None:
        """What ``limit`` is for this kernel; ``None``: there is none."""
        return self.limits.get(limit.name, limit.default)

    def level(self, rule: Rule) -> Level:
        """How severe the rule's findings are for this kernel."""
        return self.levels.get(rule.id, rule.severity)


class Demands(Protocol):
    """Anything that knows what is demanded of kernels: a policy."""

    def terms_of(self, kernel: Kernel) -> Terms:
        """What holds for ``kernel``."""


class Undecided(Struct, frozen=True, kw_only=True):
    """A kernel on which a rule cannot decide."""

    rule: Rule
    """The rule."""
    severity: Severity
    """How severe a finding of it would be."""
    kernel: Kernel
    """The kernel."""
    reason: str
    """What the input leaves open, and what to do."""


class Judgement(Struct, frozen=True, kw_only=True):
    """What the rules make of a build."""

    findings: tuple[Finding, ...]
    """Most severe first."""
    undecided: tuple[Undecided, ...]
    """In the order of the families."""
    terms: tuple[Terms, ...] = ()
    """All that kernels were held against, each once."""


@cache
def families() -> tuple[ModuleType, ...]:
    """Every module of this folder, by name."""
    return tuple(import_module(f"{__name__}.{name}") for name in folders.modules(__path__))


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule that a module of this folder declares, by id in alphabetical order."""
    return {rule.id: rule for rule in sorted((r for f in families() for r in f.RULES), key=lambda rule: rule.id)}


@cache
def all_limits() -> tuple[Limit, ...]:
    """Every limit that a rule obeys, in the order of lists."""
    return tuple(sorted({limit for rule in all_rules().values() for limit in rule.limits}, key=lambda each: each.order))


def check(build: Build, policy: Demands) -> Judgement:
    """Holds each kernel of ``build`` against what ``policy`` demands of it."""
    terms_of_each = [*map(policy.terms_of, build.kernels)]
    distinct = tuple(dict(zip(map(id, terms_of_each), terms_of_each, strict=True)).values())
    timed = "time" in judged(distinct, "build", "note")
    judges = {id(terms): _judges(terms) for terms in distinct}
    # What rules say of one kernel, they say of those of the same figures: names and places decide nothing.
    known: dict[tuple[object, ...], tuple[list[Finding], list[tuple[int, Undecided]]]] = {}
    found: list[Finding] = []
    undecided: list[tuple[int, Undecided]] = []
    for kernel, terms in zip(build.kernels, terms_of_each, strict=True):
        shared = _figures(kernel, terms, timed=timed)
        if shared and (same := known.get(shared)):
            if same is not _NOTHING:
                found += [_of(kernel, each.rule, each.severity, each.message) for each in same[0]]
                undecided += [(family, replace(each, kernel=kernel)) for family, each in same[1]]
            continue
        findings: list[Finding] = []
        open_ends: list[tuple[int, Undecided]] = []
        for family, findings_of, left_open in judges[id(terms)]:
            mine = list(findings_of(kernel, terms))
            if mine:
                findings += _in_force(mine, terms)
            open_end = left_open(kernel, terms) if left_open is not None else None
            if open_end is not None:
                rule, reason = open_end
                severity = terms.level(rule)
                if severity != "off" and all(each.rule != rule.id for each in mine):
                    open_ends.append((family, Undecided(rule=rule, severity=severity, kernel=kernel, reason=reason)))
        found += findings
        undecided += open_ends
        if shared:
            known[shared] = (findings, open_ends) if findings or open_ends else _NOTHING
    undecided.sort(key=lambda each: each[0])
    return Judgement(
        findings=tuple(_distinct(_sorted(found))), undecided=tuple(each for _, each in undecided), terms=distinct
    )


_NOTHING: tuple[list[Finding], list[tuple[int, Undecided]]] = ([], [])
"""What rules say of most kernels."""


def _judges(terms: Terms) -> list[tuple[int, Callable[..., Iterator[Finding]], Callable[..., Any] | None]]:
    """(number, ``findings``, ``undecided``) of each family of which a rule may say something of a build."""
    return [
        (number, family.findings, getattr(family, "undecided", None))
        for number, family in enumerate(families())
        if hasattr(family, "findings") and any(_is_asked(rule, terms, "build") for rule in family.RULES)
    ]


def _figures(kernel: Kernel, terms: Terms, *, timed: bool) -> tuple[object, ...]:
    """Equal for kernels of equal figures and terms; empty for those of which more is known than a log says, and where
    compile times decide, which are never equal."""
    if (
        timed
        or kernel.sass
        or kernel.reasons
        or kernel.advisories
        or kernel.launch_bounds
        or kernel.dynamic_shared is not None
    ):
        return ()
    return id(kernel.usage), kernel.key.arch, kernel.role, kernel.final, kernel.confidence, kernel.launch, id(terms)


def regressions(changes: Sequence[Change], policy: Demands) -> list[Finding]:
    """What got worse by more than ``policy`` tolerates, most severe first, then in the order of ``changes``."""
    found: list[Finding] = []
    judges = [family.regressions for family in families() if hasattr(family, "regressions")]
    known: dict[object, tuple[list[Finding], Terms]] = {}
    last, timed = None, False
    for change in changes:
        terms = policy.terms_of(change.kernel)
        if terms is not last:
            last, timed = terms, _is_timed(terms)
        alike = _alike(change, terms, timed=timed)
        if alike is not None and alike in known:
            same = known[alike][0]
            found += [_of(change.kernel, each.rule, each.severity, each.message) for each in same]
        else:
            same = [each for judge in judges for each in _in_force(judge(change, terms), terms)]
            found += same
            known[alike] = same, terms  # kept, so that no other takes their place
    return _distinct(sorted(found, key=lambda finding: -SEVERITIES.index(finding.severity)))


def undecided_changes(changes: Sequence[Change], policy: Demands) -> list[Undecided]:
    """Kernels of which it is not known whether they got worse, in the order of ``changes``."""
    found: list[Undecided] = []
    judges = [family.undecided_change for family in families() if hasattr(family, "undecided_change")]
    known: dict[object, tuple[list[Undecided], Terms]] = {}
    last, timed = None, False
    for change in changes:
        terms = policy.terms_of(change.kernel)
        if terms is not last:
            last, timed = terms, _is_timed(terms)
        alike = _alike(change, terms, timed=timed)
        if alike is not None and alike in known:
            found += [replace(each, kernel=change.kernel) for each in known[alike][0]]
            continue
        same: list[Undecided] = []
        for judge in judges:
            open_end = judge(change, terms)
            if open_end is not None:
                rule, reason = open_end
                severity = terms.level(rule)
                if severity != "off":
                    same.append(Undecided(rule=rule, severity=severity, kernel=change.kernel, reason=reason))
        found += same
        known[alike] = same, terms
    return found


def _alike(change: Change, terms: Terms, *, timed: bool) -> tuple[object, ...] | None:
    """Equal for changes of which all rules say the same under these terms; ``None`` where more than figures decides."""
    before, after = change.before, change.after
    if before is None or after is None or change.score < 1:
        return None
    sides = _figures(before, terms, timed=timed), _figures(after, terms, timed=timed)
    return (*sides, change.state, id(change.metrics), id(change.unknown), id(change.effects)) if all(sides) else None


def _is_timed(terms: Terms) -> bool:
    """Whether compile times have a limit."""
    limits = (limit for rule in all_rules().values() if "time" in rule.needs for limit in rule.limits)
    return any(terms.limit(limit) is not None for limit in limits)


def measure(rule: str, kernel: Kernel, terms: Terms) -> tuple[tuple[str, int], ...] | None:
    """(name, value) of each figure by which findings of ``rule`` get worse, by name; greater is worse.

    ``None`` where the input does not give them, and for rules without figures: such a finding cannot be compared with
    an older one, so that no baseline excuses it.
    """
    for family in families():
        figures = family.measure(rule, kernel, terms) if hasattr(family, "measure") else None
        if figures is not None:
            return tuple(sorted(figures.items()))
    return None


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
    return by in rule.judges and (not limits or any(terms.limit(limit) is not None for limit in limits))


def recorded_as(rule: str) -> str:
    """The rule under which a baseline records what ``rule`` finds."""
    known = all_rules().get(rule)
    return known.recorded_as or rule if known else rule


def finding(rule: Rule, message: str, kernel: Kernel) -> Finding:
    """A finding at the kernel's own place. Its fingerprint is of the rule and the identity that a baseline has for the
    kernel: no line number, checkout or object changes it."""
    return _of(kernel, rule.id, rule.severity, message)


def _of(kernel: Kernel, rule: str, severity: Severity, message: str) -> Finding:
    role = "function" if kernel.role == "function" else ""
    identity = "\0".join((rule, canonical(kernel.key.symbol), kernel.key.arch or "", role))
    return Finding(
        rule=rule,
        severity=severity,
        message=message,
        kernel=kernel,
        fingerprint=digest(identity, 16),
        origin=kernel.origins[0] if kernel.origins else None,
    )


def _in_force(found: Iterable[Finding], terms: Terms) -> Iterator[Finding]:
    """The findings at the severities that hold for their kernel, without those that are off."""
    for each in found:
        level = terms.levels.get(each.rule)
        if level is None:
            yield each
        elif level != "off":
            yield structs.replace(each, severity=level)


def _distinct(found: list[Finding]) -> list[Finding]:
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


def _sorted(found: list[Finding]) -> list[Finding]:
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
