"""Reader of `cuobjdump -sass`.

One expression reads the rows of a function, each an instruction with its encoding. Any other line is read by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from spillscan.reading import grammar
from spillscan.reading.disassembly.listing import (
    BEFORE_ALL,
    MARKED,
    Listing,
    ListingReader,
    Operation,
    decode,
    known,
    pieces,
)

_RULES = (
    *("blank", "function", "flags", "end", "field", "code_for"),
    *("image", "underline", "target", "compressed", "member"),
)
"""Lines before and between functions."""

_STACK_POINTER = re.compile(rb"R1(?<!\wR1)(?!\w)")


@lru_cache(maxsize=1 << 14)
def _opcode(word: bytes) -> bytes:
    """Opcode without predicate and modifiers; empty if there is none."""
    match = grammar.line("word").fullmatch(word)
    return match["opcode"] if match else b""


@lru_cache(maxsize=1 << 14)
def _operation(text: bytes) -> Operation:
    """Parse a statement whose opcode is known."""
    match = grammar.line("operation").match(text, 0, text.find(b";") + 1 or len(text))
    assert match, text
    return match.groups(b"")  # type: ignore[return-value]


class SassListing(ListingReader):
    """Functions and issues of one disassembly."""

    form = "sass"

    def __init__(self, chunks: Iterable[bytes], origin: str) -> None:
        super().__init__(chunks, origin)
        self._parts = pieces(chunks, self.account)
        rules = ("row", "head", "statement", "encoding")
        self._row, self._head, self._statement, self._encoding = map(grammar.line, rules)
        self._line = 1
        self._member = BEFORE_ALL
        self._code: Listing | None = None
        self._stray = False
        """Whether the missing beginning of a function was already reported."""
        self._headless = True
        """Whether no function has begun yet."""
        self._announced = False
        """Whether a cubin has begun of which nothing was read yet."""

    def _part(self, text: bytes) -> None:
        """Read whole lines."""
        self.account.undecodable_bytes += 0 if text.isascii() else len(text.translate(None, _ASCII))
        text = text if text.endswith(b"\n") else text + b"\n"
        at, end = 0, len(text)
        while at < end:
            if self._code is not None:
                at = self._rows(self._code, text, at)
            if at < end:
                stop = text.find(b"\n", at) + 1
                self._single(text[at:stop])
                at = stop
        self.account.lines = self._line - 1

    def _end(self, *, is_cut: bool) -> None:
        if self._code:
            self._truncated(self._code)
        elif self._announced or is_cut:
            self.account.truncated("the disassembly is truncated before a function", self._line)

    def _rows(self, code: Listing, text: bytes, at: int) -> int:
        """Read rows of a function; return the position of the first line that is not one."""
        match_row, line = self._row.match, self._line
        while (row := match_row(text, at)) and (opcode := _opcode(row["word"])):
            address = int(row["address"], 16)
            code.count(address, opcode.decode())
            if opcode in MARKED or _STACK_POINTER.search(row["rest"]):
                code.keep(address, _operation(row["word"] + row["rest"]), line)
            line += 1 + (row["encodings"] or b"").count(b"\n")
            at = row.end()
        self._line = line
        return at

    def _single(self, text: bytes) -> None:
        """Read one line of any kind."""
        code = self._code
        if code is not None and (head := self._head.match(text)) and (opcode := _opcode(head["word"])):
            address = int(head["address"], 16)
            code.count(address, opcode.decode())
            code.keep(address, _operation(text[head.start("word") :]), self._line)
            if not self._statement.match(text):  # the missing part may contain more than the line's end
                self._unknown_line(text)
        elif code is None or not self._encoding.match(text):
            self._between(text)
        self._line += 1

    # ---- lines before and between functions -----------------------------------------------------------------------

    def _between(self, text: bytes) -> None:
        rule, values = known(text, self.form, _RULES)
        code = self._code
        if code is not None and rule not in ("end", "flags", "blank", ""):
            self._truncated(code)
        if rule == "end" and code is not None:
            self._code = None
            self._done(code)
        elif rule == "end":
            self._lost_head("the beginning of the function that ends here is missing")
        elif rule == "function":
            if self._member == BEFORE_ALL and self._headless:
                self._lost_head("the disassembly does not begin with the header that names the architecture")
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
            self._lost_head("instructions outside any function")
        else:
            self._unknown_line(text)

    def _truncated(self, code: Listing) -> None:
        self._code = None
        self._done(code)
        message = f"the listing of {code.symbol} is truncated: its values may be too low"
        self.account.truncated(message, self._line, code.symbol)

    def _lost_head(self, message: str) -> None:
        """Report that earlier lines were not counted; once before each function."""
        if not self._stray:
            self._stray = True
            self.account.damaged(message, self._line)

    def _unknown_line(self, text: bytes) -> None:
        self.account.unknown_line(text, self._line, self._code.symbol if self._code else None)


_ASCII = bytes(range(128))
