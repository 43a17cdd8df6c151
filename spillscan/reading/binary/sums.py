"""What an instruction that adds or multiplies by a constant leaves in a register of 32 bits, as a sum: which opcode
ptxas takes for it depends on how busy its pipes are.

``MOV``, ``IMAD.MOV``, ``HFMA2`` with zeros and ``IADD3 R, R, RZ, RZ`` are one term; ``IMAD.SHL``, ``SHF.L.U32`` and
``LEA`` a term times a power of two. Where operands and signs stand in a word was held against what cuobjdump prints
(``test_sums.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from spillscan.reading.machine.instruction import Sum

_MODULUS = 1 << 32
_A, _B, _C = 24, 32, 64
"""Lowest bits of the sources; of some forms the second and the third change places."""
_NO_CARRY = 0xF
"""A predicate that is never true: nothing is carried in."""
_NEGATED_A, _NEGATED_B, _EXTENDED, _NEGATED_C = 72, 63, 74, 75
_HIGH, _RIGHT, _TYPE, _SHIFT = 80, 76, 73, 75
_CARRY, _SECOND_CARRY = 87, 77
_UNIFORM = 91
_THIRD = (2, 3, 7)
"""Forms whose third source is the value, the bank or the uniform register, and whose second stands in its place."""
_INFINITE = 0x7C00
"""Bits that are set in half floats that are no finite number."""
_MOV, _WHOLE = 0x002, 0xF
"""A MOV, and its mask that copies all four bytes."""


class Operands(NamedTuple):
    """Where the registers that an instruction reads stand: lowest bit to the place among them."""

    registers: Mapping[int, int]
    """General and uniform ones."""
    predicates: Mapping[int, int]
    numbers: Sequence[int]
    """What is read: below 0 the register that is always zero, or the predicate that is always true."""


class _Terms:
    """A sum in the making."""

    def __init__(self, word: int, operands: Operands) -> None:
        self.form = word >> 9 & 7
        self._word, self._operands = word, operands
        self.terms: list[tuple[int, int]] = []
        self.banks: list[tuple[int, int]] = []
        self.carries: list[tuple[int, bool]] = []
        self.product: tuple[int, int] | None = None
        self.constant = 0

    def source(self, which: int) -> int | tuple[str, int]:
        """Of the first, second or third source: its place among what is read, or ``("value", …)``, ``("bank", …)``.
        Raises :class:`KeyError` where it is none of these."""
        if which == _A or (which == _C) != (self.form in _THIRD):
            return self._operands.registers[_A if which == _A else _C]
        if self.form in (2, 4):
            return "value", self._word >> 32 & _MODULUS - 1
        if self.form in (3, 5):
            if self._word >> _UNIFORM & 1 or self._word >> 62 & 3:
                raise KeyError(which)
            return "bank", self._word >> 32 & (1 << 30) - 1
        return self._operands.registers[_B]

    def add(self, source: int | tuple[str, int], times: int = 1) -> None:
        """Add a source so many times."""
        if isinstance(source, int):
            if self._operands.numbers[source] >= 0:
                self.terms.append((source, times % _MODULUS))
        elif source[0] == "value":
            self.constant += source[1] * times
        else:
            self.banks.append((source[1], times % _MODULUS))

    def none(self, sources: Sequence[int | tuple[str, int]]) -> bool:
        """Whether all of them are the register that is always zero."""
        return all(isinstance(each, int) and self._operands.numbers[each] < 0 for each in sources)

    def multiply(self, one: int | tuple[str, int], other: int | tuple[str, int]) -> None:
        """Add a product. Raises :class:`KeyError` for one of a constant bank."""
        for factor, source in ((one, other), (other, one)):
            if self.none([factor]):
                return
            if not isinstance(factor, int) and factor[0] == "value":
                self.add(source, factor[1])
                return
        if not isinstance(one, int) or not isinstance(other, int):
            raise KeyError(one)
        self.product = one, other

    def carry(self, at: int) -> None:
        """Add a predicate, if one is named. Raises :class:`KeyError` where no table says that it is read."""
        named = self._word >> at & 0xF
        if named != _NO_CARRY:
            self.carries.append((self._operands.predicates[at], bool(named >> 3)))

    def made(self) -> Sum:
        """The sum."""
        rest = tuple(sorted(self.banks)), self.constant % _MODULUS
        return Sum(tuple(self.terms), tuple(self.carries), self.product, *rest)


def sum_of(name: str, word: int, operands: Operands) -> Sum | None:
    """What it leaves in the one register of 32 bits that it writes; ``None``: not known to be a sum."""
    made, opcodes = _SUMS.get(name, (None, ()))
    if made is None or word & 0x1FF not in opcodes:
        return None
    terms = _Terms(word, operands)
    try:
        return terms.made() if made(terms, word) else None
    except KeyError:
        return None


def _sign(word: int, bit: int) -> int:
    return -1 if word >> bit & 1 else 1


def _added(terms: _Terms, word: int) -> bool:
    """IADD3: three sources; of wide sums (``.X``) a sign inverts, and ~x is -x - 1."""
    if word >> 73 & 1 or word >> 76 & 1:
        return False
    second = 1 if terms.form in (2, 4) else _sign(word, _NEGATED_B)
    if terms.form in (3, 5) and second < 0:
        return False
    extended = word >> _EXTENDED & 1
    for which, sign in ((_A, _sign(word, _NEGATED_A)), (_B, second), (_C, _sign(word, _NEGATED_C))):
        terms.add(terms.source(which), sign)
        terms.constant -= extended and sign < 0
    terms.carry(_CARRY)
    terms.carry(_SECOND_CARRY)
    return True


def _multiplied(terms: _Terms, word: int) -> bool:
    """IMAD: the lower half of a product, and a sum."""
    sign = _sign(word, _NEGATED_C)
    extended = word >> _EXTENDED & 1
    if word >> _NEGATED_A & 1 or word >> 76 & 0x1F or (terms.form in (1, 6, 7) and word >> 62 & 3):
        return False
    if sign < 0 and (extended or terms.form in _THIRD):  # what it negates there is not known
        return False
    terms.multiply(terms.source(_A), terms.source(_B))
    terms.add(terms.source(_C), sign)
    terms.carry(_CARRY)
    return True


def _plain(terms: _Terms, word: int) -> bool:
    """Whether the second source is a register, a value or a bank as it stands: nothing negates it."""
    return terms.form in (1, 4, 5, 6) and (terms.form == 4 or not word >> 62 & 3)


def _moved(terms: _Terms, word: int) -> bool:
    if word >> 72 & 0x7FFFF != (_WHOLE if word & 0x1FF == _MOV else 0):
        return False
    terms.add(terms.source(_B))
    return terms.form in (1, 4, 5, 6)


def _two(terms: _Terms, word: int) -> bool:
    """VIADD without modifiers."""
    if word >> 72 & 0x7FFFF or not _plain(terms, word):
        return False
    terms.add(terms.source(_A))
    terms.add(terms.source(_B))
    return True


def _shifted(terms: _Terms, word: int) -> bool:
    """LEA: the first source times a power of two, and the second."""
    if word >> 72 & 7 or word >> _HIGH & 1 or not _plain(terms, word):
        return False
    terms.add(terms.source(_A), 1 << (word >> _SHIFT & 31))
    terms.add(terms.source(_B))
    return word >> _CARRY & 0xF == _NO_CARRY


def _left(terms: _Terms, word: int) -> bool:
    """SHF.L.U32 by a constant."""
    by = word >> 32 & _MODULUS - 1
    if terms.form != 4 or by > 31 or word >> 72 & 1 or word >> _TYPE & 3 != 3 or word >> _RIGHT & 1:
        return False
    terms.add(terms.source(_A), 1 << by)
    return not word >> _HIGH & 1


def _halves(terms: _Terms, word: int) -> bool:
    """HFMA2 of -0 · 0 and a constant: how ptxas moves one. Not of infinities and NaNs, of which less is known."""
    halves = word >> 32 & 0xFFFF, word >> 48 & 0xFFFF
    zeros = [terms.source(which) for which in (_A, _B)]
    terms.add(terms.source(_C))
    return word >> 72 & 0x7FFFF == 1 and terms.none(zeros) and all(half & _INFINITE != _INFINITE for half in halves)


_SUMS = {
    "IADD3": (_added, (0x010,)),
    "UIADD3": (_added, (0x090,)),
    "IMAD": (_multiplied, (0x024,)),
    "UIMAD": (_multiplied, (0x0A4,)),
    "MOV": (_moved, (_MOV,)),
    "UMOV": (_moved, (0x082,)),
    "VIADD": (_two, (0x036,)),
    "LEA": (_shifted, (0x011,)),
    "ULEA": (_shifted, (0x091,)),
    "HFMA2": (_halves, (0x031, 0x035)),
    "SHF": (_left, (0x019,)),
    "USHF": (_left, (0x099,)),
}
"""By mnemonic: how it is read, and the lower nine bits of the opcodes that are: not IMAD.WIDE, which writes two
registers, nor IMAD.HI."""
