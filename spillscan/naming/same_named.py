"""Pair kernels of one identity across two builds, by the similarity of their records and machine code.

Instances of one template in many objects, lambdas of one function, statics of two files, autotuning configs of one
source: their names are the same, or differ by a number that changes between builds. Kernels with equal code are paired
first, then kernels with equal metrics, then the rest in sequence by most similar records. Every kernel is kept, paired
or not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from functools import cache
from itertools import chain, compress
from operator import attrgetter
from typing import TypeVar

from spillscan.model import Kernel, Usage
from spillscan.naming.symbol import source_name

_SHORT = 48
"""Minimum number of instructions; shorter code is often the same in unrelated kernels."""
METRICS = (
    "registers",
    "stack_bytes",
    "spill_store_bytes",
    "spill_load_bytes",
    "shared_bytes",
    "local_bytes",
    "barriers",
)
"""Metrics compared between records, besides constant bank 0, which holds the parameters."""


def record(before: Usage, after: Usage) -> float:
    """Similarity of two records, from 0 to 1; 0.5 if no metric is in both.

    A metric that only one record has is skipped; one that is 0 in both has a low weight.
    """
    value = weight = 0.0
    for name in METRICS:
        one, other = getattr(before, name), getattr(after, name)
        if one is None or other is None:
            continue
        share = 1.0 if one or other else 0.2
        weight += share
        value += share * (1.0 if one == other else min(one, other) / max(one, other))
    if before.constant_bytes and after.constant_bytes:
        weight += 1.0
        value += before.constant_bytes[0] == after.constant_bytes[0]
    return value / weight if weight else 0.5


def digest(kernel: Kernel) -> str | None:
    """Digest that is equal for byte-identical code; ``None`` if unknown."""
    return None if kernel.sass is None else kernel.sass.digest


def configuration(kernel: Kernel) -> Hashable:
    """Configuration that an autotuner chose for ``kernel``; ``None`` if unknown.

    The configuration that the tuner's compiler wrote with the code, else the block size that the code requires. Kernels
    of one symbol with different configurations are different autotuning configs, not one kernel that changed.
    """
    bounds = kernel.launch_bounds
    return kernel.configuration or (None if bounds is None else bounds.required_threads)


_LASTING = ("tensor", "global", "shared", "barrier", "sfu")
"""Instruction classes whose counts depend on the source more than on the compiler."""


def work(kernel: Kernel) -> tuple[int, ...] | None:
    """Instruction counts of the classes in :data:`_LASTING`, which compilers barely change; ``None`` without code."""
    if kernel.sass is None:
        return None
    classes = kernel.sass.opcode_classes
    return tuple(classes.get(name, 0) for name in _LASTING)


def as_much(one: tuple[int, ...] | None, other: tuple[int, ...] | None) -> float:
    """Similarity of two results of :func:`work`, from 0 to 1."""
    both = [(min(pair), max(pair)) for pair in zip(one or (), other or (), strict=False) if any(pair)]
    return sum(least / most for least, most in both) / len(both) if both else 0.0


def code(kernel: Kernel) -> Hashable:
    """Key that is equal for equal machine code from any input: instructions by opcode, and accesses to local memory.

    ``None`` if no code was read, or if it is too short to be distinctive.
    """
    sass = kernel.sass
    if sass is None or sass.instructions < _SHORT:
        return None
    return sass.instructions, sass.code_bytes, tuple(sass.opcodes), frozenset(sass.local.groups.items())


FEW = 64
"""Maximum number of same-named kernels to compare with each other; the cost is quadratic."""
_METRICS = tuple(name for name in Usage.__struct_fields__ if name != "unknown_clauses")
_metrics: Callable[[Usage], tuple[object, ...]] = attrgetter(*_METRICS)

K = TypeVar("K", bound=Hashable)
Key = Callable[[Kernel], Hashable]
"""Function of a kernel's attributes that must be equal in both builds to pair it."""
Pairs = list[tuple[Kernel, Kernel]]
"""Pairs of a kernel of the base and a kernel of the head."""


