"""Which kernel of one build is which of another.

From sure to less sure; what one step pairs, the next does not see. Each step has a key and joins kernels of equal keys,
so its cost is that of building two dictionaries.

Kernels of one key (the same template in many objects, the lambdas of a function, statics of two files, what a tuner
compiled of one source) are aligned: nothing in their names says which is which, or only a number that moves. Equal code
is paired first, then what was compiled for the same launch; of what is left equals are paired with equals, the rest in
sequence, the nearest records first. None is lost.

What no identity pairs may bear another name now (:func:`renames`). Not all such pairs are looked at. Kernels meet in
blocks: those that share a part of their name, or a word of it. In each block both builds' kernels are put into one
order and only neighbours in it are candidates, so the cost grows as n log n however large a block is.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import cache
from itertools import chain, compress
from operator import attrgetter
from typing import NamedTuple

from spillscan.model import Kernel, Usage
from spillscan.model.symbols import arch_family
from spillscan.naming.identity.likeness import (
    SAME_BYTES,
    SAME_CODE,
    THRESHOLD,
    Likeness,
    NameParts,
    as_much,
    code,
    configuration,
    digest,
    name_parts,
    record,
    work,
)
from spillscan.naming.identity.symbol import canonical, source_file, source_name

_FEW = 64
"""More namesakes than this are not compared with each other, which costs their number squared."""
_COPY = re.compile(r"#\d+\Z")
_FIGURES = tuple(name for name in Usage.__struct_fields__ if name != "unknown_clauses")
_figures: Callable[[Usage], tuple[object, ...]] = attrgetter(*_FIGURES)

_Key = Callable[[Kernel], Hashable]
_Pairs = list[tuple[Kernel, Kernel]]


class Pair(NamedTuple):
    """A kernel of the base, its counterpart in the head; one of them ``None`` where there is none."""

    before: Kernel | None
    """In the base build."""
    after: Kernel | None
    """In the head build."""
    score: float = 1.0
    """1 where the identity is the same, less where they are alike."""


def pair(base: Iterable[Kernel], head: Iterable[Kernel], *, families: bool = True) -> list[Pair]:
    """Each kernel of either build once: with its counterpart, or alone.

    Device functions pair with device functions, and every kernel with one of the same arch; what is left, unless
    ``families`` is off, with one of the same family: ``sm_90a`` with ``sm_90``. What has no arch, because its input
    does not show one, pairs with any.
    """
    found = paired(base, head, families=families)
    return [
        *(Pair(before, after) for before, after in found.same),
        *(Pair(before, after, score) for before, after, score in found.renamed),
        *(Pair(kernel, None) for kernel in found.gone),
        *(Pair(None, kernel) for kernel in found.new),
    ]


class Paired(NamedTuple):
    """:func:`pair`, sorted out."""

    same: _Pairs
    """Of one identity."""
    renamed: list[Match]
    """Alike, under another name."""
    gone: list[Kernel]
    """In the base alone."""
    new: list[Kernel]
    """In the head alone."""


def paired(base: Iterable[Kernel], head: Iterable[Kernel], *, families: bool = True) -> Paired:
    """:func:`pair`, without a record for each kernel: there are very many, and most of them did not change."""
    pairs: _Pairs = []
    left, right, alone = _without_candidates(list(base), list(head), pairs)
    left, right = _join_by_name(left, right, pairs)
    for key in _KEYS + (_FAMILY_KEYS if families else ()):
        if not left or not right:
            break
        left, right = _join(left, right, key, pairs)
    left, right = _join_without_arch(left, right, pairs)
    found = renames(left, right, pairs, families=families)
    known = {id(before) for before, _, _ in found} | {id(after) for _, after, _ in found}
    return Paired(
        same=pairs,
        renamed=found,
        gone=[kernel for kernel in (*alone[0], *left) if id(kernel) not in known],
        new=[kernel for kernel in (*alone[1], *right) if id(kernel) not in known],
    )


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
    return _family(kernel), kernel.key.arch


def _family_unit(kernel: Kernel) -> Hashable:
    return _family(kernel), source_file(kernel.key.symbol), _unit(kernel)


def _family(kernel: Kernel) -> Hashable:
    return kernel.role == "function", canonical(kernel.key.symbol), arch_family(kernel.key.arch)


def _named(kernel: Kernel) -> Hashable:
    return kernel.role == "function", canonical(kernel.key.symbol)


_KEYS: tuple[_Key, ...] = (_moved, _canonical_unit, _canonical_file, _canonical)
_FAMILY_KEYS: tuple[_Key, ...] = (_family_unit, _family)


def _without_candidates(
    left: list[Kernel], right: list[Kernel], pairs: _Pairs
) -> tuple[list[Kernel], list[Kernel], tuple[list[Kernel], list[Kernel]]]:
    """What is left of each side without the candidates of tuners, and those that the other side does not have.

    A tuner compiles one symbol for several configurations: the same bytes are the same candidate, and so is an equal
    configuration. Another is never one that changed. Where only block sizes are known and some candidates are the same,
    one compiler made both sides of one source: then other code is another candidate.
    """
    tuned = ([kernel for kernel in side if kernel.configuration or kernel.launch_bounds] for side in (left, right))
    ours, theirs = (_grouped(filter(configuration, side), _candidates) for side in tuned)
    alone: tuple[list[Kernel], list[Kernel]] = ([], [])
    for name in [name for name, group in ours.items() if len(group) + len(theirs.get(name, ())) > 2]:
        mine, others = ours[name], theirs.get(name, [])
        if not others:
            continue
        same = _same_code(mine, others)
        rest, waiting = _but(mine, same), _grouped(_but(others, same), configuration)
        if not same or any(kernel.configuration for kernel in rest):
            for chosen, group in _grouped(rest, configuration).items():
                same += _by_figures(group, waiting.get(chosen, []))
        pairs += same
        alone[0].extend(_but(mine, same))
        alone[1].extend(_but(others, same))
    settled = {id(kernel) for kernel in chain(*alone, *pairs)}
    if settled:
        left, right = ([kernel for kernel in side if id(kernel) not in settled] for side in (left, right))
    return left, right, alone


def _candidates(kernel: Kernel) -> Hashable:
    return kernel.role == "function", kernel.key.symbol, kernel.key.arch


def _same_code(ours: list[Kernel], theirs: list[Kernel]) -> _Pairs:
    """Those that are the same byte for byte, of one symbol first."""
    pairs: _Pairs = []
    if not any(kernel.sass for kernel in ours):
        return pairs
    for key in (lambda kernel: (digest(kernel), kernel.key.symbol), digest):
        mine, others = (list(filter(digest, _but(side, pairs))) for side in (ours, theirs))
        pairs += _equal(mine, others, key)
    return pairs


def _join_by_name(left: list[Kernel], right: list[Kernel], pairs: _Pairs) -> tuple[list[Kernel], list[Kernel]]:
    """:func:`_join` by :func:`_exact`. Most kernels of two builds of one source are the only ones of their symbol, arch
    and unit on both sides: these are looked up by their keys as they are, in the same order."""
    waiting = {kernel.key: kernel for kernel in right}
    if any("#" in unit for unit in {key.unit for key in waiting}):
        return _join(left, right, _exact, pairs)
    several = (
        {kernel.key for kernel in right if waiting[kernel.key] is not kernel} if len(waiting) < len(right) else set()
    )
    others = [waiting.pop(kernel.key, None) for kernel in left]
    several |= {kernel.key for kernel, other in zip(left, others, strict=True) if other is None}
    sure: _Pairs = []
    rest: list[tuple[Kernel, int]] = []
    """What is not sure, and how many pairs stand before it."""
    for kernel, other in zip(left, others, strict=True):
        if (
            other is not None
            and kernel.key not in several
            and (kernel.role == other.role or "function" not in (kernel.role, other.role))
            and ((kernel.usage == other.usage and kernel.sass is other.sass) or not _is_numbered(kernel.key.symbol))
        ):
            sure.append((kernel, other))
        else:
            rest.append((kernel, len(sure)))
    if not rest and not waiting:
        pairs += sure
        return [], []
    loose = {*waiting, *(kernel.key for kernel, _ in rest)}
    joined: _Pairs = []
    unpaired = _join(
        [kernel for kernel, _ in rest], [kernel for kernel in right if kernel.key in loose], _exact, joined
    )
    first: dict[Hashable, int] = {}
    for kernel, place in rest:
        first.setdefault(_exact(kernel), place)
    at = 0
    for before, after in joined:
        place = first[_exact(before)]
        pairs += [*sure[at:place], (before, after)]
        at = place
    pairs += sure[at:]
    return unpaired


def _join(left: list[Kernel], right: list[Kernel], key: _Key, pairs: _Pairs) -> tuple[list[Kernel], list[Kernel]]:
    """Adds to ``pairs`` what agrees on ``key``; returns what is left of each side, in its order."""
    ours = _grouped(left, key)
    theirs = _grouped(right, key)
    left, right = [], []
    for identity, group in ours.items():
        others = theirs.pop(identity, None)
        if others is None:
            left += group
        elif len(group) == len(others) == 1:
            pairs.append((group[0], others[0]))
        else:
            joined = _aligned(group, others)
            pairs += joined
            left += _but(group, joined)
            right += _but(others, joined)
    for others in theirs.values():
        right += others
    return left, right


def _join_without_arch(left: list[Kernel], right: list[Kernel], pairs: _Pairs) -> tuple[list[Kernel], list[Kernel]]:
    """:func:`_join` by name, of kernels of either side that have no arch."""
    for one, other in ((left, right), (right, left)):
        nowhere = [kernel for kernel in one if kernel.key.arch is None]
        if nowhere and other:
            joined: _Pairs = []
            _join(nowhere, other, _named, joined)
            pairs += joined if one is left else [(before, after) for after, before in joined]
            left, right = _but(left, pairs), _but(right, pairs)
    return left, right


def _grouped(kernels: Iterable[Kernel], key: _Key) -> dict[Hashable, list[Kernel]]:
    groups: dict[Hashable, list[Kernel]] = {}
    for kernel in kernels:
        identity = key(kernel)
        group = groups.get(identity)
        if group is None:
            groups[identity] = [kernel]
        else:
            group.append(kernel)
    return groups


def _aligned(ours: list[Kernel], theirs: list[Kernel]) -> _Pairs:
    """Pairs of kernels of one identity, as many as the smaller group has."""
    ours, theirs = sorted(ours, key=_number), sorted(theirs, key=_number)
    usage = ours[0].usage
    alike = all(kernel.sass is None and kernel.usage == usage for kernel in chain(ours, theirs))
    if alike and list(map(_symbol, ours)) == list(map(_symbol, theirs)):  # their order is all that sets them apart
        return list(zip(ours, theirs, strict=True))
    pairs = _same_code(ours, theirs)
    return pairs + _by_figures(_but(ours, pairs), _but(theirs, pairs))


def _by_figures(ours: list[Kernel], theirs: list[Kernel]) -> _Pairs:
    pairs = _consistent(ours, theirs) if len(ours) <= _FEW and len(theirs) <= _FEW else []
    ours, theirs = _but(ours, pairs), _but(theirs, pairs)
    figures = _known(ours + theirs)
    pairs += _equal(ours, theirs, lambda kernel: (kernel.key.symbol, figures(kernel)))
    ours, theirs = _but(ours, pairs), _but(theirs, pairs)
    if len(ours) > _FEW or len(theirs) > _FEW:
        for key in (figures, _symbol, lambda kernel: None):
            pairs += _equal(ours, theirs, key)
            ours, theirs = _but(ours, pairs), _but(theirs, pairs)
        return pairs
    if Counter(map(_symbol, ours)) == Counter(map(_symbol, theirs)):  # nothing was put in between: numbers are names
        others = _grouped(theirs, _symbol)
        return pairs + [pair for name, same in _grouped(ours, _symbol).items() for pair in _nearest(same, others[name])]
    mine = other = 0
    sequence = SequenceMatcher(None, list(map(figures, ours)), list(map(figures, theirs)), autojunk=False)
    for block in sequence.get_matching_blocks():  # equals that stand in the same sequence on both sides
        pairs += _nearest(ours[mine : block.a], theirs[other : block.b])
        mine, other = block.a + block.size, block.b + block.size
        pairs += zip(ours[block.a : mine], theirs[block.b : other], strict=True)
    return pairs + _nearest(_but(ours, pairs), _but(theirs, pairs))


def _but(kernels: list[Kernel], pairs: _Pairs) -> list[Kernel]:
    if not pairs:
        return kernels
    paired = {id(kernel) for pair in pairs for kernel in pair}
    return [kernel for kernel in kernels if id(kernel) not in paired]


def _equal(ours: list[Kernel], theirs: list[Kernel], key: _Key) -> _Pairs:
    """What agrees on ``key``, the first with the first."""
    waiting = _grouped(reversed(theirs), key)
    return [(kernel, same.pop()) for kernel in ours if (same := waiting.get(key(kernel)))]


def _consistent(ours: list[Kernel], theirs: list[Kernel]) -> _Pairs:
    """Greedily the pairs of one symbol that differ in no figure that both report, those that share most first: of what
    several compilers wrote at once some figures are unknown, and not the same ones in each build."""
    figures = [_figures(kernel.usage) for kernel in ours + theirs]
    if all(column.count(None) in (0, len(column)) for column in zip(*figures, strict=True)):
        return []
    scored = []
    for index, mine in enumerate(ours):
        for position, other in enumerate(theirs):
            both = zip(figures[index], figures[len(ours) + position], strict=True)
            known = [one == two for one, two in both if None not in (one, two)]
            if mine.key.symbol == other.key.symbol and all(known):
                scored.append((-len(known), index, position))
    return _greedy(sorted(scored), ours, theirs)


def _nearest(ours: list[Kernel], theirs: list[Kernel]) -> _Pairs:
    """Greedily the pairs with the most alike records and code; among equals the earlier."""
    works = [list(map(work, side)) for side in (ours, theirs)]
    scored = sorted(
        (-record(mine.usage, other.usage) - as_much(works[0][index], works[1][position]), index, position)
        for index, mine in enumerate(ours)
        for position, other in enumerate(theirs)
    )
    return _greedy(scored, ours, theirs)


def _greedy(scored: list[tuple[int | float, int, int]], ours: list[Kernel], theirs: list[Kernel]) -> _Pairs:
    free_ours, free_theirs = set(range(len(ours))), set(range(len(theirs)))
    pairs = []
    for _, index, position in scored:
        if index in free_ours and position in free_theirs:
            free_ours.remove(index)
            free_theirs.remove(position)
            pairs.append((ours[index], theirs[position]))
    return pairs


def _known(kernels: list[Kernel]) -> _Key:
    """A kernel's figures, and what its machine code holds, as far as that is known of all ``kernels``."""
    known = [None not in column for column in zip(*(_figures(kernel.usage) for kernel in kernels), strict=True)]
    coded = all(kernel.sass for kernel in kernels)
    return lambda kernel: (*compress(_figures(kernel.usage), known), code(kernel) if coded else None)


