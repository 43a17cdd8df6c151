"""Gives every finding its state: new, worse, known or better; and every entry that has no finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from spillscan.judging.baseline.model import (
    Accepted,
    Baseline,
    BaselineResult,
    Copies,
    Figures,
    Groups,
    Identity,
    KnownKernel,
    by_identity,
    by_rule,
    identity_of,
    key_of,
    measured,
)
from spillscan.judging.policy import Policy
from spillscan.judging.rules import all_rules, measure, measures, recorded_as
from spillscan.model import Build, Change, Finding, Kernel, Level
from spillscan.output.nouns import count


def apply(
    findings: Iterable[Finding],
    build: Build,
    baseline: Baseline,
    policy: Policy,
    *,
    whole: Build | None = None,
    own: Baseline | None = None,
    of_changes: bool = False,
    renamed: Sequence[Change] = (),
) -> BaselineResult:
    """The result on the ``findings`` that ``policy`` makes of ``build``.

    ``whole`` is the build before kernels were selected from it: that a kernel was not asked for does not make it
    missing. ``own`` is the change's own baseline where ``baseline`` is an older one: kernels that it no longer knows
    are gone on purpose. ``of_changes`` says that ``findings`` are
    only what changed: a recorded finding that is not among them is not fixed by that. ``renamed`` says which recorded
    kernels go on under another name: if the user states so, their recorded findings count.
    """
    groups = by_identity(build.kernels)
    selected = whole is not None and len(whole.kernels) > len(build.kernels)
    present = by_identity(whole.kernels) if whole is not None and selected else groups
    judged = [*findings]
    open_findings = [finding for finding in judged if finding.baseline_state is None]
    states: dict[int, Finding] = {}
    former = {id(change.after): change for change in renamed}
    stated = {
        identity_of(change.after): identity_of(change.before)
        for change in renamed
        if change.evidence.kind == "stated" and change.before is not None and change.after is not None
    }
    for (identity, rule), ours in by_rule(open_findings).items():
        entry = baseline.entries.get(identity) or baseline.entries.get(stated.get(identity, identity))
        recorded = entry.recorded.get(recorded_as(rule)) if entry else None
        states |= _states(ours, groups.get(identity, []), recorded, policy)
    judged = [_with_former(states.get(id(finding), finding), former, baseline) for finding in judged]
    fixed, unreported = ([], []) if of_changes else _absent(by_rule(judged).keys(), groups, baseline, policy)
    mine = own or baseline
    fewer, removed = _without_removed(_fewer(present, baseline, mine), baseline, whole or build)
    return BaselineResult(
        findings=tuple(sorted(judged, key=lambda finding: finding.excused)),
        fixed=tuple(fixed),
        unreported=tuple(unreported),
        stale=tuple(_stale(present, baseline)),
        renamed=tuple(renamed),
        fewer=tuple(fewer),
        removed=tuple(removed),
    )


def _states(
    findings: list[Finding], copies: Sequence[Kernel], recorded: Copies | None, policy: Policy
) -> dict[int, Finding]:
    """By id of each of ``findings`` (one rule on one kernel): the finding with its state."""
    if recorded is None:
        return {id(finding): replace(finding, baseline_state="new") for finding in findings}
    rule = recorded_as(findings[0].rule)
    if rule not in measures():  # known as it is, or not at all
        return {id(finding): replace(finding, baseline_state="known") for finding in findings}
    kernels = {id(kernel): kernel for kernel in (*copies, *(finding.kernel for finding in findings))}
    known = {}
    for each, kernel in kernels.items():
        figures = measure(rule, kernel, policy.terms_of(kernel))
        if figures is not None:
            known[each] = figures
    limits = compare([*known.values()], recorded)
    verdicts = {each: (known[each], limit) for each, limit in zip(known, limits, strict=True)}
    marked = {}
    for finding in findings:
        present, limit = verdicts.get(id(finding.kernel), (None, None))
        if limit is None:
            why = "recorded" if present is not None else "cannot be compared; recorded"
            message = f"{finding.message}; {why}: {_said(recorded)}"
            marked[id(finding)] = replace(finding, baseline_state="worse", message=message)
        else:
            marked[id(finding)] = replace(finding, baseline_state="known" if present == limit else "better")
    return marked


def _with_former(finding: Finding, former: Mapping[int, Change], baseline: Baseline) -> Finding:
    """``finding``, if it is new, with what was recorded under the kernel's former name."""
    change = former.get(id(finding.kernel)) if finding.baseline_state == "new" else None
    entry = baseline.entries.get(identity_of(change.before)) if change is not None and change.before else None
    if change is None or entry is None:
        return finding
    recorded = entry.recorded.get(recorded_as(finding.rule))
    said = f"{finding.message}; renamed from {entry.name}, recorded: {_said(recorded) if recorded else 'none'}"
    return replace(finding, message=said)


