"""Baseline of a build: recorded (``write``), cleaned up (``prune``), and compared with later kernels.

A record is converted to the kernel that it describes and compared with the current one like any two builds: the pairs,
metrics, effects and rules are those of ``diff``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from spillscan.judging.baseline.judging import apply, as_copies, compare
from spillscan.judging.baseline.model import (
    KEPT_FIGURES,
    KEPT_OF_LAUNCH,
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
    measured,
)
from spillscan.judging.compare.pairing import comparison
from spillscan.judging.policy import Policy
from spillscan.judging.policy.file import LIMITS
from spillscan.judging.rules import Undecided, all_rules, check_changes, measure, measures, recorded_as
from spillscan.judging.rules.registers import GROWTH, MAX_GROWTH
from spillscan.model import Build, Change, Finding, Hidden, Kernel, KernelKey, Launch, Usage, at_least
from spillscan.model.metrics import BY_NAME
from spillscan.naming import alone
from spillscan.naming.identity import canonical


def limits_of(policy: Policy) -> dict[str, int]:
    """Limits on all kernels, by name."""
    found = {name: policy.setting(name).value for name in LIMITS}
    return {name: value for name, value in found.items() if isinstance(value, int)}


LONGEST_NAME = 80
"""Characters of a kernel's name in a baseline."""


class Recording(Struct, frozen=True, kw_only=True):
    """A new baseline, and what it leaves out."""

    baseline: Baseline
    """Baseline to be written."""
    before: BaselineResult
    """Comparison of the build with the old baseline."""
    undecided: tuple[Kernel, ...] = ()
    """Kernels that are not recorded, because the input lacks what a rule needs."""
    unmeasured: tuple[Finding, ...] = ()
    """Findings that are not recorded, because they have no figures to compare later ones with."""
    kept: tuple[Identity, ...] = ()
    """Kept entries of kernels that the build does not have."""


def record(
    build: Build, findings: Iterable[Finding], undecided: Iterable[Kernel], old: Baseline, policy: Policy
) -> Recording:
    """``old`` updated with all kernels and findings of ``build``.
    Entries of kernels that the build does not have are kept, and so are figures that the input does not report.
    Findings that the policy accepts are not recorded: when the policy entry expires, they are new.
    """
    groups = by_identity(build.kernels)
    unit_of = build.unit_names()
    before = apply(findings, build, old, policy)
    found = by_rule(finding for finding in before.findings if finding.baseline_state != "suppressed")
    rules: dict[Identity, list[str]] = {}
    for identity, rule in found:
        rules.setdefault(identity, []).append(rule)
    unsure = {identity_of(kernel): kernel for kernel in undecided}
    entries = dict(old.entries)
    unmeasured: list[Finding] = []
    for identity, kernels in groups.items():
        known = entries.pop(identity, None)
        accepted = _unknown(known, kernels, policy)
        for rule in rules.get(identity, ()):
            figures = measured(rule, kernels, policy) if recorded_as(rule) in measures() else [()]
            if figures:
                accepted[rule] = as_copies(figures)
            if len(figures) < len(kernels) and recorded_as(rule) in measures():
                unmeasured += [f for f in found[identity, rule] if not measured(rule, [f.kernel], policy)]
        kept = not identity.function or any(kernel.final is False for kernel in kernels)
        if accepted or (identity not in unsure and kept):
            copies, launch = recorded(kernels, known, policy)
            name = _name(identity, kernels)
            units = {unit_of(kernel) for kernel in kernels}
            unit = units.pop() if len(units) == 1 else ""
            entries[identity] = KnownKernel(name=name, recorded=accepted, figures=copies, launch=launch, unit=unit)
        elif identity in old.entries and kept:
            entries[identity] = old.entries[identity]
    return Recording(
        baseline=Baseline(entries=entries, toolkits=build.toolkits, limits=limits_of(policy)),
        before=before,
        undecided=tuple(kernel for identity, kernel in unsure.items() if identity not in rules),
        unmeasured=tuple(unmeasured),
        kept=tuple(identity for identity in old.entries if identity not in groups),
    )


