"""Reads `cuobjdump -sass`: rows where a function keeps its layout, Lark where it does not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from spillscan.model import Issue
from spillscan.model.code import SassFunction
from spillscan.reading import grammar
from spillscan.reading.dumps.blocks import SIZE, Block, Blocks, StackUses
from spillscan.reading.dumps.common import DumpAccount, Readable, decode, known
from spillscan.reading.dumps.layout import MAX_LINES, Layout, learn
from spillscan.reading.dumps.listing import BEFORE_ALL, Instruction, Listing, Member, records
from spillscan.reading.dumps.rows import DepartureError, Rows, Span, fit
from spillscan.reading.inputs.memory import find

if TYPE_CHECKING:
    from spillscan.reading.machine.operands import Wanted

FORMAT = "sass"

Path = Literal["rows", "lark"]

_LONGEST_LINE = 1 << 22
"""Bytes; a line longer than this is no line of a dump."""

_RULES = (
    "blank",
    "function",
    "flags",
    "end",
    "field",
    "code_for",
    "image",
    "underline",
    "target",
    "compressed",
    "member",
)
"""Lines before and between functions."""

_ENCODING = "latin-1"
"""One character a byte: whatever stands in a dump can be read, and bytes that are no ASCII are counted elsewhere."""

_PIECE = 1 << 18
"""Bytes that Lark gets at once: its tokens are copies."""


class Place(NamedTuple):
    """Where in a dump reading begins, or has come to."""

    line: int
    """1-based."""
    member: Member


@cache
def _turn() -> re.Pattern[bytes]:
    """From the end of one function to the body of the next in the same cubin: what stands between most of them."""
    end, flags, blank = (grammar.line_expression(rule, only="none") for rule in ("end", "flags", "blank"))
    function = grammar.line_expression("function")
    return re.compile(f"{end}(?:{blank})*{function}{flags}".encode())


class _State(NamedTuple):
    """What a window that has to be read again begins with."""

    at: int
    line: int
    code: Listing | None
    layout: Layout | None
    address: int
    member: Member
    ready: int


class Dump:
    """One dump: an iterator of functions and issues. ``account`` says how much was read, and is final at the end.

    ``path`` "lark" reads every line of every function with Lark: the same records, slower. ``place`` is where the
    stream begins, if it is not the beginning of the dump. ``operands``: of which functions the operands are read as
    well. ``rows`` are those of another dump, with the opcodes that they know.
    """

    def __init__(
        self,
        stream: Readable,
        origin: str,
        path: Path = "rows",
        size: int = SIZE,
        place: Place | None = None,
        operands: Wanted | None = None,
        rows: Rows | None = None,
    ) -> None:
        self.account = DumpAccount(origin, FORMAT)
        self.complete = False
        """Reading has come to the end of the stream."""
        self._blocks = Blocks(stream, size)
        self._path = path
        self._operands = operands
        self._rows = rows or Rows()
        self._runs = Runs(self._unknown_line)
        self._line, self._member = place or Place(1, BEFORE_ALL)
        self._first = self._line
        self._code: Listing | None = None
        self._layout: Layout | None = None
        self._last: Layout | None = None
        self._address = 0
        self._stray = False
        """It was reported that the beginning of a function is missing."""
        self._headless = place in (None, Place(1, BEFORE_ALL))
        """No function has begun yet, and the stream begins as the dump does."""
        self._announced = False
        """A cubin has begun, and nothing of it was seen yet."""
        self._ready: list[Listing | Issue] = []
        self._spans: list[Span] = []
        self._saved = self._state(0)

    def __iter__(self) -> Iterator[SassFunction | Issue]:
        yield from self.items()
        yield from self.account.summary()

    @property
    def place(self) -> Place:
        """Where reading has come to."""
        return Place(self._line, self._member)

    def items(self) -> Iterator[SassFunction | Issue]:
        """What the dump holds, without what is said at its end."""
        block = self._blocks.next(None, 0)
        while True:
            self._saved = self._state(block.begin)
            self.account.undecodable_bytes += block.foreign()
            try:
                at = self._window(block, block.begin, careful=False)
            except DepartureError:
                at = self._window(block, self._restore(), careful=True)
            yield from self._records()
            self.account.bytes_read += at - block.begin
            if self._blocks.finished or (at == block.begin and block.end - at > _LONGEST_LINE):
                break
            block = self._blocks.next(block, at)
        self.complete = self._blocks.finished
        self._tail(block, at)
        self.account.bytes_read += block.end - at
        yield from self._records()
        self.account.lines = self._line - self._first

    # ---- windows ----------------------------------------------------------------------------------------------------

    def _state(self, at: int) -> _State:
        return _State(at, self._line, self._code, self._layout, self._address, self._member, len(self._ready))

    def _restore(self) -> int:
        at, self._line, self._code, self._layout, self._address, self._member, ready = self._saved
        del self._ready[ready:]
        self._spans.clear()
        return at

    def _window(self, block: Block, at: int, *, careful: bool) -> int:
        """Read the lines and patterns that stand completely in ``block``; return where the rest begins.

        Rows are gathered as spans and scanned together at the end. When one departs from its layout, nothing has been
        counted since the last flush, and the window is read again from there, ``careful``: span by span.
        """
        buffer, end = block.buffer, block.end
        space, tab = ord(" "), ord("\t")
        between = _turn().match
        stop = at  # the first tab behind ``at``, or the end
        while at < end:
            first = buffer[at]
            if self._code is not None and (first == space or (first == tab and buffer[at + 1 : at + 3] == b"/*")):
                if stop <= at:
                    found = find(buffer, b"\t", at + 1, end)
                    stop = found if found >= 0 else end
                taken = self._body(block, at, stop, complete=stop < end, careful=careful)
                if not taken:
                    break
                at += taken
                continue
            if self._code is not None and (match := between(buffer, at, end)):
                self._turn(match)
                at = match.end()
                continue
            line_end = buffer.find(b"\n", at, end)
            if line_end < 0:
                break
            self._preamble(bytes(buffer[at : line_end + 1]))
            at = line_end + 1
        self._flush(block, at)
        return at

    def _flush(self, block: Block, at: int) -> None:
        """Scan the spans gathered so far; from here on a departure goes back no further."""
        if self._spans:
            self._rows.scan(block, self._spans)
            for span in self._spans:
                self._uses(span.code).add(block, span.begin, span.end, span.layout, span.shift)
                if span.code.operands:
                    span.code.operands.text(bytes(block.buffer[span.begin : span.end]))
            self._spans.clear()
        self._saved = self._state(at)

    def _body(self, block: Block, at: int, end: int, *, complete: bool, careful: bool) -> int:
        """Read lines of the current function from ``block[at:end]``; return how many bytes. ``complete``: they end
        there, else more of the same may follow in the next block."""
        code = self._code
        assert code
        if self._path == "rows" and not self._layout:
            if not careful and self._like_last(block, at, end):
                self._layout = self._last
            elif not self._learn(block, at, end, complete):
                return 0
        layout = self._layout if self._path == "rows" else None
        if layout:
            patterns = fit(self._address, (end - at) // layout.stride, layout)
            if patterns:
                return self._span(Span(code, at, patterns, layout, self._address, self._line), block, end, careful)
            if not complete and end - at < layout.stride:
                return 0
        return self._lines(block, at, end)

    def _like_last(self, block: Block, at: int, end: int) -> bool:
        """A function begins, and its first pattern has the line ends of the function before: take its layout.
        If that is not right its rows depart from it, and the layout is learned."""
        layout = self._last
        assert self._code
        if layout is None or self._code.last_address or at + layout.stride > end:
            return False
        self._address = 0
        ends = [block.buffer.find(b"\n", at + line * layout.width, end) for line in range(layout.lines)]
        return ends == [at + (line + 1) * layout.width - 1 for line in range(layout.lines)]

    def _learn(self, block: Block, at: int, end: int, complete: bool) -> bool:
        """Find the layout of what follows; False where that takes more lines than are at hand."""
        if (
            not complete
            and not self._blocks.finished
            and block.buffer[at : min(end, at + 8192)].count(b"\n") < MAX_LINES
        ):
            return False
        learned = learn(block.buffer, at, end)
        if learned:
            self._layout, self._address = learned
            self._last = self._layout
        return True

    def _span(self, span: Span, block: Block, end: int, careful: bool) -> int:
        """Take whole patterns as rows; careful: scan them now, and give what departs to Lark."""
        if self._spans and self._spans[0].layout != span.layout:
            self._flush(block, span.begin)
        self._spans.append(span)
        if careful and not self._scanned(span, block):
            done = span.end - span.begin
            if span.patterns:
                self._advance(span)
            return done + self._lines(block, span.end, end)
        self._advance(span)
        return span.end - span.begin

    def _scanned(self, span: Span, block: Block) -> bool:
        """Scan the span that was gathered last; where it departs from its layout it is cut there, and the answer no."""
        whole = span.patterns
        while span.patterns:
            try:
                self._flush(block, span.begin)
            except DepartureError as departure:
                span.patterns = departure.patterns
            else:
                return span.patterns == whole
        self._spans.clear()
        return False

    def _advance(self, span: Span) -> None:
        self._line += span.patterns * span.layout.lines
        self._address = span.address + span.patterns * span.layout.step

    def _lines(self, block: Block, at: int, end: int) -> int:
        """Give the whole lines of ``block[at:end]`` to Lark; return their bytes."""
        stop = block.buffer.rfind(b"\n", at, end) + 1
        if stop <= at:
            stop = block.buffer.find(b"\n", at, block.end) + 1  # the end is a tab inside a line
        if stop <= at:
            return 0
        self._flush(block, at)
        assert self._code
        self._line += self._runs.read(self._code, bytes(block.buffer[at:stop]), self._line)
        self._uses(self._code).add(block, at, stop)
        if self._code.operands:
            self._code.operands.text(bytes(block.buffer[at:stop]))
        self._layout = None
        self._saved = self._state(stop)
        return stop - at

    def _tail(self, block: Block, at: int) -> None:
        """What is left at the end of the input: less than a pattern, or a line without an end."""
        text = bytes(block.buffer[at : block.end])
        if text and self._code:
            text = text if text.endswith(b"\n") else text + b"\n"
            self._line += self._runs.read(self._code, text, self._line)
            self._uses(self._code).add(block, at, block.end)
            if self._code.operands:
                self._code.operands.text(text)
        elif text:
            self._preamble(text + b"\n")
        if self._code:
            self._truncated()
        elif text or self._announced:
            self._ready.append(self.account.truncated("the dump breaks off before a function", self._line))

    # ---- lines before and between functions -----------------------------------------------------------------------

    def _turn(self, match: re.Match[bytes]) -> None:
        """A function ends, and the next one begins."""
        assert self._code
        self._ready.append(self._code)
        begin, end = match.span("symbol")
        self._line += match.string[match.start() : begin].count(b"\n")
        self._begin(match["symbol"])
        self._line += match.string[end : match.end()].count(b"\n")

    def _begin(self, symbol: bytes) -> None:
        origin, name = self.account.origin(self._line), decode(symbol)
        self.account.damaged_names += "\\x" in name
        self._code, self._layout = Listing(name, self._member, origin, self._operands), None
        self._stray = self._announced = self._headless = False

    def _preamble(self, text: bytes) -> None:
        rule, values = known(text, FORMAT, _RULES)
        code = self._code
        if code is not None and rule not in ("end", "flags", "blank", ""):
            self._truncated()
        if rule == "end" and code is not None:
            self._ready.append(code)
            self._code = None
        elif rule == "end":
            self._lost_head("a function ends here whose beginning is missing")
        elif rule == "function":
            if self._member == BEFORE_ALL and self._headless:
                self._lost_head("the dump does not begin with the head that names the architecture")
            self._begin(values[0])
        elif rule:
            self._member = self._member.after(rule, values)
            if rule in ("image", "code_for", "target"):
                self._announced = values[0] == b"elf"
        elif code is None and grammar.line("instruction").match(text):
            self.account.unknown_lines += 1
            self._lost_head("instructions stand outside of any function")
        else:
            self._unknown_line(text, self._line)
        self._line += 1

    def _truncated(self) -> None:
        assert self._code
        code, self._code = self._code, None
        message = f"the listing of {code.symbol} breaks off: its figures are too low"
        self._ready += [code, self.account.truncated(message, self._line, code.symbol)]

    def _lost_head(self, message: str) -> None:
        """What stood before is counted nowhere; once before each function."""
        if not self._stray:
            self._stray = True
            self._ready.append(self.account.issue("damaged-listing", message, self._line, "error"))

    def _unknown_line(self, text: bytes, line: int) -> None:
        if issue := self.account.unknown_line(text, line, self._code.symbol if self._code else None):
            self._ready.append(issue)

    # ---- records --------------------------------------------------------------------------------------------------

    def _records(self) -> Iterator[SassFunction | Issue]:
        if not self._ready:
            return
        codes = [item for item in self._ready if isinstance(item, Listing)]
        for code in codes:
            if code.tally is not None:
                for opcode, count in self._rows.opcodes.counted(code.tally):
                    code.opcodes[opcode] += count
        functions = records(codes)
        for item in self._ready:
            if isinstance(item, Issue):
                yield item
                continue
            self.account.functions += 1
            yield next(functions)
            yield from item.damage(self.account)
            if isinstance(item.stack_uses, StackUses):
                item.stack_uses.close()
        self._ready.clear()

    @staticmethod
    def _uses(code: Listing) -> StackUses:
        if not isinstance(code.stack_uses, StackUses):
            code.stack_uses = StackUses()
        return code.stack_uses


class Runs:
    """Reads lines of a function's body; ``unknown`` is called with each line that the grammar does not describe."""

    def __init__(self, unknown: Callable[[bytes, int], None]) -> None:
        self._unknown = unknown
        self._opcode = grammar.line_starts("head", only="opcode")
        self._address = grammar.line_starts("head", only="address")
        self._marked: list[Instruction] = []
        self._instruction = grammar.line("instruction")

    def read(self, code: Listing, text: bytes, line: int) -> int:
        """Add whole lines to ``code``; the first is line number ``line``. Returns how many there were."""
        self._marked = []
        first, begin = line, 0
        while begin < len(text):
            end = text.find(b"\n", begin + _PIECE) + 1 or len(text)
            line = self._piece(code, text[begin:end], line)
            begin = end
        if self._marked:
            code.pieces.append(self._marked)
        return line - first

    def _piece(self, code: Listing, text: bytes, line: int) -> int:
        for match in grammar.line_starts("unended").finditer(text):
            self._unknown(match[0], line + text.count(b"\n", 0, match.start()))
        for token in grammar.parser().parse(text.decode(_ENCODING), start="lines").children:
            piece = str(token).encode(_ENCODING)
            kind = token.type  # type: ignore[union-attr]
            if kind == "PLAIN_RUN":
                if addresses := [int(address, 16) for address in self._address.findall(piece)]:
                    code.reach(addresses)
                for opcode, times in Counter(self._opcode.findall(piece)).items():
                    code.opcodes[opcode.decode()] += times
                line += piece.count(b"\n")
                continue
            if kind in ("LOCAL_LINE", "CONTROL_LINE"):
                self._mark(code, piece, line, local=kind == "LOCAL_LINE")
            elif kind == "UNKNOWN_LINE":
                self._unknown(piece, line)
            line += 1
        return line

    def _mark(self, code: Listing, piece: bytes, line: int, *, local: bool) -> None:
        match = self._instruction.match(piece)
        assert match, piece  # LOCAL_LINE and CONTROL_LINE begin as an instruction does
        address, guard, opcode, modifiers, operands, note = match.groups(b"")
        code.reach((int(address, 16),))
        code.opcodes[opcode.decode()] += 1
        code.local_count += local
        self._marked.append((address, guard, opcode, modifiers, operands, note, line, None))
