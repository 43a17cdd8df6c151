"""A function's instructions one by one, as far as it is known what they do: what they read and write of each kind of
register, what is left of their words without that, and where they go.

Nothing is taken for understood that no table knows: general registers, predicates, uniform registers and uniform
predicates stand in ``registers/*.json``, which nvdisasm's own marks were the source of (``fixtures/registers.py``).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spillscan.model.code import CodeText, SourceLine
from spillscan.reading.binary import operand_text
from spillscan.reading.binary.decode import Decoded
from spillscan.reading.binary.opcode_tables import table
from spillscan.reading.binary.pressure import Registers, elsewhere, registers
from spillscan.reading.binary.sums import Operands, sum_of
from spillscan.reading.binary.window import Window
from spillscan.reading.binary.words import ALWAYS, FIRST_WITH_LOW_BYTE, Wide, Words
from spillscan.reading.machine.accesses import WIDTHS
from spillscan.reading.machine.instruction import BARRIERS, FILES, LOADS, STORES, Instruction, Place, Sum
from spillscan.reading.machine.liveness import INSTRUCTION, Graph, live

_CONTROL = (1 << 126) - (1 << 105)
"""Stall count, yield, barriers that are set and waited for, operands that are kept for reuse: when, not what."""
MOST_BYTES = 64 << 20
"""Of one function's code; what a snapshot packs beyond that is left out."""
_BRANCH, _UNIFORM_BRANCH, _CALL, _MEET, _RETURN = 0x947, 0x547, 0x944, 0x945, 0x950
_WARPS: dict[int, tuple[int, str]] = {0x945: (16, "w"), 0x941: (16, "r"), 0x942: (16, "rw"), 0x355: (24, "w")}
"""BSSY, BSYNC, BREAK, and the BMOV that clears: lowest bit of the warps' barrier that they name, and what they do."""
_GUARD = 12
_MODIFIERS, _SIGNS, _IN_REGISTERS = 72, 62, 1
"""Lowest bit of most modifiers; of the signs of a second source; the form of instructions without constants."""
_SWAPPED = {
    "IADD3": (24, 32, 64),
    "LOP3": (24, 32, 64),
    **dict.fromkeys(("IMAD", "FADD", "FMUL", "FFMA", "IMNMX", "VIMNMX"), (24, 32)),
}
"""By mnemonic: lowest bits of sources that may change places. Not of DADD: which of two NaNs stays is not known."""
_ADDRESSING, _ORDERING = 1 | 0x1F << 4 | 3 << 18, 0xF << 5
"""Modifiers of an access that say how its address is made; those that mean its order in accesses to global memory."""
_OF_PREDICATES = {0x803: "r", 0x804: "w"}
"""P2R and R2P: a set of predicates stands in a constant."""
_SET_OF_PREDICATES, _MASK_OF_PREDICATES = 32, 0x7F
_TARGET = (1 << 30) - 1 << 34 | (1 << 18) - 1 << 64
_UNIFORM = 91
"""The bit of a word that has a uniform register among its operands."""
_MEETING = (1 << 30) - 1 << 34
_LOW_BYTE = 0xFF << 16
_CONSTANT_FORMS, _OWN_BANKS = (3, 5), (0, 2)
"""What of an opcode says that an operand stands in a bank; parameters, and constants of the function."""
_WHOLE = (1 << 128) - 1