def grouped(kernels: Iterable[Kernel], key: Callable[[Kernel], K]) -> dict[K, list[Kernel]]:
    """Kernels by ``key``, in order of the first kernel of each group."""
    groups: dict[K, list[Kernel]] = {}
    for kernel in kernels:
        identity = key(kernel)
        group = groups.get(identity)
        if group is None:
            groups[identity] = [kernel]
        else:
            group.append(kernel)
    return groups


def aligned(ours: list[Kernel], theirs: list[Kernel]) -> Pairs:
    """Pairs of kernels of one identity; as many as the smaller group has kernels."""
    if len(ours) == len(theirs) == 1:
        return [(ours[0], theirs[0])]
    ours, theirs = sorted(ours, key=_number), sorted(theirs, key=_number)
    usage = ours[0].usage
    alike = all(kernel.sass is None and kernel.usage == usage for kernel in chain(ours, theirs))
    if alike and list(map(_symbol, ours)) == list(map(_symbol, theirs)):  # only their order tells them apart
        return list(zip(ours, theirs, strict=True))
    if any(kernel.key.arch is None and kernel.role == "function" for kernel in chain(ours, theirs)):
        return _of_unknown_archs(ours, theirs)
    pairs = same_code(ours, theirs)
    return pairs + by_metrics(without(ours, pairs), without(theirs, pairs))


def _of_unknown_archs(ours: list[Kernel], theirs: list[Kernel]) -> Pairs:
    """Pairs of device functions whose logs do not tell which record is for which arch; none if these could be crossed.

    They cannot if both sides have the same metrics, or if all records of one side are equal.
    """
    metrics = _known(ours + theirs)
    mine, others = (Counter(map(metrics, side)) for side in (ours, theirs))
    if mine == others:
        return _equal(ours, theirs, metrics)
    return list(zip(ours, theirs, strict=True)) if len(ours) == len(theirs) and 1 in (len(mine), len(others)) else []


def by_metrics(ours: list[Kernel], theirs: list[Kernel]) -> Pairs:
    """:func:`aligned` for kernels whose code differs: kernels of equal metrics first."""
    pairs = _consistent(ours, theirs) if len(ours) <= FEW and len(theirs) <= FEW else []
    ours, theirs = without(ours, pairs), without(theirs, pairs)
    metrics = _known(ours + theirs)
    pairs += _equal(ours, theirs, lambda kernel: (kernel.key.symbol, metrics(kernel)))
    ours, theirs = without(ours, pairs), without(theirs, pairs)
    if len(ours) > FEW or len(theirs) > FEW:
        for key in (metrics, _symbol, lambda kernel: None):
            pairs += _equal(ours, theirs, key)
            ours, theirs = without(ours, pairs), without(theirs, pairs)
        return pairs
    if Counter(map(_symbol, ours)) == Counter(map(_symbol, theirs)):  # no kernel added: numbers match
        others = grouped(theirs, _symbol)
        return pairs + [pair for name, same in grouped(ours, _symbol).items() for pair in _nearest(same, others[name])]
    from difflib import SequenceMatcher

    mine = other = 0
    sequence = SequenceMatcher(None, list(map(metrics, ours)), list(map(metrics, theirs)), autojunk=False)
    for block in sequence.get_matching_blocks():  # runs of kernels with equal metrics, in the same order on both sides
        pairs += _nearest(ours[mine : block.a], theirs[other : block.b])
        mine, other = block.a + block.size, block.b + block.size
        pairs += zip(ours[block.a : mine], theirs[block.b : other], strict=True)
    return pairs + _nearest(without(ours, pairs), without(theirs, pairs))


