"""Changes between two builds. Pure: two builds in, changes out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from spillscan.judging.compare.effects import effect_metrics, effects
from spillscan.judging.compare.metrics import (
    by_rank,
    compare,
    messages,
    metrics_of,
    other_code,
    record_of,
    reported_alike,
    same_code,
    worst_first,
)
from spillscan.model import LOST_SETTING, Build, Change, Changes, Delta, Effect, Kernel, KernelKey
from spillscan.model.findings import moved_bounds
from spillscan.naming.pairs import object_of, paired
from spillscan.naming.renames import Renames
from spillscan.naming.same_named import Key
from spillscan.occupancy.launches import Launches, LaunchMap


class Comparison(Struct, frozen=True, kw_only=True):
    """All pairs of two builds, by result."""

    changes: tuple[Change, ...] = ()
    """Added, removed, renamed and changed kernels, worst first."""
    unsettled: tuple[Change, ...] = ()
    """Pairs without a known difference, but with values that one or both builds do not report.

    These are values that the other build reports, or registers or spills that neither reports.
    """
    recoded: tuple[Change, ...] = ()
    """Pairs with equal metrics and different machine code."""
    equal: tuple[Change, ...] = ()
    """Pairs without any difference, if requested."""


def diff(base: Build, head: Build, launches: Launches | None = None, devices: Sequence[str] = ()) -> Changes:
    """Added, removed and changed kernels, worst first; kernels that are not known to have changed are omitted."""
    return Changes(comparison(base, head, launches, devices).changes)


def comparison(
    base: Build,
    head: Build,
    launches: Launches | None = None,
    devices: Sequence[str] = (),
    *,
    all_pairs: bool = False,
    stated: Renames = (),
    place: Key = object_of,
) -> Comparison:
    """:func:`diff`, and the pairs that cannot be decided; ``all_pairs``: also those without any difference.

    ``launches`` are those of the kernels, ``devices`` (``H200``, ``sm_86``) the devices to run on, by default each
    kernel's own target. ``stated``: renames stated by the user. ``place``: as for ``paired``.
    """
    base, head = base.named, head.named
    compare_pair = _Comparer(launches or LaunchMap(), devices).change
    doubtful = _doubtful((*base.kernels, *head.kernels))
    unattached = {LOST_SETTING for issue in base.issues if issue.code == "unattached-setmaxnreg"}
    pairs = paired(base.kernels, head.kernels, stated=stated, place=place)
    by_state: dict[str, list[Change]] = defaultdict(list)
    for before, after in pairs.same:
        change = compare_pair(before, after)
        if (doubtful or unattached) and change.state in ("changed", "unknown"):
            names = doubtful.get(before.key, set()) | doubtful.get(after.key, set())
            change = _doubted(change, names, unattached)
        by_state[change.state].append(change)
    changes = [
        *by_state["changed"],
        *(replace(compare_pair(m.before, m.after), state="renamed", evidence=m.evidence) for m in pairs.renamed),
        *(Change(state="removed", before=kernel, after=None) for kernel in pairs.gone),
        *(Change(state="added", before=None, after=kernel) for kernel in pairs.new),
    ]
    return Comparison(
        changes=worst_first(changes),
        unsettled=worst_first(by_state["unknown"]),
        recoded=worst_first(by_state["recoded"]),
        equal=tuple(by_state["equal"]) if all_pairs else (),
    )


def changed(before: Kernel, after: Kernel, launches: Launches, devices: Sequence[str] = ()) -> Change | None:
    """Change between two records of one kernel; ``None`` if their metrics are known to be equal."""
    change = _Comparer(launches, devices).change(before, after)
    return None if change.state in ("recoded", "equal") else change


def _doubtful(kernels: Sequence[Kernel]) -> dict[KernelKey, set[str]]:
    """Names of metrics that are unknown for an ambiguous kernel, by key: same-named kernels cannot be told apart."""
    names: dict[KernelKey, set[str]] = defaultdict(set)
    for kernel in kernels:
        if kernel.confidence == "ambiguous":
            names[kernel.key] |= {name for name, value in metrics_of(kernel).items() if value is None}
    return names


def _doubted(change: Change, names: set[str], kinds: set[str]) -> Change:
    """The change, without differences that may be due to a same-named kernel or a message without a kernel.

    ``names``: metrics that a same-named kernel may have had. ``kinds``: messages that an earlier one, which names no
    kernel, may have given for this kernel.
    """
    left = [metric for metric in change.metrics if metric[0] in names]
    certain = replace(
        change,
        metrics=tuple(metric for metric in change.metrics if metric[0] not in names),
        unknown=by_rank((*change.unknown, *left)),
        appeared=tuple(kind for kind in change.appeared if kind not in kinds),
    )
    return certain if certain.differs else replace(certain, state="unknown")


_Differences = tuple[tuple[Delta, ...], tuple[Delta, ...], tuple[Effect, ...]]
"""Differing metrics, metrics that one side reports, and effects."""


class _Comparer:
    """Comparison of pairs of kernels at their launches on some devices."""

    def __init__(self, launches: Launches, devices: Sequence[str]) -> None:
        self._launches, self._devices = launches, devices
        self._known: dict[object, _Differences] = {}
        """Differences by everything of a pair that they depend on."""

    def change(self, before: Kernel, after: Kernel) -> Change:
        """The pair as changed, unknown, recoded (equal metrics, other code) or equal."""
        alike = reported_alike(before, after)
        metrics, unknown, effect = ((), (), ()) if alike else self._differences(before, after)
        appeared, vanished = messages(before, after)
        settled = same_code(before, after) or (
            _settled(after) and ((alike and before.role == after.role) or _settled(before))
        )
        state: Literal["changed", "unknown", "recoded", "equal"] = "equal"
        if metrics or appeared or vanished or moved_bounds(before, after):
            state = "changed"
        elif unknown or not settled:
            state = "unknown"
        elif other_code(before, after):
            state = "recoded"
        return Change(
            state=state,
            before=before,
            after=after,
            metrics=metrics,
            unknown=unknown,
            appeared=appeared,
            vanished=vanished,
            effects=effect,
        )

    def _differences(self, before: Kernel, after: Kernel) -> _Differences:
        """Differences of two records; those with equal records are compared once."""
        facts = self._facts(before), self._facts(after)
        known = self._known.get(facts) if None not in facts else None
        if known is None:
            metrics = [*compare(before, after)]
            effect = effects(before, after, self._launches, self._devices) if metrics else ()
            metrics += effect_metrics(effect)
            differing, unknown = ([each for each in metrics if (None in each) is half] for half in (False, True))
            known = by_rank(differing), by_rank(unknown), effect
            if None not in facts:
                self._known[facts] = known
        return known

    def _facts(self, kernel: Kernel) -> tuple[object, ...] | None:
        """Everything of a kernel that differences depend on; ``None`` if its code is known, too."""
        record = record_of(kernel)
        return None if record is None else (*record, self._launches.launch_of(kernel))


def _settled(kernel: Kernel) -> bool:
    """Whether the record contains what a gate needs."""
    return kernel.spills is not None and (kernel.role == "function" or kernel.usage.registers is not None)
