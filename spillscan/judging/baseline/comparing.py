"""A build compared with a baseline: the state of each finding, and entries without a finding or a kernel."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs
from msgspec.structs import replace

from spillscan.judging.baseline import BaselineResult, State, Unmatched
from spillscan.judging.baseline.file import Baseline, Copy, Entry, Identity, identity_of
from spillscan.judging.compare.pairing import comparison
from spillscan.judging.policy.effective import Policy
from spillscan.judging.rules import Undecided, all_rules, check_changes, measure, measures, recorded_as
from spillscan.judging.rules.blocks import TRADED
from spillscan.judging.rules.spills import MAX_BYTES
from spillscan.model import Build, Change, Finding, Hidden, Kernel, KernelKey, Launch, Level, Usage, at_least
from spillscan.naming import alone
from spillscan.naming.symbol import canonical

RECORDED: frozenset[Hidden] = frozenset(("spills", "registers", "stack", "shared", "launch"))
"""Data that the recorded metrics provide to rules."""


class Match(Struct, frozen=True):
    """A kernel and its record."""

    change: Change
    """The recorded kernel, the kernel, and what changed."""
    entry: Entry
    """Record of the kernel."""
    copy: Copy
    """Record of this copy."""

    @property
    def kernel(self) -> Kernel:
        """The kernel in the build."""
        return self.change.kernel


class Matches:
    """A build whose kernels are paired with the recorded ones, and compared with them, as by ``diff``."""

    def __init__(self, baseline: Baseline, build: Build, policy: Policy) -> None:
        present = by_identity(build.kernels)
        records = [
            (_kernel(entry, copy, present.get(identity, ())), entry, copy)
            for identity, entry in baseline.entries.items()
            for copy in _filled(entry.copies, len(present.get(identity, ())))
        ]
        base = Build(kernels=tuple(kernel for kernel, _, _ in records))
        found = comparison(base, build, policy, policy.devices, all_pairs=True, stated=policy.renamed)
        self._records = {id(kernel): (entry, copy) for kernel, entry, copy in records}
        self.matches: dict[int, Match] = {}
        """Kernels that are recorded, by ``id``."""
        self.gone: list[Entry] = []
        """Recorded kernels without a counterpart."""
        self.new: list[Kernel] = []
        """Kernels that are not recorded."""
        for change in (*found.changes, *found.unsettled, *found.recoded, *found.equal):
            if change.before is None:
                self.new.append(change.kernel)
            elif change.after is None:
                self.gone.append(self._records[id(change.before)][0])
            else:
                self.matches[id(change.after)] = Match(change, *self._records[id(change.before)])


def by_identity(kernels: Iterable[Kernel]) -> dict[Identity, list[Kernel]]:
    """Kernels of a build by identity."""
    groups: dict[Identity, list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        groups[identity_of(kernel)].append(kernel)
    return groups


def _filled(copies: tuple[Copy, ...], number: int) -> Iterator[Copy]:
    """``copies``, filled up to ``number`` with the least of what all of them have."""
    yield from copies
    for _ in range(number - len(copies)):
        yield copies[0] if len(copies) == 1 else _least(copies)


def _least(copies: Sequence[Copy]) -> Copy:
    rules = set.intersection(*(set(copy.rules) for copy in copies))
    metrics = _lowest([copy.metrics for copy in copies])
    return Copy(**metrics, rules={rule: _lowest([copy.rules[rule] for copy in copies]) for rule in rules})


def _lowest(values: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {name: min(each[name] for each in values) for name in values[0] if all(name in each for each in values)}


def _kernel(entry: Entry, copy: Copy, present: Sequence[Kernel]) -> Kernel:
    """A record as a kernel; of the ``present`` ones, the full symbol, and whether functions are linked, are taken."""
    unlinked = entry.function and any(each.final is False for each in present)
    metrics: dict[str, Any] = copy.metrics
    return Kernel(
        key=KernelKey(symbol=canonical(present[0].key.symbol) if present else entry.symbol, arch=entry.arch),
        role="function" if entry.function else "entry",
        usage=Usage(**metrics),
        launch=Launch(**structs.asdict(entry.launch), source="baseline") if entry.launch else None,
        final=False if unlinked else None,
    )


def name_of(kernel: Kernel) -> str:
    """Short name of ``kernel``, the same in every checkout."""
    return alone(canonical(kernel.key.symbol))


# ---- states -------------------------------------------------------------------------------------------------------


def compare(
    findings: Sequence[Finding],
    build: Build,
    baseline: Baseline,
    policy: Policy,
    *,
    whole: Build | None = None,
    own: Baseline | None = None,
    undecided: Sequence[Undecided] = (),
    of_changes: bool = False,
) -> BaselineResult:
    """Result of comparing ``build``, and the ``findings`` of ``policy`` in it, with ``baseline``.

    ``whole``: the build before kernels were selected from it, so that unselected kernels are not missing. ``own``: the
    change's own baseline if ``baseline`` is an older one; kernels that it no longer has were removed on purpose, and
    those that it adds are recorded. ``undecided``: results that the rules left open. ``of_changes``: ``findings`` are
    about changes from another build, so that the build is not compared with the recorded metrics.
    """
    whole = whole or build
    held = Matches(baseline, whole, policy)
    judged = [_state(each, held.matches.get(id(each.kernel)), policy) for each in findings]
    if of_changes:
        return BaselineResult(findings=_excused_last(judged))
    chosen = {id(kernel) for kernel in build.kernels}
    matches = [match for match in held.matches.values() if id(match.kernel) in chosen]
    worse, unknown = _worse(matches, findings, undecided, policy)
    traded = {id(each.kernel) for each in worse if each.rule == TRADED.id}
    judged = [each for each in judged if not _is_traded(each, traded, policy)]
    unsure = {id(each.kernel) for each in undecided}
    added = [each for each in held.new if id(each) in chosen - unsure and each.role != "function"]
    return BaselineResult(
        findings=_excused_last((*judged, *policy.accepted(worse))),
        unmatched=(
            *_absent(baseline, matches, judged, policy),
            *_stale(baseline, held),
            *_missing(baseline, held, own or baseline, whole),
            *(
                Unmatched(state="unknown", identity=identity, name=name_of(kernel))
                for identity, (kernel, *_) in by_identity(added).items()
                if own is None or identity not in own.entries
            ),
        ),
        renamed=tuple(match.change for match in matches if match.change.state == "renamed"),
        undecided=unknown,
    )


def _excused_last(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda finding: finding.excused))


def _state(finding: Finding, match: Match | None, policy: Policy) -> Finding:
    """``finding`` with its state, and in its message with what is recorded if it is worse."""
    if finding.baseline_state is not None:
        return finding
    rule = recorded_as(finding.rule)
    recorded = match.copy.rules.get(rule) if match else None
    said = ", ".join(f"{name} {value:,}" for name, value in sorted(recorded.items())) if recorded else "none"
    if match is not None and match.change.state == "renamed" and match.change.evidence.kind != "stated":
        message = f"{finding.message}; renamed from {match.entry.name}, recorded: {said}"
        return replace(finding, baseline_state="new", message=message)
    if recorded is None:
        return replace(finding, baseline_state="new")
    if rule not in measures():  # without a measure, a recorded finding is known
        return replace(finding, baseline_state="known")
    now = measure(rule, finding.kernel, policy.terms_of(finding.kernel))
    if now is None or not within(dict(now), recorded):
        why = "recorded" if now is not None else "cannot be compared; recorded"
        return replace(finding, baseline_state="worse", message=f"{finding.message}; {why}: {said}")
    return replace(finding, baseline_state="known" if dict(now) == recorded else "better")


def within(values: Mapping[str, int], limits: Mapping[str, int]) -> bool:
    """Whether no value exceeds its limit; a value without a limit must be 0."""
    return all(value <= limits.get(name, 0) for name, value in values.items())


def _worse(
    matches: Sequence[Match], findings: Sequence[Finding], undecided: Sequence[Undecided], policy: Policy
) -> tuple[list[Finding], tuple[Undecided, ...]]:
    """(regressions since the recording, results left open), without those that the build's own rules report.

    Notes are omitted unless they fail the gate. An unrecorded metric leaves a result open only if the user limits it.
    """
    said = {(id(each.kernel), recorded_as(each.rule)) for each in findings}
    said |= {(id(each.kernel), recorded_as(each.rule.id)) for each in undecided}
    changes = [match.change for match in matches if match.change.state != "equal"]
    least_severe = "note" if policy.fail_on == "note" else "warning"
    judgement = check_changes(changes, policy)
    worse = [
        replace(finding, baseline_state="worse")
        for finding in judgement.findings
        if _is_recorded(finding.rule)
        and at_least(finding.severity, least_severe)
        and (id(finding.kernel), recorded_as(finding.rule)) not in said
    ]
    before = {id(change.after): change.before for change in changes}
    unknown = [
        each
        for each in judgement.undecided
        if _is_recorded(each.rule.id)
        and (id(each.kernel), each.rule.id) not in said
        and (_is_measured(each, before[id(each.kernel)], policy) or _is_limited(each, policy))
    ]
    return worse, tuple(unknown)


def _is_recorded(rule: str) -> bool:
    """Whether the recorded metrics contain all that ``rule`` needs."""
    needs = all_rules()[rule].needs
    return bool(needs) and RECORDED.issuperset(needs)


def _is_measured(undecided: Undecided, before: Kernel | None, policy: Policy) -> bool:
    rule, terms = recorded_as(undecided.rule.id), policy.terms_of(undecided.kernel)
    return before is not None and measure(rule, before, terms) is not None


def _is_limited(undecided: Undecided, policy: Policy) -> bool:
    """Whether the user sets a limit of the rule for the kernel."""
    settings = policy.said_of(undecided.kernel)
    return any(limit.name in settings for limit in undecided.rule.limits)


def _is_traded(finding: Finding, traded: set[int], policy: Policy) -> bool:
    """Whether the finding is one side of a trade-off, and no limit that the policy sets."""
    limited = MAX_BYTES.name in policy.said_of(finding.kernel)
    return finding.rule == "spill" and id(finding.kernel) in traded and not limited


def _absent(
    baseline: Baseline, matches: Sequence[Match], findings: Sequence[Finding], policy: Policy
) -> Iterator[Unmatched]:
    """Recorded findings that present kernels no longer have, or that cannot be checked."""
    found = {(id(each.kernel), recorded_as(each.rule)) for each in findings}
    present: dict[Identity, list[Kernel]] = defaultdict(list)
    for match in matches:
        if match.change.state != "renamed":
            present[match.entry.identity].append(match.kernel)
    for identity, entry in baseline.entries.items():
        kernels = present.get(identity, ())
        for rule in entry.rules if kernels else ():
            if any((id(kernel), rule) in found for kernel in kernels):
                continue
            terms = [(kernel, policy.terms_of(kernel)) for kernel in kernels]
            known = all_rules().get(rule)
            level: Level = terms[0][1].level(known, known.least) if known else "error"
            measured = rule not in measures() or any(measure(rule, *each) is not None for each in terms)
            state: State = "fixed" if measured else "unreported"
            yield Unmatched(state=state, identity=identity, name=entry.name, rule=rule, severity=level)


def _stale(baseline: Baseline, held: Matches) -> Iterator[Unmatched]:
    there = {id(match.entry) for match in held.matches.values() if match.change.state != "renamed"}
    for identity, entry in baseline.entries.items():
        for rule in (entry.rules or [""]) if id(entry) not in there else ():
            yield Unmatched(state="stale", identity=identity, name=entry.name, rule=rule)


def _missing(baseline: Baseline, held: Matches, own: Baseline, build: Build) -> Iterator[Unmatched]:
    """Recorded kernels that may only be missing, and those that are gone: their units were compiled without them.

    Only of archs that have fewer kernels than recorded: renamed or replaced kernels leave the number unchanged.
    """
    gone = [entry for entry in held.gone if not entry.function and entry.identity in own.entries]
    fewer = Counter(entry.arch for entry in gone)
    fewer.subtract(kernel.key.arch for kernel in held.new if kernel.role != "function")
    missed = {entry.identity for entry in gone if fewer[entry.arch] > 0}
    if not missed:  # the usual case: skip the units
        return
    compiled = build.compiled()
    for identity, entry in baseline.entries.items():
        if identity in missed:
            state: State = "removed" if compiled(entry.unit, entry.arch) else "fewer"
            yield Unmatched(state=state, identity=identity, name=entry.name)
