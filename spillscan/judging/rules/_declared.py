"""Declaration of a rule: the limits of a kernel, a rule's answer, and the check that gives it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import Struct, field

from spillscan.model import Change, Judged, Kernel, Launch, Level, Limit, Rule, Severity
from spillscan.model.metrics import find_metric


class Terms(Struct, frozen=True, kw_only=True):
    """Settings of the policy for one kernel."""

    limits: Mapping[str, int | None] = field(default_factory=dict)
    """Limits by name; ``None``: no limit. A missing name has the default of its :class:`~spillscan.model.Limit`."""
    levels: Mapping[str, Level] = field(default_factory=dict)
    """Severities by rule id, if they are not the rule's own."""
    launch: Launch | None = None
    """Launch of the kernel; ``None`` if unknown."""
    launch_from: str = ""
    """Place where the launch is set: ``spillscan.yaml:4``, ``--launch``; empty if neither sets it."""
    devices: tuple[str, ...] = ()
    """Devices whose occupancy counts; empty: the kernel's own arch."""

    def limit(self, limit: Limit) -> int | None:
        """Value of ``limit`` for this kernel; ``None``: no limit."""
        return self.limits.get(limit.name, limit.default)

    def level(self, rule: Rule, own: Severity | None = None) -> Level:
        """Severity of the rule's findings for this kernel; ``own``: severity of a case with less effect."""
        return self.levels.get(rule.id, own or rule.severity)


class Undecided(Struct, frozen=True, kw_only=True):
    """A kernel for which a rule cannot decide."""

    rule: Rule
    """The rule."""
    severity: Severity
    """Severity that a finding would have."""
    kernel: Kernel
    """The kernel; for a change, its newer record."""
    reason: str
    """What is unknown, and what to do."""


class Found(NamedTuple):
    """Text and severity of a finding."""

    text: str
    """One line, with values."""
    severity: Severity | None = None
    """Severity by effect, if it is not the rule's own."""


Measure = Callable[[Kernel, Terms], Mapping[str, int] | None]
"""Function for the values by which findings of a rule get worse; greater is worse.

It returns ``None`` if the input does not report them.
"""


_Find = Callable[[Any, Terms], Iterable[Found]]
_Unknown = Callable[[Any, Terms], str]


class Check(Struct, frozen=True, kw_only=True):
    """A rule and its functions.

    A rule without limits is always checked, any other only if one of its limits is set.
    """

    rule: Rule
    """The rule."""
    find: Callable[[Kernel, Terms], Iterable[Found]] | None = None
    """Findings in a build; ``None``: the rule does not check builds."""
    unknown: Callable[[Kernel, Terms], str] | None = None
    """Why the rule cannot decide on a kernel; empty if it can."""
    find_change: Callable[[Change, Terms], Iterable[Found]] | None = None
    """Findings between two builds; ``None``: the rule does not compare."""
    unknown_change: Callable[[Change, Terms], str] | None = None
    """Why the rule cannot decide on a change."""
    measure: Measure | None = None
    """Values by which findings get worse; without them, a baseline knows a finding as a whole, or not at all."""

    def functions(self, by: Judged) -> tuple[_Find | None, _Unknown | None]:
        """Functions for the findings in a ``build`` or ``change``, and for why it is undecided."""
        return (self.find, self.unknown) if by == "build" else (self.find_change, self.unknown_change)

    @property
    def judges(self) -> tuple[Judged, ...]:
        """Inputs that the rule checks: builds, changes, or both."""
        names: tuple[Judged, ...] = ("build", "change")
        return tuple(name for name in names if self.functions(name)[0] is not None)

    def is_asked(self, terms: Terms, by: Judged) -> bool:
        """Whether the rule applies to a ``build``, or to a ``change``, under these terms."""
        limits = [limit for limit in self.rule.limits if limit.judges == by]
        return by in self.judges and (not limits or any(terms.limit(limit) is not None for limit in limits))


def threshold(
    rule: Rule,
    metric: Callable[[Kernel, Terms], int | None],
    *,
    key: str,
    message: Callable[[Kernel, Terms, int, int], str],
    unknown: Callable[[Kernel, Terms], str],
    linked: bool = True,
) -> Check:
    """Check of a value against the rule's limit.
    ``metric``: the value as far as known; ``message``: text from kernel, terms, value and limit; ``unknown``: why the
    value is unknown or not final; ``key``: its name in a baseline; ``linked``: whether it is final only after the link.
    """
    (limit,) = rule.limits

    def find(kernel: Kernel, terms: Terms) -> Iterator[Found]:
        most, value = terms.limit(limit), metric(kernel, terms)
        if most is not None and value is not None and value > most:
            yield Found(message(kernel, terms, value, most))

    def measure(kernel: Kernel, terms: Terms) -> dict[str, int] | None:
        value = metric(kernel, terms)
        if value is None or (linked and kernel.final is False) or unknown(kernel, terms):
            return None
        return {key: value}

    return Check(rule=rule, find=find, unknown=unknown, measure=measure)


def delta(label: str, before: int, after: int, unit: str) -> str:
    """``stack 0 → 64 B (+64)``."""
    return f"{label} {before:,} → {after:,}{' ' if unit else ''}{unit} ({after - before:+,})"


def changed(change: Change, names: Collection[str]) -> list[str]:
    """``stack 0 → 64 B (+64)`` for each of these metrics that changed."""
    chosen = ((find_metric(name), old, new) for name, old, new in change.metrics if name in names)
    return [delta(metric.label, old or 0, new or 0, metric.unit) for metric, old, new in chosen]


def grown(change: Change, names: Collection[str]) -> list[str]:
    """:func:`changed` of the metrics that grew."""
    chosen = ((name, old, new) for name, old, new in change.metrics if name in names)
    return changed(change, [name for name, old, new in chosen if old is not None and new is not None and new > old])


def unlinked(kernel: Kernel, what: str) -> str:
    """Why a value of a kernel (``what``: ``stack``) is not final before the link; empty if it is linked."""
    if kernel.final is not False:
        return ""
    return f"relocatable code: {what} not final; pass the link's log too (nvcc -Xnvlink -v)"


def because(kernel: Kernel, otherwise: str) -> str:
    """Why a value of ``kernel`` is unknown: the kernel's own reasons, else ``otherwise``."""
    return "; ".join(kernel.reasons) or otherwise