def without(kernels: list[Kernel], pairs: Pairs) -> list[Kernel]:
    """``kernels`` that are in none of ``pairs``."""
    if not pairs:
        return kernels
    paired = {id(kernel) for pair in pairs for kernel in pair}
    return [kernel for kernel in kernels if id(kernel) not in paired]


def _equal(ours: list[Kernel], theirs: list[Kernel], key: Key) -> Pairs:
    """Pair kernels with equal ``key``, in order."""
    waiting = grouped(reversed(theirs), key)
    return [(kernel, same.pop()) for kernel in ours if (same := waiting.get(key(kernel)))]


def _consistent(ours: list[Kernel], theirs: list[Kernel]) -> Pairs:
    """Greedily pair kernels of one symbol whose common metrics are all equal, most common metrics first.

    If several compilers wrote to one log at once, some metrics are unknown, and not the same ones in each build.
    """
    metrics = [_metrics(kernel.usage) for kernel in ours + theirs]
    if all(column.count(None) in (0, len(column)) for column in zip(*metrics, strict=True)):
        return []
    scored = []
    for index, mine in enumerate(ours):
        for position, other in enumerate(theirs):
            both = zip(metrics[index], metrics[len(ours) + position], strict=True)
            known = [one == two for one, two in both if None not in (one, two)]
            if mine.key.symbol == other.key.symbol and all(known):
                scored.append((-len(known), index, position))
    return _greedy(sorted(scored), ours, theirs)


def _nearest(ours: list[Kernel], theirs: list[Kernel]) -> Pairs:
    """Greedily pair the kernels with the most similar records and code; on a tie, the earlier ones."""
    works = [list(map(work, side)) for side in (ours, theirs)]
    scored = sorted(
        (-record(mine.usage, other.usage) - as_much(works[0][index], works[1][position]), index, position)
        for index, mine in enumerate(ours)
        for position, other in enumerate(theirs)
    )
    return _greedy(scored, ours, theirs)


def _greedy(scored: list[tuple[int | float, int, int]], ours: list[Kernel], theirs: list[Kernel]) -> Pairs:
    free_ours, free_theirs = set(range(len(ours))), set(range(len(theirs)))
    pairs = []
    for _, index, position in scored:
        if index in free_ours and position in free_theirs:
            free_ours.remove(index)
            free_theirs.remove(position)
            pairs.append((ours[index], theirs[position]))
    return pairs


def _known(kernels: list[Kernel]) -> Key:
    """Key of a kernel's metrics and machine code, limited to what is known of all ``kernels``."""
    known = [None not in column for column in zip(*(_metrics(kernel.usage) for kernel in kernels), strict=True)]
    coded = all(kernel.sass for kernel in kernels)
    return lambda kernel: (*compress(_metrics(kernel.usage), known), code(kernel) if coded else None)


def _symbol(kernel: Kernel) -> str:
    return kernel.key.symbol


def _number(kernel: Kernel) -> tuple[int, str]:
    """Sort key that puts the ninth lambda before the tenth."""
    return len(kernel.key.symbol), kernel.key.symbol


def same_code(ours: list[Kernel], theirs: list[Kernel]) -> Pairs:
    """Pairs of kernels with byte-identical code; of the same symbol first."""
    pairs: Pairs = []
    if not any(kernel.sass for kernel in ours):
        return pairs
    for key in (lambda kernel: (digest(kernel), kernel.key.symbol), digest):
        mine, others = (list(filter(digest, without(side, pairs))) for side in (ours, theirs))
        pairs += _equal(mine, others, key)
    return pairs


def template(symbol: str) -> str:
    """Prefix of a mangled template name, ``_ZN2ns5scaleIfLi4EEvPT_`` → ``_ZN2ns5scaleI``; empty if not a template."""
    match = _leading_names().match(symbol)
    return match[0] if match else ""


@cache
def _leading_names() -> re.Pattern[str]:
    return re.compile(rf"_ZN?{source_name()}+I", re.DOTALL)
