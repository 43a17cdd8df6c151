"""Kernels of a PTX module, their bounds, and the module with other bounds.

Directives are between a kernel's parameters and its body (PTX ISA, "Performance-Tuning Directives").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod
from typing import NamedTuple

from spillscan.advice.sweep.settings import Setting

BOUNDS = ("maxntid", "reqntid", "minnctapersm", "maxnctapersm", "maxclusterrank", "maxnreg")
"""PTX directives for launch bounds and register limits of CUDA C++."""
_NOT_CODE = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"[^\"\n]*\"", re.DOTALL)
_HEAD = re.compile(r"\.entry\s++([A-Za-z_$%][\w$%]*+)\s*+(?:\([^)]*+(?:\)|\Z))?([^{;]*+)([{;]|\Z)")
_DIRECTIVE = re.compile(r"\.(\w+)((?:\s*,?\s*\d{1,9}){0,3})(?!\d)")
_DYNAMIC = re.compile(r"\.extern\s+\.shared\b[^;]*?([A-Za-z_$%][\w$%]*)\s*(?:\[\s*\])?\s*;")
_FUNCTION = re.compile(r"\.(?:entry|func)\b")
_TARGET = re.compile(r"^[^\S\n]*\.target\s+(sm_\d+[af]?)", re.MULTILINE)


class PtxKernel(NamedTuple):
    """One kernel that a module defines."""

    symbol: str
    directives: Mapping[str, int]
    """Product of each directive's numbers, as ``.maxntid 16, 16, 1`` is 256 threads; 1 without a number."""
    dynamic_shared: bool
    """Whether it, or a function that it may call, uses dynamic shared memory."""

    @property
    def threads(self) -> int | None:
        """Block size of its bounds."""
        return self.directives.get("reqntid", self.directives.get("maxntid"))

    def has(self, setting: Setting, as_is: PtxKernel) -> bool:
        """Whether its bounds are exactly those of ``setting`` and all other directives are those of ``as_is``."""
        if setting.shared_spills:
            return self.directives == as_is.directives
        others = {name: value for name, value in as_is.directives.items() if name not in BOUNDS}
        return self.directives == others | dict(setting.directives)


def target(text: str) -> str | None:
    """Target of a module, such as ``sm_90``."""
    match = _TARGET.search(text)
    return match[1] if match else None


def kernels(text: str) -> dict[str, PtxKernel]:
    """Kernels that a module defines, by symbol."""
    code = _masked(text)
    dynamic = "|".join(map(re.escape, _DYNAMIC.findall(code)))
    uses = re.compile(rf"(?<![\w$%])(?:{dynamic}|call)(?![\w$%])") if dynamic else None
    by_symbol = {}
    for head in _heads(code):
        after = _FUNCTION.search(code, head.end())
        body = head.end(), after.start() if after else len(code)
        numbers = {each[1]: prod(map(int, re.findall(r"\d+", each[2]))) for each in _DIRECTIVE.finditer(head[2])}
        by_symbol[head[1]] = PtxKernel(head[1], numbers, bool(uses and uses.search(code, *body)))
    return by_symbol


def rewritten(text: str, setting: Setting) -> str:
    """The module with ``setting`` in place of every kernel's own bounds."""
    directives = "".join(f".{name} {value}\n" for name, value in setting.directives.items())
    pieces, at = [], 0
    for head in _heads(_masked(text)):
        begin, end = head.span(2)
        own = text[begin:end] if setting.shared_spills else _without_bounds(text[begin:end])
        pieces += [text[at:begin], own, directives, text[end : head.end()]]
        pieces += ['\n.pragma "enable_smem_spilling";'] * setting.shared_spills
        at = head.end()
    return "".join((*pieces, text[at:]))


def _without_bounds(head: str) -> str:
    return _DIRECTIVE.sub(lambda match: "" if match[1] in BOUNDS else match[0], head)


def _heads(code: str) -> Iterator[re.Match[str]]:
    return (head for head in _HEAD.finditer(code) if head[3] == "{")


def _masked(text: str) -> str:
    """``text`` with comments and strings blanked, at unchanged positions."""
    return _NOT_CODE.sub(lambda match: " " * len(match[0]), text)