class Code:
    """The instructions of one function."""

    def __init__(self, text: CodeText, *, one_module: bool = False) -> None:
        """Raises :class:`ValueError` where no table is for its architecture. ``one_module``: what it is compared with
        finds the same constants of its module."""
        self.text = text
        self._one_module = one_module
        opcodes = table(text.number)
        files = [registers(text.number, file) for file in FILES]
        if opcodes is None or not opcodes.wide or files[0] is None:
            raise ValueError(f"no table says what instructions of sm_{text.number} do")
        self.complete = None not in files
        """Whether tables hold predicates and uniform registers, too: else no instruction is known in full."""
        self._files = [(at, each) for at, each in enumerate(files) if each is not None]
        try:
            words = zlib.decompressobj().decompress(text.words, MOST_BYTES)
        except zlib.error as error:
            raise ValueError(f"code that cannot be unpacked: {error}") from None
        window = Window(words)
        whole = Window(window.buffer, 0, window.size // INSTRUCTION * INSTRUCTION)
        self._code = Wide(whole, text.number, opcodes.selectors)
        self._decoded = Decoded(Window(window.buffer), self._code, opcodes)
        self.names: list[str] = [*opcodes.names, ""]
        self._ranks = opcodes.ranks.take(self._code.codes)

    @property
    def rows(self) -> int:
        """How many instructions."""
        return len(self._ranks)

    def name(self, row: int) -> str:
        """The mnemonic; empty: unknown."""
        return self.names[int(self._ranks[row])]

    @cached_property
    def instructions(self) -> list[Instruction]:
        """What each does."""
        code = self._code
        lows, highs = code.words()
        every = np.arange(self.rows)
        targets, meetings = code.targets(every).tolist(), code.meetings(every).tolist()
        columns = [(at, each, *(c.tolist() for c in each.classes(lows, highs))) for at, each in self._files]
        moved = dict[int, str]()
        for offset, what in self.text.relocations:
            moved[offset // INSTRUCTION] = f"{moved.get(offset // INSTRUCTION, '')}{offset % INSTRUCTION} {what};"
        found = []
        unmet = [elsewhere(self.text.number, file) for file in FILES]
        low_byte = self.text.number >= FIRST_WITH_LOW_BYTE
        words = zip(lows.view(np.uint64).tolist(), highs.view(np.uint64).tolist(), strict=True)
        masks: dict[tuple[int, ...], tuple[int, list[_Field], dict[int, int]]] = {}
        for row, (low, high) in enumerate(words):
            word, opcode = low | high << 64, low & 0xFFF
            classes = tuple(at[row] for _, _, at, _ in columns)
            if classes not in masks:
                fields = [
                    field for file, each, at, _ in columns for field in _fields(file, each, at[row], self.text.number)
                ]
                mask = _WHOLE & ~_CONTROL
                for field in fields:
                    mask &= ~(((1 << field.width) - 1) << field.at)
                masks[classes] = mask, fields, _sources(fields)
            mask, fields, places = masks[classes]
            others = [[at for each in unmet[file].get(opcode, ()) for at in each.of(word)] for file in (1, 3, 2)]
            target = None
            if opcode in (_BRANCH, _UNIFORM_BRANCH, _CALL, _MEET):
                mask &= ~(_MEETING if opcode == _MEET else _TARGET)
                target = meetings[row] if opcode == _MEET else targets[row]
                if low_byte and opcode != _MEET:
                    mask &= ~_LOW_BYTE
            if opcode == _RETURN and targets[row] == 0:  # the address that it reads counts from there
                mask &= ~(_TARGET | _LOW_BYTE * low_byte)
            read, written = list[int](), list[int]()
            operands: tuple[list[int], list[int]] = [], []
            for field in fields:
                number = word >> field.at & (1 << field.width) - 1
                none = (1 << field.width) - 1
                first = field.file * 256
                if field.writes or field.at != _GUARD:
                    operands[not field.writes].append(-1 - field.file if number == none else first + number)
                (written if field.writes else read).extend(
                    [-1 - field.file] * len(field.shape)
                    if number == none
                    else [first + number + step for step in field.shape if number + step < none]
                )
            deciding = [each for each in fields if each.at == _GUARD and not each.writes]
            guards = [256 * each.file + (word >> _GUARD & 7) for each in deciding]
            if opcode in _OF_PREDICATES:
                some = word >> _SET_OF_PREDICATES & _MASK_OF_PREDICATES
                named = [256 * FILES.index("P") + number for number in range(7) if some >> number & 1]
                (read if _OF_PREDICATES[opcode] == "r" else written).extend(named)
            if opcode in _WARPS:
                at, does = _WARPS[opcode]
                barrier = BARRIERS + (word >> at & 15)
                mask &= ~(15 << at)
                read += [barrier] * ("r" in does)
                written += [barrier] * ("w" in does)
            found.append(
                Instruction(
                    self.names[self._ranks[row]],
                    (word & mask, moved.get(row, "")),
                    tuple(read),
                    tuple(written),
                    word >> 12 & 15 != ALWAYS,
                    self.complete
                    and not any(unknown[row] for _, _, _, unknown in columns)
                    and all(word >> at & 7 == ALWAYS for at in (*others[0], *others[1]))
                    and not (word >> _UNIFORM & 1 and others[2])
                    and (self._one_module or not _of_module(low))
                    and not (target is not None and row in moved)
                    and (opcode in _OF_PREDICATES or self.names[self._ranks[row]] not in ("P2R", "R2P")),
                    target,
                    (word >> 110 & 7, word >> 113 & 7, word >> 116 & 63),
                    next(iter(guards), None) if word >> _GUARD & 7 != ALWAYS else None,
                    _swaps(self.names[self._ranks[row]], word, fields, places),
                    _place(self.names[self._ranks[row]], word, fields),
                    None if row in moved else _sum(self.names[self._ranks[row]], word, fields, places, read, written),
                    (tuple(operands[0]), tuple(operands[1])),
                    places,
                )
            )
        return found

    @cached_property
    def said(self) -> list[str]:
        """Each instruction as nvdisasm prints it, with addresses for labels: ``@!P0 LDG.E R8, desc[UR4][R2.64+0x10]``.
        Where no table has its text, the registers that it writes and reads: ``LDL R8 ← R1``."""
        lows, highs = (column.view(np.uint64).tolist() for column in self._code.words())
        texts, found = operand_text.table(self.text.number), []
        targets = self._code.targets(np.arange(self.rows)).tolist()
        for each, low, high, target in zip(self.instructions, lows, highs, targets, strict=True):
            word, text = low | high << 64, texts[low & 0xFFF]
            guard = word >> _GUARD & 15
            written, read = each.operands
            name = "PT" if each.guard is None else _register(each.guard)
            if text is not None:
                operands = text.operands(word, target if each.target is None else each.target)
                operands = f"{text.modifiers(word, 0)} {operands}" if operands else text.modifiers(word, 0)
            else:
                sides = filter(None, (_registers(written), "←", _registers(read)))
                operands = f" {' '.join(sides)}" + ("" if each.target is None else f" to {each.target:#06x}")
            when = "" if guard == ALWAYS else f"@{'!' if guard > ALWAYS else ''}{name} "
            found.append(f"{when}{each.name or '?'}{operands}")
        return found

    @cached_property
    def depths(self) -> Sequence[int | None]:
        """Loops around each instruction; ``None`` where control is not known, or never comes."""
        return [None] * self.rows if self.graph is None else self.graph.depths()

    @cached_property
    def graph(self) -> Graph | None:
        """What may follow what; ``None`` where control is not known."""
        return self._decoded.graph(self.text.parts, function=self.text.function)

    @cached_property
    def live(self) -> NDArray[np.int64]:
        """Live general registers at each instruction."""
        if self.graph is None:
            return np.zeros(self.rows, np.int64)
        (found,) = live([(self._files[0][1].effects(*self._code.words()), self.graph)])
        return found.counts

    @cached_property
    def sources(self) -> list[SourceLine | None]:
        """Where each instruction comes from."""
        found: list[SourceLine | None] = [None] * self.rows
        runs = (*self.text.lines, (self.rows, "", 0))
        for (begin, file, line), (end, _, _) in pairwise(runs):
            if line:
                found[begin:end] = [SourceLine(file=file, line=line)] * (min(end, self.rows) - begin)
        return found

    def widths(self) -> Words:
        """The field of each instruction that says how many bytes an access moves."""
        found: Words = self._code.words()[1] >> 9 & 7
        return found


_PREFIXES = ("R", "P", "UR", "UP")


def _register(number: int) -> str:
    """``R8``; ``RZ`` of the one that is always the same."""
    return f"{_PREFIXES[number // 256]}{number % 256}" if number >= 0 else f"{_PREFIXES[-1 - number]}Z"


def _registers(numbers: Iterable[int]) -> str:
    """``R8 R4 P0``; true predicates say nothing."""
    return " ".join(_register(number) for number in numbers if number not in _TRUE)


_TRUE = (-2, -4)


def _of_module(low: int) -> bool:
    """Whether it may read a bank of constants that is the whole module's: what stands where is not known."""
    return low >> 9 & 7 in _CONSTANT_FORMS and low >> 54 & 31 not in _OWN_BANKS


def _sources(fields: Sequence[_Field]) -> dict[int, int]:
    """By the lowest bit of each field that is read: the place of its first register among all that is."""
    reading = [field for field in fields if not field.writes]
    places = accumulate((len(field.shape) for field in reading), initial=0)
    return {field.at: place for field, place in zip(reading, places, strict=False)}


def _swaps(name: str, word: int, fields: Sequence[_Field], sources: Mapping[int, int]) -> tuple[int, ...]:
    """Which of the registers that an instruction reads may change places: operands of 32 bits, in registers and without
    a sign of their own, of what does the same with each."""
    if name not in _SWAPPED or word >> 9 & 7 != _IN_REGISTERS:
        return ()
    operands = _SWAPPED[name]
    if name == "LOP3":
        table = word >> _MODIFIERS & 0xFF
        operands = next((each for each in ((24, 32, 64), (24, 32), (32, 64), (24, 64)) if _alike(table, each)), ())
    elif word >> _SIGNS & 3 or word >> _MODIFIERS & (1 if name == "IMAD" else 11):
        return ()
    single = {each.at for each in fields if not each.writes and each.file == 0 and len(each.shape) == 1}
    return tuple(sources[each] for each in operands) if {*operands} <= single else ()


def _sum(
    name: str, word: int, fields: Sequence[_Field], sources: Mapping[int, int], read: Sequence[int],
    written: Sequence[int],
) -> Sum | None:  # fmt: skip
    """Its result as a sum, if it is one."""
    if not written or written[0] // 256 not in (0, 2) or sum(each // 256 in (0, 2) for each in written) > 1:
        return None
    registers, predicates = (
        {each.at: sources[each.at] for each in fields if _is_single(each) and FILES[each.file] in files}
        for files in ("RU", "PQ")
    )
    return sum_of(name, word, Operands(registers, predicates, read))


def _is_single(field: _Field) -> bool:
    return not field.writes and len(field.shape) == 1


def _alike(table: int, operands: tuple[int, ...]) -> bool:
    """Whether a table of truth of three operands does the same with each of some."""
    bits = [{24: 4, 32: 2, 64: 1}[each] for each in operands]
    rows = [(sum(bool(row & bit) for bit in bits), row & ~sum(bits), table >> row & 1) for row in range(8)]
    return len({row[:2] for row in rows}) == len({*rows})


def _place(name: str, word: int, fields: Sequence[_Field]) -> Place | None:
    """Where an access goes: its first source and its uniform registers hold the address, a constant is added."""
    if name not in LOADS and name not in STORES:
        return None
    address = [each for each in fields if not each.writes and (each.file == 2 or (each.file == 0 and each.at == 24))]
    numbers = [(each, word >> each.at & (1 << each.width) - 1) for each in address]
    base = [
        -1 - each.file if number == (1 << each.width) - 1 else 256 * each.file + number + step
        for each, number in numbers
        for step in each.shape
    ]
    how = _ADDRESSING & ~(_ORDERING if name in ("LDG", "STG") else 0) & word >> _MODIFIERS
    return Place((*base, how), (word >> 40 ^ 1 << 23) % (1 << 24) - (1 << 23), WIDTHS[word >> 73 & 7])


class _Field(NamedTuple):
    """Where an instruction names registers."""

    file: int
    """Index in :data:`FILES`."""
    at: int
    """Lowest bit of the number."""
    width: int
    """Bits of it."""
    shape: list[int]
    """Registers from the named one on."""
    writes: bool


def _width(file: str, arch: int) -> int:
    """Bits of the number of a register."""
    if file in "PQ":
        return 3
    return 8 if file == "R" or arch >= 100 else 6


def _fields(file: int, known: Registers, number: int, arch: int) -> list[_Field]:
    width = _width(FILES[file], arch)
    return [_Field(file, at, width, known.shapes[shape], bool(writes)) for at, shape, writes in known.fields[number]]
