"""The kernels of a build as columns: what the table of a page sorts, filters and shows.

100,000 kernels are twelve lists of numbers, not 100,000 objects; texts stand once and are numbered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2s
from typing import Any

from spillscan.identity.symbol import canonical
from spillscan.model import Kernel
from spillscan.names import demangle, display_name
from spillscan.output.safe import printable
from spillscan.page.fullnames import packed
from spillscan.page.limiters import LIMITERS, Summaries, binds, words

FUNCTION, UNKNOWN_ROLE, AMBIGUOUS, NOT_FINAL, ASSUMED = 1, 2, 4, 8, 16
"""Flags of a kernel: no entry; only a message names it; figures not sure; registers before the link; occupancy at the
best block size, because nobody said how it is launched."""
LONGEST_NAME, LONGEST_ARCH, LONGEST_UNIT = 120, 24, 300
"""Characters of what a table shows of them; the full name comes on demand."""


def worst_first(kernels: Iterable[Kernel]) -> list[Kernel]:
    """Most spilled bytes, then most registers, first."""
    return sorted(kernels, key=_damage)


def _damage(kernel: Kernel) -> tuple[object, ...]:
    key = kernel.key
    return (-sum(kernel.spills or (0,)), -(kernel.usage.registers or 0), key.symbol, key.arch or "", key.unit)


def identifiers(kernels: Sequence[Kernel]) -> list[str]:
    """A name for each kernel's address, the same in the page of another build: of its identity and arch; namesakes are
    numbered."""
    seen: dict[str, int] = {}
    found = []
    for kernel in kernels:
        told = f"{canonical(kernel.key.symbol)}\n{kernel.key.arch}".encode("utf-8", "replace")
        digest = blake2s(told, digest_size=5).hexdigest()
        seen[digest] = number = seen.get(digest, 0) + 1
        found.append(digest if number == 1 else f"{digest}-{number}")
    return found


def columns(kernels: Sequence[Kernel], summaries: Summaries) -> dict[str, Any]:
    """The kernels in the order given; ``None`` where the input did not say."""
    names, arches, units, limiters = Texts(), Texts(), Texts(), Texts()
    symbols: list[str] = []
    table: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    for kernel in kernels:
        usage = kernel.usage
        stores, loads = kernel.spills or (None, None)
        banks = usage.constant_bytes
        found = summaries.of(kernel)
        occupancy = found.occupancy if found else None
        flags = {"entry": 0, "function": FUNCTION, "unknown": UNKNOWN_ROLE}[kernel.role]
        flags |= AMBIGUOUS if kernel.confidence == "ambiguous" else 0
        flags |= NOT_FINAL if kernel.final is False else 0
        flags |= ASSUMED if found and found.assumed and occupancy else 0
        symbol = names.number(kernel.key.symbol)
        if symbol == len(symbols):
            symbols.append(kernel.key.symbol)
        row = (
            symbol,
            None if kernel.key.arch is None else arches.number(printable(kernel.key.arch, LONGEST_ARCH)),
            units.number(printable(kernel.key.unit, LONGEST_UNIT)),
            flags,
            usage.registers,
            stores,
            loads,
            usage.stack_bytes,
            usage.shared_bytes,
            None if banks is None else sum(size for _, size in banks),
            usage.barriers,
            None if occupancy is None else round(1000 * occupancy.fraction),
            None if found is None or occupancy is None else limiters.number(words(found)),
            None if kernel.role == "function" else LIMITERS.index(binds(found)),
        )
        for values, value in zip(table.values(), row, strict=True):
            values.append(value)
    return {
        "count": len(kernels),
        "id": identifiers(kernels),
        **table,
        "names": [shown_name(symbol) for symbol in symbols],
        "arches": arches.texts,
        "units": units.texts,
        "limiters": limiters.texts,
        "full": packed([(printable(symbol), printable(demangle.__wrapped__(symbol))) for symbol in symbols]),
    }


_COLUMNS = (
    *("symbol", "arch", "unit", "flags", "registers", "stores", "loads", "stack", "shared", "constant", "barriers"),
    *("occupancy", "limiter", "bound"),
)


def shown_name(symbol: str) -> str:
    """What tables call a kernel: short, printable."""
    return printable(display_name(symbol), LONGEST_NAME) or "(no name)"


class Texts:
    """Texts by number, each once, in the order of coming."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The text's number."""
        number = self._numbers.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number
