"""Reader of `cuobjdump -sass`.

One expression reads the rows of a function, each an instruction with its encoding. Any other line is read by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from spillscan.model import Issue
from spillscan.model.code import SassFunction
from spillscan.reading import grammar
from spillscan.reading.dumps.listing import BEFORE_ALL, MARKED, DumpAccount, Listing, Operation, decode, known, pieces

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


class Dump:
    """Functions and issues of one disassembly. ``account`` counts the lines read and is final at the end."""

    def __init__(self, chunks: Iterable[bytes], origin: str) -> None:
        self.account = DumpAccount(origin, FORMAT)
        self._pieces = pieces(chunks, self.account, self._too_long)
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
            self._ready.append(self.account.truncated("the disassembly is truncated before a function", self._line))
        yield from self._ready
        self.account.lines = self._line - 1
        yield from self.account.summary()

    def _too_long(self) -> None:
        self._ready.append(self.account.too_long(self._line))

    def _piece(self, text: bytes) -> None:
        """Read whole lines."""
        at, end = 0, len(text)
        while at < end:
            if self._code is not None:
                at = self._rows(self._code, text, at)
            if at < end:
                stop = text.find(b"\n", at) + 1
                self._single(text[at:stop])
                at = stop

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
        rule, values = known(text, FORMAT, _RULES)
        code = self._code
        if code is not None and rule not in ("end", "flags", "blank", ""):
            self._truncated()
        if rule == "end" and code is not None:
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

    def _done(self, code: Listing) -> None:
        self._code = None
        self.account.functions += 1
        self._ready += [code.record(), *code.damage(self.account)]

    def _truncated(self) -> None:
        assert self._code
        code = self._code
        self._done(code)
        message = f"the listing of {code.symbol} is truncated: its values are too low"
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
