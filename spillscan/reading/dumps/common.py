"""Shared code of the disassembly readers: lines of a stream, matching a line to a grammar rule, and statistics of one
input."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from msgspec import Struct

from spillscan.model import Issue, Origin, Severity
from spillscan.model.gaps import Hidden
from spillscan.output.nouns import count
from spillscan.reading import grammar
from spillscan.reading.inputs.encoding import TOO_LONG, whole_lines

SHOWN = 20
"""Most unknown lines that get their own message; the rest is counted."""

FIRST_ARCH = 50
"""Maxwell, the first architecture whose machine code is read. The control flow of Kepler is not analysed."""

_CHARACTERS = 120
"""Characters of a line shown in a message."""


def pieces(chunks: Iterable[bytes], account: DumpAccount, too_long: Callable[[], None]) -> Iterator[bytes]:
    """Blocks of whole lines from ``chunks`` of any size, in bounded memory.

    The last block may lack its final line end. A line that is too long is replaced by an empty one, and ``too_long`` is
    called before the block that begins with it.
    """

    def counted() -> Iterator[bytes]:
        for data in chunks:
            account.bytes_read += len(data)
            account.unwritten |= b"\0" in data
            yield data

    return whole_lines(counted(), too_long)


def lines(chunks: Iterable[bytes], account: DumpAccount, too_long: Callable[[], None]) -> Iterator[bytes]:
    """Lines with their ends; the last may have none. A lone carriage return does not end a line."""
    for piece in pieces(chunks, account, too_long):
        *whole, rest = piece.split(b"\n")
        yield from (line + b"\n" for line in whole)
        if rest:
            yield rest


@lru_cache(maxsize=4096)
def known(text: bytes, form: str, rules: tuple[str, ...]) -> tuple[str, tuple[bytes, ...]]:
    """First rule of a grammar that matches the beginning of a line, and its values; an empty rule if none does."""
    for rule in rules:
        if match := grammar.line(rule, form).match(text):
            return rule, match.groups(b"")
    return "", ()


def decode(text: bytes) -> str:
    """A name from a disassembly, as text; invalid bytes are escaped."""
    return text.decode("utf-8", "backslashreplace")


def unsupported(arch: str | None, origin: Origin | None) -> Issue | None:
    """Issue for functions of an architecture that is not supported; ``None`` if it is."""
    number = re.match(r"sm_([0-9]+)", arch or "")
    if number is None or int(number[1]) >= FIRST_ARCH:
        return None
    message = f"machine code of {arch} is not supported: sm_{FIRST_ARCH} is the first that is"
    return Issue(code="unsupported-arch", message=message, severity="error", origin=origin)


class DumpAccount(Struct):
    """Statistics of one input, filled while it is read, and the issues derived from them."""

    input: str
    """Name of the input, as given by the user."""
    form: str
    """Its format, which is also the name of its grammar."""
    lines: int = 0
    """Lines read."""
    bytes_read: int = 0
    """Bytes read."""
    functions: int = 0
    """Functions found."""
    unknown_lines: int = 0
    """Lines that no grammar rule describes."""
    undecodable_bytes: int = 0
    """Number of bytes outside ASCII."""
    hides: tuple[Hidden, ...] | None = None
    """Properties that unknown lines may hide."""
    damaged_names: int = 0
    """Number of functions whose names are not valid text."""
    unwritten: bool = False
    """Whether it contains NUL bytes, which no tool writes."""

    def origin(self, line: int | None = None) -> Origin:
        """Location in the input."""
        return Origin(input=self.input, line=line, format=self.form)

    def issue(
        self,
        code: str,
        message: str,
        line: int | None = None,
        severity: Severity = "warning",
        hides: tuple[Hidden, ...] | None = None,
        symbol: str = "",
    ) -> Issue:
        """An issue of this input."""
        return Issue(
            code=code, message=message, severity=severity, origin=self.origin(line), hides=hides, symbol=symbol
        )

    def unknown_line(
        self, text: bytes, line: int, symbol: str | None = None, hides: tuple[Hidden, ...] | None = None
    ) -> Issue | None:
        """Issue for a line that no rule describes; ``None`` if too many were reported.

        Inside the function ``symbol``, the line may have been an instruction.
        """
        shown = ascii(decode(text.rstrip()))[1:-1][:_CHARACTERS]
        if grammar.line("diagnostic").match(text):
            return self.issue("tool-message", f"the disassembly contains a message of its tool: {shown}", line)
        if symbol is not None:
            hides = ("spills", "code")
        self.unknown_lines += 1
        self.hides = self.hides or hides
        if self.unknown_lines > SHOWN:
            return None
        return self.issue(
            "unknown-line", f"not a line of a disassembly: {shown}", line, hides=hides, symbol=symbol or ""
        )

    def truncated(self, what: str, line: int | None = None, symbol: str = "") -> Issue:
        """Issue for an input that ends too early."""
        return self.issue("truncated", what, line, "error", symbol=symbol)

    def too_long(self, line: int) -> Issue:
        """Issue for a line too long to be read."""
        return self.issue("line-too-long", TOO_LONG, line, "error")

    def summary(self) -> Iterator[Issue]:
        """Issues reported once, at the end of the input."""
        if self.unwritten:
            yield self.issue(
                "damaged-listing", "NUL bytes: a part of the disassembly was never written", severity="error"
            )
        if damaged := self.damaged_names:
            yield self.issue("damaged-listing", f"function names are damaged: {damaged:,}", severity="error")
        if strange := self.undecodable_bytes:
            yield self.issue(
                "undecodable", f"{count(strange, 'byte')} not ASCII in the disassembly; cuobjdump prints ASCII only"
            )
        if self.unknown_lines > SHOWN:
            message = f"{count(self.unknown_lines, 'line')} of the disassembly not understood; {SHOWN} are shown"
            yield self.issue("unknown-line", message, hides=self.hides)
