"""The row scanner: every line of a function verified and counted with NumPy, eight bytes at a time.

Lines of one layout are rows of a matrix. The columns that hold fields are loaded as unaligned 64-bit words and
compared: each address with the one that must stand there, the gap and the predicate, the beginning of each encoding
line, each line's end. What remains is the word at the opcode; distinct words are few, and each is given a meaning once,
by the grammar. Rows that differ in any of this are not counted here: the caller hands them to Lark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spillscan.sass import terminals
from spillscan.sass.code import Code, Marked
from spillscan.sass.layout import LONGEST_ADDRESS, SHORTEST_ADDRESS, WINDOW, WORD, Layout
from spillscan.sass.loops import Control

Words = NDArray[np.uint64]
Halves = NDArray[np.uint16]
Ints = NDArray[np.int64]

_U = np.uint64
_BLANKS = int.from_bytes(b" " * WINDOW, "little")
_PLAIN, _LOCAL, _CONTROL, _LONG, _UNIFORM = range(5)
MAX_OPCODES = 512
"""Distinct opcodes of all dumps read by one scanner; NVIDIA's tables name some 300."""
REGION = 1 << 16
"""Addresses that four hexadecimal digits tell apart."""


_JUMP = np.frombuffer(b"BRA 0x", np.uint8)
_CALL = np.frombuffer(b"CALL.REL.NOINC 0x", np.uint8)
_FAR_CALL = np.frombuffer(b"CALL.ABS.NOINC 0x", np.uint8)
_STOP = 16
_DIGITS = np.full(256, 255, np.uint8)
"""Value of a hexadecimal digit; 16 where a target ends; 255 for anything else."""
_DIGITS[[*b"0123456789abcdef"]] = range(16)
_DIGITS[[*b" ;"]] = _STOP


def _address_tables() -> dict[int, Words]:
    """By number of digits: the eight bytes from ``/*`` on, for each word address; leading digits are left out."""
    text = "".join(f"{address:04x}" for address in range(0, REGION, WORD)).encode()
    low = np.frombuffer(text, np.dtype("<u4")).astype(_U)
    tables = {}
    for digits in range(SHORTEST_ADDRESS, LONGEST_ADDRESS + 1):
        frame = (b"/*" + bytes(digits) + b"*/")[:WINDOW]
        tables[digits] = low << _U(8 * (2 + digits - SHORTEST_ADDRESS)) | _U(int.from_bytes(frame, "little"))
    return tables


_TABLES = _address_tables()


@dataclass(slots=True)
class Span:
    """Whole patterns of one function in a block; their addresses have the same leading digits."""

    code: Code
    begin: int
    patterns: int
    layout: Layout
    address: int
    line: int

    @property
    def end(self) -> int:
        """Where the next pattern would begin."""
        return self.begin + self.patterns * self.layout.stride


