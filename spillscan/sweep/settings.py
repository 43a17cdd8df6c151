"""What is asked of ptxas at one point of a sweep, and how it is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from spillscan.errors import UsageError

Kind = Literal["as is", "cap", "bounds", "maxnreg"]

DEFAULT_CAPS = (32, 40, 48, 56, 64, 72, 80, 96, 128, 168, 255)
"""The most registers per thread with which 16, 12, 10, 9, 8, 7, 6, 5, 4, 3 and 2 warps share a quarter of an SM's
register file (16,384, given out in eights): between them no cap brings a warp."""
MOST_REGISTERS = 255
"""ptxas ignores greater caps, and says so."""
MOST_THREADS, MOST_BLOCKS = 1024, 32

_BOUNDS = re.compile(r"([0-9]{1,5})(?:[xX,]([0-9]{1,3}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One point."""

    kind: Kind = "as is"
    """``as is``: nothing is changed; ``cap``: ``-maxrregcount``; ``bounds``: ``__launch_bounds__``; ``maxnreg``:
    ``__maxnreg__``."""
    registers: int | None = None
    """Of a cap or ``maxnreg``: registers per thread."""
    threads: int | None = None
    """Of bounds: threads per block."""
    blocks: int | None = None
    """Of bounds: fewest blocks per SM; ``None`` where only the threads are bound."""

    @property
    def label(self) -> str:
        """For tables: ``as is``, ``cap 64``, ``256x4``, ``maxnreg 64``."""
        if self.kind == "as is":
            return self.kind
        if self.kind == "bounds":
            return f"{self.threads}" + (f"x{self.blocks}" if self.blocks else "")
        return f"{self.kind} {self.registers}"

    @property
    def source(self) -> str:
        """As it is written in a source or on nvcc's command line."""
        if self.kind == "bounds":
            return (
                f"__launch_bounds__({self.threads}, {self.blocks})"
                if self.blocks
                else f"__launch_bounds__({self.threads})"
            )
        if self.kind == "maxnreg":
            return f"__maxnreg__({self.registers})"
        return f"-maxrregcount={self.registers}" if self.kind == "cap" else "as is"


AS_IS = Setting()


def parse(caps: Sequence[str] | None, bounds: Sequence[str], maxnreg: Sequence[str]) -> tuple[Setting, ...]:
    """The points that options ask for, each once, ``as is`` first; without any, ``as is`` and the default caps."""
    found = [Setting(kind="cap", registers=count) for count in _registers("--caps", caps or ())]
    found += [_bounds(word) for word in _words(bounds)]
    found += [Setting(kind="maxnreg", registers=count) for count in _registers("--maxnreg", maxnreg)]
    if not found and caps is None:
        found = [Setting(kind="cap", registers=count) for count in DEFAULT_CAPS]
    return (AS_IS, *dict.fromkeys(sorted(found, key=_order)))


def _order(setting: Setting) -> tuple[object, ...]:
    kinds: tuple[Kind, ...] = ("as is", "cap", "bounds", "maxnreg")
    return kinds.index(setting.kind), -(setting.registers or 0), setting.threads or 0, setting.blocks or 0


def _words(texts: Iterable[str]) -> list[str]:
    return [word for text in texts for word in re.split(r"[,\s]+", text) if word]


def _registers(option: str, texts: Iterable[str]) -> list[int]:
    counts = []
    for word in _words(texts):
        if not (word.isascii() and word.isdigit() and 1 <= int(word[:9]) <= MOST_REGISTERS):
            raise UsageError(f"{option}: {word!r} is no register count", f"give 1 to {MOST_REGISTERS}, as in 32,48,64")
        counts.append(int(word))
    return counts


def _bounds(word: str) -> Setting:
    match = _BOUNDS.fullmatch(word)
    if match is None:
        raise UsageError(f"--bounds: {word!r} are no launch bounds", "write THREADSxBLOCKS, as in 256x4")
    threads, blocks = int(match[1]), int(match[2]) if match[2] else None
    if not 1 <= threads <= MOST_THREADS:
        raise UsageError(f"--bounds: {word!r} asks for {threads:,} threads", "a block has 1 to 1,024 threads")
    if blocks is not None and not 1 <= blocks <= MOST_BLOCKS:
        raise UsageError(f"--bounds: {word!r} asks for {blocks} blocks", f"an SM holds 1 to {MOST_BLOCKS}")
    return Setting(kind="bounds", threads=threads, blocks=blocks)
