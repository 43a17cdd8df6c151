"""Parts of a ptxas report that depend on the architecture: constant banks, stack lines, the order of callees."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_ARCH = re.compile(r"sm_(\d+)[af]?")
_CALLEES_FIRST = re.compile(r"sm_[12]\d|sm_30")
_OLD_BANKS = frozenset({1, 14, 16})
"""Constant banks used only by code for these old archs."""


@lru_cache(maxsize=1 << 10)
def prints_constant_banks(arch: str | None) -> bool | None:
    """Whether ptxas prints ``cmem`` for ``arch``: up to sm_89 always, from sm_90 on never (measured, 11.7 to 13.5)."""
    match = _ARCH.fullmatch(arch or "")
    return int(match[1]) < 90 if match else None


def callees_first(arch: str | None, banks: Iterable[tuple[int, int]] | None = ()) -> bool:
    """Whether releases for ``arch``, or that print ``banks``, print callees' properties before the kernel's registers.

    If so, a registers line after a callee's properties may belong to any earlier kernel.
    """
    old = _of_old_arch(arch)
    return old if not banks else old or not _OLD_BANKS.isdisjoint(bank for bank, _ in banks)


@lru_cache(maxsize=1 << 10)
def _of_old_arch(arch: str | None) -> bool:
    return _CALLEES_FIRST.fullmatch(arch or "") is not None


def without_stack_lines(arch: str | None) -> bool:
    """Whether ptxas prints no stack lines for ``arch``."""
    return re.fullmatch(r"sm_1\d", arch or "") is not None
