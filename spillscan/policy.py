"""What a team demands of its kernels; the same for every command that judges."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from spillscan.errors import UsageError
from spillscan.model import Kernel, Severity
from spillscan.residency.model import Launch

SEVERITIES: tuple[Severity, ...] = ("note", "warning", "error")
"""From mild to severe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits for every kernel."""

    max_spill_bytes: int = 0
    """Most bytes that spill stores and spill loads may have together, per thread."""
    max_registers: int | None = None
    """Most registers per thread; ``None`` sets no limit."""


def at_least(severity: Severity, threshold: str) -> bool:
    """Whether ``severity`` reaches ``threshold``; nothing reaches ``never``."""
    return threshold != "never" and SEVERITIES.index(severity) >= [*SEVERITIES].index(threshold)  # type: ignore[arg-type]


def matches(kernel: Kernel, pattern: str) -> bool:
    """Whether a glob names ``kernel``: by symbol, by full demangled name or by short name; case counts."""
    return any(fnmatchcase(name, pattern) for name in (kernel.key.symbol, kernel.name, kernel.short_name))


@dataclass(frozen=True, slots=True)
class LaunchMap:
    """How kernels are launched, which no build log says: (glob, launch) in order; the last match counts."""

    entries: tuple[tuple[str, Launch], ...] = ()

    def launch_of(self, kernel: Kernel) -> Launch | None:
        """The launch of ``kernel``: as the user said, else by its binary's launch bounds; ``None`` without either."""
        given = next((launch for pattern, launch in reversed(self.entries) if matches(kernel, pattern)), None)
        if given is None and kernel.launch_bounds is not None and kernel.launch_bounds.threads is not None:
            return Launch(threads_per_block=kernel.launch_bounds.threads, source="maxntid")
        return given


def parse_launch(text: str) -> tuple[str, Launch]:
    """``GLOB=THREADS[,DYNAMIC_SHARED_BYTES]`` as an entry of a :class:`LaunchMap`."""
    pattern, equals, figures = text.rpartition("=")
    threads, _, dynamic = figures.partition(",")
    if not equals or not pattern or not threads.isdecimal() or (dynamic and not dynamic.isdecimal()):
        raise UsageError(f"{text!r} is no launch", "write GLOB=THREADS or GLOB=THREADS,DYNAMIC_SHARED_BYTES")
    if not 1 <= int(threads) <= 1024:
        raise UsageError(f"{text!r} asks for {threads} threads per block", "a block has 1 to 1,024 threads")
    shared = int(dynamic or 0)
    return pattern, Launch(
        threads_per_block=int(threads),
        dynamic_shared_bytes=shared,
        max_dynamic_shared_bytes=shared or None,
        source="policy",
    )