def _absent(
    found: Iterable[tuple[Identity, str]], groups: Groups, baseline: Baseline, policy: Policy
) -> tuple[list[Accepted], list[Accepted]]:
    """(fixed, unreported) of what is recorded of kernels that are there, without a finding."""
    there = set(found)
    fixed: list[Accepted] = []
    unreported: list[Accepted] = []
    for identity, entry in _in_order(baseline):
        if identity not in groups:
            continue
        for rule in sorted(entry.recorded):
            if (identity, rule) not in there:
                level = _level(rule, groups[identity], policy)
                accepted = Accepted(identity=identity, name=entry.name, rule=rule, severity=level)
                known = rule not in measures() or measured(rule, groups[identity], policy)
                (fixed if known else unreported).append(accepted)
    return fixed, unreported


def _level(rule: str, kernels: Sequence[Kernel], policy: Policy) -> Level:
    """How severe findings of ``rule`` are for these kernels; of a rule that this release does not know, as can be."""
    known = all_rules().get(rule)
    return policy.terms_of(kernels[0]).level(known, known.least) if known else "error"


def _stale(present: Groups, baseline: Baseline) -> list[Accepted]:
    return [
        Accepted(identity=identity, name=entry.name, rule=rule)
        for identity, entry in _in_order(baseline)
        if identity not in present
        for rule in sorted(entry.recorded) or [""]
    ]


def _fewer(present: Groups, baseline: Baseline, own: Baseline) -> list[Accepted]:
    """Renamed or replaced kernels are as many as before; a build that was read in part has fewer. Copies of one kernel
    are counted where they were recorded one by one."""
    known = {
        each: min(_copies(entry), _copies(own.entries[each]))
        for each, entry in baseline.entries.items()
        if not each.function and each in own.entries
    }
    have, knows = Counter[str | None](), Counter[str | None]()
    for identity, kernels in present.items():
        have[identity.arch] += 0 if identity.function else min(len(kernels), known.get(identity, 1))
    for identity, copies in known.items():
        knows[identity.arch] += copies
    found = []
    for identity in sorted(known, key=key_of):
        lost = known[identity] - len(present.get(identity, ()))
        if lost > 0 and have[identity.arch] < knows[identity.arch]:
            some = f", {lost:,} of {count(known[identity], 'copy', 'copies')}" if lost < known[identity] else ""
            found.append(Accepted(identity=identity, name=baseline.entries[identity].name + some, rule=""))
    return found


def _without_removed(
    missing: list[Accepted], baseline: Baseline, build: Build
) -> tuple[list[Accepted], list[Accepted]]:
    """The kernels that may only be ``missing``, and those that are gone: their units were compiled without them."""
    if not missing:  # as in nearly every build: its units need not be gone through
        return [], []
    compiled = build.compiled()
    parted: tuple[list[Accepted], list[Accepted]] = [], []
    for each in missing:
        parted[compiled(baseline.entries[each.identity].unit, each.identity.arch)].append(each)
    return parted


def _copies(entry: KnownKernel) -> int:
    """How many copies of a kernel were there at least."""
    return max(1, len(entry.figures), *map(len, entry.recorded.values()))


def _in_order(baseline: Baseline) -> list[tuple[Identity, KnownKernel]]:
    return sorted(baseline.entries.items(), key=lambda item: key_of(item[0]))


def _said(recorded: Copies) -> str:
    return " or ".join(", ".join(f"{name} {value:,}" for name, value in figures) for figures in recorded[:3])


# ---- copies ---------------------------------------------------------------------------------------------------------


def as_copies(figures: Sequence[Figures]) -> Copies:
    """``figures`` (at least one) as they are recorded: greatest first, equal ones once."""
    ordered = tuple(sorted(figures, reverse=True))
    return ordered[:1] if len(set(ordered)) == 1 else ordered


def compare(now: Sequence[Figures], recorded: Copies) -> list[Figures | None]:
    """For each of ``now`` the recorded figures that it is held to; ``None`` where it is worse than it may be.

    Every copy needs recorded figures of its own that none of its figures exceeds: a copy that got better excuses no
    other, and a fall in one figure no rise in another. Copies beyond the recorded number are held to the least of each
    figure. Where places can be found for all, they are, for rules of one or two figures; with more figures a worse one
    is still never passed.
    """
    spare = Counter([*recorded, *[_least(recorded)] * (len(now) - len(recorded))])
    found: list[Figures | None] = [None] * len(now)
    # Equals first: whatever else could take the place can take the equal's instead, so that none loses by it.
    for index, figures in enumerate(now):
        if spare[figures]:
            spare[figures] -= 1
            found[index] = figures
    # By the first figure downwards, each takes the place that leaves most to those that follow.
    for index in sorted((i for i, limit in enumerate(found) if limit is None), key=lambda i: now[i], reverse=True):
        fitting = [limit for limit, count in spare.items() if count and _within(now[index], limit)]
        if fitting:
            place = min(fitting, key=lambda limit: limit[::-1])
            spare[place] -= 1
            found[index] = place
    return found


def _within(figures: Figures, limit: Figures) -> bool:
    """Whether no figure exceeds its limit; a figure without a limit does, unless it is 0."""
    limits = dict(limit)
    return all(value <= limits.get(name, 0) for name, value in figures)


def _least(recorded: Copies) -> Figures:
    return tuple((name, min(dict(copy).get(name, 0) for copy in recorded)) for name, _ in recorded[0])