def _symbol(kernel: Kernel) -> str:
    return kernel.key.symbol


def _number(kernel: Kernel) -> tuple[int, str]:
    """An order in which the ninth lambda stands before the tenth."""
    return len(kernel.key.symbol), kernel.key.symbol


Named = tuple[Kernel, NameParts]
"""A kernel with its name taken apart."""
Blocks = Callable[[Kernel, NameParts], Iterator[tuple[Hashable, ...]]]
"""The blocks that a kernel is in."""
Match = tuple[Kernel, Kernel, float]
"""Before, after, likeness."""

_SURE = 0.9
"""A pair that is this much alike in a strong block is not compared with weaker ones."""
_SUPPORT, _NO_SUPPORT = 0.2, 0.85
"""For functions of unlike names and the same signature: what it adds if all their instances, over all archs, have equal
records; the factor if too few have."""
_SOLE = 0.3
"""What it adds if theirs are the only function gone and the only one new in their unit, and both are templates with the
same scopes and parameters: renamed and changed at once."""
_ENOUGH = 2
"""How many equal records are no chance; one with a stack or spills counts as two."""
_MOST = 0.999
"""No likeness is an identity."""
_WINDOW = 3
"""Neighbours of the other build, to each side."""
_SAMPLE = 2000
"""How many paired kernels are asked for the words that are common in the build."""


