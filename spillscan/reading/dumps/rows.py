"""The row scanner: every line of a function verified and counted with NumPy, many bytes at a time.

Lines of one layout are rows of a matrix. What stands before the opcode is decided by the row's address: it is copied
out of all rows and compared with the text that must stand there, at the speed of memory; so are the beginnings of
encoding lines, and each line's end. The eight bytes before the opcode are blank or a predicate. What remains is the
word at the opcode; distinct words are few, looked up in a perfect hash, thousands of keys at once, and each is given a
meaning once, by the grammar. Rows that differ in any of this are not counted here: the caller hands them to Lark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from spillscan.reading import grammar
from spillscan.reading.dumps.blocks import Block
from spillscan.reading.dumps.layout import LONGEST_ADDRESS, REGION, SHORTEST_ADDRESS, WINDOW, WORD, Layout, expected
from spillscan.reading.dumps.listing import KeptRows, Listing, Piece
from spillscan.reading.inputs.memory import Buffer

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]

_U = np.uint64
_TRIES = 8
"""Factors that are tried before the table is doubled."""
_LEAST_BITS = 9
"""Of the index of a table."""
_ABSENT = -1


class FullError(Exception):
    """There are too many distinct keys."""


class Numbers:
    """What each key met so far stands for. No key is eight bytes 0xff, which are no text."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[int, int] = {}
        self._bits = _LEAST_BITS
        self._factor = 0x9E3779B97F4A7C15
        self._build()

    def _build(self) -> None:
        keys = np.array(list(self._known), _U)
        self._bits = max(self._bits, (len(keys) ** 2 // 4).bit_length())  # so that one factor in a few does
        tries = 0
        while True:
            slots = ((keys * _U(self._factor)) >> _U(64 - self._bits)).astype(np.int64)
            if len(set(slots.tolist())) == len(keys):  # np.unique imports a part of NumPy that nothing else needs
                break
            self._factor = (self._factor * 6364136223846793005 + 1442695040888963407) % (1 << 64) | 1
            tries += 1
            self._bits += tries % _TRIES == 0
        self._keys = np.full(1 << self._bits, _ABSENT, np.int64).view(_U)
        self._keys[slots] = keys
        self._values = np.zeros(1 << self._bits, np.int64)
        self._values[slots] = list(self._known.values())
        self._multiplier, self._shift = _U(self._factor), _U(64 - self._bits)

    def find(self, keys: Words, scratch: Words, learn: Callable[[int, int], int]) -> Ints:
        """The number of each key; ``learn(key, index)`` gives that of a new one, which stands at ``index`` first.

        Raises :class:`FullError` where there is no room for another key, and what ``learn`` raises.
        """
        while True:
            np.multiply(keys, self._multiplier, out=scratch)
            np.right_shift(scratch, self._shift, out=scratch)
            slots = scratch.view(np.int64)
            new = self._keys.take(slots) != keys
            if not new.any():
                return self._values.take(slots)
            rows = np.flatnonzero(new)[::-1]
            for key, row in dict(zip(keys[rows].tolist(), rows.tolist(), strict=True)).items():
                if key not in self._known:
                    if len(self._known) == self._most:
                        raise FullError
                    self._known[key] = learn(key, row)
            self._build()


PLAIN, LOCAL, CONTROL, SPECIAL = range(4)
"""Kinds of a row: none of the others; an access to local memory; what moves control; an opcode that eight bytes do not
hold, for it is longer, or has a uniform predicate before it."""

MAX_OPCODES = 1024
"""Distinct opcodes of all dumps read by one scanner, with modifiers and without; NVIDIA's tables name some 300."""

MAX_WORDS = 1 << 12
"""Distinct beginnings that are remembered; real dumps have some hundreds."""

SPECIAL_BYTES = 16
"""How far a special row is read."""

_ENDS = ";} \t\r\n"
"""What stands behind an opcode and its modifiers."""

_NO_STOPS = ~_U(0x8080808080808080)


class UnreadableError(Exception):
    """The text is no opcode that can be read here."""


class Opcodes:
    """The beginnings met so far, their opcodes and kinds."""

    def __init__(self) -> None:
        guard, opcode, modifiers = map(grammar.terminal, ("GUARD", "OPCODE", "MODIFIERS"))
        self._read: dict[bytes, int] = {}
        self._whole = re.compile(f"(?:{guard})?{opcode}(?:{modifiers})?(?=[{_ENDS}])".encode())
        self._known_whole: set[bytes] = set()
        self._special = re.compile(f"(?P<guard>{guard})?(?P<opcode>{opcode})".encode())
        self._local = re.compile(grammar.terminal("LOCAL_LINE").encode())
        self._control = re.compile(grammar.terminal("CONTROL_LINE").encode())
        self._plain = re.compile(grammar.terminal("PLAIN_RUN").encode())
        self.names = [""]
        """By number: opcodes; the first stands for all special beginnings."""
        self.kinds = np.zeros(MAX_OPCODES, np.uint8)
        self.kinds[0] = SPECIAL
        """By number."""
        self.marks = np.zeros(MAX_OPCODES, bool)
        self.marks[0] = True
        """By number: not plain."""
        self.ended = np.zeros(MAX_OPCODES, bool)
        """By number: the beginning holds what ends opcode and modifiers."""
        self._number_of: dict[tuple[str, bool], int] = {}
        self._words = Numbers(MAX_WORDS)

    def find(self, words: Words, room: Words, line: Callable[[int], bytes]) -> Ints:
        """The number of each word's opcode; ``room`` is two rows of scratch. ``line(index)`` is the text of a row.

        A word counts up to and with its first byte that has neither bit 6 nor bit 4, as letters, digits and ``_`` do
        have: the opcode and what ends it are a part of that, or all of it. Raises :class:`UnreadableError` with the
        index of a row in which the grammar sees none.
        """
        keys, slots = room
        np.left_shift(words, _U(2), out=slots)
        np.bitwise_or(slots, words, out=slots)
        np.left_shift(slots, _U(1), out=slots)
        np.bitwise_or(slots, _NO_STOPS, out=slots)  # the highest bit of each byte: it stops nothing
        np.add(slots, _U(1), out=keys)
        np.bitwise_xor(keys, slots, out=keys)  # up to the first that does
        np.bitwise_and(keys, words, out=keys)
        return self._words.find(keys, slots, lambda word, row: self._learn(word, row, line(row)))

    def _learn(self, word: int, row: int, text: bytes) -> int:
        match = grammar.line("head").match(text)
        if match is None:
            raise UnreadableError(row)
        name = match["opcode"]
        if len(name) >= WINDOW or not word.to_bytes(WINDOW, "little").startswith(name):
            return 0
        return self._number(name.decode(), row, text, ended=word >> 8 * len(name) & 0xFF in _ENDS.encode())

    def _number(self, name: str, row: int, line: bytes, *, ended: bool = False) -> int:
        """The grammar knows the opcodes that matter: their lines have terminals of their own."""
        if (name, ended) not in self._number_of:
            if len(self.names) == MAX_OPCODES:
                raise UnreadableError(row)
            local, control = self._local.match(line), self._control.match(line)
            if not (local or control or self._plain.match(line)):
                raise UnreadableError(row)  # damaged behind the opcode: of what kind it is, such a line does not say
            self.kinds[len(self.names)] = LOCAL if local else CONTROL if control else PLAIN
            self.marks[len(self.names)] = bool(local or control)
            self.ended[len(self.names)] = ended
            self._number_of[name, ended] = len(self.names)
            self.names.append(name)
        return self._number_of[name, ended]

    def special(self, texts: Sequence[bytes], line: Callable[[int], bytes]) -> list[int]:
        """The numbers of special rows; ``texts`` are their bytes from the opcode's column on.

        Raises :class:`UnreadableError` with the index of the first row that has no opcode, or one that is too long.
        """
        found = list(map(self._read.get, texts))
        return [
            self._read_special(texts[index], index, line(index)) if number is None else number
            for index, number in enumerate(found)
        ]

    def _read_special(self, text: bytes, row: int, line: bytes) -> int:
        match = self._special.match(text)
        if match is None or match.end() == len(text):
            raise UnreadableError(row)
        number = self._number(match["opcode"].decode(), row, line)
        if len(self._read) < MAX_WORDS:
            self._read[text] = number
        return number

    def damaged(self, texts: NDArray[np.void]) -> int | None:
        """The first of some kept texts that do not begin with a whole opcode and its modifiers; few beginnings are
        distinct."""
        beginnings = np.ndarray((len(texts),), f"V{SPECIAL_BYTES}", texts, WINDOW, texts.strides).tolist()
        unknown = set(beginnings) - self._known_whole
        if not unknown:
            return None
        whole = {text for text in unknown if self._whole.match(text)}
        if len(self._known_whole) < MAX_WORDS:
            self._known_whole |= whole
        unknown -= whole
        rows = (row for row, text in enumerate(beginnings) if text in unknown)  # longer ones, too
        return next((row for row in rows if not self._whole.match(texts[row].tobytes(), WINDOW)), None)

    def counted(self, tally: Ints) -> Iterator[tuple[str, int]]:
        """Rows by opcode of a tally by number; an opcode may stand there twice."""
        present = tally.nonzero()[0]
        return zip(map(self.names.__getitem__, present.tolist()), tally[present].tolist(), strict=True)


_BLANKS = _U(int.from_bytes(b" " * WINDOW, "little"))
_MAX_GUARDS = 256
"""Distinct predicates, blanks before them included."""
_MARGIN = 16
"""Bytes that are compared where an encoding line begins, the end of the line before included: they suffice to
distinguish it from an instruction."""


class Span(Struct):
    """Whole patterns of one function in a block; their addresses have the same leading digits."""

    code: Listing
    begin: int
    patterns: int
    layout: Layout
    address: int
    line: int

    @property
    def end(self) -> int:
        """Where the next pattern would begin."""
        return self.begin + self.patterns * self.layout.stride

    @property
    def shift(self) -> int:
        """Columns by which a long address moves what stands behind it."""
        return max(0, (self.address.bit_length() + 3) // 4 - SHORTEST_ADDRESS)


def fit(address: int, patterns: int, layout: Layout) -> int:
    """How many patterns from ``address`` on one span may hold; 0 where the addresses are too long for rows."""
    if address >= 16**LONGEST_ADDRESS:
        return 0
    room: int = REGION - address % REGION
    return min(patterns, room // layout.step)


class DepartureError(Exception):
    """A row is not what the layout says; the first ``patterns`` of ``span`` are."""

    def __init__(self, span: Span, patterns: int) -> None:
        super().__init__(span, patterns)
        self.span = span
        self.patterns = patterns


class Rows:
    """Scans spans of a block; remembers opcodes and predicates from block to block."""

    def __init__(self) -> None:
        self._guard = re.compile(b" *" + grammar.terminal("GUARD").encode())
        self._guards = Numbers(_MAX_GUARDS)
        self.opcodes = Opcodes()
        self._reserve(1 << 12, 1)

    def _reserve(self, rows: int, prefix: int) -> None:
        self._room = rows, prefix
        self._copy = bytearray(rows * prefix)
        self._prefixes = np.frombuffer(self._copy, f"V{prefix}")
        self._codes = np.empty((rows, 2), _U)
        self._pairs = self._codes.view("V16")[:, 0]
        self._scratch = np.empty((2, rows), _U)

    def scan(self, block: Block, spans: Sequence[Span]) -> None:
        """Verify all rows of ``spans``, which have one layout, then count them.

        Raises :class:`DepartureError` before anything is counted.
        """
        batch = _Batch(block.buffer, spans)
        total = batch.bounds[-1]
        layout = batch.layout
        room, prefix = self._room
        if total > room or prefix != layout.prefix:
            self._reserve(max(total + total // 2, room), layout.prefix)
        for span in spans:
            self._verify_encodings(block.buffer, span)
        at = 0
        for span, lane in batch.lanes:
            self._verify_lane(block.buffer, span, lane, at)
            at += span.patterns
        codes = self._codes[:total]
        guarded = (codes[:, 0] != _BLANKS).nonzero()[0]
        if len(guarded):
            self._verify_guards(batch, guarded, codes[guarded, 0])
        try:
            numbers = self.opcodes.find(codes[:, 1], self._scratch[:, :total], batch.line)
        except UnreadableError as error:
            raise batch.departure(error.args[0]) from None
        except FullError:
            raise DepartureError(spans[0], 0) from None
        self._count(batch, numbers)

    def _verify_lane(self, buffer: Buffer, span: Span, lane: int, at: int) -> None:
        """Copy what a lane's rows hold up to the opcode to row ``at`` and the following; compare the prefixes."""
        layout, count = span.layout, span.patterns
        begin = span.begin + lane * layout.width
        stride = (layout.stride,)
        size = layout.prefix
        ahead = len(layout.end)
        self._prefixes[at : at + count] = np.ndarray((count,), f"V{size}", buffer, begin - ahead, stride)
        if not lane:  # what is in front of the first row is no row, but it ends a line
            self._copy[at * size : at * size + ahead] = layout.end
        wanted = expected(layout, span.address + lane * WORD, count)
        if not self._copy.startswith(wanted, at * size):
            raise DepartureError(span, _equal_rows(self._copy, at * size, wanted, size))
        self._pairs[at : at + count] = np.ndarray(
            (count,), "V16", buffer, begin + layout.opcode + span.shift - WINDOW, stride
        )

    def _verify_encodings(self, buffer: Buffer, span: Span) -> None:
        """The lines of a span that hold an encoding word begin as they must; so does the line behind it."""
        layout, count = span.layout, span.patterns
        ahead = len(layout.end)
        margin, head = _repeated(layout.end.ljust(_MARGIN), count), _repeated(layout.head, count)
        for number in layout.encodings:
            at = span.begin + number * layout.width
            stride = (layout.stride,)
            margins = np.ndarray((count,), "V16", buffer, at - ahead, stride).tobytes()
            if not number:
                margins = layout.end + margins[ahead:]
            if not margin.startswith(margins):
                raise DepartureError(span, _equal_rows(margins, 0, margin, _MARGIN))
            heads = np.ndarray((count,), "<u8", buffer, at + layout.encoding, stride).tobytes()
            if not head.startswith(heads):
                raise DepartureError(span, _equal_rows(heads, 0, head, WINDOW))
        if buffer[span.end - ahead : span.end] != layout.end:
            raise DepartureError(span, count - 1)

    def _verify_guards(self, batch: _Batch, rows: Ints, words: Words) -> None:
        """What is not blank before an opcode is a predicate."""

        def learn(word: int, at: int) -> int:
            if not self._guard.fullmatch(word.to_bytes(WINDOW, "little")):
                raise batch.departure(int(rows[at]))
            return 0

        self._guards.find(words, self._scratch[0, : len(words)], learn)

    def _count(self, batch: _Batch, numbers: Ints) -> None:
        opcodes = self.opcodes
        marked = opcodes.marks.take(numbers).nonzero()[0]
        sorts, lanes = opcodes.kinds.take(numbers.take(marked)), batch.lane(marked)
        special = (sorts == SPECIAL).nonzero()[0]
        if len(special):
            rows = marked[special]
            numbers[rows] = self._special(batch, rows)
            sorts[special] = opcodes.kinds.take(numbers[rows])
            wanted = sorts != PLAIN
            marked, sorts, lanes = marked[wanted], sorts[wanted], lanes[wanted]
        cuts = marked.searchsorted(batch.bounds).tolist()
        is_local = sorts == LOCAL
        local = marked[is_local].searchsorted(batch.bounds).tolist()
        kept = KeptRows(
            texts=batch.texts(marked, lanes),
            addresses=batch.addresses(marked, lanes),
            lines=batch.numbers(marked, lanes),
            local=is_local,
        )
        unsure = (~opcodes.ended.take(numbers.take(marked))).nonzero()[0]
        if len(unsure) and (damaged := opcodes.damaged(kept.texts[unsure])) is not None:
            raise batch.departure(int(marked[unsure[damaged]]))
        size = len(opcodes.names)
        for span in batch.spans:
            layout = span.layout
            first, last = layout.lanes[0], (span.patterns - 1) * layout.step // WORD + layout.lanes[-1]
            span.code.reach([span.address + word * WORD for word in sorted({first, last})])
        for index, (span, _) in enumerate(batch.lanes):
            begin, end = batch.bounds[index], batch.bounds[index + 1]
            tally = np.bincount(numbers[begin:end], minlength=size)
            code = span.code
            if code.tally is not None:
                tally[: len(code.tally)] += code.tally
            code.tally = tally
            if cuts[index] < cuts[index + 1]:
                code.local_count += local[index + 1] - local[index]
                code.pieces.append(Piece(kept, cuts[index], cuts[index + 1]))

    def _special(self, batch: _Batch, rows: Ints) -> list[int]:
        texts = batch.opcode_texts(rows)
        try:
            return self.opcodes.special(texts, lambda index: batch.line(int(rows[index])))
        except UnreadableError as error:
            raise batch.departure(int(rows[error.args[0]])) from None


def _equal_rows(copy: bytes | bytearray, at: int, wanted: bytes | memoryview, size: int) -> int:
    """Rows of ``copy[at:]`` that are as wanted, before the first that is not."""
    size_of_both = min(len(copy) - at, len(wanted))
    found = np.frombuffer(copy, np.uint8, size_of_both, at).reshape(-1, size)
    return int((found != np.frombuffer(wanted, np.uint8, size_of_both).reshape(-1, size)).any(axis=1).argmax())


@lru_cache(maxsize=16)
def _repetition(text: bytes, power: int) -> bytes:
    return text * (1 << power)


def _repeated(text: bytes, count: int) -> bytes:
    """``text`` at least ``count`` times."""
    return _repetition(text, count.bit_length())


class _Batch:
    """Lanes of some spans as one sequence of rows."""

    def __init__(self, buffer: Buffer, spans: Sequence[Span]) -> None:
        self.buffer = buffer
        self.spans = spans
        self.layout = spans[0].layout
        self.lanes = [(span, lane) for span in spans for lane in span.layout.lanes]
        self.bounds = [0]
        for span, _ in self.lanes:
            self.bounds.append(self.bounds[-1] + span.patterns)
        layout = self.layout
        self._ends = np.array(self.bounds[1:])
        table = np.array(
            [
                (
                    span.begin + lane * layout.width - first * layout.stride,
                    span.address + lane * WORD - first * layout.step,
                    span.line + lane - first * layout.lines,
                    layout.opcode + span.shift,
                )
                for (span, lane), first in zip(self.lanes, self.bounds, strict=False)
            ]
        )
        self._places, self._addresses, self._numbers, self._opcodes = table.T

    def lane(self, rows: Ints) -> Ints:
        """Which lane holds each row."""
        return self._ends.searchsorted(rows, side="right")

    def addresses(self, rows: Ints, lanes: Ints) -> Ints:
        """Byte offset of each row's instruction in its function."""
        found: Ints = self._addresses[lanes] + rows * self.layout.step
        return found

    def numbers(self, rows: Ints, lanes: Ints) -> Ints:
        """Line number of each row."""
        found: Ints = self._numbers[lanes] + rows * self.layout.lines
        return found

    def _starts(self, rows: Ints, lanes: Ints) -> Ints:
        starts: Ints = self._places[lanes] + rows * self.layout.stride
        return starts

    def texts(self, rows: Ints, lanes: Ints) -> NDArray[np.void]:
        """What stands in each row from the window before its opcode up to the encoding."""
        size = self.layout.text
        view = np.ndarray((len(self.buffer) - size,), f"V{size}", self.buffer, 0, (1,))
        texts: NDArray[np.void] = view[self._starts(rows, lanes) + self._opcodes[lanes] - WINDOW]
        return texts

    def opcode_texts(self, rows: Ints) -> list[bytes]:
        """Some bytes of each row from its opcode's column on."""
        lanes = self.lane(rows)
        view = np.ndarray((len(self.buffer) - SPECIAL_BYTES,), f"V{SPECIAL_BYTES}", self.buffer, 0, (1,))
        found: list[bytes] = view[self._starts(rows, lanes) + self._opcodes[lanes]].tolist()
        return found

    def line(self, row: int) -> bytes:
        """Text of a row."""
        rows = np.array([row])
        begin = int(self._starts(rows, self.lane(rows))[0])
        return bytes(self.buffer[begin : begin + self.layout.width])

    def departure(self, row: int) -> DepartureError:
        """A row departs."""
        lane = int(self.lane(np.array([row]))[0])
        return DepartureError(self.lanes[lane][0], row - self.bounds[lane])
