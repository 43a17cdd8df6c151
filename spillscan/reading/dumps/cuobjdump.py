"""Reader of `cuobjdump -sass`.

The lines of a function are read as a table (:mod:`spillscan.reading.dumps.table`). Lines between functions, and lines
that do not form a table, are read one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spillscan.model import Issue
from spillscan.model.code import SassFunction
from spillscan.reading import grammar
from spillscan.reading.dumps.common import DumpAccount, decode, known, pieces
from spillscan.reading.dumps.listing import BEFORE_ALL, Listing
from spillscan.reading.dumps.table import opcode_of, operation, table

FORMAT = "sass"

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

_BLANKS = b" \n\r"
"""Usual first characters of lines inside functions."""


def _longer(text: bytes, at: int, stop: int) -> int:
    """Position of the first line whose address has one digit more than the first one; later columns shift there."""
    first = grammar.line_starts("statement").search(text, at, stop)
    longer = text.find(b"/*1%b*/" % (b"0" * len(first["address"])), at, stop) if first else -1
    return text.rfind(b"\n", at, longer) + 1 if longer > 0 else at


class Dump:
    """Functions and issues of one disassembly. ``account`` counts the lines read and is final at the end."""

    def __init__(self, chunks: Iterable[bytes], origin: str) -> None:
        self.account = DumpAccount(origin, FORMAT)
        self._pieces = pieces(chunks, self.account, self._too_long)
        self._head, self._statement = grammar.line("head"), grammar.line("statement")
        self._encoding = grammar.line("encoding")
        self._line = 1
        self._member = BEFORE_ALL
        self._code: Listing | None = None
        self._stray = False
        """Whether the missing beginning of a function was already reported."""
        self._headless = True
        """Whether no function has begun yet."""
        self._announced = False
        """Whether a cubin has begun of which nothing was read yet."""
        self._ready: list[SassFunction | Issue] = []

    def __iter__(self) -> Iterator[SassFunction | Issue]:
        text = b""
        for text in self._pieces:
            self.account.undecodable_bytes += 0 if text.isascii() else len(text.translate(None, _ASCII))
            self._piece(text if text.endswith(b"\n") else text + b"\n")
            yield from self._ready
            self._ready.clear()
        if self._code:
            self._truncated()
        elif self._announced or (text and not text.endswith(b"\n")):
            self._ready.append(self.account.truncated("the dump is truncated before a function", self._line))
        yield from self._ready
        self.account.lines = self._line - 1
        yield from self.account.summary()

    def _too_long(self) -> None:
        self._ready.append(self.account.too_long(self._line))

    def _piece(self, text: bytes) -> None:
        """Read whole lines, each preceded by a line end. Lines inside a function usually contain no tab."""
        at, end = 1, len(text)
        while at < end:
            if self._code is not None and text[at] in _BLANKS:
                tab = text.find(b"\t", at)
                stop = end if tab < 0 else text.rfind(b"\n", 0, tab) + 1
                if stop > at:
                    at = self._body(self._code, text, at, stop)
                    continue
            stop = text.find(b"\n", at) + 1
            self._single(text[at:stop])
            at = stop

    def _body(self, code: Listing, text: bytes, at: int, stop: int) -> int:
        """Read lines of a function; return the position after them."""
        end, number = stop, self._line
        if found := table(text, at, end, number) or table(text, at, end := _longer(text, at, stop), number):
            code.keep(found, end - at)
            self._line += found.lines
            return end
        for line in text[at : stop - 1].split(b"\n"):
            self._single(line + b"\n")
        return stop

    def _single(self, text: bytes) -> None:
        """Read one line of any kind."""
        code = self._code
        if code is not None and (head := self._head.match(text)) and (opcode := opcode_of(head["word"])):
            address = int(head["address"], 16)
            code.count(address, address, [(opcode, 1)])
            code.instruction(address, operation(text[head.start("word") :]), self._line, None)
            if not self._statement.match(text):  # the missing part may contain more than the line's end
                self._unknown_line(text)
        elif code is None or not self._encoding.match(text):
            self._between(text)
        self._line += 1

    # ---- lines before and between functions -----------------------------------------------------------------------

    def _between(self, text: bytes) -> None:
        rule, values = known(text, FORMAT, _RULES)
        code = self._code
        if code is not None and rule not in ("end", "flags", "blank", ""):
            self._truncated()
        if rule == "end" and code is not None:
            self._done(code)
        elif rule == "end":
            self._lost_head("a function ends here whose beginning is missing")
        elif rule == "function":
            if self._member == BEFORE_ALL and self._headless:
                self._lost_head("the dump does not begin with the head that names the architecture")
            name = decode(values[0])
            self.account.damaged_names += "\\x" in name
            self._code = Listing(name, self._member, self.account.origin(self._line))
            self._stray = self._announced = self._headless = False
        elif rule:
            self._member = self._member.after(rule, values)
            if rule in ("image", "code_for", "target"):
                self._announced = values[0] == b"elf"
        elif code is None and grammar.line("instruction").match(text):
            self.account.unknown_lines += 1
            self._lost_head("instructions stand outside of any function")
        else:
            self._unknown_line(text)

    def _done(self, code: Listing) -> None:
        self._code = None
        self.account.functions += 1
        self._ready += [code.record(), *code.damage(self.account)]

    def _truncated(self) -> None:
        assert self._code
        code = self._code
        self._done(code)
        message = f"the listing of {code.symbol} is truncated: its figures are too low"
        self._ready.append(self.account.truncated(message, self._line, code.symbol))

    def _lost_head(self, message: str) -> None:
        """Report that earlier lines were not counted; once before each function."""
        if not self._stray:
            self._stray = True
            self._ready.append(self.account.issue("damaged-listing", message, self._line, "error"))

    def _unknown_line(self, text: bytes) -> None:
        if issue := self.account.unknown_line(text, self._line, self._code.symbol if self._code else None):
            self._ready.append(issue)


_ASCII = bytes(range(128))
