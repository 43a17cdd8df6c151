"""Entries of a PTX module and their launch bounds, read and rewritten as text.

Directives stand between an entry's parameters and its body (PTX ISA, "Performance-Tuning Directives").
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from spillscan.advice.sweep.model import Setting

_NO_CODE = re.compile(r"\.pragma[^;]*(?:;|\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)|\"[^\"\n]*\"", re.DOTALL)
_ENTRY = re.compile(r"\.entry\s+([A-Za-z_$%][\w$%]*)\s*(?:\([^)]*(?:\)|\Z))?")
_DIRECTIVE = re.compile(
    r"\.(maxntid|reqntid|minnctapersm|maxnctapersm|maxnreg)\s+(\d{1,9}(?:\s*,\s*\d{1,9}){0,2})(?!\d)"
)
_DYNAMIC = re.compile(r"\.extern\s+\.shared\b[^;]*?([A-Za-z_$%][\w$%]*)\s*(?:\[\s*\])?\s*;")
_FUNCTION = re.compile(r"\.(?:entry|func)\b")
_TARGET = re.compile(r"^[^\S\n]*\.target\s+(sm_\d+[af]?)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PtxEntry:
    """One kernel of a module."""

    symbol: str
    """Mangled name."""
    max_threads: int | None = None
    """``.maxntid``: most threads per block; its dimensions multiplied."""
    required_threads: int | None = None
    """``.reqntid``: threads of every block."""
    min_blocks: int | None = None
    """``.minnctapersm``: blocks per SM that its registers must leave room for."""
    max_registers: int | None = None
    """``.maxnreg``."""
    dynamic_shared: bool = False
    """Whether it, or a function that it may call, uses shared memory whose size each launch gives."""

    @property
    def threads(self) -> int | None:
        """The block size that it is made for."""
        return self.required_threads or self.max_threads

    @property
    def overrides_cap(self) -> str:
        """What makes ptxas ignore ``-maxrregcount`` for it; empty where nothing does (measured, 11.8 to 13.5)."""
        if self.max_registers is not None:
            return f"__maxnreg__({self.max_registers})"
        if self.threads is None:
            return ""
        written = str(self.threads) + (f", {self.min_blocks}" if self.min_blocks else "")
        return f"__launch_bounds__({written})" if self.required_threads is None else f"__block_size__({self.threads})"


def target(text: str) -> str | None:
    """The arch that the module is written for, such as ``sm_90``; ``None`` where it has no ``.target``."""
    match = _TARGET.search(text)
    return match[1] if match else None


def entries(text: str) -> tuple[PtxEntry, ...]:
    """Every entry that has a body, in order."""
    found = []
    masked = _masked(text)
    dynamic = "|".join(map(re.escape, _DYNAMIC.findall(masked)))
    uses = re.compile(rf"(?<![\w$%])(?:{dynamic}|call)(?![\w$%])") if dynamic else None
    for symbol, head, start in _heads(masked):
        after = _FUNCTION.search(masked, start)
        figures = {match[1]: prod(int(part) for part in match[2].split(",")) for match in _DIRECTIVE.finditer(head)}
        found.append(
            PtxEntry(
                symbol=symbol,
                max_threads=figures.get("maxntid"),
                required_threads=figures.get("reqntid"),
                min_blocks=figures.get("minnctapersm"),
                max_registers=figures.get("maxnreg"),
                dynamic_shared=bool(uses and uses.search(masked, start, after.start() if after else len(masked))),
            )
        )
    return tuple(found)


def has(entry: PtxEntry, setting: Setting) -> bool:
    """Whether an entry has the setting's bounds already; other settings have none."""
    if setting.kind == "maxnreg":
        return entry.max_registers == setting.registers
    threads = setting.threads in (None, entry.max_threads)
    return setting.kind != "bounds" or (threads and entry.min_blocks == setting.blocks)


def rewritten(text: str, setting: Setting) -> str:
    """The module with the setting's bounds in the place of every entry's own.

    ``__launch_bounds__`` replaces all that an entry says of its block size, blocks and registers. ``__maxnreg__``,
    which CUDA C++ allows beside ``__block_size__`` only, leaves ``.reqntid``. Pragmas stand at the head of the body.
    Other settings change nothing.
    """
    dropped: set[str] = set()
    added = ""
    inside = "".join(f'\n.pragma "{each}";' for each in setting.words("pragma"))
    if setting.kind == "bounds" and setting.threads is None:
        dropped = {"minnctapersm", "maxnctapersm", "maxnreg"}
        added = f".minnctapersm {setting.blocks}\n"
    elif setting.kind == "bounds":
        dropped = {"maxntid", "reqntid", "minnctapersm", "maxnctapersm", "maxnreg"}
        added = f".maxntid {setting.threads}, 1, 1\n" + (f".minnctapersm {setting.blocks}\n" if setting.blocks else "")
    elif setting.kind == "maxnreg":
        dropped = {"maxntid", "minnctapersm", "maxnctapersm", "maxnreg"}
        added = f".maxnreg {setting.registers}\n"
    elif not inside:
        return text
    pieces: list[str] = []
    at = 0
    for _, head, start in _heads(_masked(text)):
        for match in _DIRECTIVE.finditer(head):
            if match[1] in dropped:
                pieces.append(text[at : start + match.start()])
                at = start + match.end()
        body = start + len(head)
        pieces += [text[at:body], added, *([text[body : body + 1], inside] if inside else [])]
        at = body + bool(inside)
    return "".join((*pieces, text[at:]))


def _masked(text: str) -> str:
    """``text`` with comments, strings and pragmas blanked, every character in its place."""
    return _NO_CODE.sub(lambda match: " " * len(match[0]), text)


def _heads(masked: str) -> Iterator[tuple[str, str, int]]:
    """(symbol, text between parameters and body, where that begins) of each entry that has a body."""
    for match in _ENTRY.finditer(masked):
        body = masked.find("{", match.end())
        end = masked.find(";", match.end())
        if body >= 0 and (end < 0 or body < end):
            yield match[1], masked[match.end() : body], match.end()
