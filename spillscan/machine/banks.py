"""Register banks: how many source operands an architecture reads at once, as far as somebody has published it.

* Maxwell, Pascal: four banks (register number modulo 4), one read each. Scott Gray, maxas, wiki (2014 to 2016); Jia,
  Maggioni, Staiger and Scarpazza, "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking" (2018).
* Volta, Turing: two banks (even, odd) of 64 bits: two 32-bit registers of one bank are read at once, so only three
  conflict. The same paper; Jia, Maggioni, Smith and Scarpazza, "Dissecting the NVidia Turing T4 GPU via
  Microbenchmarking" (2019).
* From Ampere on no rule for an instruction by itself is public: Huerta, Abaie Shoushtary, Cruz and González, "Analyzing
  Modern NVIDIA GPU Cores" (2025), find one read port a bank shared by the instructions of three cycles, which a listing
  does not give. There is no figure then.

An operand that the instruction before had in the same place, marked ``.reuse``, comes from the reuse cache, not from
its bank (the same sources).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The banks of some architectures."""

    banks: int
    """Bank of a register: its number modulo this."""
    reads: int
    """32-bit registers of one bank that are read at once."""


_FOUR = Rule(banks=4, reads=1)
_TWO = Rule(banks=2, reads=2)
RULES = {50: _FOUR, 52: _FOUR, 53: _FOUR, 60: _FOUR, 61: _FOUR, 62: _FOUR, 70: _TWO, 72: _TWO, 75: _TWO}
"""By the number of the architecture."""

NARROW = frozenset(
    b"BFE BFI FADD FADD32I FCMP FFMA FFMA32I FMNMX FMUL FMUL32I FSEL FSET FSETP HADD2 HFMA2 HMUL2 HSET2 HSETP2 IADD "
    b"IADD3 IADD32I ICMP IDP IMAD IMNMX ISCADD ISET ISETP LEA LOP LOP3 PRMT SEL SHF SHL SHR VABSDIFF XMAD".split()
)
"""Opcodes whose source registers are of 32 bits, but for the modifiers below."""
_WIDE = re.compile(rb"\.(?:WIDE|HI|64|S64|U64)\b")
_NO_RESULT = frozenset(b"FSETP HSETP2 ISETP".split())
"""They write predicates, so that their first register is a source."""
_REGISTER = re.compile(rb" *[-~|!+]*R([0-9]+)\b")
_PREDICATE = re.compile(rb" *!?U?P[0-9T]\b")

Sources = dict[int, tuple[int, bool]]
"""By place among the source operands: register, and whether it is kept for the next instruction."""


def rule(arch: str | None) -> Rule | None:
    """The rule of ``sm_75``; ``None`` where no rule is public."""
    number = re.sub(r"\D", "", arch or "")
    return RULES.get(int(number)) if number else None


def sources(opcode: bytes, modifiers: bytes, operands: bytes) -> Sources | None:
    """The source registers of an instruction that reads 32-bit registers; ``None`` of any other."""
    if opcode not in NARROW or _WIDE.search(modifiers):
        return None
    found: Sources = {}
    values = [text for text in operands.split(b",") if not _PREDICATE.match(text)]
    for place, text in enumerate(values if opcode in _NO_RESULT else values[1:]):
        if match := _REGISTER.match(text):
            found[place] = int(match[1]), b".reuse" in text
    return found


def conflicts(rule: Rule, now: Sources, before: Sources) -> bool:
    """Whether more registers of one bank are read than can be at once. ``before``: of the preceding instruction."""
    read = {register for place, (register, _) in now.items() if before.get(place) != (register, True)}
    return max(Counter(register % rule.banks for register in read).values(), default=0) > rule.reads
