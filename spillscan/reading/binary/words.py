"""Machine words as NumPy columns: opcode, guard, branch target, local address, stack pointer; and the opcodes' tables.

Volta and later (128 bits, two little-endian words a, b): opcode a[0:12], guard a[12:16], target register a[16:24],
sources a[24:32], a[32:40], b[0:8]; STL and LDL: offset a[40:64], width b[9:12], ``.LU`` b[20:23] = 3, uniform register
a[32:40] where b[27]; branches: words to skip a[34:64] + b[0:18], from sm_90 on in quarters with a[16:24] as low byte,
condition b[23:27], uniform condition where b[27].

Maxwell and Pascal (64 bits, a control word before every three): opcode a[51:64], guard a[16:20], target register
a[0:8], sources a[8:16], a[20:28], a[39:47]; STL and LDL: offset a[20:44], width a[48:51], ``.LU`` a[44:46] = 1;
branches: bytes to skip a[20:44], condition a[0:5].

Kepler sm_35, sm_37 (64 bits, a control word before every seven): opcode a[0:2] and a[54:64], guard a[18:22], target
register a[2:10], sources a[10:18], a[23:31], a[42:50]; STL and LDL: offset a[23:47], width a[51:54], ``.LU`` a[47:49] =
2; branches: bytes to skip a[23:47], condition a[2:7]. Where ``.S`` takes control is not read: no loop depths.

Each statement was held against the text of cuobjdump, instruction by instruction (``tests/oracle/binary_oracle.py``).

The tables, data of ``opcodes/*.json``, say which mnemonic a code is, and which of its fields are registers. They are
derived by ``fixtures/opcodes.py``; no code is guessed: one that no table knows is counted by its hexadecimal number.
Mnemonics that share an opcode are distinguished by further bits, the selectors, which are looked up only there. Where
no bit distinguishes them (Kepler's ``LDG/TEX``), and where nvdisasm knows a code by an internal name only (``F2FP`` of
sm_75, which it never prints), it is known at least that the code is no access to local memory and no branch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from spillscan.model.code import OPCODE_CLASSES, SETS_REGISTERS
from spillscan.reading.binary.window import Window
from spillscan.reading.machine.flow import KINDS

CODE_BITS = 12
"""The opcode's own; what selectors choose stands above them."""
_MOST_BITS = 12
"""From the first bit of a group to its last: the table of what they choose is this large."""

Name = str | list[Any]
"""A mnemonic, or ``[where the bit is 0, where it is 1, bit]``, and so on."""


class _Group(NamedTuple):
    """Bits that stand near each other in one word of an instruction."""

    word: int
    """0: the first, 1: the second."""
    lowest: int
    """Of them, in the word."""
    mask: int
    """From the lowest to the highest."""
    chosen: NDArray[np.int64]
    """What is above the opcode, by these bits."""
    telling: NDArray[np.bool_]
    """By opcode: whether one of them decides its mnemonic."""


