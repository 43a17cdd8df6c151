"""Changes between two builds. Pure: two builds in, changes out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from spillscan.judging.compare.effects import effects, metrics
from spillscan.judging.compare.metrics import (
    by_rank,
    compare,
    messages,
    metrics_of,
    other_code,
    reported_alike,
    same_code,
    worst_first,
)
from spillscan.model import LOST_SETTING, Build, Change, Changes, Delta, Effect, Kernel, KernelKey
from spillscan.model.findings import moved_bounds
from spillscan.naming.identity.pairs import pair, paired
from spillscan.naming.identity.renames import Renames
from spillscan.occupancy.launches import Launches, LaunchMap

_UNATTACHED = {"unattached-setmaxnreg": LOST_SETTING}
"""Kinds of messages that may lack their kernel, by the code of the issue that reports this."""

__all__ = ["Comparison", "changed", "comparison", "diff", "pair"]


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
) -> Comparison:
    """:func:`diff`, and the pairs that cannot be decided; ``all_pairs``: also those without any difference.

    ``launches`` are those of the kernels, ``devices`` (``H200``, ``sm_86``) the devices to run on, by default each
    kernel's own target. ``stated``: renames stated by the user.
    """
    base, head = base.named, head.named
    changes: list[Change] = []
    unsettled: list[Change] = []
    recoded: list[Change] = []
    equal: list[Change] = []
    launches = launches or LaunchMap()
    doubtful = _doubtful((*base.kernels, *head.kernels))
    unattached = {kind for issue in base.issues if (kind := _UNATTACHED.get(issue.code))}
    known: _Known = {}
    found = paired(base.kernels, head.kernels, stated=stated)
    for before, after in found.same:
        alike = _changed(before, after, launches, devices, known)
        if alike is not None:
            if doubtful or unattached:
                names = doubtful.get(before.key, set()) | doubtful.get(after.key, set())
                alike = _doubted(alike, names, unattached)
            (unsettled if alike.state == "unknown" else changes).append(alike)
        elif other_code(before, after):
            recoded.append(Change(state="recoded", before=before, after=after))
        elif all_pairs:
            equal.append(Change(state="equal", before=before, after=after))
    for match in found.renamed:
        change = _changed(match.before, match.after, launches, devices, known)
        change = change or Change(state="renamed", before=match.before, after=match.after)
        changes.append(replace(change, state="renamed", evidence=match.evidence))
    changes += [Change(state="removed", before=kernel, after=None) for kernel in found.gone]
    changes += [Change(state="added", before=None, after=kernel) for kernel in found.new]
    return Comparison(
        changes=worst_first(changes), unsettled=worst_first(unsettled), recoded=worst_first(recoded), equal=tuple(equal)
    )


def _doubtful(kernels: Sequence[Kernel]) -> dict[KernelKey, set[str]]:
    """Names of metrics that are unknown for an ambiguous kernel, by key: same-named kernels cannot be told apart."""
    found: dict[KernelKey, set[str]] = defaultdict(set)
    for kernel in kernels:
        if kernel.confidence == "ambiguous":
            found[kernel.key] |= {name for name, value in metrics_of(kernel).items() if value is None}
    return found


def _doubted(change: Change, names: set[str], kinds: set[str]) -> Change:
    """The change, without differences that may be due to a same-named kernel or a message without a kernel.

    ``names``: metrics that a same-named kernel may have had. ``kinds``: messages that an earlier one, which names no
    kernel, may have given for this kernel.
    """
    kept = tuple(metric for metric in change.metrics if metric[0] not in names)
    appeared = tuple(kind for kind in change.appeared if kind not in kinds)
    left = [metric for metric in change.metrics if metric[0] in names]
    state = change.state if kept or appeared or change.vanished else "unknown"
    return replace(change, state=state, metrics=kept, unknown=by_rank((*change.unknown, *left)), appeared=appeared)


def changed(before: Kernel, after: Kernel, launches: Launches, devices: Sequence[str] = ()) -> Change | None:
    """Change between two records of one kernel; ``None`` if they are known to be equal."""
    return _changed(before, after, launches, devices, {})


_Known = dict[object, tuple[tuple[Delta, ...], tuple[Delta, ...], tuple[Effect, ...]]]
"""Differing metrics, unknown metrics, and effects, by everything of a pair that they depend on."""


def _changed(before: Kernel, after: Kernel, launches: Launches, devices: Sequence[str], known: _Known) -> Change | None:
    alike = reported_alike(before, after)
    differing, unknown, found = ((), (), ()) if alike else _differences(before, after, launches, devices, known)
    appeared, vanished = messages(before, after) if before.advisories or after.advisories else ((), ())
    differs = bool(differing or appeared or vanished or moved_bounds(before, after))
    settled = same_code(before, after) or (
        _settled(after) and ((alike and before.role == after.role) or _settled(before))
    )
    if settled and not differs and not unknown:
        return None
    return Change(
        state="changed" if differs else "unknown",
        before=before,
        after=after,
        metrics=differing,
        unknown=unknown,
        appeared=appeared,
        vanished=vanished,
        effects=found,
    )


def _differences(
    before: Kernel, after: Kernel, launches: Launches, devices: Sequence[str], known: _Known
) -> tuple[tuple[Delta, ...], tuple[Delta, ...], tuple[Effect, ...]]:
    """(differing metrics, metrics of one side only, effects); kernels with equal records are compared once."""
    facts = _facts(before, launches), _facts(after, launches)
    made = known.get(facts) if None not in facts else None
    if made is None:
        differing, unknown = compare(before, after)
        found = effects(before, after, launches, devices) if differing or unknown else ()
        both = [metric for metric in metrics(found) if None not in metric]
        one = [metric for metric in metrics(found) if None in metric]
        made = by_rank((*differing, *both)), by_rank((*unknown, *one)), found
        if None not in facts:
            known[facts] = made
    return made


def _facts(kernel: Kernel, launches: Launches) -> tuple[object, ...] | None:
    """Everything of a kernel that differences depend on; ``None`` if its code is known, too."""
    if kernel.sass is not None:
        return None
    launch = kernel.launch, launches.launch_of(kernel)
    return id(kernel.usage), kernel.key.arch, kernel.role, kernel.final, kernel.confidence, *launch


def _settled(kernel: Kernel) -> bool:
    """Whether the record contains what a gate needs."""
    return kernel.spills is not None and (kernel.role == "function" or kernel.usage.registers is not None)
