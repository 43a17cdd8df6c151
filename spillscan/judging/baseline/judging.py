"""State of each finding: new, worse, known or better; and of each entry without a finding."""

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
    """Result of comparing the ``findings`` that ``policy`` makes of ``build`` with ``baseline``.

    ``whole``: the build before kernels were selected from it, so that unselected kernels are not missing. ``own``: the
    change's own baseline if ``baseline`` is an older one; kernels that it no longer has were removed on purpose.
    ``of_changes``: ``findings`` are only about changes, so that recorded findings not among them are not fixed.
    ``renamed``: recorded kernels that have another name now; if the user stated it, their recorded findings count.
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
    """Findings of one rule on one kernel with their state, by the ``id`` of the original."""
    if recorded is None:
        return {id(finding): replace(finding, baseline_state="new") for finding in findings}
    rule = recorded_as(findings[0].rule)
    if rule not in measures():  # without a measure, a recorded finding is known
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
    """``finding``; if it is new, with the values recorded under the kernel's former name."""
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
    """(fixed, unreported): recorded findings that present kernels no longer have, or that cannot be checked."""
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
    """Lowest severity of ``rule`` for these kernels; ``error`` if this release does not know the rule."""
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
    """Recorded kernels missing from an arch that has fewer kernels than recorded.
    Renamed or replaced kernels leave the number unchanged; an incomplete build has fewer. Copies of a kernel count if
    they were recorded one by one.
    """
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
    """(kernels that may only be ``missing``, kernels that are gone: their units were compiled without them)."""
    if not missing:  # the usual case: skip the units
        return [], []
    compiled = build.compiled()
    parted: tuple[list[Accepted], list[Accepted]] = [], []
    for each in missing:
        parted[compiled(baseline.entries[each.identity].unit, each.identity.arch)].append(each)
    return parted


def _copies(entry: KnownKernel) -> int:
    """Minimum number of copies that a kernel had."""
    return max(1, len(entry.figures), *map(len, entry.recorded.values()))


def _in_order(baseline: Baseline) -> list[tuple[Identity, KnownKernel]]:
    return sorted(baseline.entries.items(), key=lambda item: key_of(item[0]))


def _said(recorded: Copies) -> str:
    return " or ".join(", ".join(f"{name} {value:,}" for name, value in figures) for figures in recorded[:3])


# ---- copies ---------------------------------------------------------------------------------------------------------


def as_copies(figures: Sequence[Figures]) -> Copies:
    """``figures`` (at least one) as recorded: greatest first, a single one if all are equal."""
    ordered = tuple(sorted(figures, reverse=True))
    return ordered[:1] if len(set(ordered)) == 1 else ordered


def compare(now: Sequence[Figures], recorded: Copies) -> list[Figures | None]:
    """Recorded figures that each of ``now`` is matched to; ``None`` if it is worse than recorded.
    Every copy needs recorded figures of its own that none of its figures exceeds: an improved copy excuses no other,
    and a fall in one figure no rise in another. Copies beyond the recorded number are compared with the least of each
    figure. For rules of one or two figures, all copies are matched if that is possible; with more figures, a worse copy
    still never passes.
    """
    spare = Counter([*recorded, *[_least(recorded)] * (len(now) - len(recorded))])
    found: list[Figures | None] = [None] * len(now)
    # Equal figures first: any copy that could use the entry could use the equal copy's alternative, so none loses.
    for index, figures in enumerate(now):
        if spare[figures]:
            spare[figures] -= 1
            found[index] = figures
    # By the first figure downwards, each takes the entry that leaves most to those that follow.
    for index in sorted((i for i, limit in enumerate(found) if limit is None), key=lambda i: now[i], reverse=True):
        fitting = [limit for limit, count in spare.items() if count and _within(now[index], limit)]
        if fitting:
            place = min(fitting, key=lambda limit: limit[::-1])
            spare[place] -= 1
            found[index] = place
    return found


def _within(figures: Figures, limit: Figures) -> bool:
    """Whether no figure exceeds its limit; a figure without a limit must be 0."""
    limits = dict(limit)
    return all(value <= limits.get(name, 0) for name, value in figures)


def _least(recorded: Copies) -> Figures:
    return tuple((name, min(dict(copy).get(name, 0) for copy in recorded)) for name, _ in recorded[0])
