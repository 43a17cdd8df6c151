"""Lines of a `cuobjdump -sass` before and between functions: which cubin the functions stand in."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import NamedTuple

from spillscan.dumps import terminals

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


class Cubin(NamedTuple):
    """Where a function stands in its dump."""

    member: int = 0
    arch: str | None = None
    identifier: str = ""
    object: str = ""
    """``libgemm.a:gemm.o`` of a static library."""

    @property
    def unit(self) -> str:
        """The object that holds it, without its archive."""
        return self.object.rpartition(":")[2]

    def after(self, rule: str, values: tuple[str, ...]) -> Cubin:
        """What is known behind a line of this rule."""
        if rule == "member":
            return self._replace(object=values[0])
        if rule == "image":
            return Cubin(self.member + (values[0] == "elf"), object=self.object)
        if rule == "field" and values[0] == "arch":
            return self._replace(arch=values[1])
        if rule == "field" and values[0] == "identifier":
            return self._replace(identifier=values[1])
        if rule == "code_for":
            return self._replace(member=max(self.member, 0), arch=values[0])
        return self


BEFORE_ALL = Cubin(-1)
"""No cubin has begun."""


@cache
def turn() -> re.Pattern[bytes]:
    """From the end of one function to the body of the next in the same cubin: what stands between most of them."""
    lark = terminals.lexer()
    end, flags = (terminals.rule_expression(lark, rule, only="none") for rule in ("end", "flags"))
    blank, function = terminals.rule_expression(lark, "blank", "none"), terminals.rule_expression(lark, "function")
    return re.compile(f"{end}(?:{blank})*{function}{flags}".encode())


@lru_cache(maxsize=256)
def known(text: bytes) -> tuple[str, tuple[str, ...]]:
    """The rule of a line outside of a function's body, and its values; an empty rule where none describes it."""
    for rule in _RULES:
        if match := terminals.line(rule).fullmatch(text):
            return rule, tuple((value or b"").decode("utf-8", "backslashreplace") for value in match.groups())
    return "", ()