def prune(
    build: Build, findings: Iterable[Finding], old: Baseline, policy: Policy, archs: Iterable[str] = ()
) -> Baseline:
    """``old`` without obsolete records; nothing is added or raised.
    Removed are kernels that ``build`` does not have (only of ``archs``, if any), figures of fixed findings, and the
    excess of figures that got better.
    """
    groups = by_identity(build.kernels)
    scope = set(archs)
    result = apply(findings, build, old, policy)
    fixed = {(each.identity, each.rule) for each in result.fixed}
    entries = {}
    for identity, entry in old.entries.items():
        if identity in groups:
            left = {rule: copies for rule, copies in entry.recorded.items() if (identity, rule) not in fixed}
            left = {rule: _lowered(rule, copies, groups[identity], policy) for rule, copies in left.items()}
            if left or entry.figures or not identity.function:
                copies = lowered(groups[identity], entry.figures) if entry.figures else ()
                entries[identity] = replace(entry, recorded=left, figures=copies)
        elif scope and identity.arch not in scope:
            entries[identity] = entry
    return replace(old, entries=entries)


def _unknown(entry: KnownKernel | None, kernels: list[Kernel], policy: Policy) -> dict[str, Copies]:
    """Recorded figures of rules that cannot be measured on these kernels."""
    recorded = entry.recorded if entry else {}
    return {rule: copies for rule, copies in recorded.items() if not measured(rule, kernels, policy)}


def _lowered(rule: str, copies: Copies, kernels: list[Kernel], policy: Policy) -> Copies:
    """Current figures, or ``copies`` if one of them is worse than recorded or unknown."""
    figures = measured(rule, kernels, policy)
    if len(figures) < len(kernels) or any(limit is None for limit in compare(figures, copies)):
        return copies
    return as_copies(figures)


def _name(identity: Identity, kernels: list[Kernel]) -> str:
    """Name for tables, cut; from the canonical symbol, so that it is the same in every checkout."""
    name = min(alone(canonical(kernel.key.symbol)) for kernel in kernels)
    cut = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return cut if cut.strip() else identity.symbol[:LONGEST_NAME]


JUDGED: frozenset[Hidden] = frozenset(("spills", "registers", "stack", "shared", "launch"))
"""Data that the recorded metrics provide to rules."""


class Since(Struct, frozen=True, kw_only=True):
    """Changes of kernels since they were recorded."""

    worse: tuple[Finding, ...] = ()
    """Regressions, as ``diff`` finds them."""
    undecided: tuple[Undecided, ...] = ()
    """Recorded figures that the input does not report."""
    renamed: tuple[Change, ...] = ()
    """Recorded kernels that have another name now."""
    unknown: tuple[Accepted, ...] = ()
    """Kernels that are not recorded; without those that rules could not check, which ``record`` leaves out."""
    unheld: int = 0
    """Recorded kernels whose register growth the user limits, but whose registers are not recorded."""


def figures_of(kernel: Kernel) -> Figures:
    """Metrics of ``kernel`` to record: those reported, and if the linker decides them only after the link."""
    kept = (BY_NAME[name] for name in KEPT_FIGURES)
    waits = kernel.final is False and kernel.role != "function"  # a device function's metrics are never linked
    said = ((each.name, each.get(kernel)) for each in kept if each.get and not (each.linker and waits))
    return tuple(sorted((name, value) for name, value in said if value is not None))


def recorded(kernels: Sequence[Kernel], old: KnownKernel | None, policy: Policy) -> tuple[Copies, Figures]:
    """(figures, launch) of all copies of one kernel to record; values that the input does not report are kept."""
    copies = as_copies([figures_of(kernel) for kernel in kernels])
    if old is not None and len(old.figures) == len(copies) == 1:
        copies = (tuple(sorted({**dict(old.figures[0]), **dict(copies[0])}.items())),)
    copies = copies if all(copies) else ()
    launches = {policy.launch_of(kernel) for kernel in kernels}
    launch = launches.pop() if len(launches) == 1 else None
    if launch is None:
        return copies, ()
    return copies, tuple(
        (name, value) for name in sorted(KEPT_OF_LAUNCH) if (value := getattr(launch, name)) is not None
    )


def lowered(kernels: Sequence[Kernel], copies: Copies) -> Copies:
    """Current figures, or ``copies`` if one of them is worse than recorded or unknown."""
    now = [figures_of(kernel) for kernel in kernels]
    names = {tuple(name for name, _ in each) for each in (*now, *copies)}
    return copies if len(names) > 1 or None in compare(now, copies) else as_copies(now)


