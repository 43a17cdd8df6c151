"""Settings at which a kernel is compiled: as built, with a register limit, or with launch bounds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from spillscan.model.code import MOST_REGISTERS
from spillscan.output.errors import UsageError

DEFAULT_LIMITS = (255, 168, 128, 96, 80, 72, 64, 56, 48, 40, 32)
"""The largest limits at which 2, 3, 4, 5, … 16 warps share a quarter of an SM's register file."""
FIRST_WITH_MAXNREG = (12, 4)
"""First release of CUDA whose nvcc supports ``__maxnreg__``."""
MOST_THREADS, MOST_BLOCKS = 1024, 32
_BOUNDS = re.compile(r"(\d{1,4})(?:x(\d{1,2}))?")


class Setting(Struct, frozen=True, kw_only=True):
    """One setting; ``Setting()`` is the kernel as built."""

    limit: int | None = None
    """Register limit per thread, as by ``__maxnreg__``; replaces the kernel's own launch bounds."""
    threads: int | None = None
    """First argument of ``__launch_bounds__``."""
    blocks: int | None = None
    """Second argument; ``None`` if the bounds have one argument."""
    shared_spills: bool = False
    """Whether to spill to shared memory, with the kernel's own bounds."""

    @property
    def directives(self) -> Mapping[str, int]:
        """Bounds in a kernel's PTX at this setting; empty as built."""
        asked = {"maxnreg": self.limit, "maxntid": self.threads, "minnctapersm": self.blocks}
        return {name: value for name, value in asked.items() if value is not None}

    @property
    def label(self) -> str:
        """Label for tables: ``as is``, ``64``, ``256x4``."""
        if self.shared_spills:
            return "shared"
        bounds = f"{self.threads}x{self.blocks}" if self.blocks else self.threads
        return str(self.limit or bounds or "as is")

    @property
    def source(self) -> str:
        """The setting in CUDA C++."""
        if self.limit:
            return f"__maxnreg__({self.limit})"
        if self.threads:
            return f"__launch_bounds__({self.threads}" + (f", {self.blocks})" if self.blocks else ")")
        return 'asm volatile (".pragma \\"enable_smem_spilling\\";");' if self.shared_spills else "as is"

    @property
    def attribute(self) -> str:
        """Attribute that ``__maxnreg__`` or ``__launch_bounds__`` expands to."""
        words = self.source.replace("__maxnreg__", "maxnreg").replace("__launch_bounds__", "launch_bounds")
        return f"__attribute__(({words}))"


AS_IS = Setting()
SHARED_SPILLS = Setting(shared_spills=True)


def parse_settings(limits: Iterable[str], bounds: Iterable[str]) -> tuple[Setting, ...]:
    """Settings of ``--limits 64,96`` and ``--bounds 256x4``, ``as is`` first; by default all useful limits. Raises
    UsageError."""
    settings = [AS_IS]
    for word in _words(limits):
        if not (word.isascii() and word.isdigit() and 1 <= int(word[:4]) <= MOST_REGISTERS):
            raise UsageError(f"--limits: {word[:60]!r} is not a register count", f"use 1 to {MOST_REGISTERS}")
        settings.append(Setting(limit=int(word)))
    for word in _words(bounds):
        match = _BOUNDS.fullmatch(word) if word.isascii() else None
        threads, blocks = (int(match[1]), int(match[2] or 1)) if match else (0, 0)
        if match is None or not 1 <= threads <= MOST_THREADS or not 1 <= blocks <= MOST_BLOCKS:
            how = f"write THREADS or THREADSxBLOCKS, at most {MOST_THREADS}x{MOST_BLOCKS}, such as 256x4"
            raise UsageError(f"--bounds: {word[:60]!r} are not launch bounds", how)
        settings.append(Setting(threads=threads, blocks=blocks if match[2] else None))
    if len(settings) == 1:
        settings += (Setting(limit=limit) for limit in DEFAULT_LIMITS)
    return tuple(dict.fromkeys(settings))


def _words(texts: Iterable[str]) -> list[str]:
    return [word for text in texts for word in text.split(",") if word]


def release(version: str) -> tuple[int, int]:
    """(major, minor) CUDA release from a compiler's version; (0, 0) if unknown."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
