"""Mangled symbols of C++ names, which logs and disassembly contain instead of symbols after ``c++filt``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

from msgspec.structs import replace

from spillscan.model import Kernel
from spillscan.model.code import FunctionUsage, SassFunction
from spillscan.model.symbols import demangle

_Item = TypeVar("_Item", bound=SassFunction | FunctionUsage)


def is_filtered(symbol: str) -> bool:
    """Whether ``symbol`` is a C++ name with parameters, which no symbol contains."""
    return "(" in symbol


def with_symbols(kernels: Iterable[Kernel], items: Iterable[_Item]) -> tuple[list[Kernel], list[_Item]]:
    """``kernels`` and ``items`` with mangled symbols in place of C++ names, if either has exactly one of that name."""
    kernels, items = list(kernels), list(items)
    symbols = {*(each.key.symbol for each in kernels), *(each.symbol for each in items)}
    filtered = [symbol for symbol in symbols if is_filtered(symbol)]
    if not filtered:
        return kernels, items
    mangled: dict[str, list[str]] = defaultdict(list)
    for symbol in symbols.difference(filtered):
        mangled[_comparable(demangle(symbol))].append(symbol)
    known = {name: found[0] for name in filtered if len(found := mangled.get(_comparable(name), [])) == 1}
    return (
        [replace(each, key=replace(each.key, symbol=known.get(each.key.symbol, each.key.symbol))) for each in kernels],
        [replace(each, symbol=known.get(each.symbol, each.symbol)) for each in items],
    )


def _comparable(name: str) -> str:
    """A C++ name without spaces, which demanglers place differently."""
    return "".join(name.split())
