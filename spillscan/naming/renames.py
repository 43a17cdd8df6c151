"""Detect renamed kernels: by a substitution that maps names one to one, or by renames that the user states.

A substitution replaces a text in names (``flash → fa3``), adds or removes a scope, words at either end of an identifier
or one template argument, or changes a function's parameters. It counts if it maps all kernels of each function that it
touches, each to one kernel, and if no rival maps them otherwise. A rule that maps only a subset of another's names is
no rival. Kernels that no substitution maps were added or removed.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from spillscan.model import Evidence, Kernel
from spillscan.model.symbols import UNNAMED, Demangled, Function, arch_family, demangle, spellings
from spillscan.naming.same_named import digest, grouped, template, without
from spillscan.naming.symbol import canonical

_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|_+|\$+|.")
_PIECE = re.compile(r"[A-Za-z_$][\w$]*|[^A-Za-z_$]+")
_PART = re.compile(r"[A-Z]{2,}(?![a-z])\d*|[A-Z]?[a-z]+\d*")
_BUILTIN = frozenset(
    [
        "void",
        "bool",
        "char",
        "short",
        "int",
        "long",
        "signed",
        "unsigned",
        "float",
        "double",
        "const",
        "volatile",
        "true",
        "false",
        "anon",
    ]
)
_MOST_PAIRS = 900
"""Maximum number of pairs that one replaced text may match; beyond it, the text is not distinctive."""
_MOST_WORDS = 60
"""Maximum number of identifiers per name, and of words per identifier, to try."""
_ADDED_WORDS = 4
_ROUNDS = 3
_AGREE = 0.3
"""Minimum share of a function's kernels with equal metrics."""

Renames = Sequence[tuple[str, str]]
"""Globs of old and new names; both have the same number of stars."""


class Match(Struct, frozen=True):
    """A kernel under its old and new name."""

    before: Kernel
    after: Kernel
    evidence: Evidence


_IN_PATH = ("prefix", "suffix", "scope")
_PARAMETERS = "\0"


class _Rule(NamedTuple):
    """A substitution in names."""

    old: str
    new: str
    where: str = ""
    """One of :data:`_IN_PATH`, or the function whose argument or parameters the rule changes."""

    def __str__(self) -> str:
        if self.old and self.new:
            return f"{self.old} → {self.new}"
        if self.new == _PARAMETERS:
            return f"parameters of {self.where} changed"
        what = "argument " * (self.where not in _IN_PATH)
        return f"{what}{self.new} added" if self.new else f"{what}{self.old} gone"


_Pairs = dict[str, str]
"""New names by old names, one to one."""


def stated_renames(renames: Renames, gone: Iterable[Kernel], new: Iterable[Kernel]) -> list[Match]:
    """Kernels paired by ``renames``: one symbol of ``gone`` with one of ``new``, of the same role and arch."""
    sides = [grouped(kernels, lambda kernel: kernel.key.symbol) for kernels in (gone, new)]
    if not renames or not all(sides):
        return []
    known: dict[str, set[str]] = defaultdict(set)
    for symbol in map(str, sides[1]):
        for name in spellings(symbol):
            known[name].add(symbol)
    by_old: dict[str, set[str]] = {}
    rules: dict[str, str] = {}
    for symbol in map(str, sides[0]):
        for old, now in renames:
            made = {name for each in spellings(symbol) if (name := _rewritten(each, old, now))}
            if targets := {target for name in made for target in known.get(name, ())}:
                by_old.setdefault(symbol, set()).update(targets)
                rules[symbol] = f"{old} → {now}"
    times = Counter(target for targets in by_old.values() for target in targets)
    single = {old: target for old, targets in by_old.items() if len(targets) == 1 for target in targets}
    pairs = {old: target for old, target in single.items() if times[target] == 1}
    matches = []
    for old, target in pairs.items():
        evidence = Evidence(kind="stated", rule=rules[old], explains=Counter(map(rules.get, pairs))[rules[old]])
        joined = _joined(sides[0][old], sides[1][target], [_role_arch_unit, _role_arch])
        matches += [Match(before, after, evidence) for before, after in joined]
    return matches


