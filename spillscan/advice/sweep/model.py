"""A point of a sweep: what is asked of ptxas there, how that is written, and what came of it. Plain frozen records, the
input of every report.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct, structs

from spillscan.model import Launch
from spillscan.model.code import MOST_REGISTERS
from spillscan.output.errors import UsageError

Kind = Literal["as is", "cap", "bounds", "maxnreg"]

DEFAULT_CAPS = (32, 40, 48, 56, 64, 72, 80, 96, 128, 168, 255)
"""The most registers per thread with which 16, 12, 10, 9, 8, 7, 6, 5, 4, 3 and 2 warps share a quarter of an SM's
register file (16,384, given out in eights): between them no cap brings a warp."""
MOST_THREADS, MOST_BLOCKS = 1024, 32

_BOUNDS = re.compile(r"([0-9]{1,5})?(?:[xX,]([0-9]{1,3}))?")


_ASKED = {name: f"{name}_asked" for name in ("registers", "threads", "blocks")}


class Knob(Struct, frozen=True, kw_only=True):
    """One value of one axis: what is added to a command, or to a kernel."""

    tool: Literal["nvcc", "ptxas", "pragma"]
    """What takes it; a pragma stands at the head of the kernel's body."""
    word: str
    """The option, ``--opt-level``, ``-DTILE``, or the pragma."""
    value: str = ""
    """Its value; empty: none."""

    @property
    def written(self) -> str:
        """The word with its value."""
        return f"{self.word}={self.value}" if self.value else self.word

    @property
    def label(self) -> str:
        """For tables: ``opt-level=1``, ``TILE=16``."""
        return f"{self.name}={self.value.rpartition('/')[2]}" if self.value else self.name

    @property
    def name(self) -> str:
        """The axis: ``opt-level``, ``TILE``."""
        return self.word.removeprefix("-D") if self.word.startswith("-D") else self.word.lstrip("-")

    @property
    def source(self) -> str:
        """As it is written in a source or on nvcc's command line."""
        if self.tool == "pragma":
            return f'asm volatile (".pragma \\"{self.written}\\";");'
        return self.written if self.tool == "nvcc" else f"-Xptxas {self.written}"


class Setting(Struct, frozen=True, kw_only=True, rename=_ASKED):
    """One point."""

    kind: Kind = "as is"
    """``as is``: nothing is changed; ``cap``: ``-maxrregcount``; ``bounds``: ``__launch_bounds__``; ``maxnreg``:
    ``__maxnreg__``."""
    registers: int | None = None
    """Of a cap or ``maxnreg``: registers per thread."""
    threads: int | None = None
    """Of bounds: threads per block; ``None``: those of its own bounds."""
    blocks: int | None = None
    """Of bounds: fewest blocks per SM; ``None`` where only the threads are bound."""
    knobs: tuple[Knob, ...] = ()
    """What else is changed, a value of each axis."""

    def with_knobs(self, knobs: tuple[Knob, ...]) -> Setting:
        """The setting with values of other axes."""
        return structs.replace(self, knobs=knobs)

    def words(self, tool: Literal["nvcc", "ptxas", "pragma"]) -> tuple[str, ...]:
        """What is added for a tool."""
        return tuple(each.written for each in self.knobs if each.tool == tool)

    @property
    def label(self) -> str:
        """For tables: ``as is``, ``cap 64``, ``256x4``, ``maxnreg 64 opt-level=1``."""
        known = [] if self.kind == "as is" else [self.kind_label]
        return " ".join((*known, *(each.label for each in self.knobs))) or self.kind

    @property
    def kind_label(self) -> str:
        """The same without other axes."""
        if self.kind == "bounds":
            return f"{self.threads or ''}" + (f"x{self.blocks}" if self.blocks else "")
        return self.kind if self.registers is None else f"{self.kind} {self.registers}"

    @property
    def source(self) -> str:
        """As it is written in a source or on nvcc's command line."""
        own = {
            "bounds": f"__launch_bounds__({self.threads or 'its own'}" + (f", {self.blocks})" if self.blocks else ")"),
            "maxnreg": f"__maxnreg__({self.registers})",
            "cap": f"-maxrregcount={self.registers}",
        }
        written = [own[self.kind]] if self.kind in own else []
        return " ".join((*written, *(each.source for each in self.knobs))) or "as is"


AS_IS = Setting()
SHARED_SPILLS = Setting(knobs=(Knob(tool="pragma", word="enable_smem_spilling"),))


