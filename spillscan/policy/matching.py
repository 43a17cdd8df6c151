"""Which entries of a policy name which kernels, for very many kernels.

Each pattern of each entry is a bit. Distinct symbols, archs and units are tried once and leave a mask of bits; a
kernel's mask is what its three leave in common.
"""

from __future__ import annotations

from collections.abc import Sequence

from spillscan.model import Kernel
from spillscan.policy.layers import Entry
from spillscan.policy.patterns import compiled, names_of, text_of


class Matcher:
    """Remembers what it has tried; entries never change."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.lines = [(index, pattern) for index, entry in enumerate(entries) for pattern in entry.match or ("*",)]
        """(index of the entry, pattern) of each bit, from the lowest on."""
        ready = [(compiled(pattern), 1 << bit) for bit, (_, pattern) in enumerate(self.lines)]
        everything = compiled("*")
        self._always = sum(bit for pattern, bit in ready if pattern == everything)
        named = [(pattern, bit) for pattern, bit in ready if pattern != everything]
        self._by_pattern = [(each.needle, bit, each.expression) for each, bit in named if each.exact is None]
        self._by_name: dict[str, int] = {}
        for pattern, bit in named:
            if pattern.exact is not None:
                self._by_name[pattern.exact] = self._by_name.get(pattern.exact, 0) | bit
        self._by_arch = [(entries[index].arch, 1 << bit) for bit, (index, _) in enumerate(self.lines)]
        self._by_unit = [(entries[index].unit, 1 << bit) for bit, (index, _) in enumerate(self.lines)]
        self._names: dict[str, int] = {}
        self._archs: dict[str, int] = {}
        self._units: dict[str, int] = {}

    def mask(self, kernel: Kernel) -> int:
        """The bits that name ``kernel``."""
        key = kernel.key
        named = self._names.get(key.symbol)
        if named is None:
            named = self._names[key.symbol] = self._named(key.symbol)
        if not named:
            return 0
        arch, unit = key.arch or "", key.unit
        if arch not in self._archs:
            self._archs[arch] = _mask(self._by_arch, arch)
        if unit not in self._units:
            self._units[unit] = _mask(self._by_unit, unit)
        return named & self._archs[arch] & self._units[unit]

    def _named(self, symbol: str) -> int:
        """The bits of the patterns that fit a name of ``symbol``; names are spelled out only where one is asked for."""
        if not self._by_name and not self._by_pattern:
            return self._always
        names = names_of(symbol)
        text = text_of(names)
        found = self._always
        for name in names:
            found |= self._by_name.get(name, 0)
        for needle, bit, expression in self._by_pattern:  # Pattern.fits, spelled out: this runs millions of times
            if needle in text and (expression is None or any(map(expression.fullmatch, names))):
                found |= bit
        return found

    def entries(self, mask: int) -> list[int]:
        """Indices of the entries of which a bit stands in ``mask``, in order, each once."""
        return list(dict.fromkeys(index for bit, (index, _) in enumerate(self.lines) if mask >> bit & 1))


def _mask(choices: Sequence[tuple[tuple[str, ...], int]], name: str) -> int:
    """The bits of all whose patterns fit ``name``, and of those that have none."""
    text = text_of((name,))
    return sum(
        bit for patterns, bit in choices if not patterns or any(compiled(p).fits(text, (name,)) for p in patterns)
    )