def since(
    build: Build,
    whole: Build,
    baseline: Baseline,
    policy: Policy,
    found: Sequence[Finding],
    open_end: Sequence[Undecided],
) -> Since:
    """Changes of the kernels of ``build``, the selected part of ``whole``, since ``baseline`` recorded them.

    What the rules of builds ``found`` or left open is not repeated. Notes are omitted unless they fail the gate.
    """
    groups = by_identity(whole.kernels)
    base = Build(kernels=tuple(_kernels(baseline, groups)))
    compared = comparison(base, whole, policy, policy.devices, stated=policy.renamed)
    chosen = {id(kernel) for kernel in build.kernels}
    changes, unsettled = (
        [each for each in pairs if each.before is not None and id(each.after) in chosen]
        for pairs in (compared.changes, compared.unsettled)
    )
    renamed = tuple(each for each in changes if each.state == "renamed")
    said = {(id(each.kernel), recorded_as(each.rule)) for each in found}
    said |= {(id(each.kernel), recorded_as(each.rule.id)) for each in open_end}
    least_severe = "note" if policy.fail_on == "note" else "warning"
    worse = [
        replace(finding, baseline_state="worse")
        for finding in check_changes(changes, policy).findings
        if _judges(finding.rule)
        and at_least(finding.severity, least_severe)
        and (id(finding.kernel), recorded_as(finding.rule)) not in said
    ]
    undecided = [
        each
        for change in (*changes, *unsettled)
        for each in check_changes([change], policy).undecided
        if _judges(each.rule.id) and _is_recorded(each, change, policy) and (id(each.kernel), each.rule.id) not in said
    ]
    unsure = {identity_of(each.kernel) for each in open_end}
    known = {*baseline.entries, *unsure, *(identity_of(each.kernel) for each in renamed)}
    unknown = tuple(
        Accepted(identity=identity, name=_name(identity, kernels), rule="")
        for identity, kernels in by_identity(build.kernels).items()
        if not identity.function and identity not in known
    )
    unheld = sum(
        not _registers_recorded(entry) and any(_limited(kernel, policy) for kernel in groups.get(identity, ()))
        for identity, entry in baseline.entries.items()
    )
    return Since(
        worse=tuple(worse),
        undecided=tuple(undecided),
        renamed=renamed,
        unknown=unknown,
        unheld=unheld,
    )


def _registers_recorded(entry: KnownKernel) -> bool:
    return bool(entry.figures) and all("registers" in dict(copy) for copy in entry.figures)


def _limited(kernel: Kernel, policy: Policy) -> bool:
    """Whether a limit on register growth that the user set, not only a default, can fail the gate for ``kernel``."""
    if kernel.role == "function" or kernel.usage.registers is None:
        return False
    limit = policy.said_of(kernel).get(MAX_GROWTH.name)
    level = policy.terms_of(kernel).level(GROWTH)
    return limit is not None and limit.value is not None and level != "off" and at_least(level, policy.fail_on)


def _judges(rule: str) -> bool:
    """Whether the recorded metrics contain all that ``rule`` needs."""
    needs = all_rules()[rule].needs
    return bool(needs) and JUDGED.issuperset(needs)


def _is_recorded(undecided: Undecided, change: Change, policy: Policy) -> bool:
    before = change.before
    rule = recorded_as(undecided.rule.id)
    return before is not None and measure(rule, before, policy.terms_of(undecided.kernel)) is not None


def _kernels(baseline: Baseline, groups: Groups) -> Iterator[Kernel]:
    """Recorded kernels, one per recorded copy; if the build has more copies, the least figures fill up the number."""
    for identity, entry in baseline.entries.items():
        present = groups.get(identity, ())
        copies = entry.figures
        if len(copies) < len(present) and copies:
            copies += (_least(copies),) * (len(present) - len(copies))
        symbol = canonical(present[0].key.symbol) if present else identity.symbol
        unlinked = identity.function and any(each.final is False for each in present)
        for figures in copies:
            made = _kernel(identity, symbol, figures, entry.launch)
            yield replace(made, final=False) if unlinked else made


def _least(copies: Copies) -> Figures:
    """Minimum of each figure that all copies report."""
    known = [dict(each) for each in copies]
    return tuple((name, min(each[name] for each in known)) for name in known[0] if all(name in each for each in known))


def _kernel(identity: Identity, symbol: str, figures: Figures, launch: Figures) -> Kernel:
    usage: dict[str, Any] = dict(figures)
    launched: dict[str, Any] = {"dynamic_shared_bytes": None, **dict(launch)}
    return Kernel(
        key=KernelKey(symbol=symbol, arch=identity.arch),
        role="function" if identity.function else "entry",
        usage=Usage(**usage),
        launch=Launch(**launched, source="baseline") if launch else None,
    )
