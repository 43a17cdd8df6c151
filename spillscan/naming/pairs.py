"""Pair the kernels of two builds.

The steps go from certain to less certain; a kernel paired by one step is not seen by the next. Each step joins kernels
with equal keys, so it costs two dictionaries. Several kernels of one key are aligned by ``same_named.py``. Kernels that
no step pairs may have been renamed (``renames.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache
from itertools import chain
from typing import NamedTuple

from spillscan.model import Kernel
from spillscan.model.symbols import arch_family
from spillscan.naming.libraries import below_root, by_library, library_of
from spillscan.naming.renames import Match, Renames, renames, stated_renames
from spillscan.naming.same_named import (
    Key,
    Pairs,
    aligned,
    by_metrics,
    code,
    configuration,
    grouped,
    same_code,
    without,
)
from spillscan.naming.symbol import canonical, source_file

_COPY = re.compile(r"#\d+\Z")


class Pair(NamedTuple):
    """A kernel of the base and its counterpart in the head; one of them is ``None`` if there is no counterpart."""

    before: Kernel | None
    """Kernel in the base build."""
    after: Kernel | None
    """Kernel in the head build."""
    renamed: bool = False
    """Whether the kernel has another name in the head."""


def pair(
    base: Iterable[Kernel], head: Iterable[Kernel], *, families: bool = True, alive: Sequence[str] = ()
) -> list[Pair]:
    """Every kernel of either build once: with its counterpart, or alone.

    Device functions pair with device functions, and kernels with kernels of the same arch. The rest pairs within the
    arch family (``sm_90a`` with ``sm_90``) unless ``families`` is off. A kernel whose input does not show its arch
    pairs with any arch. ``alive``: symbols of other kernels, which both builds have.
    """
    pairs = paired(base, head, families=families, alive=alive)
    return [
        *(Pair(before, after) for before, after in pairs.same),
        *(Pair(match.before, match.after, renamed=True) for match in pairs.renamed),
        *(Pair(kernel, None) for kernel in pairs.gone),
        *(Pair(None, kernel) for kernel in pairs.new),
    ]


class Paired(NamedTuple):
    """Result of :func:`pair` by kind."""

    same: Pairs
    """Kernels of one identity."""
    renamed: list[Match]
    """Kernels under another name."""
    gone: list[Kernel]
    """Kernels in the base only."""
    new: list[Kernel]
    """Kernels in the head only."""


def object_of(kernel: Kernel) -> str:
    """The object, without the number of a copy, which depends on the order of files, and files may be renamed."""
    unit = kernel.key.unit
    return _COPY.sub("", unit) if "#" in unit else unit


def places(kernels: Iterable[Kernel]) -> Callable[[Kernel], str]:
    """Function for the library and object of each of ``kernels``, as far as the inputs name them."""
    below = cache(below_root(kernels))

    def place(kernel: Kernel) -> str:
        library, unit = library_of(kernel, below), object_of(kernel)
        return unit if unit.startswith(library) else f"{library}:{unit}"

    return place


def paired(
    base: Iterable[Kernel],
    head: Iterable[Kernel],
    *,
    families: bool = True,
    stated: Renames = (),
    alive: Sequence[str] = (),
    place: Key = object_of,
) -> Paired:
    """:func:`pair` without a record per kernel, since there are many and most did not change.

    ``stated``: renames that the user states. ``place``: key of the place that tells same-named kernels apart.
    """
    keys = _keys(place, families)
    pairs: Pairs = []
    groups = by_library(list(base), list(head))
    gone: list[Kernel] = []
    new: list[Kernel] = []
    left: list[Kernel] = []
    right: list[Kernel] = []
    library: dict[int, int] = {}
    for number, (ours, theirs) in enumerate(groups):
        if len(groups) > 1 and not (ours and theirs):
            gone += ours
            new += theirs
            continue
        unpaired, unmet, alone = _of_one_identity(ours, theirs, pairs, keys)
        left += unpaired
        right += unmet
        gone += alone[0]
        new += alone[1]
        if len(groups) > 1:
            library |= {id(kernel): number for kernel in (*unpaired, *unmet)}
    renamed = stated_renames(stated, left, right)
    settled = [(match.before, match.after) for match in renamed]
    renamed += renames(
        *(without(left, settled), without(right, settled), pairs, alive),
        families=families,
        library=lambda kernel: library.get(id(kernel)),
    )
    known = {id(kernel) for match in renamed for kernel in (match.before, match.after)}
    return Paired(
        same=pairs,
        renamed=renamed,
        gone=[kernel for kernel in (*gone, *left) if id(kernel) not in known],
        new=[kernel for kernel in (*new, *right) if id(kernel) not in known],
    )


def _of_one_identity(
    left: list[Kernel], right: list[Kernel], pairs: Pairs, keys: Iterable[Key]
) -> tuple[list[Kernel], list[Kernel], tuple[list[Kernel], list[Kernel]]]:
    """Append to ``pairs`` the kernels that any key joins; returns the rest of each side and those without
    counterpart."""
    left, right, alone = _without_candidates(left, right, pairs)
    for key in keys:
        if not left or not right:
            break
        left, right = _join(left, right, key, pairs)
    left, right = _join_without_arch(left, right, pairs)
    return left, right, alone


def _moved(kernel: Kernel) -> Hashable:
    # The number of a lambda or unnamed type is not a stable name: a new one before it changes it. So a symbol that may
    # contain one also needs the same record and code.
    key = kernel.key
    return (
        kernel.role == "function",
        key.symbol,
        key.arch,
        (kernel.usage, code(kernel)) if _is_numbered(key.symbol) else None,
    )


def _is_numbered(symbol: str) -> bool:
    return "Ul" in symbol or "Ut" in symbol or "lambda" in symbol or "unnamed" in symbol or "__nv_dl_tag" in symbol


def _canonical_file(kernel: Kernel) -> Hashable:
    return _canonical(kernel), source_file(kernel.key.symbol)


def _canonical(kernel: Kernel) -> Hashable:
    return kernel.role == "function", canonical(kernel.key.symbol), kernel.key.arch


def _family_file(kernel: Kernel) -> Hashable:
    return _family(kernel), source_file(kernel.key.symbol)


def _family(kernel: Kernel) -> Hashable:
    return kernel.role == "function", canonical(kernel.key.symbol), arch_family(kernel.key.arch)


def _named(kernel: Kernel) -> Hashable:
    return kernel.role == "function", canonical(kernel.key.symbol)


def _keys(place: Key, families: bool) -> list[Key]:
    """Keys that join kernels, from certain to less certain."""

    def placed(key: Key) -> Key:
        return lambda kernel: (key(kernel), place(kernel))

    def of_known_place(kernel: Kernel) -> Hashable:
        return _canonical_file(kernel), place(kernel) or id(kernel)

    keys = [placed(_moved), of_known_place, _moved, _canonical_file, _canonical]
    return [*keys, placed(_family_file), _family] if families else keys


def _without_candidates(
    left: list[Kernel], right: list[Kernel], pairs: Pairs
) -> tuple[list[Kernel], list[Kernel], tuple[list[Kernel], list[Kernel]]]:
    """Pair autotuning configs; returns the rest of each side and the configs that the other side lacks.

    A tuner compiles one symbol for several configurations. Configs pair if their code is byte-identical or their
    configuration is equal; a config without such a match is new or gone, not changed. If only block sizes are known and
    some configs are identical, the same compiler built both sides from the same source, so any other code is another
    config.
    """
    tuned = ([kernel for kernel in side if kernel.configuration or kernel.launch_bounds] for side in (left, right))
    ours, theirs = (grouped(filter(configuration, side), _candidates) for side in tuned)
    alone: tuple[list[Kernel], list[Kernel]] = ([], [])
    for name in [name for name, group in ours.items() if len(group) + len(theirs.get(name, ())) > 2]:
        mine, others = ours[name], theirs.get(name, [])
        if not others:
            continue
        same = same_code(mine, others)
        rest, waiting = without(mine, same), grouped(without(others, same), configuration)
        if not same or any(kernel.configuration for kernel in rest):
            for chosen, group in grouped(rest, configuration).items():
                same += by_metrics(group, waiting.get(chosen, []))
        pairs += same
        alone[0].extend(without(mine, same))
        alone[1].extend(without(others, same))
    settled = {id(kernel) for kernel in chain(*alone, *pairs)}
    if settled:
        left, right = ([kernel for kernel in side if id(kernel) not in settled] for side in (left, right))
    return left, right, alone


def _candidates(kernel: Kernel) -> Hashable:
    return kernel.role == "function", kernel.key.symbol, kernel.key.arch


def _join(left: list[Kernel], right: list[Kernel], key: Key, pairs: Pairs) -> tuple[list[Kernel], list[Kernel]]:
    """Append to ``pairs`` the kernels with equal ``key``; returns the rest of each side, in its order."""
    ours = grouped(left, key)
    theirs = grouped(right, key)
    left, right = [], []
    for identity, group in ours.items():
        others = theirs.pop(identity, None)
        if others is None:
            left += group
        elif len(group) == len(others) == 1:
            pairs.append((group[0], others[0]))
        else:
            joined = aligned(group, others)
            pairs += joined
            left += without(group, joined)
            right += without(others, joined)
    for others in theirs.values():
        right += others
    return left, right


def _join_without_arch(left: list[Kernel], right: list[Kernel], pairs: Pairs) -> tuple[list[Kernel], list[Kernel]]:
    """:func:`_join` by name, for kernels of either side without an arch."""
    for one, other in ((left, right), (right, left)):
        nowhere = [kernel for kernel in one if kernel.key.arch is None]
        if nowhere and other:
            joined: Pairs = []
            _join(nowhere, other, _named, joined)
            pairs += joined if one is left else [(before, after) for after, before in joined]
            left, right = without(left, pairs), without(right, pairs)
    return left, right
