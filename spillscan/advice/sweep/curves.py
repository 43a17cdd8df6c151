"""Results of compiling each kernel at each setting, and the settings that no other dominates (Pareto)."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from operator import le

from msgspec import Struct, structs

from spillscan.advice.sweep.compiling import Compiled, Module, Workshop
from spillscan.advice.sweep.ptx import PtxKernel
from spillscan.advice.sweep.settings import Setting
from spillscan.advice.sweep.units import Unit
from spillscan.model import Kernel, KernelKey, Launch, LaunchBounds, Usage
from spillscan.model.code import SassFunction
from spillscan.model.metrics import static_shared
from spillscan.occupancy.launches import Launches
from spillscan.occupancy.summary import Summary, summarise
from spillscan.output.errors import UsageError
from spillscan.output.nouns import count
from spillscan.reading import logs, workers
from spillscan.reading.binary import records
from spillscan.reading.inputs.source import Stream
from spillscan.reading.join.code import attach_code

_NAME = "ptxas -v"


class Point(Struct, frozen=True, kw_only=True):
    """Result for one kernel at one setting."""

    setting: Setting
    failure: str = ""
    """Why there are no metrics, in one line."""
    in_ptx: bool = False
    """Whether bounds of a CUDA source were edited into its PTX."""
    kernel: Kernel | None = None
    summary: Summary | None = None
    best: bool = False
    """Whether no other point dominates it in spills and resident warps."""

    @property
    def registers(self) -> int | None:
        """Registers per thread."""
        return self.kernel.usage.registers if self.kernel else None

    @property
    def spill_bytes(self) -> int | None:
        """Spill stores and loads, bytes per thread."""
        return sum(self.kernel.spills) if self.kernel and self.kernel.spills else None

    @property
    def loop_spill_bytes(self) -> int | None:
        """Spill bytes in loops, including spills of unknown depth."""
        if self.kernel is None or self.kernel.sass is None:
            return None
        groups = self.kernel.sass.local.groups.items()
        return sum(number * each.bytes for each, number in groups if each.kind == "spill" and each.depth != 0)

    @property
    def code_bytes(self) -> int | None:
        """Size of the machine code."""
        return self.kernel.sass.code_bytes if self.kernel and self.kernel.sass else None

    @property
    def warps(self) -> int | None:
        """Resident warps per SM, or an upper bound."""
        return self.summary.occupancy.active_warps if self.summary and self.summary.occupancy else None

    @property
    def blocks(self) -> int | None:
        """Resident blocks per SM; ``None`` if the launch is unknown."""
        known = self.summary
        return None if known is None or known.occupancy is None or known.at_most else known.occupancy.resident_blocks

    @property
    def cost(self) -> tuple[int, int, int] | None:
        """(spill bytes in loops, spill bytes, -warps); ``None`` if unknown, or if it cannot launch."""
        if self.spill_bytes is None or not self.warps:
            return None
        loops = self.loop_spill_bytes
        return self.spill_bytes if loops is None else loops, self.spill_bytes, -self.warps

    def outcome(self, before: Point) -> str:
        """Result in words: ``52 registers, no spills, 12 → 9 blocks/SM, 4,096 B of code``."""
        if self.failure:
            return self.failure if self.failure.startswith("not tried") else f"does not compile: {self.failure}"
        words = [f"{self.registers} registers", f"spills {self.spill_bytes:,} B" if self.spill_bytes else "no spills"]
        if before.blocks is not None and self.blocks is not None:
            change = f"{before.blocks} → " if before.blocks != self.blocks else ""
            same = "" if change or before is self else " as before"
            words.append(f"{change}{count(self.blocks, 'block')}/SM{same}")
        smem = [static_shared(each.kernel) if each.kernel else None for each in (before, self)]
        if None not in smem and smem[0] != smem[1]:
            words.append(f"smem {smem[0]:,} → {smem[1]:,} B")
        if self.code_bytes is not None:
            words.append(f"{self.code_bytes:,} B of code")
        words += ["before the link"] * (self.kernel is not None and self.kernel.final is False)
        return ", ".join(words)


class Curve(Struct, frozen=True, kw_only=True):
    """Results for one kernel of one arch at all settings."""

    input: str
    """Source that was compiled."""
    symbol: str
    arch: str
    toolkit: str
    """Release of ptxas, such as ``13.0.88``."""
    bare: bool = False
    """Whether the source was compiled without the options that its build may have."""
    launch: Launch | None
    points: tuple[Point, ...]
    """Results; the kernel as built comes first."""

    @property
    def as_is(self) -> Point:
        """The kernel as built."""
        return self.points[0]


def sweep(
    unit: Unit,
    archs: Sequence[str],
    settings: Sequence[Setting],
    launches: Launches,
    wanted: Callable[[Kernel], bool],
    workshop: Workshop,
) -> Iterator[Curve]:
    """A curve per wanted kernel and arch of ``unit``."""
    for module in workshop.modules(unit, archs):
        kernels = [declared(each, module.arch) for each in module.kernels.values()]
        chosen = {each.key.symbol: launches.launch_of(each) for each in kernels if wanted(each)}
        with ThreadPoolExecutor(workers.processors()) as pool:
            made = list(pool.map(partial(points_at, module, chosen), settings)) if chosen else []
        for symbol, launch in chosen.items():
            points = marked([each[symbol] for each in made])
            yield Curve(
                input=module.unit.path,
                symbol=symbol,
                arch=module.arch,
                toolkit=module.version,
                bare=module.unit.is_bare,
                launch=launch,
                points=points,
            )


def declared(kernel: PtxKernel, arch: str) -> Kernel:
    """Kernel as declared in the PTX, for matching patterns and launches."""
    kind = "required_threads" if "reqntid" in kernel.directives else "max_threads"
    return Kernel(
        key=KernelKey(symbol=kernel.symbol, arch=arch),
        role="entry",
        usage=Usage(),
        launch_bounds=LaunchBounds(**{kind: kernel.threads}) if kernel.threads else None,
        dynamic_shared=kernel.dynamic_shared,
    )


def points_at(module: Module, launches: Mapping[str, Launch | None], setting: Setting) -> dict[str, Point]:
    """Results by symbol of compiling kernels at ``setting``; ``launches``: each kernel's launch, by symbol."""
    points = {}
    for made in module.compile(setting, launches):
        kernels = {} if made.failure else _kernels_of(made)
        for symbol in made.symbols:
            points[symbol] = _point(module.arch, setting, made, kernels.get(symbol), launches[symbol])
    return points