def fit(address: int, patterns: int, layout: Layout) -> int:
    """How many patterns from ``address`` on one span may hold; 0 where the addresses are too long for rows."""
    if address >= 16**LONGEST_ADDRESS:
        return 0
    return min(patterns, (REGION - address % REGION) // layout.step)


class DepartureError(Exception):
    """A row is not what the layout says; the first ``patterns`` of ``span`` are."""

    def __init__(self, span: Span, patterns: int) -> None:
        super().__init__(span, patterns)
        self.span = span
        self.patterns = patterns


class Meanings:
    """What a word of eight bytes stands for, remembered by a perfect hash of the words seen so far."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._bits = 10
        self._factor = 0x9E3779B97F4A7C15
        self._build()

    def _build(self) -> None:
        keys = np.array(list(self._known), _U)
        tries = 0
        while True:
            slots = ((keys * _U(self._factor)) >> _U(64 - self._bits)).astype(np.int64)
            if len(np.unique(slots)) == len(keys):
                break
            self._factor = (self._factor * 6364136223846793005 + 1442695040888963407) % (1 << 64) | 1
            tries += 1
            self._bits += tries % 40 == 0
        self._keys = np.full(1 << self._bits, ~0, np.int64).view(_U)  # eight bytes 0xff are no text
        self._values = np.full(1 << self._bits, -1, np.int64)
        self._keys[slots] = keys
        self._values[slots] = list(self._known.values())
        self._multiplier, self._shift = _U(self._factor), _U(64 - self._bits)

    def find(self, words: Words, resolve: Callable[[int, bytes], int]) -> Ints:
        """The meaning of each word; ``resolve(index, word)`` gives that of a new one."""
        while True:
            slots = ((words * self._multiplier) >> self._shift).view(np.int64)
            new = self._keys[slots] != words
            if not new.any():
                return self._values[slots]
            unknown, first = np.unique(words[new], return_index=True)
            rows = np.flatnonzero(new)[first]
            for word, row in zip(unknown.tolist(), rows.tolist(), strict=True):
                self._known[word] = resolve(row, word.to_bytes(WINDOW, "little"))
            self._build()


class Rows:
    """Scans spans of a block; remembers opcodes and predicates from block to block."""

    def __init__(self) -> None:
        lark = terminals.lexer()
        self._local = re.compile(terminals.terminal(lark, "LOCAL_LINE").encode())
        self._control = re.compile(terminals.terminal(lark, "CONTROL_LINE").encode())
        self._guard = re.compile(b" *" + terminals.terminal(lark, "GUARD").encode())
        self._guards = Meanings()
        self._words = Meanings()
        self._long: dict[int, Meanings] = {}
        """By the first eight bytes of an opcode, what the next eight make of it."""
        self._names: list[str] = ["", ""]
        self._kinds = np.zeros(MAX_OPCODES, np.uint8)
        self._kinds[:2] = _LONG, _UNIFORM
        self._order: list[int] = []
        self._ends = np.empty(1 << 14, np.uint16)
        self._heads = np.empty((3, 1 << 14), _U)
        self._reserve(1 << 13)

    def _reserve(self, rows: int) -> None:
        self._room = rows
        self._found = np.empty(rows, _U)
        self._expected = np.empty(rows, _U)
        self._columns = np.empty((4, rows), _U)

    def scan(self, buffer: bytearray, words: Words, halves: Halves, spans: Sequence[Span]) -> None:
        """Verify all rows of ``spans``, which have equal columns, then count them.

        Raises :class:`DepartureError` before anything is counted. ``words`` and ``halves`` are ``buffer`` as unaligned
        64-bit and 16-bit integers.
        """
        batch = _Batch(buffer, words, spans)
        total = batch.bounds[-1]
        if total > self._room:
            self._reserve(2 * total)
        found, expected, columns = self._found[:total], self._expected[:total], self._columns[:, :total]
        for index, (span, lane) in enumerate(batch.lanes):
            begin, end = batch.bounds[index], batch.bounds[index + 1]
            layout = span.layout
            address = span.address + lane * WORD
            text = span.begin + lane * layout.width
            stride = layout.stride
            digits = max(SHORTEST_ADDRESS, (address.bit_length() + 3) // 4)
            at = text + layout.address
            found[begin:end] = words[at : at + (end - begin - 1) * stride + 1 : stride]
            low = (address % REGION) // WORD
            table = _TABLES[digits][low : low + (end - begin - 1) * layout.lines + 1 : layout.lines]
            if digits == SHORTEST_ADDRESS:
                expected[begin:end] = table
            else:
                leading = f"{address // REGION:x}".encode()
                np.bitwise_or(table, _U(int.from_bytes(leading, "little") << 16), out=expected[begin:end])
            at = text + layout.opcode + digits - SHORTEST_ADDRESS - 3 * WINDOW
            columns[:, begin:end] = np.ndarray(
                (4, end - begin), "<u8", buffer=buffer, offset=at, strides=(WINDOW, stride)
            )
        layout = spans[0].layout
        gap = _U(int.from_bytes(b"*/".ljust(WINDOW - layout.digits), "little"))
        if not (
            (found == expected).all()
            and ((columns[0] >> _U(8 * layout.digits)) == gap).all()
            and (columns[1] == _U(_BLANKS)).all()
            and self._lines_good(words, halves, spans)
        ):
            raise self._departure(batch, words, halves)
        guarded = np.flatnonzero(columns[2] != _U(_BLANKS))
        if len(guarded):
            self._guards.find(columns[2][guarded], lambda at, word: self._new_guard(word, batch, int(guarded[at])))
        self._count(batch, self._numbers(batch, columns[3]))

    def _lines_good(self, words: Words, halves: Halves, spans: Sequence[Span]) -> bool:
        """Every line ends where it must, and encoding lines begin as they must."""
        lines = sum(span.patterns * span.layout.lines for span in spans)
        if lines > len(self._ends):
            self._ends = np.empty(2 * lines, np.uint16)
            self._heads = np.empty((3, 2 * lines), _U)
        ends, (heads, begins, margins) = self._ends, self._heads
        line = encoding = 0
        for span in spans:
            layout, begin, end = span.layout, span.begin, span.end
            upto = line + span.patterns * layout.lines
            ends[line:upto] = halves[begin + layout.width - 2 : end - 1 : layout.width]
            margins[line:upto] = words[begin : end : layout.width]
            line = upto
            for number in layout.encodings:
                at = begin + number * layout.width
                upto = encoding + span.patterns
                heads[encoding:upto] = words[at + layout.encoding : end : layout.stride]
                begins[encoding:upto] = words[at + layout.address : end : layout.stride]
                encoding = upto
        layout = spans[0].layout
        return bool(
            (margins[:line] == _U(_BLANKS)).all()
            and (ends[:line] == int.from_bytes(layout.end, "little")).all()
            and (heads[:encoding] == _U(int.from_bytes(layout.head, "little"))).all()
            and (begins[:encoding] == _U(_BLANKS)).all()
        )

    def _departure(self, batch: _Batch, words: Words, halves: Halves) -> DepartureError:
        """The first span with a bad row, and its good patterns."""
        total = batch.bounds[-1]
        found, expected, columns = self._found[:total], self._expected[:total], self._columns[:, :total]
        layout = batch.spans[0].layout
        gap = _U(int.from_bytes(b"*/".ljust(WINDOW - layout.digits), "little"))
        bad = found != expected
        bad |= (columns[0] >> _U(8 * layout.digits)) != gap
        bad |= columns[1] != _U(_BLANKS)
        for span in batch.spans:
            patterns = span.patterns
            for index, (other, _) in enumerate(batch.lanes):
                if other is span:
                    rows = bad[batch.bounds[index] : batch.bounds[index + 1]]
                    if rows.any():
                        patterns = min(patterns, int(rows.argmax()))
            patterns = min(patterns, self._good_lines(words, halves, span))
            if patterns < span.patterns:
                return DepartureError(span, patterns)
        raise AssertionError("no row departs")  # scan() saw one

    def _good_lines(self, words: Words, halves: Halves, span: Span) -> int:
        """Patterns of a span before the first whose lines do not begin and end as they must."""
        low, high = 0, span.patterns
        while low < high:
            middle = (low + high + 1) // 2
            good = self._lines_good(words, halves, [replace(span, patterns=middle)])
            low, high = (middle, high) if good else (low, middle - 1)
        return low

    def _new_guard(self, word: bytes, batch: _Batch, row: int) -> int:
        if not self._guard.fullmatch(word):
            raise batch.departure(row)
        return 0

    def _numbers(self, batch: _Batch, opcodes: Words) -> Ints:
        """The number of each row's opcode."""
        numbers = self._words.find(_masked(opcodes), lambda row, word: self._new_word(word, batch, row))
        special = np.flatnonzero(self._kinds.take(numbers) >= _LONG)
        if len(special):
            numbers[special] = self._special(batch, special, numbers[special])
        return numbers

    def _special(self, batch: _Batch, rows: Ints, numbers: Ints) -> Ints:
        """The numbers of rows with a uniform predicate, or an opcode of eight letters and more."""
        places = batch.opcodes(rows)
        uniform = np.flatnonzero(numbers == _UNIFORM - _LONG)
        if len(uniform):
            # a uniform predicate stands in the opcode's column, and the opcode behind the blank that ends it
            predicates = batch.words[places[uniform]]
            lengths = (predicates.view(np.uint8).reshape(-1, WINDOW) == ord(" ")).argmax(axis=1) + 1
            predicates &= (_U(1) << (8 * lengths % 64).astype(_U)) - _U(1)
            self._guards.find(
                predicates, lambda at, word: self._new_guard(word.rstrip(b"\0"), batch, int(rows[uniform[at]]))
            )
            places[uniform] += lengths
            numbers[uniform] = self._words.find(
                _masked(batch.words[places[uniform]]),
                lambda at, word: self._new_word(word, batch, int(rows[uniform[at]])),
            )
        long = np.flatnonzero(numbers == 0)
        beginnings = batch.words[places[long]]
        for beginning in set(beginnings.tolist()):
            same = long[beginnings == _U(beginning)]
            numbers[same] = self._long.setdefault(beginning, Meanings()).find(
                _masked(batch.words[places[same] + WINDOW]),
                lambda at, word: self._new_end(word, batch, int(rows[same[at]])),  # noqa: B023
            )
        return numbers

    def _new_word(self, word: bytes, batch: _Batch, row: int) -> int:
        if word.startswith(b"@"):
            return _UNIFORM - _LONG
        return self._number(batch, row) if word.endswith(b"\0") else 0

    def _new_end(self, word: bytes, batch: _Batch, row: int) -> int:
        if word.endswith(b"\0"):
            return self._number(batch, row)
        raise batch.departure(row)  # an opcode of sixteen letters: Lark reads it

    def _number(self, batch: _Batch, row: int) -> int:
        """The number of the opcode that the grammar reads in a row."""
        line = batch.line(row)
        match = terminals.line("head").match(line)
        if match is None:
            raise batch.departure(row)
        name = match["opcode"].decode()
        if name not in self._names:
            kind = _LOCAL if self._local.match(line) else _CONTROL if self._control.match(line) else _PLAIN
            if len(self._names) == MAX_OPCODES:
                raise batch.departure(row)
            self._kinds[len(self._names)] = kind
            self._names.append(name)
        return self._names.index(name)

    def _count(self, batch: _Batch, numbers: Ints) -> None:
        kinds = self._kinds.take(numbers)
        marked = np.flatnonzero(kinds)
        cuts = np.searchsorted(marked, batch.bounds).tolist()
        for index, (span, lane) in enumerate(batch.lanes):
            begin, end = batch.bounds[index], batch.bounds[index + 1]
            tally = np.bincount(numbers[begin:end], minlength=MAX_OPCODES)
            code = span.code
            code.tally = tally if code.tally is None else code.tally + tally
            rows = marked[cuts[index] : cuts[index + 1]]
            if len(rows):
                code.local_count += int(np.count_nonzero(kinds[rows] == _LOCAL))
                code.marked.append(_Marked(batch.buffer, span, lane, rows - begin))
        for span in batch.spans:
            layout = span.layout
            span.code.last_address = span.address + (span.patterns - 1) * layout.step + layout.lanes[-1] * WORD

    def opcodes(self, tally: Ints) -> list[tuple[str, int]]:
        """(opcode, rows) of a tally, by opcode."""
        names = self._names
        if len(self._order) != len(names):
            self._order = sorted(range(len(names)), key=names.__getitem__)
            self._sorted = np.array([names[number] for number in self._order], object)
        ordered = tally[self._order]
        found = ordered.nonzero()[0]
        return list(zip(self._sorted[found].tolist(), ordered[found].tolist(), strict=True))


class _Batch:
    """Lanes of some spans as one sequence of rows."""

    def __init__(self, buffer: bytearray, words: Words, spans: Sequence[Span]) -> None:
        self.buffer = buffer
        self.words = words
        self.spans = spans
        self.lanes = [(span, lane) for span in spans for lane in span.layout.lanes]
        self.bounds = [0]
        for span, _ in self.lanes:
            self.bounds.append(self.bounds[-1] + span.patterns)

    @cached_property
    def _table(self) -> tuple[Ints, Ints, Ints, Ints]:
        begins = [span.begin + lane * span.layout.width for span, lane in self.lanes]
        strides = [span.layout.stride for span, _ in self.lanes]
        opcodes = [
            span.layout.opcode + max(0, (span.address.bit_length() + 3) // 4 - SHORTEST_ADDRESS)
            for span, _ in self.lanes
        ]
        return np.array(self.bounds[:-1]), np.array(begins), np.array(strides), np.array(opcodes)

    def _lane(self, rows: Ints) -> Ints:
        return np.searchsorted(self._table[0], rows, side="right") - 1

    def places(self, rows: Ints) -> Ints:
        """Where rows begin in the buffer."""
        lane = self._lane(rows)
        bounds, begins, strides, _ = self._table
        places: Ints = begins[lane] + (rows - bounds[lane]) * strides[lane]
        return places

    def opcodes(self, rows: Ints) -> Ints:
        """Where the opcode's column of each row is in the buffer."""
        columns: Ints = self._table[3][self._lane(rows)]
        return self.places(rows) + columns

    def line(self, row: int) -> bytes:
        """Text of a row."""
        rows = np.array([row])
        begin = int(self.places(rows)[0])
        return bytes(self.buffer[begin : begin + self.lanes[int(self._lane(rows)[0])][0].layout.width])

    def departure(self, row: int) -> DepartureError:
        """A row departs."""
        lane = int(self._lane(np.array([row]))[0])
        return DepartureError(self.lanes[lane][0], row - self.bounds[lane])


class _Marked:
    """Copies of rows that may matter, read when their function turns out to use local memory."""

    __slots__ = ("_address", "_layout", "_line", "_opcode", "_rows", "_text")

    def __init__(self, buffer: bytearray, span: Span, lane: int, rows: Ints) -> None:
        layout = span.layout
        begin = span.begin + lane * layout.width
        view = np.ndarray((span.patterns, layout.width), np.uint8, buffer, begin, (layout.stride, 1))
        self._text = view[rows]
        self._rows = rows
        self._layout = layout
        self._line, self._address = span.line + lane, span.address + lane * WORD
        self._opcode = layout.opcode + max(0, (span.address.bit_length() + 3) // 4 - SHORTEST_ADDRESS)

    def __call__(self) -> Marked:
        """The lines as the grammar reads them; plain jumps and calls, which are most of them, from their columns."""
        addresses = self._address + self._rows * self._layout.step
        jump, jump_targets = self._plain(_JUMP)
        call, call_targets = self._plain(_CALL)
        far, _ = self._plain(_FAR_CALL)
        guards = self._text[:, self._opcode - 2] != ord(" ")  # a predicate ends with one blank
        other = np.flatnonzero(~(jump | call | far))
        lines = (self._line + self._rows[other] * self._layout.lines).tolist()
        fields = terminals.line_starts("instruction").findall(self._text[other].tobytes())
        return Marked(
            [(*field, line, None) for field, line in zip(fields, lines, strict=True)],
            list(map(Control, addresses[jump].tolist(), jump_targets.tolist(), guards[jump].tolist())),
            list(zip(addresses[call].tolist(), call_targets.tolist(), strict=True))
            + [(at, 0) for at in addresses[far].tolist()],
        )

    def _plain(self, opcode: NDArray[np.uint8]) -> tuple[NDArray[np.bool_], Ints]:
        """Which rows hold just this opcode and an address, and the addresses."""
        begin, end = self._opcode, self._opcode + len(opcode)
        plain: NDArray[np.bool_] = (self._text[:, begin:end] == opcode).all(axis=1)
        digits = _DIGITS[self._text[plain, end : end + WINDOW]]
        length = (digits >= _STOP).argmax(axis=1)
        good = (length > 0) & (digits[np.arange(len(digits)), length] == _STOP)
        targets = np.zeros(len(digits), np.int64)
        for place in range(WINDOW):
            targets = np.where(place < length, targets * 16 + digits[:, place], targets)
        plain[np.flatnonzero(plain)[~good]] = False
        return plain, targets[good]


def _masked(words: Words) -> Words:
    """Each word up to its first byte that is neither letter, digit, ``_``, ``;`` nor ``@``; the rest is zero.

    Such bytes have bit 6 set, or bit 4: letters are 0x40 and up, digits and ``;`` are 0x30 to 0x3f.
    """
    stops = words << _U(2)
    stops |= words
    np.invert(stops, out=stops)
    stops &= _U(0x4040404040404040)
    low = np.negative(stops.view(np.int64)).view(_U)
    low &= stops
    low >>= _U(6)
    low -= _U(1)
    low &= words
    return low
