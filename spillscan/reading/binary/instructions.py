"""A function's instructions one by one: the registers that each names, its text, and its branch target.

Register fields come from :mod:`~spillscan.reading.binary.tables`. Instructions in no table are not ``known``.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise

import numpy as np

from spillscan.model.code import CodeText
from spillscan.model.local import SourceLine
from spillscan.reading.binary import operand_text
from spillscan.reading.binary.decode import Decoded
from spillscan.reading.binary.tables import ALWAYS, Field, registers, table
from spillscan.reading.binary.window import Window
from spillscan.reading.binary.words import BRANCHES, FIRST_WITH_LOW_BYTE, MEET, Wide
from spillscan.reading.machine.instruction import BARRIERS, FILES, SCOREBOARDS, Instruction
from spillscan.reading.machine.liveness import INSTRUCTION

_CONTROL = (1 << 126) - (1 << 105)
"""Bits of stall count, yield, scoreboards and operand reuse: the schedule, not the operation."""
_SCOREBOARDS = (1 << 122) - (1 << 110)
_SETS, _WAITS, _NO_SCOREBOARD = (110, 113), 116, 7
"""Lowest bits of the write and read scoreboards and of the wait mask; number for no scoreboard."""
MOST_BYTES = 64 << 20
"""Maximum code bytes of one function; packed code beyond it is ignored."""
_RETURN = 0x950
"""Opcode of RET."""
_NAMES_BARRIER = (MEET, 0x941, 0x942)
"""Opcodes of BSSY, BSYNC and BREAK, which name a convergence barrier."""
_BARRIER = 16
_GUARD = 12
_TARGET = (1 << 30) - 1 << 34 | (1 << 18) - 1 << 64
_MEETING = (1 << 30) - 1 << 34
_LOW_BYTE = 0xFF << 16
_WHOLE = (1 << 128) - 1
_NUMBER = re.compile(r" #\d+")


class Code:
    """Instructions of one function."""

    def __init__(self, text: CodeText) -> None:
        """Raises :class:`ValueError` if no table covers its architecture."""
        self.text = text
        opcodes = table(text.number)
        files = [registers(text.number, file) for file in FILES]
        if opcodes is None or not opcodes.wide or files[0] is None:
            raise ValueError(f"no opcode table for sm_{text.number}")
        self.complete = None not in files
        """Whether there are tables of predicates and uniform registers, too; else no instruction is known in full."""
        self._files = [each for each in files if each is not None]
        try:
            words = zlib.decompressobj().decompress(text.words, MOST_BYTES)
        except zlib.error as error:
            raise ValueError(f"instructions cannot be unpacked: {error}") from None
        decoded = Decoded(Window(words), opcodes, text.number)
        assert isinstance(decoded.code, Wide)
        self._code = decoded.code
        self.names = decoded.mnemonics
        """Mnemonic of each instruction; empty if unknown."""

    @property
    def rows(self) -> int:
        """Number of instructions."""
        return len(self.names)

    @cached_property
    def _words(self) -> list[int]:
        return self._code.integers()

    def fields(self) -> Iterator[tuple[list[Field], bool]]:
        """Register fields of each instruction, and whether tables describe all of it."""
        for word in self._words:
            found = [file.fields(word) for file in self._files]
            yield [field for fields in found for field in fields or ()], self.complete and None not in found

    @cached_property
    def instructions(self) -> list[Instruction]:
        """All instructions, decoded."""
        targets = dict(zip(*(column.tolist() for column in self._code.branches()), strict=True))
        low_byte = _LOW_BYTE * (self.text.number >= FIRST_WITH_LOW_BYTE)
        references: dict[int, list[str]] = {}
        for offset, what in self.text.references:
            references.setdefault(offset // INSTRUCTION, []).append(f"{offset % INSTRUCTION} {what}")
        found = []
        for row, (word, (fields, known)) in enumerate(zip(self._words, self.fields(), strict=True)):
            opcode, mask, guard = word & 0xFFF, _WHOLE, None
            named: list[int] = []
            for field in fields:
                none = (1 << field.width) - 1
                number, first = word >> field.at & none, 256 * field.file
                mask &= ~(none << field.at)
                steps = [step for step in range(field.shape.bit_length()) if field.shape >> step & 1]
                if number == none:
                    named += [-1 - field.file] * len(steps)
                else:
                    named += [first + number + step for step in steps if number + step < none]
                if field.at == _GUARD and not field.writes and number != none:
                    guard = first + number
            if opcode in _NAMES_BARRIER:
                mask &= ~(15 << _BARRIER)
                named.append(BARRIERS + (word >> _BARRIER & 15))
            numbers = (word >> at & 7 for at in _SETS)
            named += [-1 if each == _NO_SCOREBOARD else SCOREBOARDS + each for each in numbers]
            goes = _MEETING if opcode == MEET else (_TARGET | low_byte) if opcode in (*BRANCHES, _RETURN) else 0
            reference = "; ".join(references.get(row, ()))
            found.append(
                Instruction(
                    self.names[row],
                    word,
                    rest=word & mask & ~_SCOREBOARDS,
                    key=(word & mask & ~_CONTROL & ~goes, _NUMBER.sub("", reference)),
                    reference=reference,
                    registers=tuple(named),
                    waits=word >> _WAITS & 63,
                    known=known,
                    target=targets.get(row),
                    guard=guard,
                )
            )
        return found

    @cached_property
    def texts(self) -> list[str]:
        """Text of each instruction as nvdisasm prints it, with addresses for labels: ``@!P0 LDG.E R8,
        desc[UR4][R2.64+0x10]``; ``LDL ?`` if no table has its text."""
        tables, found = operand_text.table(self.text.number), []
        targets = self._code.targets(np.arange(self.rows)).tolist()
        for each, word, target in zip(self.instructions, self._words, targets, strict=True):
            text, guard = tables[word & 0xFFF], word >> _GUARD & 15
            shown = each.name
            if text is None:
                shown = f"{shown} {operand_text.UNKNOWN}".strip()
            else:
                operands = text.operands(word, target if each.target is None else each.target)
                shown += text.modifiers(word, 0) + (f" {operands}" if operands else "")
            name = "PT" if each.guard is None else f"{_PREFIXES[each.guard // 256]}{each.guard % 256}"
            found.append(shown if guard == ALWAYS else f"@{'!' if guard > ALWAYS else ''}{name} {shown}")
        return found

    @cached_property
    def sources(self) -> list[SourceLine | None]:
        """Source line of each instruction."""
        found: list[SourceLine | None] = [None] * self.rows
        runs = (*self.text.lines, (self.rows, "", 0))
        for (begin, file, line), (end, _, _) in pairwise(runs):
            if line:
                found[begin:end] = [SourceLine(file=file, line=line)] * (min(end, self.rows) - begin)
        return found


_PREFIXES = ("R", "P", "UR", "UP")
"""Beginnings of register names, by file."""
