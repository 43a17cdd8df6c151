"""What a policy demands of one kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spillscan.model import Rule
from spillscan.policy.severity import Level

if TYPE_CHECKING:
    from spillscan.occupancy.model import Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits for a kernel; ``None`` sets none. ``keys.py`` has what a policy calls them: the same names."""

    max_spill_bytes: int | None = 0
    """Most bytes that spill stores and spill loads may have together, per thread."""
    max_registers: int | None = None
    """Most registers per thread."""
    max_stack_bytes: int | None = None
    """Most bytes of stack per thread, over the call tree where the input tells it."""
    max_shared_bytes: int | None = None
    """Most shared memory, bytes per block: static, and dynamic where the launch is known."""
    min_blocks_per_sm: int | None = None
    """Fewest blocks that must be resident per SM at the kernel's launch."""
    max_spill_growth_bytes: int | None = 0
    """Most bytes by which spill stores, or spill loads, may grow from one build to the next."""
    max_register_growth: int | None = 0
    """Most registers by which a kernel may grow from one build to the next, whatever step that takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What holds for one kernel."""

    limits: Limits = field(default_factory=Limits)
    """Its limits."""
    levels: Mapping[str, Level] = field(default_factory=dict)
    """Severity by rule id, where the policy says another than the rule's own."""
    launch: Launch | None = None
    """How it is launched; ``None`` where nobody said."""
    devices: tuple[str, ...] = ()
    """Devices whose occupancy counts; empty: the one that it was compiled for."""

    def level(self, rule: Rule) -> Level:
        """How grave the rule's findings are for this kernel."""
        return self.levels.get(rule.id, rule.severity)
