"""Which kernels of two builds are the same under another name.

Equal code comes first, where no other kernel has it. Then what the names of both builds say: substitutions that explain
several of them (:mod:`spillscan.naming.identity.substitutions`). Both are facts. What they leave open is paired by
likeness, and is a guess: one of several, and never a fact.

Of likeness not all pairs are looked at. Kernels meet in blocks: those that share a part of their name, or a word of it.
In each block both builds' kernels are put into one order and only neighbours in it are candidates, so the cost grows as
n log n however large a block is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain

from spillscan.model import Evidence, EvidenceKind, Kernel, Usage
from spillscan.model.symbols import arch_family
from spillscan.naming.identity.likeness import (
    SAME_BYTES,
    SAME_CODE,
    THRESHOLD,
    Likeness,
    NameParts,
    code,
    digest,
    name_parts,
)
from spillscan.naming.identity.namesakes import MOST, Match, Target, aligned, but, by_code, grouped, template
from spillscan.naming.identity.spelling import Name, spelled
from spillscan.naming.identity.substitutions import Agreement, Reach, Vocabulary, learn

Named = tuple[Kernel, NameParts]
"""A kernel with its name taken apart."""
Blocks = Callable[[Kernel, NameParts], Iterator[tuple[Hashable, ...]]]
"""The blocks that a kernel is in."""


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
_LIKELY = 0.95
"""No likeness of names is more than that."""
_RIVAL = 0.1
"""What is less alike by no more than this may be the one as well."""
_WINDOW = 3
"""Neighbours of the other build, to each side."""
_SAMPLE = 2000
"""How many paired kernels are asked for the words that are common in the build."""


def renames(
    left: Sequence[Kernel],
    right: Sequence[Kernel],
    paired: Sequence[tuple[Kernel, Kernel]],
    alive: Sequence[str] = (),
    *,
    families: bool = True,
    library: Callable[[Kernel], Hashable] = lambda kernel: None,
    given: Sequence[tuple[str, str]] = (),
) -> list[Match]:
    """Kernels of the same role, ``library`` and arch (then, with ``families``, of the same family of archs), each at
    most once. ``given``: words that were replaced by others, as the user says.

    ``paired`` are those of both builds that have kept their names, ``alive`` the symbols of others: they show which
    words are common there, which are new or gone, and which templates live on.
    """
    if not left or not right:
        return []
    archs = {kernel.key.arch for kernel in (*left, *right)}
    related = families and len(set(map(arch_family, archs))) < len(archs)
    targets: list[Target] = [lambda kernel: (kernel.key.arch, library(kernel))]
    if related:
        targets.append(lambda kernel: (arch_family(kernel.key.arch), library(kernel)))
    found: list[Match] = []
    perhaps: Reach = {}
    names = [[*(pair[side].key.symbol for pair in paired), *alive] for side in (0, 1)]
    kept = set(names[0]), set(names[1])
    for target in targets:
        found += by_code(_but(left, found), _but(right, found), paired, kept[0] | kept[1], target)
        sides = _but(left, found), _but(right, found)
        found += _by_substitution(*sides, kept, target, given=given, perhaps=perhaps, known=found)
    return [*found, *_by_likeness(_but(left, found), _but(right, found), names, targets, perhaps)]


def _but(kernels: Sequence[Kernel], found: Iterable[Match]) -> list[Kernel]:
    known = {id(kernel) for kernel in chain(*_sides(found))}
    return [kernel for kernel in kernels if id(kernel) not in known]


def _by_substitution(
    left: list[Kernel],
    right: list[Kernel],
    kept: tuple[set[str], set[str]],
    target: Target,
    *,
    given: Sequence[tuple[str, str]],
    perhaps: Reach,
    known: Sequence[Match],
) -> Iterator[Match]:
    """Kernels that are called as rules say which the names of both builds make; what such rules leave open is added to
    ``perhaps``. ``kept``: symbols that kept their names, by build; ``known``: kernels that their code has paired, which
    speak for a name as those of equal figures do."""
    if not left or not right:
        return
    sides = [_by_name(side) for side in (left, right)]
    named = [_by_name(chain(*several)) for several in zip((left, right), _sides(known), strict=True)]
    gone, new = (
        [
            name
            for name, kernels in sides[at].items()
            if name not in sides[1 - at] and not any(kernel.key.symbol in kept[1 - at] for kernel in kernels)
        ]
        for at in (0, 1)
    )
    concerned = (*gone, *new)
    shared = Vocabulary((), kept[0] & kept[1], concerned)
    vocabularies = [Vocabulary(own, kept[at] - kept[1 - at], concerned, shared) for at, own in enumerate((gone, new))]

    @cache
    def figures(side: int, name: Name) -> Counter[tuple[Hashable, Usage]]:
        return Counter((target(kernel), kernel.usage) for kernel in named[side][name])

    def equal(x: Name, y: Name) -> Agreement:
        one, other = figures(0, x), figures(1, y)
        both = one & other
        share = both.total() / max(one.total(), other.total())
        return Agreement(share, len(both), len({usage for _, usage in both}))

    learnt, unsure = learn(gone, new, vocabularies, equal, given)
    perhaps |= unsure
    for name, explained in learnt.items():
        score = round(_LIKELY + (MOST - _LIKELY) * (1 - 1 / (1 + explained.names)), 3)
        ours, theirs = sides[0][name], sides[1][explained.after]
        for place in (
            (lambda kernel: (kernel.role, target(kernel), kernel.key.unit)),
            (lambda kernel: (kernel.role, target(kernel))),
        ):
            waiting = grouped(theirs, place)
            for key, mine in grouped(ours, place).items():
                others = waiting.get(key, [])
                several = max(len(set(map(_distinct_by, each))) for each in (mine, others))  # equals are alike
                evidence = Evidence(
                    kind="substitution",
                    rule=str(explained.rule),
                    explains=explained.names,
                    one_of=several if several > 1 else None,
                )
                pairs = aligned(mine, others) if others else []
                ours, theirs = but(ours, pairs), but(theirs, pairs)
                yield from (Match(before, after, score, evidence) for before, after in pairs)


def _sides(found: Iterable[Match]) -> tuple[list[Kernel], list[Kernel]]:
    return [match.before for match in found], [match.after for match in found]


def _distinct_by(kernel: Kernel) -> Hashable:
    """What copies of one kernel, in several objects, may differ in."""
    return kernel.key.symbol, kernel.usage, digest(kernel)


def _by_name(kernels: Iterable[Kernel]) -> dict[Name, list[Kernel]]:
    found: dict[Name, list[Kernel]] = defaultdict(list)
    for symbol, several in grouped(kernels, lambda kernel: kernel.key.symbol).items():
        found[spelled(str(symbol))] += several
    return found


def _by_likeness(
    left: list[Kernel], right: list[Kernel], kept: Sequence[Sequence[str]], targets: Sequence[Target], perhaps: Reach
) -> list[Match]:
    """The most alike, as guesses; then what a rule makes of names, however unlike their kernels are."""
    if not left or not right:
        return []
    ours, theirs = _all_named(left), _all_named(right)
    names = [[name for _, name in ours], [name for _, name in theirs]]
    for some, symbols in zip(names, kept, strict=True):
        some.extend(map(name_parts, symbols[:: len(symbols) // _SAMPLE + 1]))
    likeness = Likeness(names, _living(kept[0]))
    found: list[Match] = []
    for target in targets:
        for least, kinds in ((_SURE, (strong,)), (THRESHOLD, (strong, weak))):
            best = _best(candidates(ours, theirs, *kinds, target=target), ours, theirs, likeness, least)
            gone = {id(kernel) for match in best for kernel in (match.before, match.after)}
            ours, theirs = ([named for named in side if id(named[0]) not in gone] for side in (ours, theirs))
            found += best
        # Where an instance of a template is an instance of another now, the others with equal arguments are, too.
        moved = {(template(match.before.key.symbol), template(match.after.key.symbol)) for match in found}
        several = chain(_instances(ours, theirs, moved - {("", "")}, target), _reached(ours, theirs, perhaps, target))
        best = _best(several, ours, theirs, likeness, 0)
        gone = {id(kernel) for match in best for kernel in (match.before, match.after)}
        ours, theirs = ([named for named in side if id(named[0]) not in gone] for side in (ours, theirs))
        found += best
    return found


def _instances(
    ours: list[Named], theirs: list[Named], known: set[tuple[str, str]], target: Target
) -> Iterator[tuple[int, int]]:
    """Indices of instances with equal arguments of templates that are ``known`` to have been renamed."""
    waiting: dict[Hashable, list[int]] = defaultdict(list)
    for other, (kernel, name) in enumerate(theirs):
        waiting[template(kernel.key.symbol), target(kernel), kernel.role, name.arguments.texts].append(other)
    renamed: dict[str, list[str]] = defaultdict(list)
    for old, new in known:
        renamed[old].append(new)
    for index, (kernel, name) in enumerate(ours):
        for new in renamed.get(template(kernel.key.symbol), ()):
            for other in waiting.get((new, target(kernel), kernel.role, name.arguments.texts), ()):
                yield index, other


def _reached(ours: list[Named], theirs: list[Named], perhaps: Reach, target: Target) -> Iterator[tuple[int, int]]:
    """Indices of kernels whose names a rule makes of each other."""
    waiting: dict[Hashable, list[int]] = defaultdict(list)
    for other, (kernel, _) in enumerate(theirs if perhaps else ()):
        waiting[spelled(kernel.key.symbol), target(kernel), kernel.role].append(other)
    for index, (kernel, _) in enumerate(ours if perhaps else ()):
        for name in perhaps.get(spelled(kernel.key.symbol), ()):
            for other in waiting.get((name, target(kernel), kernel.role), ()):
                yield index, other


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
    supports = {
        names: _SUPPORT * sum(map(bool, tally)) / len(tally)
        for names, tally in tallies.items()
        if sum(tally) >= _ENOUGH
    }
    gone, new = _functions(ours), _functions(theirs)
    codes = [[code(kernel) for kernel, _ in side] for side in (ours, theirs)]
    ranked = []
    for score, index, other, unlike in scored:
        (before, one), (after, two) = ours[index], theirs[other]
        if len(gone[before.key.unit]) == len(new[after.key.unit]) == 1 and _same_frame(one, two):
            total = max(score, min(score + _SOLE, _SURE))
        elif unlike:
            support = supports.get((one.template, two.template))
            total = score * _NO_SUPPORT if support is None else score + support
        else:
            total = score
        if codes[0][index] is not None and codes[0][index] == codes[1][other]:
            same = digest(before) is not None and digest(before) == digest(after)
            least_alike, most_alike = (SAME_BYTES, 1.0) if same else (SAME_CODE, SAME_BYTES)
            total = least_alike + (most_alike - least_alike) * min(total, 1)
            total = min(total, MOST)
        else:
            total = min(total, _LIKELY)
        if total >= least:
            ranked.append((-total, index, other))
    ranked.sort()
    near: tuple[dict[int, dict[Hashable, float]], ...] = defaultdict(dict), defaultdict(dict)
    for negative, index, other in ranked:  # of copies that nothing tells apart, one
        near[0][index].setdefault(_distinct_by(theirs[other][0]), -negative)
        near[1][other].setdefault(_distinct_by(ours[index][0]), -negative)
    matches: dict[int, Match] = {}
    taken = set[int]()
    for negative, index, other in ranked:
        if index not in matches and other not in taken:
            taken.add(other)
            rivals = (near[0][index].values(), near[1][other].values())
            several = max(sum(score >= -negative - _RIVAL for score in each) for each in rivals)
            kind: EvidenceKind = "code" if -negative >= SAME_CODE else "likeness"
            evidence = Evidence(kind=kind, one_of=several)
            matches[index] = Match(ours[index][0], theirs[other][0], round(-negative, 3), evidence)
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


def _living(kept: Sequence[str]) -> Callable[[str], bool]:
    """Whether instances of a symbol's template are among ``kept``; looked up only when first asked."""

    @cache
    def prefixes() -> frozenset[str]:
        return frozenset(map(template, kept)) - {""}

    return lambda symbol: template(symbol) in prefixes()


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
    ours: Sequence[Named], theirs: Sequence[Named], *kinds: Blocks, target: Target = lambda kernel: kernel.key.arch
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
