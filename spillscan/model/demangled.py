"""A demangled C++ name, parsed once: short names, display names and similarity are derived from the result.

One pass pairs the brackets; after that, the contents of a bracket are skipped at once. Every query takes time linear in
the length of the name, however deep its brackets are nested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

UNNAMED = "(anonymous namespace)"
"""Name that LLVM's demangler gives an unnamed namespace."""

_BRACKET, _OPENED_BY = re.compile(r"[<>(){}]"), {">": "<", ")": "(", "}": "{"}
_OPENING, _COMMA, _MARK = re.compile(r"[<({]"), re.compile(r"[<({,]"), re.compile(r"[<({ ]|::")


class Demangled:
    """A demangled name, or a type in one. An unclosed bracket extends to the end of the name."""

    __slots__ = ("closing", "depth", "paired", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        """The whole name."""
        self.closing: dict[int, int] = {}
        """Offset of each closing bracket, by the offset of its opening one."""
        self.paired = True
        """Whether each bracket is closed, by one of its own kind."""
        self.depth = 0
        """Maximum nesting depth of brackets."""
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
        """Matches of ``marks`` from ``start`` to ``end`` outside brackets.
        Each is the sign, its offset, and the offset of what follows. After an opening bracket, this is the offset after
        the closing one.
        """
        closing = self.closing
        while found := marks.search(self.text, start, end):
            at, start = found.span()
            if at in closing:
                start = closing[at] + 1
            yield found[0], at, start

    def brackets(self, start: int, end: int) -> Iterator[tuple[str, int, int]]:
        """Brackets from ``start`` to ``end`` that are in no other bracket, as given by :meth:`outer`."""
        return self.outer(_OPENING, start, end)

    def items(self, opening: int) -> list[tuple[int, int]]:
        """(start, end) of each item between the commas of the bracket at ``opening``."""
        end = self.closing[opening]
        edges = [opening, *(at for sign, at, _ in self.outer(_COMMA, opening + 1, end) if sign == ","), end]
        return [(a + 1, b) for a, b in pairwise(edges)] if end > opening + 1 else []


class Function(Demangled):
    """Demangled name of a function, split into its parts."""

    __slots__ = ("angle", "end", "scopes", "start")

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.scopes: list[str] = []
        """Namespaces and classes, outermost first, with their template arguments."""
        self.start = 0
        """Offset of the base name."""
        self.angle: int | None = None
        """Offset of the template arguments' opening bracket; ``None`` without arguments."""
        self.end: int | None = None
        """Offset of the parameters' opening bracket; ``None`` without parameters."""
        for sign, at, behind in self.outer(_MARK, 0, len(text)):
            if sign == "(" and at > self.start and not text.startswith(UNNAMED, at):
                self.end = at
                return
            if sign == "<":
                self.angle = at
            elif sign == "::":
                self.scopes.append(text[self.start : at])
                self.start, self.angle = behind, None
            elif sign == " ":  # so far it was the return type of a template
                self.scopes, self.start, self.angle = [], behind, None

    @property
    def base(self) -> str:
        """Own name without scopes, arguments and parameters; the whole name if it has no parts."""
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
