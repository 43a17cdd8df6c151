"""Constant bank 0 as evidence: which kernel a registers line can be of.

ptxas prints ``cmem[0]`` up to sm_89. Its size is that of the parameters plus a reserve that depends on the arch alone
(measured: 320 bytes up to sm_62, 352 from sm_70 on). Nothing is taken for granted: a log's own kernels whose figures
are sure must agree on the reserve before it is used.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache

from spillscan.model import Usage
from spillscan.model.symbols import demangle

_ARCH = re.compile(r"sm_(\d+)[af]?")


@lru_cache(maxsize=1 << 10)
def prints_constant_banks(arch: str | None) -> bool | None:
    """Whether ptxas prints ``cmem`` for ``arch``: up to sm_89 always, from sm_90 on never (measured, 11.7 to 13.5)."""
    match = _ARCH.fullmatch(arch or "")
    return int(match[1]) < 90 if match else None


_CALLEES_FIRST = re.compile(r"sm_[12]\d|sm_30")
_OLD_BANKS = frozenset({1, 14, 16})
"""Of code for these archs; no later arch has them."""


def callees_first(arch: str | None, banks: Iterable[tuple[int, int]] | None = ()) -> bool:
    """Whether releases for ``arch``, or those that print such ``banks``, print the properties of callees before the
    kernel's registers: a registers line behind a callee's properties may be of any kernel before it."""
    old = _of_old_arch(arch)
    return old if not banks else old or not _OLD_BANKS.isdisjoint(bank for bank, _ in banks)


@lru_cache(maxsize=1 << 10)
def _of_old_arch(arch: str | None) -> bool:
    return _CALLEES_FIRST.fullmatch(arch or "") is not None


def without_stack_lines(arch: str | None) -> bool:
    """Whether ptxas prints no stack lines for ``arch``."""
    return re.fullmatch(r"sm_1\d", arch or "") is not None


FEWEST_WITNESSES = 3
"""Kernels that must agree on an arch's reserve before it is believed."""

_SIZES = {
    "bool": 1,
    "char": 1,
    "signed char": 1,
    "unsigned char": 1,
    "short": 2,
    "unsigned short": 2,
    "int": 4,
    "unsigned int": 4,
    "float": 4,
    "double": 8,
    "long long": 8,
    "unsigned long long": 8,
    # 8 on Linux, 4 on Windows: unknown
}
_POINTER = re.compile(r"[^()\[\]]*[*&](?: ?(?:const|restrict|__restrict__|__restrict|volatile))*\Z")
_QUALIFIERS = re.compile(r"\b(?:const|volatile) ?| ?\b(?:const|volatile)\b")


class Reserves:
    """What the sure kernels of one log say about constant bank 0."""

    def __init__(self) -> None:
        self._reserves: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        self._seen: dict[str, list[tuple[str, int]]] = defaultdict(list)

    def note(self, symbol: str, arch: str | None, usage: Usage) -> None:
        """A kernel whose figures are sure."""
        bank = bank_zero(usage)
        if arch is None or bank is None:
            return
        size = parameter_bytes(symbol)
        if size is None:
            self._seen[symbol].append((arch, bank))
        else:
            self._reserves[arch][bank - size] += 1

    def expected(self, symbol: str, arch: str | None) -> int | None:
        """The size that ``cmem[0]`` of this kernel must have; ``None`` where the log does not prove one."""
        reserve = self._reserve(arch)
        if reserve is None:
            return None
        size = parameter_bytes(symbol)
        if size is not None:
            return reserve + size
        # The same symbol on another arch, or in another unit, has the same parameters.
        sizes = {
            bank - other for arch, bank in self._seen.get(symbol, ()) if (other := self._reserve(arch)) is not None
        }
        return reserve + sizes.pop() if len(sizes) == 1 else None

    def _reserve(self, arch: str | None) -> int | None:
        found = self._reserves.get(arch or "", {})
        if len(found) != 1:
            return None
        reserve, witnesses = next(iter(found.items()))
        return reserve if witnesses >= FEWEST_WITNESSES else None


def bank_zero(usage: Usage) -> int | None:
    """Bytes of constant bank 0; ``None`` where the tool prints no banks."""
    return dict(usage.constant_bytes or ()).get(0)


@lru_cache(maxsize=8192)
def parameter_bytes(symbol: str) -> int | None:
    """Bytes that the parameters of ``symbol`` take, by the C++ ABI; ``None`` where its name does not say.

    Only parameters of built-in and pointer types are counted; a class or a type of platform-dependent size makes the
    whole unknown.
    """
    name = demangle(symbol)
    if name == symbol or not name.endswith(")"):
        return None
    start = _signature_start(name)
    if start is None:
        return None
    offset = 0
    for parameter in _split(name[start + 1 : -1]):
        size = 8 if _POINTER.fullmatch(parameter) else _SIZES.get(_QUALIFIERS.sub("", parameter))
        if size is None:
            return None
        offset = -(-offset // size) * size + size
    return offset


def _signature_start(name: str) -> int | None:
    """Where the parenthesis opens that the last character closes."""
    depth = 0
    for index in range(len(name) - 1, -1, -1):
        if name[index] == ")":
            depth += 1
        elif name[index] == "(":
            depth -= 1
            if depth == 0:
                return index
    return None


def _split(parameters: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for index, character in enumerate(parameters):
        if character in "<({[":
            depth += 1
        elif character in ">)}]":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(parameters[start:index].strip())
            start = index + 1
    last = parameters[start:].strip()
    return [*parts, last] if last and last != "void" else parts