def _kernels_of(made: Compiled) -> dict[str, Kernel]:
    """Metrics of the log, joined with the machine code."""
    logged = logs.read(Stream(io.BytesIO(made.log), _NAME), _NAME).kernels
    functions = [each for each in records.items(made.cubin, _NAME) if isinstance(each, SassFunction)]
    unlinked = {each.symbol for each in functions if each.final is False}
    return {
        kernel.key.symbol: structs.replace(kernel, final=False) if kernel.key.symbol in unlinked else kernel
        for kernel in attach_code(logged, functions)[0]
        if kernel.role == "entry"
    }


def _point(arch: str, setting: Setting, made: Compiled, kernel: Kernel | None, launch: Launch | None) -> Point:
    """Result for one kernel at one setting; the block size is that of the tried bounds."""
    if kernel is None:
        return Point(setting=setting, failure=made.failure or "this setting's output lacks the kernel")
    if setting.threads:
        known = launch or Launch(threads_per_block=0, source="bounds")
        launch = structs.replace(known, threads_per_block=setting.threads)
    try:
        summary = summarise(kernel.usage, arch, launch)
    except UsageError:
        summary = None
    return Point(setting=setting, in_ptx=made.in_ptx, kernel=kernel, summary=summary)


def marked(points: Sequence[Point]) -> tuple[Point, ...]:
    """``points``, with those that no other dominates marked best; of equal ones only the first."""
    result = []
    for at, each in enumerate(points):
        cost = each.cost
        others = [other.cost for n, other in enumerate(points) if other.cost and (other.cost != cost or n < at)]
        best = cost is not None and not any(all(map(le, other, cost)) for other in others)
        result.append(structs.replace(each, best=best))
    return tuple(result)
