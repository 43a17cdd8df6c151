"""A demangled C++ name, parsed once: short names, names for people and likeness are read off what this finds.

One pass pairs the brackets. From then on what stands in a bracket is stepped over at once: whatever is asked of a name
takes no longer than the name is, however deep its brackets are nested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

UNNAMED = "(anonymous namespace)"
"""What LLVM's demangler calls a namespace without a name."""

_BRACKET, _OPENED_BY = re.compile(r"[<>(){}]"), {">": "<", ")": "(", "}": "{"}
_OPENING, _COMMA, _MARK = re.compile(r"[<({]"), re.compile(r"[<({,]"), re.compile(r"[<({ ]|::")


class Demangled:
    """A demangled name, or a type in one. A bracket that nothing closes goes on to the end of the name."""

    __slots__ = ("closing", "depth", "paired", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        """The whole name."""
        self.closing: dict[int, int] = {}
        """Where each bracket that opens is closed, by where it stands."""
        self.paired = True
        """Whether each bracket is closed, by one of its own kind."""
        self.depth = 0
        """How many brackets stand in each other, at most."""
        opened: list[int] = []
        for found in _BRACKET.finditer(text):
            at = found.start()
            sign = text[at]
            if sign in "<({":
                opened.append(at)
                self.depth = max(self.depth, len(opened))
            elif opened:
                start = opened.pop()
                self.closing[start] = at
                if text[start] != _OPENED_BY[sign]:
                    self.paired = False
            else:
                self.paired = False
        if opened:
            self.paired = False
            self.closing.update(dict.fromkeys(opened, len(text)))

    def outer(self, marks: re.Pattern[str], start: int, end: int) -> Iterator[tuple[str, int, int]]:
        """What of ``marks`` stands outside of the brackets from ``start`` to ``end``: the sign, where it begins, and
        where what follows begins; of a bracket, what follows the closing one."""
        closing = self.closing
        while found := marks.search(self.text, start, end):
            at, start = found.span()
            if at in closing:
                start = closing[at] + 1
            yield found[0], at, start

    def brackets(self, start: int, end: int) -> Iterator[tuple[str, int, int]]:
        """The brackets from ``start`` to ``end`` that stand in no other: each as :meth:`outer` gives it."""
        return self.outer(_OPENING, start, end)

    def items(self, opening: int) -> list[tuple[int, int]]:
        """From where to where each item goes that stands between the commas of the bracket that opens there."""
        end = self.closing[opening]
        edges = [opening, *(at for sign, at, _ in self.outer(_COMMA, opening + 1, end) if sign == ","), end]
        return [(a + 1, b) for a, b in pairwise(edges)] if end > opening + 1 else []


class Function(Demangled):
    """The demangled name of a function, taken apart."""

    __slots__ = ("angle", "end", "scopes", "start")

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.scopes: list[str] = []
        """Namespaces and classes, outermost first, with their template arguments."""
        self.start = 0
        """Where the base name begins."""
        self.angle: int | None = None
        """Where its template arguments open; ``None`` without."""
        self.end: int | None = None
        """Where the parameters open; ``None`` without."""
        for sign, at, behind in self.outer(_MARK, 0, len(text)):
            if sign == "(" and at > self.start and not text.startswith(UNNAMED, at):
                self.end = at
                return
            if sign == "<":
                self.angle = at
            elif sign == "::":
                self.scopes.append(text[self.start : at])
                self.start, self.angle = behind, None
            elif sign == " ":  # what stood before was a type, which templates return
                self.scopes, self.start, self.angle = [], behind, None

    @property
    def base(self) -> str:
        """Its own name, without scopes, arguments and parameters; all of a name that has no parts."""
        return self.text[self.start : self.end if self.angle is None else self.angle] or self.text

    @property
    def local(self) -> str:
        """``f<int, 4>`` of ``void ns::f<int, 4>(int*)``."""
        return self.base + ("" if self.angle is None else self.text[self.angle : self.closing[self.angle] + 1])

    @property
    def qualified(self) -> str:
        """``ns::f<int, 4>`` of ``void ns::f<int, 4>(int*)``; only templates are demangled with their return type."""
        return self.text[: self.end].removeprefix("void ")

    @property
    def arguments(self) -> tuple[str, ...]:
        """Its template arguments."""
        return self._texts(self.angle)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The types of its parameters."""
        return self._texts(self.end)

    def _texts(self, opening: int | None) -> tuple[str, ...]:
        return () if opening is None else tuple([self.text[a:b].strip() for a, b in self.items(opening)])