def _rewritten(name: str, old: str, new: str) -> str:
    """``name`` rewritten to ``new`` if it matches the glob ``old``, with shortest matches; else empty."""
    first, *rest = old.split("*")
    if not rest:
        return new if name == old else ""
    if not name.startswith(first) or not name.endswith(rest[-1]) or len(name) < len(first) + len(rest[-1]):
        return ""
    at, end = len(first), len(name) - len(rest[-1])
    stars = []
    for piece in rest[:-1]:
        start = name.find(piece, at, end)
        if start < 0:
            return ""
        stars.append(name[at:start])
        at = start + len(piece)
    stars.append(name[at:end])
    pieces = new.split("*")
    return pieces[0] + "".join(star + piece for star, piece in zip(stars, pieces[1:], strict=True))


def renames(
    left: Sequence[Kernel],
    right: Sequence[Kernel],
    paired: Iterable[tuple[Kernel, Kernel]],
    alive: Iterable[str] = (),
    *,
    families: bool = True,
    library: Callable[[Kernel], Hashable] = lambda kernel: None,
) -> list[Match]:
    """Kernels of ``left`` and ``right`` that a substitution pairs, of the same role, ``library`` and arch.

    With ``families``, the rest pairs within the arch family. ``paired`` and ``alive`` (symbols) kept their names.
    """
    if not left or not right:
        return []
    kept = {*alive, *(kernel.key.symbol for pair in paired for kernel in pair)}
    sides = [_by_name(kernels) for kernels in (left, right)]
    gone, new = ({*sides[at]} - {*sides[1 - at]} - {*map(spelled, kept & _symbols(sides[at]))} for at in (0, 1))
    places = [
        lambda kernel: (*_role_arch_unit(kernel), library(kernel)),
        lambda kernel: (*_role_arch(kernel), library(kernel)),
    ]
    if families:
        places.append(lambda kernel: (kernel.role == "function", arch_family(kernel.key.arch), library(kernel)))
    matches = []
    for rule, pairs in _substitutions(gone, new, kept, sides).items():
        evidence = Evidence(kind="substitution", rule=str(rule), explains=len(pairs))
        for old, now in pairs.items():
            joined = _joined(sides[0][old], sides[1][now], places)
            matches += [Match(before, after, evidence) for before, after in joined]
    return matches


def _symbols(side: dict[str, list[Kernel]]) -> set[str]:
    return {kernel.key.symbol for kernels in side.values() for kernel in kernels}


def _role_arch(kernel: Kernel) -> tuple[Hashable, ...]:
    return kernel.role == "function", kernel.key.arch


def _role_arch_unit(kernel: Kernel) -> tuple[Hashable, ...]:
    return *_role_arch(kernel), kernel.key.unit


def _joined(
    ours: list[Kernel], theirs: list[Kernel], places: Iterable[Callable[[Kernel], Hashable]]
) -> list[tuple[Kernel, Kernel]]:
    """Kernels of two names paired one to one; several kernels of one place pair only if they are identical."""
    pairs: list[tuple[Kernel, Kernel]] = []
    for place in places:
        waiting = grouped(without(theirs, pairs), place)
        for key, mine in grouped(without(ours, pairs), place).items():
            others = waiting.get(key, [])
            copies = all(
                len({(each.key.symbol, each.usage, digest(each)) for each in side}) == 1 for side in (mine, others)
            )
            if len(mine) == len(others) == 1 or (len(mine) == len(others) and copies):
                pairs += zip(mine, others, strict=True)
    return pairs


@lru_cache(maxsize=1 << 16)
def spelled(symbol: str) -> str:
    """Path, template arguments and parameters of ``symbol`` (mangled or not), separated by NUL."""
    name = Function(demangle(canonical(symbol)).replace(UNNAMED, "anon").replace(", ", ",").replace("> >", ">>"))
    lists = [name.text[at + 1 : name.closing[at]] if at is not None else "" for at in (name.angle, name.end)]
    parts = ("::".join((*name.scopes, name.base)), *lists)
    return "\0".join(part.replace("\0", "\ufffd") for part in parts)  # hostile names contain the separator


def _by_name(kernels: Iterable[Kernel]) -> dict[str, list[Kernel]]:
    by_name: dict[str, list[Kernel]] = defaultdict(list)
    for symbol, several in grouped(kernels, lambda kernel: kernel.key.symbol).items():
        by_name[spelled(str(symbol))] += several
    return by_name