def renames(
    left: Sequence[Kernel],
    right: Sequence[Kernel],
    paired: Sequence[tuple[Kernel, Kernel]],
    *,
    families: bool = True,
) -> list[Match]:
    """Kernels of the same role and arch (then, with ``families``, of the same family of archs), each at most once.

    ``paired`` are those of both builds that have kept their names: they show which words are common there, and which
    templates live on.
    """
    if not left or not right:
        return []
    sample = paired[:: len(paired) // _SAMPLE + 1]
    ours, theirs = _all_named(left), _all_named(right)
    names = [[name for _, name in ours], [name for _, name in theirs]]
    for side, known in enumerate(names):
        known += [name_parts(pair[side].key.symbol) for pair in sample]
    likeness = Likeness(names, _living(paired))
    archs = {kernel.key.arch for kernel in (*left, *right)}
    related = families and len(set(map(arch_family, archs))) < len(archs)
    found: list[Match] = []
    for target in (_arch, _family_of_arch) if related else (_arch,):
        for least, kinds in ((_SURE, (strong,)), (THRESHOLD, (strong, weak))):
            best = _best(candidates(ours, theirs, *kinds, target=target), ours, theirs, likeness, least)
            gone = {id(kernel) for before, after, _ in best for kernel in (before, after)}
            ours, theirs = ([named for named in side if id(named[0]) not in gone] for side in (ours, theirs))
            found += best
        # Where an instance of a template is an instance of another now, the others with equal arguments are, too.
        moved = {(_template(before.key.symbol), _template(after.key.symbol)) for before, after, _ in found}
        best = _best(_instances(ours, theirs, moved - {("", "")}, target), ours, theirs, likeness, 0)
        gone = {id(kernel) for before, after, _ in best for kernel in (before, after)}
        ours, theirs = ([named for named in side if id(named[0]) not in gone] for side in (ours, theirs))
        found += best
    return found


def _instances(
    ours: list[Named], theirs: list[Named], known: set[tuple[str, str]], target: Callable[[Kernel], str | None]
) -> Iterator[tuple[int, int]]:
    """Indices of instances with equal arguments of templates that are ``known`` to have been renamed."""
    waiting: dict[Hashable, list[int]] = defaultdict(list)
    for other, (kernel, name) in enumerate(theirs):
        waiting[_template(kernel.key.symbol), target(kernel), kernel.role, name.arguments.texts].append(other)
    renamed: dict[str, list[str]] = defaultdict(list)
    for old, new in known:
        renamed[old].append(new)
    for index, (kernel, name) in enumerate(ours):
        for new in renamed.get(_template(kernel.key.symbol), ()):
            for other in waiting.get((new, target(kernel), kernel.role, name.arguments.texts), ()):
                yield index, other


def _arch(kernel: Kernel) -> str | None:
    return kernel.key.arch


def _family_of_arch(kernel: Kernel) -> str | None:
    return arch_family(kernel.key.arch)


def _best(
    pairs: Iterable[tuple[int, int]], ours: list[Named], theirs: list[Named], likeness: Likeness, least: float
) -> list[Match]:
    """Each kernel once, the most alike pair first; among equals the order of names decides."""
    scored = []
    tallies: dict[Hashable, list[int]] = defaultdict(list)
    for index, other in pairs:
        (before, one), (after, two) = ours[index], theirs[other]
        unlike = likeness.unlike(one, two)
        scored.append((likeness.score(before, one, after, two), index, other, unlike))
        if unlike and one.arguments.texts == two.arguments.texts and one.parameters.texts == two.parameters.texts:
            equal = before.usage == after.usage
            tallies[one.template, two.template].append(_weight(before.usage) if equal else 0)
    gone, new = _functions(ours), _functions(theirs)
    codes = [[code(kernel) for kernel, _ in side] for side in (ours, theirs)]
    ranked = []
    for score, index, other, unlike in scored:
        (before, one), (after, two) = ours[index], theirs[other]
        if len(gone[before.key.unit]) == len(new[after.key.unit]) == 1 and _same_frame(one, two):
            total = max(score, min(score + _SOLE, _SURE))
        elif unlike:
            tally = tallies.get((one.template, two.template), [])
            if sum(tally) >= _ENOUGH:
                total = score + _SUPPORT * sum(map(bool, tally)) / len(tally)
            else:
                total = score * _NO_SUPPORT
        else:
            total = score
        if codes[0][index] is not None and codes[0][index] == codes[1][other]:
            same = digest(before) is not None and digest(before) == digest(after)
            least_alike, most_alike = (SAME_BYTES, 1.0) if same else (SAME_CODE, SAME_BYTES)
            total = least_alike + (most_alike - least_alike) * min(total, 1)
        if total >= least:
            ranked.append((-total, index, other))
    ranked.sort()
    matches: dict[int, Match] = {}
    taken = set[int]()
    for negative, index, other in ranked:
        if index not in matches and other not in taken:
            taken.add(other)
            matches[index] = ours[index][0], theirs[other][0], min(round(-negative, 3), _MOST)
    return list(matches.values())


def _functions(side: list[Named]) -> dict[str, set[Hashable]]:
    """Functions, all instances of a template being one, by unit."""
    found: dict[str, set[Hashable]] = defaultdict(set)
    for kernel, name in side:
        found[kernel.key.unit].add((kernel.role == "function", name.template))
    return found


def _same_frame(one: NameParts, other: NameParts) -> bool:
    """Whether they are two templates with the same scopes and parameters."""
    templates = bool(one.arguments.texts and other.arguments.texts) and one.base != other.base
    return templates and (one.scopes.texts, one.parameters.texts) == (other.scopes.texts, other.parameters.texts)


def _weight(usage: Usage) -> int:
    return _ENOUGH if usage.stack_bytes or usage.spill_bytes else 1


def _all_named(kernels: Sequence[Kernel]) -> list[Named]:
    ordered = sorted(kernels, key=lambda kernel: (kernel.key.symbol, kernel.key.arch or "", kernel.key.unit))
    return [(kernel, name_parts(kernel.key.symbol)) for kernel in ordered]


def _living(paired: Sequence[tuple[Kernel, Kernel]]) -> Callable[[str], bool]:
    """Whether instances of a symbol's template are among ``paired``; looked up only when first asked."""

    @cache
    def prefixes() -> frozenset[str]:
        return frozenset(_template(before.key.symbol) for before, _ in paired) - {""}

    return lambda symbol: _template(symbol) in prefixes()


def _template(symbol: str) -> str:
    """``_ZN2ns5scaleIfLi4EEvPT_`` -> ``_ZN2ns5scaleI``; empty for what is no template's instance."""
    found = _leading_names().match(symbol)
    return found[0] if found else ""


@cache
def _leading_names() -> re.Pattern[str]:
    return re.compile(rf"_ZN?{source_name()}+I", re.DOTALL)


def strong(kernel: Kernel, name: NameParts) -> Iterator[tuple[Hashable, ...]]:
    """Blocks in which all parts of the names but one agree, or the signature and the record."""
    scopes, base, arguments, parameters = name.scopes.texts, name.base, name.arguments.plain, name.parameters.plain
    yield "moved", base, arguments, parameters
    yield "parameters", scopes, base, arguments
    yield "arguments", scopes, base, parameters
    yield "renamed", scopes, arguments, parameters
    usage = kernel.usage
    if (same := code(kernel)) is not None:
        yield "code", same
    yield "record", arguments, parameters, usage.registers, usage.stack_bytes, usage.spills, usage.shared_bytes


def weak(kernel: Kernel, name: NameParts) -> Iterator[tuple[Hashable, ...]]:
    """Blocks in which one part, or one word of the base name, agrees."""
    yield "base", name.base
    if name.arguments.texts:
        yield "frame", name.scopes.texts, name.parameters.plain
    for word in name.words:
        if len(word) > 1:
            yield "word", word


def candidates(
    ours: Sequence[Named],
    theirs: Sequence[Named],
    *kinds: Blocks,
    target: Callable[[Kernel], str | None] = _arch,
) -> Iterator[tuple[int, int]]:
    """Pairs of indices, each once, of kernels that agree on ``target``."""
    seen: set[tuple[int, int]] = set()
    members: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, kernels in enumerate((ours, theirs)):
        for index, (kernel, name) in enumerate(kernels):
            group = kernel.role == "function", target(kernel)
            for blocks in kinds:
                for block in blocks(kernel, name):
                    members[group, block][side].append(index)
    for left, right in members.values():
        if left and right:
            for pair in _neighbours(left, right, ours, theirs):
                if pair not in seen:
                    seen.add(pair)
                    yield pair


def _neighbours(
    left: list[int], right: list[int], ours: Sequence[Named], theirs: Sequence[Named]
) -> Iterator[tuple[int, int]]:
    for text in (_forwards, _backwards):
        ordered = sorted((text(theirs[other][1]), other) for other in right)
        for index in left:
            at = bisect_left(ordered, (text(ours[index][1]), 0))
            for _, other in ordered[max(0, at - _WINDOW) : at + _WINDOW]:
                yield index, other


def _forwards(name: NameParts) -> tuple[str, ...]:
    return (*name.arguments.plain, *name.parameters.plain, name.base, *name.scopes.plain)


def _backwards(name: NameParts) -> tuple[str, ...]:
    return (name.base[::-1], *name.arguments.plain[::-1], *name.parameters.plain[::-1], *name.scopes.plain[::-1])