def registers_of(caps: Sequence[str], bounds: Sequence[str], maxnreg: Sequence[str]) -> list[Setting]:
    """What options ask for of registers, each once."""
    found = [Setting(kind="cap", registers=count) for count in _registers("cap", caps)]
    found += [_bounds(word) for word in words_of(bounds)]
    found += [Setting(kind="maxnreg", registers=count) for count in _registers("maxnreg", maxnreg)]
    return list(dict.fromkeys(sorted(found, key=_order)))


def _order(setting: Setting) -> tuple[object, ...]:
    kinds: tuple[Kind, ...] = ("as is", "cap", "bounds", "maxnreg")
    return kinds.index(setting.kind), -(setting.registers or 0), setting.threads or 0, setting.blocks or 0


def words_of(texts: Iterable[str]) -> list[str]:
    """Words between commas or blanks."""
    return [word for text in texts for word in re.split(r"[,\s]+", text) if word]


def _registers(axis: str, texts: Iterable[str]) -> list[int]:
    counts = []
    for word in words_of(texts):
        if not (word.isascii() and word.isdigit() and 1 <= int(word[:9]) <= MOST_REGISTERS):
            raise UsageError(
                f"--vary {axis}: {word!r} is not a register count", f"give 1 to {MOST_REGISTERS}, as in 32,48"
            )
        counts.append(int(word))
    return counts


def _bounds(word: str) -> Setting:
    match = _BOUNDS.fullmatch(word)
    if match is None:
        raise UsageError(f"--vary bounds: {word!r} are not launch bounds", "write THREADSxBLOCKS, as in 256x4, or x4")
    threads, blocks = (int(part) if part else None for part in match.groups())
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        raise UsageError(f"--vary bounds: {word!r} asks for {threads:,} threads", "a block has 1 to 1,024 threads")
    if blocks is not None and not 1 <= blocks <= MOST_BLOCKS:
        raise UsageError(f"--vary bounds: {word!r} asks for {blocks} blocks", f"an SM holds 1 to {MOST_BLOCKS}")
    return Setting(kind="bounds", threads=threads, blocks=blocks)


class Depth(Struct, frozen=True, kw_only=True):
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

    value: Value | Setting
    """The value, or the point, as given."""
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


class Ran(Struct, frozen=True, kw_only=True):
    """How a point was compiled."""

    command: tuple[str, ...] = ()
    """What compiles it by hand, in the folder of its own command; bounds and pragmas stand in the source."""
    status: int | None = None
    """Exit status of the compiler; negative: the signal that ended it; ``None`` where none ran."""
    in_ptx: bool = False
    """Whether bounds of a CUDA source stand in its PTX alone: in the source they may make other PTX."""


_IN_JSON = {
    "depths": "spills_by_depth",
    "threads": "threads_per_block",
    "blocks": "resident_blocks",
    "warps": "resident_warps",
    "timing": "time",
}


class Point(Struct, frozen=True, kw_only=True, rename=_IN_JSON):
    """One kernel at one setting, as ptxas compiled it."""

    setting: Setting
    """What was asked for."""
    failure: str = ""
    """Why there are no figures, one line; empty where there are."""
    ran: Ran = Ran()
    """How it was compiled."""
    registers: int | None = None
    """Per thread."""
    spill_store_bytes: int | None = None
    """Per thread, each instruction once."""
    spill_load_bytes: int | None = None
    """Per thread, each instruction once."""
    stack_bytes: int | None = None
    """Stack frame per thread."""
    code_bytes: int | None = None
    """Of its machine code; ``None`` where that could not be read."""
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
    """What the user's own program took at this point; ``None`` where it was not run."""

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
    loops: str = ""
    """How many more instructions the loops hold at the first point without spills than at the next registers above, in
    one sentence; empty where they hold no more, and where that is not known."""
    measured: str = ""
    """The fastest of the runs of the user's program, in one sentence; empty where there are none."""
    spills_and_times: tuple[str, ...] = ()
    """Whether fewer spills were faster, as far as the user's program was run, a sentence each."""
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

    @property
    def registers_needed(self) -> int | None:
        """The fewest registers at which nothing spilled, whatever set them, all else as it is; ``None`` where all
        points spill."""
        clean = [each for each in self.points if each.spill_bytes == 0 and not each.setting.knobs]
        return min((each.registers for each in clean if each.registers is not None), default=None)