def _substitutions(
    gone: set[str], new: set[str], kept: set[str], sides: Sequence[dict[str, list[Kernel]]]
) -> dict[_Rule, _Pairs]:
    """Accepted rules with the names that they explain.

    Accepted replacements are applied to the other names, so that the next round finds names with two replaced words.
    """
    templates, text = {*filter(None, map(template, kept))}, "\n".join(sorted(kept))
    alive = [
        {_path(name) for name in names if any(template(each.key.symbol) in templates for each in side[name])}
        for side, names in zip(sides, (gone, new), strict=True)
    ]
    accepted: dict[_Rule, _Pairs] = {}
    alias = {name: name for name in gone}
    for _ in range(_ROUNDS):
        original = {written: name for name, written in alias.items()}
        old = _Side(original, {_path(written) for written, name in original.items() if _path(name) not in alive[0]})
        now = _Side(new, {*map(_path, new)} - alive[1])
        valid = {}
        for rule, pairs in _explained(sorted(original), sorted(new)).items():
            kernels = [(sides[0][original[x]], sides[1][y]) for x, y in pairs.items()]
            if _speaks(rule, pairs, kernels) and _complete(rule, pairs, old, now, text):
                valid[rule] = pairs
        chosen = _without_rivals(valid)
        if not chosen:
            break
        for rule, pairs in chosen.items():
            accepted.setdefault(rule, {}).update((original[x], y) for x, y in pairs.items())
            new -= {*pairs.values()}
        done = {original[x] for pairs in chosen.values() for x in pairs}
        taught = [rule for rule, pairs in chosen.items() if rule.old and rule.new and not rule.where and len(pairs) > 2]
        alias = {name: _taught(written, taught) for name, written in alias.items() if name not in done}
        if not taught or not alias or not new:
            break
    return accepted


def _taught(name: str, rules: Iterable[_Rule]) -> str:
    for rule in rules:
        name = name.replace(rule.old, rule.new)
    return name


def _speaks(rule: _Rule, pairs: _Pairs, kernels: Sequence[tuple[Sequence[Kernel], Sequence[Kernel]]]) -> bool:
    """Whether a rule explains more than chance: several names, or equal machine code.

    If it replaces a word of a single function's name, another function with the same arguments may have replaced that
    function; then enough metrics must be equal too.
    """
    if rule.where not in ("", *_IN_PATH):
        return True
    if len(pairs) == 1:
        codes = [sorted((each.key.arch or "", digest(each) or "") for each in side) for side in kernels[0]]
        return codes[0] == codes[1] and all(code for _, code in codes[0])
    functions = {_path(name) for name in pairs}
    if rule.where or len(functions) > 1 or rule.old not in functions.pop().rpartition("::")[2]:
        return True
    sides = [
        Counter((at, each.key.arch, each.usage) for at, both in enumerate(kernels) for each in both[side])
        for side in (0, 1)
    ]
    equal = (sides[0] & sides[1]).total()
    return equal > 1 and equal >= _AGREE * max(sides[0].total(), sides[1].total())


def _explained(ours: Sequence[str], theirs: Sequence[str]) -> dict[_Rule, _Pairs]:
    """Candidate rules with new names by old names; only rules that map names one to one."""
    reach: dict[_Rule, tuple[dict[str, set[str]], dict[str, set[str]]]] = defaultdict(
        lambda: (defaultdict(set), defaultdict(set))
    )
    blocks: dict[int, list[tuple[str, str, str]]] = defaultdict(list)
    for name in ours:
        for key, word, where in _views(name, 0):
            blocks[key].append((name, word, where))
    met: dict[int, list[tuple[str, str, str]]] = defaultdict(list)
    for name in theirs:
        for key, word, where in _views(name, 1):
            if key in blocks:
                met[key].append((name, word, where))
    for key, others in met.items():
        mine = blocks[key]
        if len(mine) * len(others) > _MOST_PAIRS:
            continue
        for x, old, where in mine:
            for y, new, its in others:
                if x != y and old != new:
                    forth, back = reach[_Rule(old, new, where or its)]
                    forth[x].add(y)
                    back[y].add(x)
    rules = {}
    for rule, (forth, back) in reach.items():
        if all(len(each) == 1 for side in (forth, back) for each in side.values()):
            rules[rule] = {x: y for x, several in forth.items() for y in several}
    return rules


