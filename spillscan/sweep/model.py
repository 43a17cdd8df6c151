"""What a sweep found: plain frozen records, the input of every report on it."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Literal

from spillscan.model import Launch
from spillscan.sweep.settings import AS_IS, Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """Spill instructions of one loop depth, each counted once."""

    depth: int | None
    """Loops around them; ``None`` where control flow cannot be followed."""
    instructions: int
    """Spill stores and loads."""
    bytes: int
    """Bytes per thread that they move."""


Value = int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What one value of the sweep took."""

    value: Value
    """The value, as given."""
    command: tuple[str, ...]
    """The words that were run for it."""
    figures: tuple[float, ...] = ()
    """Of each counted run, in their order: seconds by the wall clock, or the number that the program printed."""
    unit: str = ""
    """``s`` by the wall clock; empty: the program's own."""
    failure: str = ""
    """Why there are no more figures, one line; empty where all runs went well."""

    @property
    def least(self) -> float | None:
        """The smallest figure; ``None`` without any."""
        return min(self.figures, default=None)

    @property
    def median(self) -> float | None:
        """The median figure; ``None`` without any."""
        return statistics.median(self.figures) if self.figures else None

    @property
    def spread(self) -> float | None:
        """Largest less smallest figure, as a fraction of the median; ``None`` without any, or where that is 0."""
        middle = self.median
        return (max(self.figures) - min(self.figures)) / middle if middle else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One kernel at one setting, as ptxas compiled it."""

    setting: Setting
    """What was asked for."""
    failure: str = ""
    """Why there are no figures, one line; empty where there are."""
    registers: int | None = None
    """Per thread."""
    spill_store_bytes: int | None = None
    """Per thread, each instruction once."""
    spill_load_bytes: int | None = None
    """Per thread, each instruction once."""
    stack_bytes: int | None = None
    """Stack frame per thread."""
    shared_bytes: int | None = None
    """Static shared memory per block; ``None`` where there is none, or it is not reported."""
    depths: tuple[Depth, ...] | None = None
    """Spill instructions by loop depth, innermost first; ``None`` where the machine code could not be read."""
    threads: int | None = None
    """The block size that the following are for; ``None``: not known, and they are the best case."""
    blocks: int | None = None
    """Resident blocks per SM; 0: cannot launch; ``None`` where threads or registers are not known."""
    warps: int | None = None
    """Resident warps per SM."""
    max_warps: int | None = None
    """Warp slots of the SM."""
    limiters: tuple[str, ...] = ()
    """What binds."""
    overridden: str = ""
    """What in the source made ptxas ignore the setting; empty where it did not."""
    remarks: tuple[str, ...] = ()
    """What ptxas said of the kernel's registers and bounds."""
    final: bool | None = None
    """``False``: relocatable code, the linker decides the registers."""
    best: bool = False
    """No other point has more resident warps without more spills, or fewer spills without fewer warps."""
    timing: Timing | None = None
    """What the user's own program took at this cap; ``None`` where it was not run."""

    @property
    def spill_bytes(self) -> int | None:
        """Spill stores and loads together."""
        if self.spill_store_bytes is None or self.spill_load_bytes is None:
            return None
        return self.spill_store_bytes + self.spill_load_bytes

    @property
    def loop_spill_bytes(self) -> int | None:
        """Bytes of the spills in loops; those of unknown depth are taken to be."""
        return None if self.depths is None else sum(each.bytes for each in self.depths if each.depth != 0)

    @property
    def fraction(self) -> float | None:
        """Occupancy, 0 to 1."""
        return self.warps / self.max_warps if self.warps is not None and self.max_warps else None


Direction = Literal["more blocks", "no spills"]
"""Fewer registers, that more blocks are resident; more registers, that spills end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Bounds that reach the next step of occupancy, or that end spills, and what ptxas makes of them."""

    direction: Direction
    """What they are for."""

    point: Point
    """The setting, compiled."""
    cap: int
    """Registers per thread that it leaves."""
    gain: int
    """Resident blocks more than the kernel has as it is; 0 or less where the step is not reached, and where it is not
    for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One kernel of one arch by one release of ptxas, at every setting."""

    input: str
    """The file that it was compiled from."""
    symbol: str
    """Mangled name."""
    arch: str
    """``sm_90a``"""
    toolkit: str
    """Release of ptxas, ``13.0.88``."""
    launch: Launch | None = None
    """How it is launched; ``None`` where it is not known, and it has no launch bounds."""
    points: tuple[Point, ...] = ()
    """In the order of the settings, ``as is`` first."""
    facts: str = ""
    """The trade-off in one sentence."""
    measured: str = ""
    """The fastest of the runs of the user's program, in one sentence; empty where there are none."""
    flags: tuple[str, ...] = ()
    """What about its bounds does not do what it seems to, a sentence each."""
    advice: tuple[Advice, ...] = ()
    """The smallest step that ends the spills, and the next steps to more blocks; empty where they were not asked for,
    or none is left."""
    no_advice: str = ""
    """Why no step leads to more blocks; empty where one does, or it was not asked for."""

    @property
    def as_is(self) -> Point:
        """The kernel as it is built now."""
        return next((point for point in self.points if point.setting == AS_IS), self.points[0])
