"""Pairs the kernels of two builds and tells what changed. Pure: two builds in, changes out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from spillscan.compare import by_rank, compare, damage, messages
from spillscan.effects import effects, metrics
from spillscan.model import Build, Change, Kernel
from spillscan.policy import LaunchMap

_Identity = Callable[[Kernel], Hashable]

# From sure to less sure; what one pairs, the next does not see.
_IDENTITIES: tuple[_Identity, ...] = (
    lambda kernel: (kernel.role == "function", kernel.key),
    lambda kernel: (kernel.role == "function", kernel.key.symbol, kernel.key.arch),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All pairs of two builds, sorted out."""

    changes: tuple[Change, ...] = ()
    """Added, removed, renamed and changed kernels, worst first."""
    unsettled: tuple[Change, ...] = ()
    """Pairs in which nothing is known to differ, but a build does not tell all that the other tells, or none of them
    tells registers or spills."""


def diff(base: Build, head: Build, launches: LaunchMap | None = None, devices: Sequence[str] = ()) -> list[Change]:
    """Added, removed and changed kernels, worst first; kernels that are not known to have changed are left out."""
    return list(comparison(base, head, launches, devices).changes)


def comparison(base: Build, head: Build, launches: LaunchMap | None = None, devices: Sequence[str] = ()) -> Comparison:
    """:func:`diff`, and the pairs that nobody can judge.

    ``launches`` tells how kernels are launched, ``devices`` (``H200``, ``sm_86``) on what; by default each kernel's
    own target.
    """
    changes: list[Change] = []
    unsettled: list[Change] = []
    for before, after in pair(base.kernels, head.kernels):
        if before is None or after is None:
            state = "added" if before is None else "removed"
            changes.append(Change(state=state, before=before, after=after))  # type: ignore[arg-type]
        elif change := changed(before, after, launches or LaunchMap(), devices):
            (unsettled if change.state == "unknown" else changes).append(change)
    return Comparison(changes=tuple(sorted(changes, key=damage)), unsettled=tuple(sorted(unsettled, key=damage)))


def changed(before: Kernel, after: Kernel, launches: LaunchMap, devices: Sequence[str] = ()) -> Change | None:
    """What differs between two records of one kernel; ``None`` where they are known to be equal."""
    differing, unknown = compare(before, after)
    appeared, vanished = messages(before, after)
    if not differing and not unknown and not appeared and not vanished and _settled(before) and _settled(after):
        return None
    found = effects(before, after, launches, devices) if differing or unknown else ()
    told = [metric for metric in metrics(found) if None not in metric]
    return Change(
        state="changed" if differing or appeared or vanished else "unknown",
        before=before,
        after=after,
        metrics=by_rank((*differing, *told)),
        unknown=by_rank((*unknown, *(metric for metric in metrics(found) if None in metric))),
        appeared=appeared,
        vanished=vanished,
        effects=found,
    )


def _settled(kernel: Kernel) -> bool:
    """Whether the record tells what a gate must know."""
    return kernel.spills is not None and (kernel.role == "function" or kernel.usage.registers is not None)


def pair(base: Iterable[Kernel], head: Iterable[Kernel]) -> list[tuple[Kernel | None, Kernel | None]]:
    """Each kernel of either build once: with its counterpart, or alone."""
    pairs: list[tuple[Kernel | None, Kernel | None]] = []
    left, right = list(base), list(head)
    for identity in _IDENTITIES:
        befores: dict[Hashable, list[Kernel]] = defaultdict(list)
        for kernel in left:
            befores[identity(kernel)].append(kernel)
        afters: dict[Hashable, list[Kernel]] = defaultdict(list)
        for kernel in right:
            afters[identity(kernel)].append(kernel)
        left, right = [], []
        for key in dict.fromkeys((*befores, *afters)):
            ours, theirs = _align(befores.get(key, []), afters.get(key, []))
            shared = min(len(ours), len(theirs))
            pairs += zip(ours[:shared], theirs[:shared], strict=True)
            left += ours[shared:]
            right += theirs[shared:]
    return pairs + [(kernel, None) for kernel in left] + [(None, kernel) for kernel in right]


def _align(ours: list[Kernel], theirs: list[Kernel]) -> tuple[list[Kernel], list[Kernel]]:
    """Namesakes in an order that pairs equals with equals first, so that a pure reordering is no change."""
    if len(ours) <= 1 and len(theirs) <= 1:
        return ours, theirs
    same_ours, same_theirs, rest = [], [], list(theirs)
    for kernel in ours:
        twin = next((other for other in rest if compare(kernel, other) == ((), ())), None)
        if twin is not None:
            rest.remove(twin)
            same_ours.append(kernel)
            same_theirs.append(twin)
    kept = set(map(id, same_ours))
    return same_ours + [kernel for kernel in ours if id(kernel) not in kept], same_theirs + rest
