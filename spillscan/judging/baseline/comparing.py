"""A build compared with a baseline: the state of each finding, and entries without a finding or a kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, structs
from msgspec.structs import replace

from spillscan.judging.baseline.file import Baseline, Copy, Entry, Identity, identity_of
from spillscan.judging.compare.pairing import comparison
from spillscan.judging.policy.effective import Policy
from spillscan.judging.rules import Undecided, all_rules, check_changes, measure, recorded_as
from spillscan.judging.rules.blocks import TRADED
from spillscan.judging.rules.spills import MAX_BYTES
from spillscan.judging.verdict import BaselineResult, State, Unmatched
from spillscan.model import Build, Change, Finding, Hidden, Kernel, KernelKey, Launch, Usage, at_least
from spillscan.naming import alone
from spillscan.naming.pairs import places
from spillscan.naming.same_named import grouped
from spillscan.naming.symbol import canonical, in_file

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
        present, place = grouped(build.kernels, identity_of), places(build.kernels)
        records = [
            (_kernel(entry, copy, kernels), entry, copy)
            for identity, entry in baseline.entries.items()
            for kernels in [present.get(identity, [])]
            for copy in entry.copies * (max(1, len(kernels)) if len(entry.copies) == 1 else 1)
        ]
        base = Build(kernels=tuple(kernel for kernel, _, _ in records))
        compared = comparison(base, build, policy, policy.devices, all_pairs=True, stated=policy.renamed, place=place)
        self._records = {id(kernel): (entry, copy) for kernel, entry, copy in records}
        self.matches: dict[int, Match] = {}
        """Kernels that are recorded, by ``id``."""
        self.gone: list[Entry] = []
        """Recorded kernels without a counterpart."""
        self.new: dict[int, Kernel] = {}
        """Kernels that are not recorded, by ``id``."""
        for change in (*compared.changes, *compared.unsettled, *compared.recoded, *compared.equal):
            if change.before is None:
                self.new[id(change.kernel)] = change.kernel
            elif change.after is None:
                self.gone.append(self._records[id(change.before)][0])
            else:
                self.matches[id(change.after)] = Match(change, *self._records[id(change.before)])


def _kernel(entry: Entry, copy: Copy, present: Sequence[Kernel]) -> Kernel:
    """A record as a kernel; whether functions are linked is taken from the ``present`` ones."""
    unlinked = entry.function and any(each.final is False for each in present)
    return Kernel(
        key=KernelKey(symbol=in_file(entry.symbol, copy.file), arch=entry.arch, unit=copy.unit),
        role="function" if entry.function else "entry",
        usage=Usage(**copy.metrics),
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
    pairing = Matches(baseline, whole, policy)
    stated = [_state(each, pairing.matches.get(id(each.kernel)), policy) for each in findings]
    if of_changes:
        return BaselineResult(findings=_accepted_last(stated))
    matches = [match for kernel in build.kernels if (match := pairing.matches.get(id(kernel)))]
    worse, unknown = _worse(matches, findings, undecided, policy)
    traded = {id(each.kernel) for each in worse if each.rule == TRADED.id}
    stated = [each for each in stated if not _is_traded(each, traded, policy)]
    told = {id(each.kernel) for each in undecided} | {id(each.kernel) for each in stated if not each.accepted}
    untold = (each for each in build.kernels if id(each) not in told)
    return BaselineResult(
        findings=_accepted_last((*stated, *policy.accepted(worse))),
        unmatched=(
            *_lost_findings(matches, stated, policy),
            *_lost_kernels(baseline, pairing, own or baseline, whole),
            *(
                Unmatched(state="unknown", identity=identity, name=name_of(kernels[0]))
                for identity, kernels in grouped(untold, identity_of).items()
                if any(id(each) in pairing.new for each in kernels) and (own is None or identity not in own.entries)
                if not identity.function or identity in baseline.entries
            ),
        ),
        renamed=tuple(match.change for match in matches if match.change.state == "renamed"),
        undecided=unknown,
    )


def _accepted_last(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda finding: finding.accepted))


def _state(finding: Finding, match: Match | None, policy: Policy) -> Finding:
    """``finding`` with its state; if it is worse than recorded, its message has the recorded values."""
    if finding.baseline_state is not None:
        return finding
    rule = recorded_as(finding.rule)
    recorded = match.copy.rules.get(rule) if match else None
    values = ", ".join(f"{name} {value:,}" for name, value in sorted(recorded.items())) if recorded else "none"
    if match is not None and match.change.state == "renamed" and match.change.evidence.kind != "stated":
        message = f"{finding.message}; renamed from {match.entry.name}, baseline: {values}"
        return replace(finding, baseline_state="new", message=message)
    if recorded is None:
        return replace(finding, baseline_state="new")
    now = measure(rule, finding.kernel, policy.terms_of(finding.kernel))
    if now is None or not within(now, recorded):
        why = "baseline" if now is not None else "not comparable with the baseline"
        return replace(finding, baseline_state="worse", message=f"{finding.message}; {why}: {values}")
    return replace(finding, baseline_state="known" if now == recorded else "better")


def within(values: Mapping[str, int], limits: Mapping[str, int]) -> bool:
    """Whether no value exceeds its limit; a value without a limit must be 0."""
    return all(value <= limits.get(name, 0) for name, value in values.items())


def _worse(
    matches: Sequence[Match], findings: Sequence[Finding], undecided: Sequence[Undecided], policy: Policy
) -> tuple[list[Finding], tuple[Undecided, ...]]:
    """(regressions since the recording, results left open), without those that the build's own rules report.

    Notes are omitted unless they fail the gate. An unrecorded metric leaves a result open only if the user limits it.
    """
    reported = {(id(each.kernel), recorded_as(each.rule)) for each in findings}
    reported |= {(id(each.kernel), recorded_as(each.rule.id)) for each in undecided}
    changes = [match.change for match in matches if match.change.state != "equal"]
    least_severe = "note" if policy.fail_on == "note" else "warning"
    judgement = check_changes(changes, policy)
    worse = [
        replace(finding, baseline_state="worse")
        for finding in judgement.findings
        if _is_recorded(finding.rule)
        and at_least(finding.severity, least_severe)
        and (id(finding.kernel), recorded_as(finding.rule)) not in reported
    ]
    before = {id(change.after): change.before for change in changes}
    unknown = [
        each
        for each in judgement.undecided
        if _is_recorded(each.rule.id)
        and (id(each.kernel), each.rule.id) not in reported
        and _may_be_worse(each, before[id(each.kernel)], policy)
    ]
    return worse, tuple(unknown)


def _is_recorded(rule: str) -> bool:
    """Whether the recorded metrics contain all that ``rule`` needs."""
    needs = all_rules()[rule].needs
    return bool(needs) and RECORDED.issuperset(needs)


def _may_be_worse(undecided: Undecided, before: Kernel | None, policy: Policy) -> bool:
    """Whether the value is recorded, or the user limits it."""
    recorded = before and measure(recorded_as(undecided.rule.id), before, policy.terms_of(undecided.kernel))
    return bool(recorded) or any(limit.name in policy.settings_of(undecided.kernel) for limit in undecided.rule.limits)


def _is_traded(finding: Finding, traded: set[int], policy: Policy) -> bool:
    """Whether the finding is the spill of a trade-off, and the policy sets no spill limit for the kernel."""
    limited = MAX_BYTES.name in policy.settings_of(finding.kernel)
    return finding.rule == "spill" and id(finding.kernel) in traded and not limited


def _lost_findings(matches: Sequence[Match], findings: Sequence[Finding], policy: Policy) -> Iterable[Unmatched]:
    """Recorded findings that kernels no longer have, or that cannot be checked."""
    present = {(id(each.kernel), recorded_as(each.rule)) for each in findings}
    lost: dict[tuple[Identity, str], Unmatched] = {}
    for match in matches:
        for rule in match.copy.rules if match.change.state != "renamed" else ():
            if (id(match.kernel), rule) not in present:
                terms, known = policy.terms_of(match.kernel), all_rules().get(rule)
                lost[match.entry.identity, rule] = Unmatched(
                    state="unreported" if measure(rule, match.kernel, terms) is None else "fixed",
                    identity=match.entry.identity,
                    name=match.entry.name,
                    rule=rule,
                    severity=terms.level(known, known.least) if known else "error",
                )
    return lost.values()


def _lost_kernels(baseline: Baseline, pairing: Matches, own: Baseline, build: Build) -> Iterator[Unmatched]:
    """Recorded kernels without a counterpart: all are stale; some may be missing, or were removed from their units.

    The latter only of archs that have fewer kernels than recorded: renamed or replaced kernels leave the number
    unchanged.
    """
    there = {match.entry.identity for match in pairing.matches.values() if match.change.state != "renamed"}
    there |= {identity_of(kernel) for kernel in pairing.new.values()}
    gone = [entry for entry in pairing.gone if not entry.function and entry.identity in own.entries]
    fewer = Counter(entry.arch for entry in gone)
    fewer.subtract(kernel.key.arch for kernel in pairing.new.values() if kernel.role != "function")
    missed = {entry.identity for entry in gone if fewer[entry.arch] > 0}
    compiled = build.compiled() if missed else None
    for identity, entry in baseline.entries.items():
        states: list[State] = ["stale"] * (identity not in there)
        if compiled and identity in missed:
            states.append("removed" if compiled(entry.unit, entry.arch) else "fewer")
        yield from (Unmatched(state=state, identity=identity, name=entry.name) for state in states)
