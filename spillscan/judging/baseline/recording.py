"""Baseline of a build: recorded (``write``) and cleaned up (``prune``)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from spillscan.judging.baseline import file
from spillscan.judging.baseline.comparing import Matches, name_of, within
from spillscan.judging.policy.effective import Policy
from spillscan.judging.rules import measure, recorded_as
from spillscan.model import Build, Finding, Kernel
from spillscan.model.metrics import BY_NAME, value_of
from spillscan.naming.pairs import places
from spillscan.naming.same_named import grouped
from spillscan.naming.symbol import source_file

LONGEST_NAME = 80
"""Characters of a kernel's name in a baseline."""


class Recording(Struct, frozen=True, kw_only=True):
    """A new baseline, and what it leaves out."""

    baseline: file.Baseline
    """Baseline to be written."""
    undecided: tuple[Kernel, ...] = ()
    """Kernels that are not recorded, because the input lacks what a rule needs."""
    unmeasured: tuple[Finding, ...] = ()
    """Findings that are not recorded, because they have no values to compare later ones with."""
    kept: tuple[file.Identity, ...] = ()
    """Kept entries of kernels that the build does not have."""


def record(
    build: Build, findings: Iterable[Finding], undecided: Iterable[Kernel], old: file.Baseline, policy: Policy
) -> Recording:
    """``old`` updated with all kernels and findings of ``build``.
    Entries of kernels that the build does not have are kept, and so are values that the input does not report.
    Findings that the policy accepts are not recorded: when the policy entry expires, they are new.
    """
    groups = grouped(build.kernels, file.identity_of)
    unit_of, place = build.unit_names(), places(build.kernels)
    rules, unmeasured = _values(findings, policy)
    unsure = {file.identity_of(kernel): kernel for kernel in undecided}
    entries = dict(old.entries)
    for identity, kernels in groups.items():
        known = entries.get(identity)
        copies = [_copy(kernel, rules[id(kernel)], known, len(kernels), policy) for kernel in kernels]
        linked = not identity.function or any(kernel.final is False for kernel in kernels)
        if any(copy.rules for copy in copies) or (linked and identity not in unsure):
            different = _different([*zip(copies, kernels, strict=True)], place)
            entries[identity] = _entry(identity, kernels, different, {unit_of(kernel) for kernel in kernels}, policy)
        elif not linked:
            entries.pop(identity, None)
    header = file.Header(format=file.FORMAT, toolkits=build.toolkits)
    return Recording(
        baseline=file.Baseline(entries=entries, header=header),
        undecided=tuple(kernel for identity, kernel in unsure.items() if identity not in entries),
        unmeasured=unmeasured,
        kept=tuple(identity for identity in old.entries if identity not in groups),
    )


_Values = dict[str, dict[str, int]]
"""Measured values of findings by rule."""


def _values(findings: Iterable[Finding], policy: Policy) -> tuple[Mapping[int, _Values], tuple[Finding, ...]]:
    """Values of the findings of each kernel, by its ``id``; and the findings that have none."""
    rules: dict[int, _Values] = defaultdict(dict)
    unmeasured = []
    for each in findings:
        rule = recorded_as(each.rule)
        values = measure(rule, each.kernel, policy.terms_of(each.kernel))
        if values is None:
            unmeasured.append(each)
        elif each.baseline_state != "suppressed":
            rules[id(each.kernel)][rule] = dict(values)
    return rules, tuple(unmeasured)


def _copy(kernel: Kernel, rules: _Values, known: file.Entry | None, number: int, policy: Policy) -> file.Copy:
    """Record of ``kernel``; values that the input does not report are those of ``known``, if it has one copy."""
    metrics = metrics_of(kernel)
    if known is not None and len(known.copies) == number == 1:
        (copy,) = known.copies
        metrics = {**copy.metrics, **metrics}
        rules = {**{rule: copy.rules[rule] for rule in _unreported(copy, kernel, policy)}, **rules}
    return file.Copy(**metrics, rules=rules)


def _different(copies: list[tuple[file.Copy, Kernel]], place: Callable[[Kernel], str]) -> tuple[file.Copy, ...]:
    """Records of ``copies`` with their places, in an order that does not depend on theirs; one if all are equal."""
    named = (replace(copy, unit=place(kernel), file=source_file(kernel.key.symbol)) for copy, kernel in copies)
    alike = all(copy == copies[0][0] for copy, _ in copies)
    return (copies[0][0],) if alike else tuple(sorted(named, key=file.encoded))


def _unreported(copy: file.Copy, kernel: Kernel, policy: Policy) -> list[str]:
    """Recorded rules that cannot be measured on ``kernel``."""
    return [rule for rule in copy.rules if measure(rule, kernel, policy.terms_of(kernel)) is None]


def metrics_of(kernel: Kernel) -> dict[str, Any]:
    """Metrics of ``kernel`` to record: those reported, and if the linker decides them only after the link."""
    waits = kernel.final is False and kernel.role != "function"  # a device function's metrics are never linked
    values = ((name, value_of(name, kernel)) for name in file.METRICS if not (BY_NAME[name].linker and waits))
    return {name: value for name, value in values if value is not None}


def _entry(
    identity: file.Identity, kernels: Sequence[Kernel], copies: tuple[file.Copy, ...], units: set[str], policy: Policy
) -> file.Entry:
    launches = {policy.launch_of(kernel) for kernel in kernels}
    launch = launches.pop() if len(launches) == 1 else None
    return file.Entry(
        **identity._asdict(),
        name=name_of(kernels[0]).strip() or identity.symbol[:LONGEST_NAME],
        unit=units.pop() if len(units) == 1 else "",
        launch=file.Launched(launch.threads_per_block, launch.dynamic_shared_bytes) if launch else None,
        copies=copies,
    )


def prune(
    build: Build, findings: Iterable[Finding], old: file.Baseline, policy: Policy, archs: Sequence[str] = ()
) -> file.Baseline:
    """``old`` without obsolete records; nothing is added or raised.

    Removed are kernels that ``build`` does not have (only of ``archs``, if any), values of fixed findings, and the
    excess of values that got better.
    """
    (rules, _), place = _values(findings, policy), places(build.kernels)
    copies: dict[file.Identity, list[tuple[file.Copy, Kernel]]] = defaultdict(list)
    for match in Matches(old, build, policy).matches.values():
        if match.change.state != "renamed":
            lowered = _lowered(match.copy, match.kernel, rules[id(match.kernel)], policy)
            copies[match.entry.identity].append((lowered, match.kernel))
    entries, present = {}, {file.identity_of(kernel) for kernel in build.kernels}
    for identity, entry in old.entries.items():
        if identity in copies:
            entries[identity] = replace(entry, copies=_different(copies[identity], place))
        elif identity in present or (archs and entry.arch not in archs):
            entries[identity] = entry
    return replace(old, entries=entries)


def _lowered(copy: file.Copy, kernel: Kernel, values: _Values, policy: Policy) -> file.Copy:
    """``copy`` with the present values, as far as none of them is worse, and without rules that find nothing now."""
    rules = {rule: copy.rules[rule] for rule in _unreported(copy, kernel, policy)}
    for rule in copy.rules.keys() & values.keys():
        rules[rule] = values[rule] if within(values[rule], copy.rules[rule]) else copy.rules[rule]
    now = {name: value for name, value in metrics_of(kernel).items() if name in copy.metrics}
    metrics = {**copy.metrics, **now} if within(now, copy.metrics) else copy.metrics
    return file.Copy(**metrics, rules=rules)
