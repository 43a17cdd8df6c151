"""Which kernel of one build is which of another.

From sure to less sure; what one step pairs, the next does not see. Each step has a key and joins kernels of equal keys,
so its cost is that of building two dictionaries. Several kernels of one key are aligned (``namesakes.py``). What no
identity pairs may bear another name now (``renames.py``).
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from spillscan.model import Kernel
from spillscan.model.symbols import arch_family
from spillscan.naming.identity.code import code, configuration
from spillscan.naming.identity.libraries import by_library
from spillscan.naming.identity.namesakes import Key, Pairs, aligned, but, by_figures, grouped, same_code
from spillscan.naming.identity.renames import Match, Renames, renames, stated_renames
from spillscan.naming.identity.symbol import canonical, source_file

_COPY = re.compile(r"#\d+\Z")


class Pair(NamedTuple):
    """A kernel of the base, its counterpart in the head; one of them ``None`` where there is none."""

    before: Kernel | None
    """In the base build."""
    after: Kernel | None
    """In the head build."""
    renamed: bool = False
    """Whether its name is another in the head."""


def pair(
    base: Iterable[Kernel], head: Iterable[Kernel], *, families: bool = True, alive: Sequence[str] = ()
) -> list[Pair]:
    """Each kernel of either build once: with its counterpart, or alone.

    Device functions pair with device functions, and every kernel with one of the same arch; what is left, unless
    ``families`` is off, with one of the same family: ``sm_90a`` with ``sm_90``. What has no arch, because its input
    does not show one, pairs with any. ``alive``: symbols of other kernels, which both builds have.
    """
    found = paired(base, head, families=families, alive=alive)
    return [
        *(Pair(before, after) for before, after in found.same),
        *(Pair(match.before, match.after, renamed=True) for match in found.renamed),
        *(Pair(kernel, None) for kernel in found.gone),
        *(Pair(None, kernel) for kernel in found.new),
    ]


class Paired(NamedTuple):
    """:func:`pair`, sorted out."""

    same: Pairs
    """Of one identity."""
    renamed: list[Match]
    """Under another name."""
    gone: list[Kernel]
    """In the base alone."""
    new: list[Kernel]
    """In the head alone."""


def paired(
    base: Iterable[Kernel],
    head: Iterable[Kernel],
    *,
    families: bool = True,
    stated: Renames = (),
    alive: Sequence[str] = (),
) -> Paired:
    """:func:`pair`, without a record for each kernel: there are very many, and most of them did not change.

    ``stated``: renames that the user states.
    """
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
        unpaired, unmet, alone = _of_one_identity(ours, theirs, pairs, families)
        left += unpaired
        right += unmet
        gone += alone[0]
        new += alone[1]
        if len(groups) > 1:
            library |= {id(kernel): number for kernel in (*unpaired, *unmet)}
    found = stated_renames(stated, left, right)
    settled = [(match.before, match.after) for match in found]
    found += renames(
        *(but(left, settled), but(right, settled), pairs, alive),
        families=families,
        library=lambda kernel: library.get(id(kernel)),
    )
    known = {id(kernel) for match in found for kernel in (match.before, match.after)}
    return Paired(
        same=pairs,
        renamed=found,
        gone=[kernel for kernel in (*gone, *left) if id(kernel) not in known],
        new=[kernel for kernel in (*new, *right) if id(kernel) not in known],
    )


def _of_one_identity(
    left: list[Kernel], right: list[Kernel], pairs: Pairs, families: bool
) -> tuple[list[Kernel], list[Kernel], tuple[list[Kernel], list[Kernel]]]:
    """Adds to ``pairs`` what any key joins; returns what is left of each side, and what has no counterpart."""
    left, right, alone = _without_candidates(left, right, pairs)
    for key in _KEYS + (_FAMILY_KEYS if families else ()):
        if not left or not right:
            break
        left, right = _join(left, right, key, pairs)
    left, right = _join_without_arch(left, right, pairs)
    return left, right, alone


def _exact(kernel: Kernel) -> Hashable:
    return _moved(kernel), _unit(kernel)


def _unit(kernel: Kernel) -> str:
    """The object, without the number of a copy: it says in which order files were read, and files have other names."""
    unit = kernel.key.unit
    return _COPY.sub("", unit) if "#" in unit else unit


def _moved(kernel: Kernel) -> Hashable:
    # The number of a lambda or of an unnamed type is no name: another one before it changes it. So the record and the
    # code must be the same, too, of every symbol that may hold one.
    key = kernel.key
    return (
        kernel.role == "function",
        key.symbol,
        key.arch,
        (kernel.usage, code(kernel)) if _is_numbered(key.symbol) else None,
    )


def _is_numbered(symbol: str) -> bool:
    return "Ul" in symbol or "Ut" in symbol or "lambda" in symbol or "unnamed" in symbol or "__nv_dl_tag" in symbol


def _canonical_unit(kernel: Kernel) -> Hashable:
    return _canonical_file(kernel), _unit(kernel)


def _canonical_file(kernel: Kernel) -> Hashable:
    return _canonical(kernel), source_file(kernel.key.symbol)


def _canonical(kernel: Kernel) -> Hashable:
    return kernel.role == "function", canonical(kernel.key.symbol), kernel.key.arch


def _family_unit(kernel: Kernel) -> Hashable:
    return _family(kernel), source_file(kernel.key.symbol), _unit(kernel)


def _family(kernel: Kernel) -> Hashable:
    return kernel.role == "function", canonical(kernel.key.symbol), arch_family(kernel.key.arch)


def _named(kernel: Kernel) -> Hashable:
    return kernel.role == "function", canonical(kernel.key.symbol)


_KEYS: tuple[Key, ...] = (_exact, _moved, _canonical_unit, _canonical_file, _canonical)
_FAMILY_KEYS: tuple[Key, ...] = (_family_unit, _family)


def _without_candidates(
    left: list[Kernel], right: list[Kernel], pairs: Pairs
) -> tuple[list[Kernel], list[Kernel], tuple[list[Kernel], list[Kernel]]]:
    """What is left of each side without the candidates of tuners, and those that the other side does not have.

    A tuner compiles one symbol for several configurations: the same bytes are the same candidate, and so is an equal
    configuration. Another is never one that changed. Where only block sizes are known and some candidates are the same,
    one compiler made both sides of one source: then other code is another candidate.
    """
    tuned = ([kernel for kernel in side if kernel.configuration or kernel.launch_bounds] for side in (left, right))
    ours, theirs = (grouped(filter(configuration, side), _candidates) for side in tuned)
    alone: tuple[list[Kernel], list[Kernel]] = ([], [])
    for name in [name for name, group in ours.items() if len(group) + len(theirs.get(name, ())) > 2]:
        mine, others = ours[name], theirs.get(name, [])
        if not others:
            continue
        same = same_code(mine, others)
        rest, waiting = but(mine, same), grouped(but(others, same), configuration)
        if not same or any(kernel.configuration for kernel in rest):
            for chosen, group in grouped(rest, configuration).items():
                same += by_figures(group, waiting.get(chosen, []))
        pairs += same
        alone[0].extend(but(mine, same))
        alone[1].extend(but(others, same))
    settled = {id(kernel) for kernel in chain(*alone, *pairs)}
    if settled:
        left, right = ([kernel for kernel in side if id(kernel) not in settled] for side in (left, right))
    return left, right, alone


def _candidates(kernel: Kernel) -> Hashable:
    return kernel.role == "function", kernel.key.symbol, kernel.key.arch


def _join(left: list[Kernel], right: list[Kernel], key: Key, pairs: Pairs) -> tuple[list[Kernel], list[Kernel]]:
    """Adds to ``pairs`` what agrees on ``key``; returns what is left of each side, in its order."""
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
            left += but(group, joined)
            right += but(others, joined)
    for others in theirs.values():
        right += others
    return left, right


def _join_without_arch(left: list[Kernel], right: list[Kernel], pairs: Pairs) -> tuple[list[Kernel], list[Kernel]]:
    """:func:`_join` by name, of kernels of either side that have no arch."""
    for one, other in ((left, right), (right, left)):
        nowhere = [kernel for kernel in one if kernel.key.arch is None]
        if nowhere and other:
            joined: Pairs = []
            _join(nowhere, other, _named, joined)
            pairs += joined if one is left else [(before, after) for after, before in joined]
            left, right = but(left, pairs), but(right, pairs)
    return left, right
