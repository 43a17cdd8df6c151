"""What a compiler says of one kernel: where it was read, how it is called, its resources, its launch bounds.

``None`` means that the input did not say. It is never 0, and 0 is never invented.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

Role = Literal["entry", "function", "unknown"]
Confidence = Literal["certain", "ambiguous"]
Severity = Literal["error", "warning", "note"]
Hidden = Literal["kernels", "spills", "registers", "stack", "shared", "code", "launch"]
"""What may be missing where an input was not understood; ``kernels``: whole kernels, with all their figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a record was read."""

    input: str
    """Path or URI as the user gave it; ``-`` is standard input."""
    line: int | None = None
    """1-based line of the (decompressed, decoded) input."""
    format: str = "ptxas"
    """Which reader's format the record had: ``ptxas``, ``nvlink``, ``snapshot`` …"""

    def __str__(self) -> str:
        return self.input if self.line is None else f"{self.input}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelKey:
    """What a kernel is called in one build."""

    symbol: str
    """The symbol as the tool printed it: mangled, unless somebody piped the log through a demangler."""
    arch: str | None = None
    """Compilation target such as ``sm_90a``; ``None`` where the log does not say."""
    unit: str = ""
    """Object or source of the build step that compiled it; empty where the log does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Resources of one kernel or device function, as ptxas or nvlink counted them."""

    registers: int | None = None
    """32-bit registers per thread."""
    stack_bytes: int | None = None
    """Stack frame, bytes per thread. A stack frame alone is not a spill."""
    cumulative_stack_bytes: int | None = None
    """Deepest stack over the call tree, bytes per thread (ptxas 12.4 and later, where it is not 0)."""
    spill_store_bytes: int | None = None
    """Bytes per thread that spill stores write, counted once per instruction, loops or not."""
    spill_load_bytes: int | None = None
    """Bytes per thread that spill loads read, counted once per instruction, loops or not."""
    local_bytes: int | None = None
    """``lmem``, bytes per thread: printed by nvlink and for modules without the ABI."""
    shared_bytes: int | None = None
    """Static shared memory, bytes per block, without the driver's reserve."""
    constant_bytes: tuple[tuple[int, int], ...] | None = None
    """(bank, bytes) pairs; ``None`` where the tool prints no banks at all (sm_90 and later)."""
    barriers: int | None = None
    """Named barriers per block (ptxas 12.6 and later)."""
    textures: int | None = None
    """Texture references or indirect textures."""
    surfaces: int | None = None
    """Surface references."""
    samplers: int | None = None
    """Sampler references."""
    unknown_clauses: tuple[str, ...] = ()
    """Clauses of a known line that this version does not know, as printed."""

    @property
    def spills(self) -> tuple[int, int] | None:
        """(spill store bytes, spill load bytes) per thread; ``None`` unless the input told both."""
        if self.spill_store_bytes is None or self.spill_load_bytes is None:
            return None
        return self.spill_store_bytes, self.spill_load_bytes

    @property
    def spill_bytes(self) -> int | None:
        """Spill stores plus spill loads; ``None`` unless the input told both."""
        return None if self.spills is None else sum(self.spills)


def agreement(usages: Sequence[Usage]) -> Usage:
    """The figures on which all ``usages`` (at least one) agree; the others are unknown."""
    first = usages[0]
    differing = [f.name for f in fields(Usage) if any(getattr(u, f.name) != getattr(first, f.name) for u in usages)]
    unknown = {name: () if name == "unknown_clauses" else None for name in differing}
    return replace(first, **unknown)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchBounds:
    """What a kernel's code says of how it may be launched."""

    max_threads: int | None = None
    """Most threads per block: first argument of ``__launch_bounds__``, ``.maxntid``."""
    required_threads: int | None = None
    """Threads that each block has: ``.reqntid``, ``__block_size__``."""

    @property
    def threads(self) -> int | None:
        """The block size that it is made for."""
        return self.required_threads or self.max_threads


@dataclass(frozen=True, slots=True, kw_only=True)
class Advisory:
    """What the compiler said about a kernel besides its figures."""

    kind: str
    """Stable name of the message, from the grammar: ``wgmma_serialized``, ``register_limit_overridden`` …"""
    text: str
    """The message as printed, without tool, severity and code."""
    severity: str
    """As the tool printed it: ``info``, ``warning``, ``error`` or ``fatal``."""
    code: str | None = None
    """``C7519`` and the like. Their meaning changes between releases: judge by ``kind``."""
    location: str | None = None
    """``file.ptx, line 47`` where the tool gave one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """Something in the input that was not understood, is contradictory, or cannot be decided."""

    code: str
    """Its kind, as :data:`spillscan.model.holes.KINDS` declares it: ``unknown-line``, ``truncated`` …"""
    message: str
    """One line: what, and what to do where something can be done."""
    severity: Severity = "warning"
    """``error`` where figures are missing because of it, ``warning`` where they might be, ``note`` otherwise."""
    origin: Origin | None = None
    """Where it was seen."""
    hides: tuple[Hidden, ...] | None = None
    """What it may hide; ``None``: what its kind says."""
    symbol: str = ""
    """The kernel that it is about, as the tool printed it; empty: the whole input."""
    accepted: str | None = None
    """Why the policy accepts it, in the words of whoever wrote that down; ``None`` where it does not."""

    @property
    def hidden(self) -> tuple[Hidden, ...]:
        """What it may hide from a gate; empty: nothing."""
        from spillscan.model.holes import KINDS

        return KINDS[self.code].hides if self.hides is None else self.hides
