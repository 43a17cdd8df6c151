"""Short display names of the kernels of one or more builds, distinct within an output.

A name depends only on the kernel's own name and on the output's width. A digest replaces the part that is cut off,
``gemm<128, 64…>~a1b2``; names that would print alike get a longer one. Policies, baselines, fingerprints and datasets
keep canonical names.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Final, Self

from spillscan.model.symbols import NO_NAME
from spillscan.naming.display import Key, display, symbol_of
from spillscan.naming.identity.symbol import canonical, digest

NARROW: Final = 24
"""Maximum characters of a name in an output of at most :data:`_NARROW_OUTPUT` columns."""
WIDTH: Final = 40
"""Maximum characters of a name in any wider output."""
_NARROW_OUTPUT = 80
_DIGEST, _WHOLE = 4, 64
"""Minimum and maximum characters of a digest."""
_LENGTH = re.compile(r"[1-9]\d{0,3}")
_WORD = re.compile(r"[\w$]+")
_UNSPELLED = frozenset(("std", "allocator", "basic_string", "string", "istream", "ostream", "iostream"))
"""Words that a mangled name need not spell out."""
_GLOB = re.compile(r"[*?[]")


class Names:
    """Display names of the kernels of several builds; the same kernel has the same name in each build."""

    def __init__(self, *builds: Iterable[Key], width: int = WIDTH) -> None:
        self.width = width
        self._builds: dict[Key, int] = {}
        for number, symbols in enumerate(builds):
            for symbol in symbols:
                self._builds[symbol] = self._builds.get(symbol, 0) | 1 << number
        self._known: dict[tuple[Key, int], str] = {}
        self._taken: dict[tuple[str, int], Key] = {}

    @classmethod
    def by_builds(cls, masks: dict[Key, int]) -> Self:
        """Names from a bit mask per kernel: bit ``n`` is set if build ``n`` has the kernel."""
        names = cls()
        names._builds = masks
        return names

    def __iter__(self) -> Iterator[Key]:
        """All kernels, each once."""
        return iter(self._builds)

    def fit(self, columns: int) -> None:
        """Set the width of names for an output of ``columns`` columns."""
        self.width = NARROW if columns <= _NARROW_OUTPUT else WIDTH

    def of(self, symbol: Key, width: int | None = None) -> str:
        """Display name of ``symbol`` in ``width`` characters."""
        width = width or self.width
        if not symbol:
            return NO_NAME
        if (symbol, width) not in self._known:
            self._name([symbol, *self._near.get(_stem(symbol), ())], width)
        return self._known[symbol, width]

    def _name(self, symbols: Iterable[Key], width: int) -> None:
        """Name kernels whose names may collide, each with the shortest digest that keeps it distinct."""
        waiting = [symbol for symbol in dict.fromkeys(symbols) if (symbol, width) not in self._known]
        for size in (0, _DIGEST, 2 * _DIGEST, 4 * _DIGEST, _WHOLE):
            alike: dict[str, list[Key]] = defaultdict(list)
            for symbol in waiting:
                alike[_fitted(symbol, width, size)].append(symbol)
            waiting = []
            for name, several in alike.items():
                others = list(several)
                if taken := self._taken.get((name, width)):
                    others.append(taken)
                if size < _WHOLE and self._differ(others):
                    waiting += several
                else:
                    self._known.update(((symbol, width), name) for symbol in several)
                    self._taken[name, width] = several[0]

    def _differ(self, symbols: list[Key]) -> bool:
        """Whether the symbols are different kernels: in one build together, or with different canonical names."""
        seen = 0
        for symbol in symbols:
            if seen & self._builds.get(symbol, 0):
                return True
            seen |= self._builds.get(symbol, 0)
        return len({_canonical(symbol) for symbol in symbols}) > 1

    @cached_property
    def _near(self) -> dict[str, list[Key]]:
        """Kernels by the stem of their names; only kernels of one stem can get the same display name."""
        found: dict[str, list[Key]] = defaultdict(list)
        for symbol in self._builds:
            found[_stem(symbol)].append(symbol)
        return found

    def base(self, symbol: Key) -> str:
        """Name shared by all instances of the kernel's template."""
        return display(symbol).family if symbol else NO_NAME

    def arguments(self, symbol: Key) -> str:
        """Arguments to show below the family's name, ``<14, 64, false>``; the whole name if there are none."""
        name, base = self.of(symbol), self.base(symbol)
        return name.removeprefix(base) or name

    def argument(self, symbol: Key) -> str:
        """Value of ``--kernel`` that selects this kernel: its display name if complete and unambiguous, else its
        symbol."""
        name = self.of(symbol)
        complete = name == display(symbol).full and not _GLOB.search(name)
        return (
            name if complete and self.called(name) == [symbol] else symbol if isinstance(symbol, str) else symbol.symbol
        )

    def called(self, shown: str) -> list[Key]:
        """The kernels whose display name, short or full, is ``shown``."""
        words = _WORD.findall(shown.partition("~")[0].partition("<")[0].partition("[")[0])
        near = list(self._builds) if words else []
        for word in set(words) - _UNSPELLED:
            near = [symbol for symbol in near if word in symbol_of(symbol)]
        if "~" not in shown:  # no name that was cut
            return [symbol for symbol in near if shown == display(symbol).full]
        return [
            symbol
            for symbol in near
            if shown in (self.of(symbol, WIDTH), self.of(symbol, NARROW), display(symbol).full)
        ]


def alone(symbol: Key, width: int = WIDTH) -> str:
    """Display name of a kernel without regard to other kernels."""
    return _fitted(symbol, width, 0) if symbol else NO_NAME


def _canonical(symbol: Key) -> str:
    return (
        canonical(symbol)
        if isinstance(symbol, str)
        else "\n".join((canonical(symbol.symbol), *symbol.words, symbol.place))
    )


def _fitted(symbol: Key, width: int, size: int) -> str:
    """The name in ``width`` characters with ``size`` characters of digest (4 if the name is cut and ``size`` is 0)."""
    name = display(symbol)
    if not size and len(name.full) <= width:
        return name.full
    # the first four characters are the same in every checkout; the rest tell symbols apart
    whole = symbol if isinstance(symbol, str) else "\n".join(map(str, symbol))
    mark = f"~{digest(_canonical(symbol), 2)}{digest(whole, 32)[: max(0, size - _DIGEST)]}"
    return name.cut(max(width - len(mark), _DIGEST)) + mark


def _stem(symbol: Key) -> str:
    """Part of a symbol that is equal for names that may look alike: the last plain name and its template arguments."""
    text = symbol_of(symbol)
    if not text.startswith("_Z"):
        return text.partition("(")[0]
    head = text.partition("I")[0]
    last, at = _last_name(head)
    if at > len(head):  # the I is a letter of a name
        last, at = _last_name(text)
    return last + text[at:].partition("Ev")[0] if text[at : at + 1] == "I" else last


@lru_cache(maxsize=1 << 12)
def _last_name(text: str) -> tuple[str, int]:
    """The last of the plain names that a mangled name begins with, and where it ends. Instances of a template share
    what stands before their arguments."""
    at, last = 3 if text.startswith("_ZN") else 2, ""
    while found := _LENGTH.match(text, at):
        at = found.end() + int(found[0])
        last = text[found.end() : at]
    return last, at
