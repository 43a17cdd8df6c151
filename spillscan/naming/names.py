"""What people call the kernels of one or more builds: short, and no two of a build alike.

What is shown is for people. Policies, baselines, fingerprints, datasets and links keep canonical names; a name that was
shown leads back to its kernels by :meth:`Names.called`.

Names are as stable as what they are made of. Of builds that were not used for tuning (sgl-kernel 0.1.0, Open3D 0.18,
XGBoost 3.2), when a random tenth of the kernels goes, the arguments in which an instance differs from its family change
themselves for 0.05, 2.4 and 3.3 % of those that are left: no name by these can change less. Of the names 0.3, 4.5 and
8.3 % change in 60 columns, 0.3, 0.8 and 7.9 % in 110; the others because no more arguments are shown than are needed.
When one comes, 59 of 60 times three names or fewer change, once 25. Clear without a digest are 100, 97.5 and 99.9 % in
60 columns, all in 110.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import translate
from functools import cached_property
from typing import Final, Self

from spillscan.model.symbols import NO_NAME, Tuned, readable
from spillscan.naming import columns
from spillscan.naming.families import Family, Key, bracketed, mark_of, symbol_of
from spillscan.naming.identity.symbol import source_file
from spillscan.naming.tree import NameParser, Node, Parsed, inner
from spillscan.naming.words import cuts as word_cuts
from spillscan.naming.words import words_of
from spillscan.output.safe import printable

WIDTH: Final = 60
"""Characters of a name where nothing says how many there are."""
LEAST: Final = 16
"""The least room of a name: with less, names could not be set apart."""
_MOST_OVERLOADS = 64
_WORDS = re.compile(r"[\w:]+")
_RELEASE = re.compile(r"(?<=\d)(?:CUB|THRUST|_V)_\d{6}(?=_)")
_NESTED, _LENGTH = re.compile("_ZN?"), re.compile(r"[1-9]\d{0,3}")
_USUAL = 1000
"""Characters of a symbol: :class:`NameParser` takes names of some 60 times as many for one word."""
_SIGNS = "…~*?["
"""Of a name that is cut, or of a glob."""
_BEHIND = re.compile(r"[~*?[<(@]")
"""What ends the name of a family in what is shown: arguments, parameters, a file, a digest, or a pattern."""
_OPERATORS = (
    "a[NSadnw]|c[lmov]|d[Vaelv]|e[Ooq]|g[et]|i[x]|l[Seist]|m[ILilm]|n[aegtw]|o[Ror]|p[Llmpst]|q[u]|r[MSms]|s[s]"
)
_GOES_ON = (
    re.compile(r"\n(?:[^I]|\Z|(?!.*Ev).*_\d)"),
    re.compile(rf"E(?=[\dCDLUacdegilmnopqrs])(?:L?\d|[CDU]|{_OPERATORS})"),
    re.compile(r"Ev.*_\d"),
)
"""Signs, each behind a line's end, that a name may go on behind its template's arguments (a member's name, a
constructor, an operator), and that it takes a member of one: wrappers do. Each begins with one character, which is
searched for fast."""
_SLACK = 4
"""Characters that arguments may be longer than most of their family, and a name that is cut still leaves them."""
_PARTS = (4, 3, 2)
"""Fifths of a width to which names are cut: by steps, so that one of a little more leaves the others as they are."""
_MARK = 5
"""Characters of a digest in arguments, with its sign."""
_CUT_AT_COMMAS = 24
"""How much room a name may leave: arguments are left out whole."""


class Names:
    """The names of the kernels of several builds, of which each may call what another has, too.

    A build may have hundreds of thousands, of which a table shows twenty: all are sorted into families, but only those
    that are asked for are read to their last argument.
    """

    def __init__(self, *builds: Iterable[Key], labels: Mapping[str, Sequence[str]] | None = None) -> None:
        """``labels``: names of the parameters of templates (:class:`NameParser`)."""
        self._held: dict[Key, int] = {}
        for number, symbols in enumerate(builds):
            for symbol in symbols:
                self._held[symbol] = self._held.get(symbol, 0) | 1 << number
        self._at: dict[int, dict[Key, str]] = {}
        self._own: dict[tuple[str, int], Mapping[Key, str] | None] = {}
        self._copied: dict[str, Mapping[Node, bool]] = {}
        self._cut: dict[int, _Cuts] = {}
        self._parser = NameParser(labels)
        self._trees: dict[Key, Parsed] = {}

    @classmethod
    def held(cls, held: dict[Key, int], labels: Mapping[str, Sequence[str]] | None = None) -> Self:
        """Of each kernel the builds that have it, as a bit each."""
        names = cls(labels=labels)
        names._held = held
        return names

    def __iter__(self) -> Iterator[Key]:
        """All kernels, each once."""
        return iter(self._held)

    def of(self, symbol: Key, width: int = WIDTH) -> str:
        """What a kernel is called in at most ``width`` characters; one of no build as if it were alone."""
        if symbol not in self._heads or not symbol:
            return alone(symbol, width)
        width, head = max(width, LEAST), self._heads[symbol]
        if (head, width) not in self._own:
            self._own[head, width] = self._of_family(self._families[head], width)
        own = self._own[head, width]
        return (own if own is not None else self.at(width))[symbol]

    def at(self, width: int) -> Mapping[Key, str]:
        """What each kernel is called, by its symbol."""
        width = max(width, LEAST)
        if width not in self._at:
            self._at[width] = self._apart(self._fitted(self._families.values(), width), width)
        return self._at[width]

    def family(self, symbol: Key) -> Family:
        """The family of a kernel."""
        return self._families[self._heads[symbol]]

    def base(self, symbol: Key) -> str:
        """What a kernel's family is called."""
        return self.family(symbol).base if symbol in self._heads else alone(symbol)

    def arguments(self, symbol: Key, room: int) -> str:
        """``<14, 64, F>``: an instance under its family's name; the whole name where that does not set it apart."""
        family, node = self.family(symbol), self._tree(symbol).node
        if self._copies(family)[node] or len(family.members) < 2:
            return self.of(symbol, room)
        return family.bracketed(family.clipped(node, family.fitting(room), room - 2))

    def legend(self, symbols: Iterable[Key], room: int = WIDTH, headed: bool = False) -> dict[str, str]:
        """``T, F of mma: arguments 3, 4 of Mainloop, 2 of Epilogue``: what the letters stand for in the names of
        kernels, shown in so much room; by what families are called. ``headed``: their arguments stand under the
        families' names."""
        families = dict.fromkeys(self._families[self._heads[symbol]] for symbol in symbols if symbol in self._heads)
        lines = {family.base: family.legend(room - (0 if headed else len(family.base))) for family in families}
        return {base: line for base, line in lines.items() if line}

    def _copies(self, family: Family) -> Mapping[Node, bool]:
        """Whether several symbols of a build have one tree."""
        if family.base not in self._copied:
            alike: dict[Node, list[Key]] = defaultdict(list)
            for symbol in family.symbols:
                alike[self._tree(symbol).node].append(symbol)
            self._copied[family.base] = {node: self._together(symbols) for node, symbols in alike.items()}
        return self._copied[family.base]

    def called(self, shown: str) -> list[Key]:
        """The symbols of the kernels that are shown so at some width, or of which a glob fits what is shown."""
        if any(sign in shown for sign in _SIGNS):
            families = [each for each in self._families.values() if _may_be_of(shown, each.base)]
        else:  # it begins with the whole name
            families = [each for length, some in self._by_base.items() for each in some.get(shown[:length], ())]
        symbols = [symbol for family in families for symbol in family.symbols]
        for width in (WIDTH, *range(len(shown), len(shown) + _CUT_AT_COMMAS)) if symbols else ():
            if found := [symbol for symbol in symbols if self.of(symbol, width) == shown]:
                return found
        fits = re.compile(translate(shown)).match if any(sign in shown for sign in "*?[") else shown.__eq__
        nodes = {
            node
            for family in families
            for spelling in family.spellings
            for node, text in spelling.texts.items()
            if fits(family.base + family.bracketed(text))
        }
        return [symbol for symbol in symbols if self._tree(symbol).node in nodes]

    @cached_property
    def _by_base(self) -> Mapping[int, Mapping[str, Sequence[Family]]]:
        """Families by the length of their name, and by it."""
        found: dict[int, dict[str, list[Family]]] = {}
        for each in self._families.values():
            found.setdefault(len(each.base), {}).setdefault(each.base, []).append(each)
        return found

    # ---- trees ----------------------------------------------------------------------------------------------------

    def _tree(self, symbol: Key) -> Parsed:
        found = self._trees.get(symbol)
        if found is None:
            tree = self._parser.parsed(printable(readable(symbol_of(symbol))))
            node = inner(tree.node, tree.parameters)
            if isinstance(symbol, Tuned):
                settings = (self._parser.node(printable(each)) for each in symbol.words)
                node = self._parser.node(node.head, (*node.args, *settings))
            found = self._trees[symbol] = Parsed(node, tree.parameters)
        return found

    @cached_property
    def _heads(self) -> dict[Key, str]:
        """The name of each kernel without its arguments: all of one head are a family."""
        found = dict.fromkeys(self._held, "")
        for start, several in _of_one_start(found).items():
            alike = len(several) > 1 and _plain_template(start, several)
            of_all = self._parser.parsed(printable(readable(_shortest_of(start)))).node.head if alike else ""
            found.update({symbol: of_all or self._tree(symbol).node.head for symbol in several})
        return found

    @cached_property
    def _families(self) -> dict[str, Family]:
        symbols: dict[str, list[Key]] = defaultdict(list)
        for symbol, head in self._heads.items():
            symbols[head].append(symbol)
        bases = columns.shortest(symbols)
        return {head: Family(bases[head], members, self._tree) for head, members in symbols.items()}

    @cached_property
    def _common(self) -> Counter[str]:
        """How many families have a word in their names."""
        return Counter(word for family in self._families.values() for word in set(words_of(family.base)))

    @cached_property
    def _odd(self) -> list[str]:
        """What families are called whose names have more than words in them, so that they may look like arguments."""
        return [family.base for family in self._families.values() if not _WORDS.fullmatch(family.base)]

    # ---- widths ---------------------------------------------------------------------------------------------------

    def _of_family(self, family: Family, width: int) -> Mapping[Key, str] | None:
        """The names of a family's kernels where no other family's may be like them: where its own name is made of
        words, and no other's is cut to the same. ``None`` where all names must be known."""
        cuts = self._cuts(width)
        bases = (family.base, *cuts.of.get(family.base, ()))
        if not _WORDS.fullmatch(family.base) or any(odd.startswith(bases) for odd in self._odd):
            return None
        names = self._apart(self._fitted([family], width), width) if cuts.shared.isdisjoint(bases) else {}
        return names if names and all(name.startswith(bases) for name in names.values()) else None

    def _cuts(self, width: int) -> _Cuts:
        """How the families' names are cut at a width."""
        found = self._cut.get(width)
        if found is None:
            found = self._cut[width] = _Cuts([family.base for family in self._families.values()], width, self._common)
        return found

    def _fitted(self, families: Iterable[Family], width: int) -> dict[Key, str]:
        """Each kernel's name in the room that there is, not always apart from others."""
        by_node: dict[Node, str] = {}
        found: dict[Key, str] = {}
        for family in families:
            spelling = family.fitting(width - len(family.base))
            whole = base = family.base
            room = max(width - bracketed(min(spelling.longest, spelling.usual + _SLACK)), _PARTS[-1] * width // 5)
            if spelling.longest > width - room - 2:
                room = min(room, width - bracketed(_MARK))
            if len(base) > room:
                base = next(cut for cut in self._cuts(width).of[base] if len(cut) <= room)
            for node, text in spelling.texts.items():
                own = whole if len(whole) + bracketed(len(text)) <= width else base
                by_node[node] = own
                if text:
                    by_node[node] += family.bracketed(family.clipped(node, spelling, width - len(own) - 2))
            found |= {symbol: by_node[self._tree(symbol).node] for symbol in family.symbols}
        return found

    def _apart(self, names: dict[Key, str], width: int) -> dict[Key, str]:
        """The names, with what it takes behind those that several kernels share."""
        for symbols in self._clashing(names):
            if len(symbols) <= _MOST_OVERLOADS:
                for symbol, suffix in self._suffixes(symbols).items():
                    if suffix and len(names[symbol]) + len(suffix) <= width:
                        names[symbol] += suffix
        for size in (2, 4, 8, 32):
            for symbols in self._clashing(names):
                for symbol in symbols:
                    suffix = f"~{mark_of(_whole(symbol), size)}"
                    names[symbol] = _middle(names[symbol].partition("~")[0], width - len(suffix)) + suffix
        return names

    def _clashing(self, names: Mapping[Key, str]) -> list[list[Key]]:
        """Kernels under one name that differ: of one build, or in more than their builds' hashes."""
        of_name: dict[str, list[Key]] = defaultdict(list)
        for symbol, name in names.items():
            of_name[name].append(symbol)
        several = [symbols for symbols in of_name.values() if len(symbols) > 1]
        return [each for each in several if self._together(each) or len({self._tree(symbol) for symbol in each}) > 1]

    def _together(self, symbols: Iterable[Key]) -> bool:
        """Whether a build has two of them."""
        seen = 0
        for symbol in symbols:
            if seen & self._held[symbol]:
                return True
            seen |= self._held[symbol]
        return False

    def _suffixes(self, symbols: Sequence[Key]) -> dict[Key, str]:
        """Overloads by where their parameters differ, what a file hides by the file, copies of a library by release."""
        parser = NameParser()
        parameters = {symbol: self._tree(symbol).parameters or () for symbol in symbols}
        nodes = {symbol: parser.node("", found) for symbol, found in parameters.items()}
        distinct = list(dict.fromkeys(nodes.values()))
        rows = columns.spelled(columns.differences(distinct), len(distinct), columns.FEWEST)
        texts = {node: columns.joined(row, columns.FEWEST) for node, row in zip(distinct, rows, strict=True)}
        files = {symbol: source_file(symbol_of(symbol)) or _release(symbol_of(symbol)) for symbol in symbols}
        hidden = len({(nodes[symbol], files[symbol]) for symbol in symbols}) > len(distinct)
        return {
            symbol: (f"({texts[nodes[symbol]]})" if len(distinct) > 1 else "")
            + (f"@{files[symbol]}" if hidden and files[symbol] else "")
            for symbol in symbols
        }


class _Cuts:
    """The names of families, cut to some parts of a width."""

    def __init__(self, bases: Sequence[str], width: int, common: Mapping[str, int]) -> None:
        self.of: dict[str, list[str]] = {}
        """Of each that is longer than the least part: from long to short."""
        self.shared: set[str] = set()
        """Cuts that are another's, too."""
        taken = set(bases)
        for base in bases:
            widths = [most for part in _PARTS if len(base) > (most := part * width // 5)]
            found = word_cuts(base, widths, common, taken) if widths else []
            if found:
                self.of[base] = found
                self.shared.update(taken.intersection(found))
                taken.update(found)


def _may_be_of(shown: str, base: str) -> bool:
    """Whether a kernel of a family may be shown so: the family's name stands in front of it, whole or cut. All others
    need not be read to their last argument, which takes many times as long."""
    if shown.startswith(base):
        return True
    pieces = _BEHIND.split(shown, 1)[0].split("…")
    first, *others = pieces[:1] if "~" in shown else pieces  # with a digest, arguments may stand behind the first sign
    at = len(first) if base.startswith(first) and any(sign in shown for sign in _SIGNS) else -1
    for piece in others:
        at = -1 if at < 0 else base.find(piece, at)
        at += len(piece) if at >= 0 else 0
    return at >= 0


def _of_one_start(symbols: Iterable[Key]) -> dict[str, list[Key]]:
    """Symbols by what stands before the first ``I``, which opens the arguments of a template."""
    found: dict[str, list[Key]] = defaultdict(list)
    for symbol in symbols:
        found[symbol_of(symbol).partition("I")[0]].append(symbol)
    return found


def _plain_template(start: str, symbols: Sequence[Key]) -> bool:
    """Whether all symbols that begin with ``start`` are instances of one template, which stands in no other (Itanium
    C++ ABI, 5.1): ``_ZN2ns4gemmIfLi4EEEvPT_``. It then takes one of them to know what all are called."""
    match = _NESTED.match(start)
    at = match.end() if match else len(start)
    while at < len(start) and (word := _LENGTH.match(start, at)):
        at = word.end() + int(word[0])
    if at != len(start) or match is None:
        return False
    rests = [symbol_of(symbol)[at:] for symbol in symbols]
    lines = "\n".join(("", *rests))
    usual = len(lines) < _USUAL or max(map(len, rests)) < _USUAL
    return usual and not any(sign.search(lines) for sign in _GOES_ON)


def _shortest_of(start: str) -> str:
    """The shortest symbol of the template whose symbols begin with ``start``: what it is called is read from that in a
    third of the time that one of its kernels takes, with all its arguments."""
    return f"{start}IiE{'E' if start.startswith('_ZN') else ''}vv"


def alone(symbol: Key, width: int = WIDTH) -> str:
    """What a kernel is called where nothing is known of others."""
    return Names([symbol]).at(width)[symbol] if symbol else NO_NAME


def _whole(key: Key) -> str:
    return key if isinstance(key, str) else "\n".join((key.symbol, *key.words, key.place))


def _release(symbol: str) -> str:
    """The release of CUB or Thrust that a symbol names; empty where it names none."""
    found = _RELEASE.search(symbol)
    return found[0] if found else ""


def _middle(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    tail = max(0, (room - 1) // 2)
    return f"{text[: max(1, room - 1 - tail)]}…{text[len(text) - tail :]}"
