"""Functions written anew so that they do the same work, and so that they do not: machine words in, machine words out.

It reads where registers stand from the product's tables, and nothing else of it: what may change places is decided here
by the names of instructions and by the registers that each reads and writes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random

import numpy as np
from msgspec.structs import replace

from spillscan.model.code import CodeText
from spillscan.reading.binary.instructions import Code
from spillscan.reading.binary.opcode_tables import table
from spillscan.reading.binary.pressure import registers

FILES = "RPUQ"
WIDTHS = {"R": 8, "P": 3, "Q": 3}
MUTATED = 2
"""Instructions of a function that are changed in each way."""
NOP = 0x000FC00000000000_0000000000007918
STAYS = "BAR MEMBAR DEPBAR LDGDEPBAR LDGSTS ATOM ATOMG ATOMS RED REDG ERRBAR CCTL BSSY BSYNC BREAK BRA EXIT CALL RET "
STAYS += "WARPSYNC YIELD NANOSLEEP NOP S2R S2UR CS2R SHFL VOTE VOTEU MATCH REDUX R2UR HMMA IMMA DMMA LD ST"
SUMS = ["IADD3", "IMAD", "MOV", "VIADD", "LEA", "SHF", "HFMA2", "UIADD3", "UIMAD", "UMOV", "ULEA", "USHF"]
SIGNED = 73
LOADS, STORES = {"LDG", "LDS", "LDL", "LDSM"}, {"STG", "STS", "STL", "STSM"}

Field = tuple[str, int, int, list[int], bool]
"""File, lowest bit, width, registers from the named one on, whether it is written."""


class Words:
    """The instructions of one function."""

    def __init__(self, text: CodeText) -> None:
        self.text = text
        data = zlib.decompress(text.words)
        self.words = [int.from_bytes(data[at : at + 16], "little") for at in range(0, len(data) // 16 * 16, 16)]
        code = Code(text)
        self.names = [code.name(row) for row in range(code.rows)]
        self.targets = [each.target for each in code.instructions]
        self.fields: list[list[Field] | None] = self._fields()

    def _fields(self) -> list[list[Field] | None]:
        pairs = np.array([(word & (1 << 64) - 1, word >> 64) for word in self.words], np.uint64).view(np.int64)
        found: list[list[Field] | None] = [[] for _ in self.words]
        for file in FILES:
            known = registers(self.text.number, file)
            assert known is not None
            width = WIDTHS.get(file, 8 if self.text.number >= 100 else 6)
            classes, unknown = known.classes(pairs[:, 0], pairs[:, 1])
            for row, (number, lost) in enumerate(zip(classes.tolist(), unknown.tolist(), strict=True)):
                held = found[row]
                if lost and self.names[row] != "NOP":
                    found[row] = None
                elif held is not None and not lost:
                    held += [(file, at, width, known.shapes[s], bool(w)) for at, s, w in known.fields[number]]
        return found

    @property
    def known(self) -> bool:
        """Whether it is known of every instruction what it names."""
        return all(each is not None for each in self.fields)

    def made(self, words: Sequence[int]) -> CodeText:
        """The function with other words."""
        return replace(self.text, words=zlib.compress(b"".join(word.to_bytes(16, "little") for word in words)))

    def touched(self, row: int, word: int | None = None) -> tuple[set[tuple[str, int]], set[tuple[str, int]]]:
        """(read, written) of an instruction: (file, number)."""
        read, written = set(), set()
        word = self.words[row] if word is None else word
        for file, at, width, shape, writes in self.fields[row] or ():
            number = word >> at & (1 << width) - 1
            if number != (1 << width) - 1:
                (written if writes else read).update((file, number + step) for step in shape)
        return read, written

    def renamed(self, random: Random) -> CodeText | None:
        """With other registers, in groups that keep what is aligned aligned; ``None`` where a group does not fit, and
        of a device function, whose callers know its registers."""
        if not self.known or self.text.function:
            return None
        maps = {}
        for file in FILES:
            fields = [(row, field) for row, held in enumerate(self.fields) for field in held or () if field[0] == file]
            most = max((max(field[3], default=0) + 1 for _, field in fields), default=1)
            size = 1 if file in "PQ" else next(each for each in (4, 8, 16, 32, 64, 128) if each >= most)
            numbers = {n for row in range(len(self.words)) for each in self.touched(row) for f, n in each if f == file}
            groups = sorted({number // size for number in numbers} - ({0} if file == "R" else set()))
            mixed = groups[:]
            random.shuffle(mixed)
            to = dict(zip(groups, mixed, strict=True))
            maps[file] = {n: to.get(n // size, n // size) * size + n % size for n in range(256)}
            for row, (_, at, width, shape, _) in fields:
                number = self.words[row] >> at & (1 << width) - 1
                if number != (1 << width) - 1 and number % size + max(shape) >= size:
                    return None
        words = list(self.words)
        for row, held in enumerate(self.fields):
            for file, at, width, _, _ in held or ():
                number = self.words[row] >> at & (1 << width) - 1
                if number != (1 << width) - 1:
                    words[row] = words[row] & ~((1 << width) - 1 << at) | maps[file][number] << at
        return self.made(words)

    def reordered(self, random: Random) -> CodeText | None:
        """With instructions in another order within stretches that hold nothing but arithmetic, loads and stores."""
        if not self.known:
            return None
        order: list[int] = []
        for begin, end in self.stretches():
            order += self._shuffled(begin, end, random) if end - begin > 1 else range(begin, end)
        return self.made([self.words[row] for row in order])

    def stretches(self) -> Iterator[tuple[int, int]]:
        """Rows that may change places with each other: (first, behind the last)."""
        cuts = {0, len(self.words)}
        cuts |= {target // 16 for target in self.targets if target is not None}
        for row, name in enumerate(self.names):
            if name in STAYS.split() or any(offset // 16 == row for offset, _ in self.text.relocations):
                cuts |= {row, row + 1}
        ordered = sorted(cut for cut in cuts if cut <= len(self.words))
        yield from pairwise(ordered)

    def _shuffled(self, begin: int, end: int, random: Random) -> list[int]:
        """A random order that keeps all that depends on each other: by registers, by memory, and by the barriers that
        one sets and another waits for, in front of all that the first touches."""
        before: dict[int, set[int]] = {row: set() for row in range(begin, end)}
        effects = {}
        for row in range(begin, end):
            read, written = self.touched(row)
            word = self.words[row]
            set_up = {word >> 110 & 7, word >> 113 & 7} - {6, 7}
            waits = {barrier for barrier in range(6) if word >> 116 >> barrier & 1}
            for other in range(begin, row):
                o_read, o_written, o_set, o_waits = effects[other]
                memory = (self.names[row] in STORES and self.names[other] in STORES | LOADS) or (
                    self.names[other] in STORES and self.names[row] in STORES | LOADS
                )
                if written & (o_read | o_written) or read & o_written or memory:
                    before[row].add(other)
                if (set_up | waits) & (o_set | o_waits) or (waits and o_set) or o_waits:
                    before[row].add(other)
            effects[row] = read, written, set_up, waits
            if waits:
                before[row] |= set(range(begin, row))
        done: list[int] = []
        waiting = set(before)
        while waiting:
            ready = sorted(row for row in waiting if not before[row] & waiting)
            row = random.choice(ready)
            done.append(row)
            waiting.remove(row)
        return done

    def padded(self, random: Random) -> CodeText | None:
        """With nothing done for a while at some places, and all branches as before; ``None`` where it calls: a call
        names the address to return to."""
        if "CALL" in self.names:
            return None
        at = {row: random.random() < 0.1 for row in range(len(self.words))}
        places, words = {}, list[int]()
        for row, word in enumerate(self.words):
            places[row] = len(words)
            words += [NOP] * at[row]
            words.append(word)
        places[len(self.words)] = len(words)
        rows = [index for row in range(len(self.words)) for index in ([-1] if at[row] else []) + [row]]
        for now, row in enumerate(rows):
            target = self.targets[row] if row >= 0 else None
            if target is not None:
                steps = (places[target // 16] * 16 - (now * 16 + 16)) // 4
                words[now] = aimed(words[now], steps, self.text.number)
        moved = tuple((places[o // 16] * 16 + at[o // 16] * 16 + o % 16, what) for o, what in self.text.relocations)
        return replace(self.made(words), relocations=moved, lines=())


def aimed(word: int, steps: int, number: int) -> int:
    """A branch, or where warps meet, that goes so many quarters of an instruction on."""
    if number >= 90 and word & 0xFFF != 0x945:
        word = word & ~(0xFF << 16) | (steps & 0xFF) << 16
        steps >>= 8
    if word & 0xFFF == 0x945:
        return word & ~((1 << 30) - 1 << 34) | (steps & (1 << 30) - 1) << 34
    word &= ~((1 << 30) - 1 << 34 | (1 << 18) - 1 << 64)
    return word | (steps & (1 << 30) - 1) << 34 | (steps >> 30 & (1 << 18) - 1) << 64


def _offset(word: int) -> int:
    """Of an access."""
    return word >> 40 & (1 << 24) - 1


def mutants(held: Words, random: Random) -> Iterator[tuple[str, CodeText]]:
    """(what was done, the function that does other work)."""
    words, opcodes = held.words, table(held.text.number)
    assert opcodes is not None
    rows = [row for row, name in enumerate(held.names) if name not in ("NOP", "") and held.targets[row] != row * 16]

    def with_word(row: int, word: int) -> CodeText:
        return held.made([*words[:row], word, *words[row + 1 :]])

    for row in random.sample(rows, min(len(rows), MUTATED)):
        word = words[row]
        yield f"opcode of {held.names[row]}", with_word(row, word ^ random.choice((1, 2, 4, 8)))
        if held.names[row] in SUMS and 0xFF in (word >> 24 & 0xFF, word >> 32 & 0xFF, word >> 64 & 0xFF):
            continue  # -RZ is RZ, and any constant times RZ
        if word >> 9 & 7 == 4:
            yield f"constant of {held.names[row]}", with_word(row, word ^ 1 << random.randrange(32, 64))
        bit = random.randrange(72, 81)
        if bit != SIGNED or "IMAD" not in held.names[row]:  # of lower halves of products nothing
            yield f"modifier of {held.names[row]}", with_word(row, word ^ 1 << bit)
    for row in rows:
        fields = {at: (file, width, shape) for file, at, width, shape, writes in held.fields[row] or () if not writes}
        pair = fields.get(24), fields.get(32)
        one, other = words[row] >> 24 & 0xFF, words[row] >> 32 & 0xFF
        if held.names[row] in ("ISETP", "FSETP", "SEL", "SHF", "LEA") and None not in pair and one != other:
            swapped = words[row] & ~(0xFF << 24) & ~(0xFF << 32) | other << 24 | one << 32
            yield f"operands of {held.names[row]}", with_word(row, swapped)
        both = held.names[row : row + 2]
        alias = {*both} & STORES and {*both} <= STORES | LOADS and len({name[2] for name in both}) == 1 < len(both)
        apart = words[row] >> 24 & 0xFF == words[row + 1] >> 24 & 0xFF  # may be apart
        if {*both} <= {"LDL", "STL"}:  # others may be at offsets from copies of one stack pointer
            apart = words[row] >> 24 & 0xFF != words[row + 1] >> 24 & 0xFF or _offset(words[row]) != _offset(
                words[row + 1]
            )
        if alias and not apart and words[row] != words[row + 1] and (row + 1) * 16 not in held.targets:
            turned = [*words[:row], words[row + 1], words[row], *words[row + 2 :]]
            yield f"order of {' and '.join(both)}", held.made(turned)
    used = {number for row in rows for each in held.touched(row) for file, number in each if file == "R"}
    free = next((number for number in range(200, 100, -8) if number not in used), None)
    for row in random.sample(rows, min(len(rows), MUTATED)):
        fields = [field for field in held.fields[row] or () if field[0] == "R" and not field[4]]
        if fields and free is not None:
            at = random.choice(fields)[1]
            if words[row] >> at & 0xFF != 0xFF and held.touched(row)[1]:
                yield f"source of {held.names[row]}", with_word(row, words[row] & ~(0xFF << at) | free << at)