def _views(name: str, side: int) -> Iterator[tuple[int, str, str]]:
    """Variants of a name with one part removed: (hash of the rest, the part, where it was).

    The part is an identifier, a word of the path, leading or trailing words of an identifier in the path, or a template
    argument.
    """
    path, arguments, parameters = name.split("\0")
    scopes = _IDENTIFIER.findall(path)[-_MOST_WORDS:]
    pieces = _PIECE.findall(name)
    for identifier in dict.fromkeys([*scopes, *_IDENTIFIER.findall(f"{arguments} {parameters}")[:_MOST_WORDS]]):
        if identifier not in _BUILTIN:
            yield hash("".join("\1" if piece == identifier else piece for piece in pieces)), identifier, ""
    for word in dict.fromkeys(
        word for each in scopes for word in _PART.findall(each)[:_MOST_WORDS] if word not in scopes
    ):
        yield hash(name.replace(word, "\1")), word, ""
    yield hash((_PARAMETERS, path, arguments)), _PARAMETERS * side, path
    for longer in (0, 1):
        if longer != side:
            yield hash((longer, "words", name)), "", ""
            yield hash((longer, "argument", name)), "", ""
            continue
        for scope in scopes[:-1]:
            yield hash((longer, "words", name.replace(f"{scope}::", ""))), f"{scope}::", "scope"
        for identifier in scopes:
            words = _WORD.findall(identifier)
            for size in range(1, min(_ADDED_WORDS + 1, len(words))):
                before, behind = "".join(words[:size]), "".join(words[-size:])
                yield hash((longer, "words", name.replace(identifier, identifier[len(before) :]))), before, "prefix"
                yield hash((longer, "words", name.replace(identifier, identifier[: -len(behind)]))), behind, "suffix"
        items = _arguments(arguments)
        for at, item in enumerate(items[:_MOST_WORDS]):
            left = ",".join((*items[:at], *items[at + 1 :]))
            yield hash((longer, "argument", f"{path}\0{left}\0{parameters}")), item, path


def _arguments(text: str) -> list[str]:
    name = Demangled(f"<{text}>")
    return [name.text[start:end] for start, end in name.items(0)]


class _Side:
    """Names that only one of the two builds has."""

    def __init__(self, names: Iterable[str], replaced: set[str]) -> None:
        """``replaced``: functions of which no kernel kept its name."""
        self.names = frozenset(names)
        self.replaced = replaced
        self.kernels = Counter(map(_path, self.names))
        self.text = "\n".join(self.names)


def _complete(rule: _Rule, pairs: _Pairs, old: _Side, new: _Side, kept: str) -> bool:
    """Whether a rule explains all kernels of each function that it touches.

    If the rule replaces a text only in arguments and parameters, no other name may contain the text. ``kept``: symbols
    in both builds.
    """
    for names, mine, other, text in ((pairs.keys(), old, new, rule.old), ({*pairs.values()}, new, old, rule.new)):
        paths = {_path(name) for name in names}
        if rule.where or all(text in path for path in paths):
            if not paths <= mine.replaced or sum(mine.kernels[path] for path in paths) > len(names):
                return False
        elif text in kept or text in other.text or any(text in name for name in mine.names - names):
            return False
    return True


def _path(name: str) -> str:
    return name.partition("\0")[0]


def _without_rivals(rules: dict[_Rule, _Pairs]) -> dict[_Rule, _Pairs]:
    """The rules without a serious rival.

    A rival maps one of the rule's old names to another new name, or another old name to one of its new names. It is
    harmless if it explains only a subset of the rule's names. Of rules that share names, the first counts.
    """
    forth: dict[str, list[_Rule]] = defaultdict(list)
    back: dict[str, list[_Rule]] = defaultdict(list)
    for rule, pairs in rules.items():
        for x, y in pairs.items():
            forth[x].append(rule)
            back[y].append(rule)
    chosen: dict[_Rule, _Pairs] = {}
    taken: set[str] = set()
    for rule, pairs in sorted(rules.items(), key=lambda each: (-len(each[1]), each[0])):
        reverse = {y: x for x, y in pairs.items()}
        rivals = {other for x, y in pairs.items() for other in forth[x] if rules[other][x] != y}
        rivals |= {other for y, x in reverse.items() for other in back[y] if rules[other].get(x) != y}
        weaker = all(
            len(rules[other]) < len(pairs)
            and rules[other].keys() <= pairs.keys()
            and {*rules[other].values()} <= {*reverse}
            for other in rivals
        )
        if weaker and taken.isdisjoint(pairs):
            chosen[rule] = pairs
            taken |= pairs.keys()
    return chosen
