"""One machine instruction, as far as it is known what it does: what proofs of what functions do read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

FILES = "RPUQ"
"""General registers, predicates, uniform registers, uniform predicates."""
BARRIERS = 256 * len(FILES)
"""The number of B0: barriers of warps are distinguished like registers."""
LOADS = {"LDG": "global", "LDS": "shared", "LDSM": "shared", "LDL": "local"}
STORES = {"STG": "global", "STS": "shared", "STSM": "shared", "STL": "local"}


class Place(NamedTuple):
    """Where an access goes: so many bytes from an offset to what registers hold."""

    base: tuple[int, ...]
    """Those registers, and behind them what else of the word says how the address is made."""
    offset: int
    size: int


class Sum(NamedTuple):
    """What an instruction leaves in the one register of 32 bits that it writes, modulo 2^32."""

    terms: tuple[tuple[int, int], ...]
    """Places among the registers that it reads, and how many times what each holds is added."""
    carries: tuple[tuple[int, bool], ...]
    """Places among them of predicates that are added as 0 or 1, and whether negated."""
    product: tuple[int, int] | None
    """Places of two whose product is added."""
    banks: tuple[tuple[int, int], ...]
    """Operands in constant banks, as the word has them, and how many times each is added."""
    constant: int

    @property
    def alone(self) -> bool:
        """It is a constant."""
        return not (self.terms or self.carries or self.product or self.banks)

    @property
    def shape(self) -> tuple[object, ...]:
        """All but the registers."""
        times = sorted(each for _, each in self.terms)
        return *times, len(self.carries), self.product is None, self.banks, self.constant


class Instruction(NamedTuple):
    """One instruction."""

    name: str
    """The mnemonic; empty: unknown."""
    key: tuple[int, str]
    """What is left of its word without registers, target and schedule; what is put into it at the link."""
    read: tuple[int, ...]
    """Registers, 256 times the index of the file and the number; below 0: the register that is always the same."""
    written: tuple[int, ...]
    """The same."""
    guarded: bool
    """A predicate decides whether it is executed."""
    known: bool
    """Tables say all of it."""
    target: int | None
    """Byte offset of where it goes, or where warps meet."""
    waits: tuple[int, int, int]
    """The barrier that is set until it has written; the one until it has read; the set of those that it waits for."""
    guard: int | None = None
    """That predicate, where it is known."""
    swaps: tuple[int, ...] = ()
    """Places among what it reads whose values may be exchanged: sums, products."""
    place: Place | None = None
    """Of an access, where it goes as far as its word says."""
    sum: Sum | None = None
    """Of what adds and multiplies by constants, its result."""
    operands: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    """What it names as written and as read, the guard left out: of a wide operand the first register."""
    sources: Mapping[int, int] = {}
    """Lowest bit of a field that names what it reads, to the place of its first register among that."""
