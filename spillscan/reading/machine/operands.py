"""What a function's instructions say besides their opcodes: highest registers named, bank conflicts of the source
registers, operations and bytes.

Read on demand only: it takes a look at every operand, where the counts take one at the opcodes' columns.

Register banks: how many source operands an architecture reads at once, as far as that is published.

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

What one instruction does, as far as its text says: floating-point operations, and bytes that it moves, per thread.

A fused multiply-add is two operations, a packed one twice as many; a matrix instruction divides its 2·m·n·k over its
threads. Conversions, comparisons, minima and the uniform datapath (once a warp) are no operations. Shapes are in the
modifiers: ``HMMA.16816`` is 16×8×16 for a warp, ``HGMMA.64x128x16`` for a warpgroup.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from spillscan.model.code import CLASS_OF, Operands
from spillscan.reading import grammar

Wanted = Callable[[str], bool]
"""Whether the operands of the function of this symbol are to be read."""

_NAMED = re.compile(rb"(?<![\w.$])(U?[RP])([0-9]{1,3})(?![0-9A-Za-z_])")
_LABEL = b"`("


class OperandReader:
    """Gathers one function's figures."""

    def __init__(self, arch: str | None) -> None:
        self._rule = rule(arch)
        self._highest: dict[bytes, int] = {}
        self._before: Sources = {}
        self._flops: int | None = 0
        self._bytes: dict[str, int | None] = {"global": 0, "shared": 0, "local": 0}
        self.conflicts: list[int] = []
        """Addresses of the instructions whose source registers conflict, ascending."""

    def text(self, lines: bytes) -> None:
        """Some whole lines of a dump."""
        for address, guard, opcode, modifiers, operands, _ in grammar.line_starts("instruction").findall(lines):
            self.instruction(int(address, 16), guard, opcode, modifiers, operands)

    def instruction(self, address: int, guard: bytes, opcode: bytes, modifiers: bytes, operands: bytes) -> None:
        """One instruction, its fields as printed."""
        for kind, number in _NAMED.findall(guard + b" " + operands.partition(_LABEL)[0]):
            if int(number) > self._highest.get(kind, -1):
                self._highest[kind] = int(number)
        self._work(of(opcode.decode("latin-1"), modifiers))
        if self._rule is not None:
            now = sources(opcode, modifiers, operands)
            if now and len(now) > self._rule.reads and conflicts(self._rule, now, self._before):
                self.conflicts.append(address)
            self._before = now or {}

    def _work(self, done: Work) -> None:
        self._flops = None if self._flops is None or done.flops is None else self._flops + done.flops
        if done.space:
            before = self._bytes[done.space]
            self._bytes[done.space] = None if before is None or done.bytes is None else before + done.bytes

    def result(self, depths: Sequence[int | None]) -> Operands:
        """The figures; ``depths`` are the loops around each of :attr:`conflicts`."""
        by_depth = Counter(depths)
        order = sorted(by_depth, key=lambda depth: -1 if depth is None else depth, reverse=True)
        return Operands(
            highest_register=self._highest.get(b"R"),
            highest_uniform_register=self._highest.get(b"UR"),
            highest_predicate=self._highest.get(b"P"),
            bank_conflicts=None if self._rule is None else tuple((depth, by_depth[depth]) for depth in order),
            flops=self._flops,
            global_bytes=self._bytes["global"],
            shared_bytes=self._bytes["shared"] or 0,
        )


class Rule(Struct, frozen=True, kw_only=True):
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
_REGISTER = re.compile(rb" *[-~|!+]*R([0-9]{1,3})\b")
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
    return any(count > rule.reads for count in Counter(register % rule.banks for register in read).values())


_FLOPS = {
    opcode: flops
    for flops, opcodes in {
        1: "DADD DMUL FADD FADD32I FMUL FMUL32I FHADD FSWZADD MUFU",
        2: "DFMA FADD2 FFMA FFMA32I FHFMA FMUL2 HADD2 HADD2_32I HMUL2 HMUL2_32I",
        4: "FFMA2 HFMA2 HFMA2_32I QADD4 QMUL4",
        8: "QFMA4",
    }.items()
    for opcode in opcodes.split()
}
_WARP, _WARPGROUP = 32, 128
_SHAPES = {
    b"884": (8, 8, 4),
    b"1684": (16, 8, 4),
    b"1688": (16, 8, 8),
    b"16816": (16, 8, 16),
    b"16832": (16, 8, 32),
    b"16864": (16, 8, 64),
}
"""Of a warp's matrix instructions, as printed; others are not distinguished."""
_OTHER = re.compile(rb"\.(?:SP|STEP\d)\b")
"""Sparse; the steps of Volta's HMMA.884, which share one shape."""
_GROUP_SHAPE = re.compile(rb"\.(\d{1,3})x(\d{1,3})x(\d{1,3})\b")
_WIDTHS = {b"U8": 1, b"S8": 1, b"U16": 2, b"S16": 2, b"64": 8, b"128": 16, b"256": 32}
_REGISTER_BYTES = 4
_SPACES = {
    opcode: space
    for space, opcodes in {
        "global": "LDG STG LD ST ATOM ATOMG RED REDG LDGSTS",
        "shared": "LDS STS ATOMS",
        "local": "LDL STL",
        "unsized": "UBLKCP UBLKRED UTMALDG UTMASTG UTMAREDG LDGMC SULD SUST TEX TEXS TLD TLD4 TLD4S TLDS TXD",
    }.items()
    for opcode in opcodes.split()
}
"""``unsized``: they access global memory; how many bytes, their text does not say."""
_INTEGER_TENSOR = frozenset({"BMMA", "IMMA", "IMMA_SP", "BGMMA", "IGMMA", "UTCIMMA", "UTCBAR", "UTCATOMSWS"})
_TOGETHER = frozenset({"HGMMA", "QGMMA"})


class Work(NamedTuple):
    """Per thread; ``None`` where the text does not say."""

    flops: int | None
    space: str | None
    """``global`` (generic addresses too), ``shared`` or ``local``; ``None``: no access to memory that is counted."""
    bytes: int | None


@lru_cache(maxsize=1 << 14)
def of(opcode: str, modifiers: bytes) -> Work:
    """The work of ``FFMA`` with its modifiers ``.FTZ``."""
    if _SPACES.get(opcode) == "unsized":
        return Work(0, "global", None)
    if opcode in _SPACES:
        parts = modifiers.split(b".")
        width = next((_WIDTHS[part] for part in parts if part in _WIDTHS), _REGISTER_BYTES)
        return Work(0, _SPACES[opcode], width)
    if CLASS_OF.get(opcode) == "tensor" and opcode not in _INTEGER_TENSOR:
        return Work(_matrix(opcode, modifiers), None, 0)
    return Work(None if opcode not in CLASS_OF else _FLOPS.get(opcode, 0), None, 0)


def _matrix(opcode: str, modifiers: bytes) -> int | None:
    if opcode in _TOGETHER:
        match = _GROUP_SHAPE.search(modifiers)
        return 2 * int(match[1]) * int(match[2]) * int(match[3]) // _WARPGROUP if match else None
    shape = next((_SHAPES[part] for part in modifiers.split(b".") if part in _SHAPES), None)
    if shape is None or _OTHER.search(modifiers):
        return None
    rows, columns, depth = shape
    return 2 * rows * columns * depth // _WARP