class Selectors:
    """Those of one architecture."""

    def __init__(self, bits: Sequence[int], names: Mapping[int, Name]) -> None:
        """``bits``: of the instruction; ``names``: of the opcodes that several mnemonics share."""
        self.bits = tuple(bits)
        self.split = np.zeros(1 << CODE_BITS, bool)
        """By opcode: whether its instructions have them above it."""
        self.split[list(names)] = True
        self._groups = [self._group(near, names) for near in _near(self.bits)]

    def _group(self, near: Sequence[int], names: Mapping[int, Name]) -> _Group:
        span = near[-1] - near[0] + 1
        values, chosen = np.arange(1 << span), np.zeros(1 << span, np.int64)
        for bit in near:
            chosen |= (values >> (bit - near[0]) & 1) << (CODE_BITS + self.bits.index(bit))
        telling = np.zeros(1 << CODE_BITS, bool)
        telling[[code for code, name in names.items() if asked(name) & {*near}]] = True
        return _Group(near[0] // 64, near[0] % 64, (1 << span) - 1, chosen, telling)

    def choose(self, codes: NDArray[np.int64], words: Sequence[NDArray[np.int64]]) -> None:
        """Put what they choose above opcodes. ``words``: the first and second ones of the instructions."""
        rows = np.flatnonzero(self.split.take(codes))
        opcodes = codes[rows]
        for word, lowest, mask, chosen, telling in self._groups:
            mine = rows[telling.take(opcodes)]
            if len(mine):
                codes[mine] |= chosen.take(words[word][mine] >> lowest & mask)


def asked(name: Name) -> set[int]:
    """The bits that decide a mnemonic."""
    return set() if isinstance(name, str) else {name[2]} | asked(name[0]) | asked(name[1])


def mnemonic(name: Name, bits: Sequence[int], chosen: int) -> str:
    """The one that ``chosen`` names, in which the bits stand one behind the other."""
    while not isinstance(name, str):
        name = name[chosen >> bits.index(name[2]) & 1]
    return name


def _near(bits: Sequence[int]) -> list[list[int]]:
    """Groups of bits in one word that are no further apart than :data:`_MOST_BITS`."""
    groups: list[list[int]] = []
    for bit in sorted(bits):
        if groups and bit // 64 == groups[-1][0] // 64 and bit - groups[-1][0] < _MOST_BITS:
            groups[-1].append(bit)
        else:
            groups.append([bit])
    return groups


STORE, LOAD = "STL", "LDL"
SHARED = ("STS", "LDS")
NARROW_BITS = 13
_ELSEWHERE = frozenset(
    {
        *(
            opcode
            for name in ("fp32", "fp64", "fp16", "fp8", "sfu", "int", "convert")
            for opcode in OPCODE_CLASSES[name]
        ),
        *(
            opcode
            for name in ("move", "predicate", "local", "constant", "texture", "nop")
            for opcode in OPCODE_CLASSES[name]
        ),
        *("LDG", "STG", "ATOMG", "REDG", "RED", "BAR", "MEMBAR"),
        *("BRA", "BSSY", "BSYNC", "BREAK", "EXIT", "WARPSYNC", "NANOSLEEP"),
    }
)
"""Opcodes that surely neither address shared memory nor call what may."""


class Table:
    """The codes of one architecture."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.arch: str = document["arch"]
        self.wide: bool = document["word_bits"] == 128
        """Volta and later: an instruction is two words."""
        self.kepler: bool = document.get("control_words", 4) == 8
        """Every eighth word of 64 bits is a control word, else every fourth."""
        own_bits = NARROW_BITS if not (self.wide or self.kepler) else CODE_BITS
        self.mask = (1 << own_bits) - 1
        """The opcode's own bits of a code."""
        bits: tuple[int, ...] = tuple(document["selectors"])
        entries = list(_entries(document["opcodes"]))
        runs = [*_runs(entries, bits), *_vague(document.get("evidence", {}), bits)]
        shared = [(range(begin, end), name) for begin, end, name, _ in entries if not isinstance(name, str)]
        self.selectors = Selectors(bits, {code: name for codes, name in shared for code in codes})
        """What distinguishes mnemonics that share an opcode; such codes have more than its bits."""
        self.names = sorted({mnemonic for _, mnemonic, _ in runs})
        """Mnemonics, sorted; their index is their rank."""
        rank = {name: index for index, name in enumerate(self.names)}
        size = 1 << own_bits << len(bits)
        self.unknown = len(self.names)
        """Rank of every code that is in no table."""
        self.ranks: NDArray[np.int64] = np.full(size, self.unknown, np.int64)
        """Rank by code."""
        self.pairs = Pairs([*self.names, ""])
        """(mnemonic, instructions) by rank and number; of unknown codes there is no mnemonic."""
        self.fields: dict[str, NDArray[np.bool_]] = {letter: np.zeros(size, bool) for letter in "dabc"}
        """For each register field of a code: whether it is one. Unknown codes may have all that are read."""
        for codes, name, letters in runs:
            self.ranks[codes] = rank[name]
            for letter in letters:
                self.fields[letter][codes] = True
        for letter in "abc":
            self.fields[letter] |= self.ranks == self.unknown
        self.store, self.load = rank.get(STORE, -1), rank.get(LOAD, -1)
        self.local = [rank for rank in (self.store, self.load) if rank >= 0]
        """Ranks of STL and LDL."""
        self.settings = [rank[SETS_REGISTERS]] if SETS_REGISTERS in rank else []
        """Rank of USETMAXREG, where it is one."""
        self.is_shared = np.isin([*self.names, ""], SHARED)
        """By rank: STS and LDS."""
        self.may_share = np.array([name not in _ELSEWHERE for name in (*self.names, "")])
        """By rank: whether it may touch shared memory, or call what does."""
        self.kinds = np.full(len(self.names) + 1, -1)
        """What it does to control, by rank (:class:`~spillscan.reading.machine.flow.Kind`); -1: nothing."""
        for opcode, kind in KINDS.items():
            if opcode.decode() in rank:
                self.kinds[rank[opcode.decode()]] = kind


class Pairs(dict[int, tuple[str, int]]):
    """(mnemonic, instructions) by ``rank << 32 | instructions``. Few are distinct: most kernels share them."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self._names = names

    def __missing__(self, key: int) -> tuple[str, int]:
        pair = self[key] = self._names[key >> 32], key & 0xFFFFFFFF
        return pair


_Entry = tuple[int, int, Name, str]
"""First opcode, the one behind the last, mnemonic, register fields."""


def _entries(entries: dict[str, Any]) -> Iterator[_Entry]:
    for text, (name, letters, _) in entries.items():
        first, _, last = text.partition("-")
        yield int(first, 16), int(last or first, 16) + 1, name, letters


def _runs(entries: Iterable[_Entry], bits: tuple[int, ...]) -> Iterator[tuple[slice, str, str]]:
    """(codes, mnemonic, register fields). A code is more than an opcode only where that is shared."""
    for begin, end, name, letters in entries:
        for chosen in range(1 if isinstance(name, str) else 1 << len(bits)):
            above = chosen << CODE_BITS
            yield slice(begin + above, end + above), mnemonic(name, bits, chosen), letters


def _vague(evidence: dict[str, Any], bits: tuple[int, ...]) -> Iterator[tuple[slice, str, str]]:
    """Like :func:`_runs`, of codes for which there are several mnemonics, or only nvdisasm's internal names:
    every field that may be read is a register."""
    found = {
        code: names.split()
        for code, _, names in (text.partition(": ") for text in evidence.get("several_mnemonics", ()))
    }
    for codes, internal in evidence.get("refused", {}).items():
        found[codes] = sorted({name.partition("_")[0].upper() for name in internal.split()})
    for codes, names in found.items():
        if any(name.encode() in KINDS or name in (STORE, LOAD) for name in names):
            continue
        first, _, last = codes.partition("-")
        for above in range(1 << len(bits)):
            start = above << CODE_BITS
            yield slice(int(first, 16) + start, int(last or first, 16) + 1 + start), "/".join(names), "abc"


_TABLES = Path(__file__).parent / "opcodes"


@cache
def table(number: int) -> Table | None:
    """The table of an architecture by its number; ``None`` where none was derived."""
    source = _TABLES / f"sm_{_SHARED.get(number, number)}.json"
    if not source.is_file():
        return None
    return Table(json.loads(source.read_text()))


_SHARED = {37: 35, 52: 50, 53: 50, 61: 60, 62: 60}
"""Architectures whose codes stand in the table of another, which holds what nvdisasm knows of either."""


Words = NDArray[np.int64]
Flags = NDArray[np.bool_]

STACK_POINTER = 1
ALWAYS = 7
"""Predicate that is always true."""
FIRST_WITH_LOW_BYTE = 90


class Code(Protocol):
    """The instructions of one function, or of several that stand one behind the other; a row each."""

    bytes_per_instruction: int
    stored: str
    """The field of the register that STL stores."""
    group_bytes: int
    """After so many the encoding begins again: where a function may begin."""
    start: int
    """Of the first, in the buffer that holds it."""
    codes: Words
    """Opcode of each, and above it what :class:`Selectors` choose where it is shared."""

    def part(self, offset: int, size: int) -> Code:
        """The same of ``size`` bytes from ``offset`` on, where a function begins; nothing is looked up again."""

    def rows_before(self, offset: int) -> int:
        """Instructions in the first ``offset`` bytes."""

    def bytes_to(self, rows: int) -> int:
        """Bytes from the first instruction of a function (control words included) to the end of its last."""

    def addresses(self, rows: Words) -> Words:
        """Byte offsets in the function."""

    def guards(self, rows: Words) -> Words:
        """Predicate, plus 8 where it is negated; 7: none."""

    def targets(self, rows: Words) -> Words:
        """Where branches go, as byte offsets in the function."""

    def conditions(self, rows: Words) -> Flags:
        """Whether a branch has a condition beside its guard."""

    def local(self, rows: Words) -> Words:
        """Of STL and LDL: their fields as one number, as ``machine/local.py`` has it; whether it is a store,
        predicated and annotated is not among them."""

    def registers(self, letter: str, rows: Words) -> Words:
        """One register field: d (target), a, b, c."""

    def naming(self, register: int) -> Words:
        """Rows where any of a, b and c is that register, should these be register fields."""

    def immediates(self, rows: Words) -> Words:
        """The 32-bit constant in the place of the second source."""


class Wide:
    """128-bit instructions."""

    bytes_per_instruction = group_bytes = 16
    stored = "b"

    def __init__(self, code: Window, number: int, selectors: Selectors) -> None:
        self.start = code.start
        self._pairs: Words = code.array(np.dtype("<i8"), code.size // 16 * 2, 0, "code")
        self._lows, self._highs = self._pairs[0::2], self._pairs[1::2]
        self._low_byte = number >= FIRST_WITH_LOW_BYTE
        self.codes: Words = self._lows & 0xFFF
        if selectors.bits:
            selectors.choose(self.codes, (self._lows, self._highs))

    def part(self, offset: int, size: int) -> Wide:
        """See :class:`Code`."""
        part, rows = copy(self), slice(offset // 16, (offset + size) // 16)
        part.start = self.start + offset
        part._pairs = self._pairs[2 * rows.start : 2 * rows.stop]
        part._lows, part._highs, part.codes = self._lows[rows], self._highs[rows], self.codes[rows]
        return part

    def words(self) -> tuple[Words, Words]:
        """The low words, and the high ones."""
        return self._lows, self._highs

    def rows_before(self, offset: int) -> int:
        """See :class:`Code`."""
        return offset // 16

    def bytes_to(self, rows: int) -> int:
        """See :class:`Code`."""
        return rows * 16

    def _low(self, rows: Words) -> Words:
        return self._lows[rows]

    def _high(self, rows: Words) -> Words:
        return self._highs[rows]

    def addresses(self, rows: Words) -> Words:
        """See :class:`Code`."""
        return rows * 16

    def guards(self, rows: Words) -> Words:
        """See :class:`Code`."""
        return self._low(rows) >> 12 & 15

    def targets(self, rows: Words) -> Words:
        """See :class:`Code`."""
        steps = self._steps(rows)
        if self._low_byte:
            steps = steps << 8 | self._low(rows) >> 16 & 0xFF
        found: Words = rows * 16 + 16 + steps * 4
        return found

    def meetings(self, rows: Words) -> Words:
        """Of BSSY: where warps meet, as byte offsets in the function. The low byte holds its barrier."""
        found: Words = rows * 16 + 16 + self._steps(rows) * 4
        return found

    def _steps(self, rows: Words) -> Words:
        found: Words = self._low(rows) >> 34 & 0x3FFFFFFF | self._high(rows) << 46 >> 16
        return found

    def conditions(self, rows: Words) -> Flags:
        """See :class:`Code`."""
        high = self._high(rows)
        found: Flags = (high >> 23 & 15 != ALWAYS) | (high >> 27 & 1 == 1)
        return found

    def local(self, rows: Words) -> Words:
        """See :class:`Code`."""
        low, high = self._low(rows), self._high(rows)
        found: Words = low >> 40 << 24 | (high >> 20 & 7 == 3) << 20 | high << 8 & 7 << 17
        found |= high >> 11 & 1 << 16 | low >> 24 & 0xFF
        return found

    def registers(self, letter: str, rows: Words) -> Words:
        """See :class:`Code`."""
        if letter == "c":
            return self._high(rows) & 0xFF
        return self._low(rows) >> {"d": 16, "a": 24, "b": 32}[letter] & 0xFF

    def naming(self, register: int) -> Words:
        """See :class:`Code`."""
        octets = self._pairs.view(np.uint8).reshape(-1, 16)
        named = octets[:, 3] == register
        for place in (4, 8):
            named |= octets[:, place] == register
        found: Words = named.nonzero()[0]
        return found

    def immediates(self, rows: Words) -> Words:
        """See :class:`Code`."""
        return self._low(rows) >> 32


class Narrow:
    """64-bit instructions, three behind each control word: Maxwell and Pascal."""

    bytes_per_instruction = 8
    stored = "d"
    group_bytes = 32
    _group = 4
    """Words: the first of them is the control word."""
    _registers: ClassVar = {"d": 0, "a": 8, "b": 20, "c": 39}
    """Lowest bit of each field."""
    _guard, _offset, _width, _condition = 16, 20, 48, 0
    _cache, _last_use = 44, 1
    """Two bits, and what they are of a last use."""

    def __init__(self, code: Window, selectors: Selectors) -> None:
        self.start = code.start
        words: NDArray[np.uint64] = code.array(np.dtype("<u8"), code.size // 8, 0, "code")
        self._all: Words = words.view("<i8")
        self.codes: Words = np.empty(self.rows_before(code.size), np.int64)
        codes, behind = self.codes.view("<u8"), self._group - 1
        for place in range(behind):  # behind each control word
            self._opcodes(words[place + 1 :: self._group], codes[place::behind])
        if selectors.bits:
            selectors.choose(self.codes, (self._words(np.arange(len(self.codes))),))

    def _opcodes(self, words: NDArray[np.uint64], out: NDArray[np.uint64]) -> None:
        np.right_shift(words, np.uint64(51), out=out)

    def part(self, offset: int, size: int) -> Narrow:
        """See :class:`Code`."""
        part = copy(self)
        part.start = self.start + offset
        part._all = self._all[offset // 8 : (offset + size) // 8]
        part.codes = self.codes[self.rows_before(offset) : self.rows_before(offset + size)]
        return part

    def rows_before(self, offset: int) -> int:
        """See :class:`Code`."""
        words = offset // 8
        return words - -(-words // self._group)

    def bytes_to(self, rows: int) -> int:
        """See :class:`Code`."""
        return (rows + -(-rows // (self._group - 1))) * 8

    def _words(self, rows: Words) -> Words:
        found: Words = self._all[rows + rows // (self._group - 1) + 1]
        return found

    def addresses(self, rows: Words) -> Words:
        """See :class:`Code`."""
        return (rows + rows // (self._group - 1) + 1) * 8

    def guards(self, rows: Words) -> Words:
        """See :class:`Code`."""
        return self._words(rows) >> self._guard & 15

    def targets(self, rows: Words) -> Words:
        """See :class:`Code`."""
        steps = (self._words(rows) >> self._offset & 0xFFFFFF) << 40 >> 40
        found: Words = self.addresses(rows) + 8 + steps
        return found

    def conditions(self, rows: Words) -> Flags:
        """See :class:`Code`."""
        found: Flags = self._words(rows) >> self._condition & 31 != 15
        return found

    def local(self, rows: Words) -> Words:
        """See :class:`Code`."""
        words = self._words(rows)
        found: Words = words >> self._offset << 40 >> 16 | (words >> self._width & 7) << 17
        found |= (words >> self._cache & 3 == self._last_use) << 20 | words >> self._registers["a"] & 0xFF
        return found

    def registers(self, letter: str, rows: Words) -> Words:
        """See :class:`Code`."""
        return self._words(rows) >> self._registers[letter] & 0xFF

    def naming(self, register: int) -> Words:
        """See :class:`Code`."""
        named = np.zeros(len(self._all), bool)
        for letter in "abc":
            named |= self._all >> self._registers[letter] & 0xFF == register
        places = named.nonzero()[0]
        places = places[places % self._group != 0]  # no control words
        found: Words = places - places // self._group - 1
        return found

    def immediates(self, rows: Words) -> Words:
        """See :class:`Code`."""
        found: Words = (self._words(rows) >> self._offset & 0xFFFFFFFF) << 32 >> 32
        return found


class Kepler(Narrow):
    """64-bit instructions, seven behind each control word: sm_35 and sm_37."""

    group_bytes = 64
    _group = 8
    _registers: ClassVar = {"d": 2, "a": 10, "b": 23, "c": 42}
    _guard, _offset, _width, _condition = 18, 23, 51, 2
    _cache, _last_use = 47, 2

    def _opcodes(self, words: NDArray[np.uint64], out: NDArray[np.uint64]) -> None:
        out[:] = words >> np.uint64(54) | (words & np.uint64(3)) << np.uint64(10)
