"""Fixes of one kernel, as printed by check, advise, occupancy and the HTML pages.

A ``fix`` was compiled for all kernels that it changes and leaves no spills, or follows from the kernel's values without
compiling. An ``option`` was compiled and has a price: spills that are left, an error of `check` for one of those
kernels, or a limit of the policy. A ``try`` is based on an estimate, or was compiled for some of those kernels only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import structs

from spillscan.advice.causes import (
    LiveGroup,
    calls_other_units,
    device_of,
    for_debugger,
    limit_of,
    limited_by_option,
    most_registers,
    options_of,
)
from spillscan.model import Kernel, Launch, LaunchSource
from spillscan.model.code import MOST_REGISTERS, WarpRole
from spillscan.model.local import NO_TRAFFIC
from spillscan.occupancy.bounds import (
    REGISTER_STEP,
    bounds_for_more_blocks,
    bounds_for_more_registers,
    largest_block,
    least_limit,
    register_limit,
)
from spillscan.occupancy.devices import WARP_THREADS
from spillscan.occupancy.formula import resident
from spillscan.occupancy.headroom import best_block_sizes, headroom
from spillscan.occupancy.model import Configuration, Limiter, Occupancy
from spillscan.occupancy.summary import Summary, summarise
from spillscan.output.errors import UsageError
from spillscan.output.nouns import count, listed

if TYPE_CHECKING:
    from spillscan.advice.sweep.curves import Point
    from spillscan.advice.sweep.trials import Trial
    from spillscan.reading.binary.pressure import Pressure

Kind = Literal["fix", "option", "try"]
Wanted = Literal["spills", "blocks", "registers", "launch", "roles", "none"]
"""Purpose of a fix: fewer spills, more blocks per SM, registers within ``max_registers``, a launch that succeeds,
registers of warp roles."""

_NOT_TRIED = "(not tried)"
FEWER = f"fewer live values per thread: smaller tiles, or more threads for the same work {_NOT_TRIED}"
_NAMED = 3
"""Maximum number of kernels that a fix names."""
_NO_DEBUG = "check a build without -G"
_ROLES = f"more registers for the warps that spill (setmaxnreg), fewer for the others {_NOT_TRIED}"
_LEAST = 24
"""Smallest value of ``setmaxnreg`` (PTX ISA)."""
_INLINE = f"__forceinline__, unless recursive: an inlined function saves no registers for its callers {_NOT_TRIED}"


class Fix(NamedTuple):
    """One proposed change for a kernel."""

    kind: Kind
    text: str


class Goal(NamedTuple):
    """Purpose of fixes, and limits that the policy sets for them."""

    wanted: Wanted = "spills"
    min_blocks: int | None = None
    """Fewest blocks per SM."""
    max_registers: int | None = None
    """Most registers per thread."""

    def allows(self, point: Point) -> bool:
        """Whether a compiled setting is within the policy's limits."""
        few = self.min_blocks is not None and (point.blocks or 0) < self.min_blocks
        many = self.max_registers is not None and (point.registers or 0) > self.max_registers
        return not few and not many


SPILLS = Goal()
_WANTED: dict[str, Wanted] = {
    "spill": "spills",
    "spill-in-loop": "spills",
    "blocks-per-sm": "blocks",
    "blocks-lost": "blocks",
    "registers": "registers",
    "register-growth": "blocks",
    "shared": "blocks",
    "shared-growth": "blocks",
    "launch-fails": "launch",
    "role-registers": "roles",
}


def wanted_by(rule: str) -> Wanted:
    """Purpose of fixes for findings of a rule."""
    return _WANTED.get(rule, "none")


class Need(NamedTuple):
    """Number of registers that ends a kernel's spills."""

    registers: int
    """Registers per thread. If an instruction cannot address that many, no register limit ends the spills."""
    basis: Literal["tried", "estimate"]
    """Compiled, or estimated from values live at once, including spill slots (ptxas may need more)."""


def fixes(
    kernel: Kernel,
    launch: Launch | None,
    code: Pressure | None = None,
    trial: Trial | None = None,
    goal: Goal = SPILLS,
    groups: Sequence[LiveGroup] = (),
    on: str | None = None,
) -> list[Fix]:
    """Fixes for the goal, best first.

    ``groups``: groups of values at the peak; ``on``: a device other than that of the kernel's arch.
    """
    if goal.wanted == "none":
        return []
    if for_debugger(kernel):
        return [Fix("fix", _NO_DEBUG)]
    if goal.wanted == "roles":
        return list(_of_roles(kernel, launch))
    tried = trial is not None and bool(trial.points)
    summary = summary_of(kernel, launch, on) if launch is not None else None
    now = summary.occupancy if summary is not None and not summary.assumed else None
    if goal.wanted == "spills":
        relief = [f"{each.relief}: saves at most {count(each.fewer, 'register')} {_NOT_TRIED}" for each in groups[:1]]
        made = list(_tried(trial, goal) if trial and tried else _untried(kernel, launch, code, now))
        return [*made, *(Fix("try", each) for each in relief)]
    if kernel.sass is not None and kernel.sass.roles:
        return []  # setmaxnreg gives its warps their registers
    if goal.wanted == "registers":
        return list(_fewer_registers(kernel, goal))
    if now is None:
        return []
    more = _tried(trial, goal) if trial and tried else ()
    return [*more, *of_occupancy(now, launch, tried=tried or calls_other_units(kernel))]  # its callees may need more


def registers_needed(kernel: Kernel, code: Pressure | None, trial: Trial | None = None) -> Need | None:
    """Number of registers that ends a kernel's spills; ``None`` if unknown."""
    if trial is not None and trial.ends is not None and trial.ends.registers is not None:
        return Need(trial.ends.registers, "tried")
    local = kernel.sass.local if kernel.sass else NO_TRAFFIC
    demand = code.demand(local) if code is not None and any(kernel.spills or ()) else None
    return None if demand is None else Need(max(demand, (kernel.usage.registers or 0) + 1), "estimate")


# ---- spills -------------------------------------------------------------------------------------------------------


def _tried(trial: Trial, goal: Goal) -> Iterator[Fix]:
    if trial.best is not None:
        yield _compiled(trial, trial.best, goal)
    if trial.direction == "no spills" and trial.ends is None:
        yield Fix("try", FEWER)
    if trial.shared is not None:
        yield _compiled(trial, trial.shared, goal, " in the kernel")


def _compiled(trial: Trial, point: Point, goal: Goal, where: str = "") -> Fix:
    """Fix by a compiled setting, with its price."""
    worse, untried = trial.effects[point.setting]
    source = point.setting.source
    if point.setting.limit and _without_maxnreg(trial.toolkit):
        source, untried = f"-maxrregcount={point.setting.limit}", ("the other kernels of its file",)
    how = f"tried{' in PTX' * point.in_ptx}, ptxas {trial.toolkit}"
    text = f"{source}{where}: {point.outcome(trial.points[0])} ({how})"
    if worse:
        text += f"; but {listed(worse[:_NAMED], len(worse) - _NAMED)}"
    if untried:
        text += f"; not tried for {listed(untried[:_NAMED], len(untried) - _NAMED)}"
    drawback = worse or point.spill_bytes or not goal.allows(point)
    return Fix("option" if drawback else "try" if untried else "fix", text)


def _untried(kernel: Kernel, launch: Launch | None, code: Pressure | None, now: Occupancy | None) -> Iterator[Fix]:
    if kernel.sass is not None and kernel.sass.roles:
        yield Fix("try", _ROLES if _can_shift(kernel.sass.roles, _warpgroups(kernel, launch)) else FEWER)
    elif now is not None and not now.can_launch and "registers" not in now.limiters:
        yield from _of_launch(now, tried=False)  # no bounds make a launch possible that other resources prevent
    elif kernel.saves_for_callers:
        yield Fix("try", _INLINE)
    elif kernel.role == "function" or calls_other_units(kernel):
        limit = limited_by_option(kernel)
        yield Fix("try", FEWER if limit is None else f"-maxrregcount above {limit} for its source file {_NOT_TRIED}")
    else:
        exact = launch is not None and launch.dynamic_shared_bytes is not None
        yield _higher_limit(kernel, registers_needed(kernel, code), now, exact=exact)


def _higher_limit(kernel: Kernel, need: Need | None, occupancy: Occupancy | None, *, exact: bool) -> Fix:
    """Fix that allows more registers. ``exact``: the dynamic shared memory is known."""
    now, most = kernel.usage.registers, most_registers(kernel)
    least = need.registers if need is not None else 0 if now is None else now + 1
    if now is None or now >= most or least > most:
        return Fix("try", FEWER)
    if occupancy is None or occupancy.limits["warps"] == 0:
        here = device_of(kernel)
        limit = max(-(-least // REGISTER_STEP) * REGISTER_STEP, least_limit(here) if here is not None else 0)
        setting = _limit_setting(kernel, min(limit, most), " or higher" * (need is None and limit < most))
        return Fix("try", f"{setting}; --launch shows its cost in blocks/SM {_NOT_TRIED}")
    configuration, blocks = occupancy.configuration, occupancy.resident_blocks
    here, threads = configuration.device, configuration.threads_per_block
    freed = register_limit(here, threads).registers
    same = f"the same {count(blocks, 'block')}/SM"
    if exact and freed > now and limit_of(kernel) is not None and _blocks_at(configuration, freed) == blocks:
        return Fix("fix", f"__launch_bounds__({threads}, 1){_in_place(kernel)}: up to {freed} registers at {same}")
    step = next((limit for limit in bounds_for_more_registers(configuration) if limit.registers >= least), None)
    if step is not None:
        after = _blocks_at(configuration, step.registers)
        change = same if after == blocks else f"{blocks} → {count(after, 'block')}/SM"
        bound = "" if exact else "at most "
        bounds = f"__launch_bounds__({step.threads}, {step.blocks}){_in_place(kernel)}"
        return Fix("try", f"{bounds}: up to {step.registers} registers, {bound}{change} {_NOT_TRIED}")
    if smaller := largest_block(here, least):
        registers = register_limit(here, smaller).registers
        return Fix("try", f"at most {count(smaller, 'thread')} per block: up to {registers} registers {_NOT_TRIED}")
    return Fix("try", FEWER)


def _blocks_at(configuration: Configuration, registers: int) -> int:
    return resident(structs.replace(configuration, registers=registers)).resident_blocks


def _limit_setting(kernel: Kernel, limit: int, more: str = "") -> str:
    """Source text of a register limit without a block size: ``__maxnreg__``, which excludes launch bounds. ``more``:
    text after the limit."""
    maker = kernel.sass.maker if kernel.sass else None
    if maker is not None and _without_maxnreg(maker.version):
        return f"-maxrregcount={limit}{more} for its source file"
    bounds_unknown = kernel.sass is None or maker is None or kernel.launch_bounds is not None
    return f"__maxnreg__({limit}){more}" + " in place of launch bounds" * bounds_unknown


def _without_maxnreg(version: str) -> bool:
    from spillscan.advice.sweep.settings import FIRST_WITH_MAXNREG, release

    return (0, 0) < release(version) < FIRST_WITH_MAXNREG


def _in_place(kernel: Kernel) -> str:
    """`` in place of __maxnreg__`` if the kernel has or may have that, which excludes launch bounds."""
    limited = kernel.launch_bounds is None and limit_of(kernel) is not None and limited_by_option(kernel) is None
    return f" in place of {'' if options_of(kernel) else 'any '}__maxnreg__" if limited else ""


# ---- roles, launch, blocks ----------------------------------------------------------------------------------------


def _warpgroups(kernel: Kernel, launch: Launch | None) -> int:
    """Warpgroups of a block; 0 if unknown."""
    bounds = kernel.launch_bounds
    threads = launch.threads_per_block if launch else bounds.threads if bounds else None
    return (threads or 0) // (4 * WARP_THREADS)


def _can_shift(roles: Sequence[WarpRole], groups: int) -> bool:
    """Whether roles without spills have registers to spare for the others, even if each has one warpgroup only."""
    spare = [role.registers - _LEAST for role in roles if role.registers and role.spill and not role.spill.bytes]
    if not groups or any(role.follows or (role.registers or 0) >= MOST_REGISTERS for role in roles):
        return False  # warps may change their role, or have all that an instruction can name
    return sum(spare) >= REGISTER_STEP * max(groups - len(spare), 1)


def _of_roles(kernel: Kernel, launch: Launch | None) -> Iterator[Fix]:
    """Registers that the roles of a block can have in all."""
    groups = _warpgroups(kernel, launch)
    if groups and kernel.usage.registers is not None:
        each = -(-kernel.usage.registers // REGISTER_STEP) * REGISTER_STEP
        text = f"setmaxnreg values of at most {groups * each:,}, summed over the warpgroups ({groups} × {each})"
        yield Fix("fix", text)


def _fewer_registers(kernel: Kernel, goal: Goal) -> Iterator[Fix]:
    here, limit = device_of(kernel), (goal.max_registers or 0) // REGISTER_STEP * REGISTER_STEP
    if kernel.role != "entry" or goal.max_registers is None:
        return
    if limit < (least_limit(here) if here is not None else REGISTER_STEP) or calls_other_units(kernel):
        yield Fix("try", FEWER)  # ptxas would raise the limit, or the link fail
    else:
        yield Fix("try", f"{_limit_setting(kernel, limit)}; may spill {_NOT_TRIED}")


def of_occupancy(occupancy: Occupancy, launch: Launch | None = None, *, tried: bool = False) -> list[Fix]:
    """Fixes of one configuration: changes that make the launch possible, or that add resident blocks or warps.

    ``tried``: register limits were compiled, and need not be proposed.
    """
    if not occupancy.can_launch:
        return list(_of_launch(occupancy, tried=tried))
    source = launch.source if launch else "given"
    return [each for limiter in occupancy.limiters for each in _of_limiter(limiter, occupancy, source, tried=tried)]


def _of_launch(occupancy: Occupancy, *, tried: bool) -> Iterator[Fix]:
    configuration = occupancy.configuration
    device, threads = configuration.device, configuration.threads_per_block
    if occupancy.limits["registers"] == 0 and threads <= device.max_threads_per_block and not tried:
        limit = register_limit(device, threads).registers
        if limit < configuration.registers:
            yield Fix("try", f"at most {limit} registers: __launch_bounds__({threads}, 1) {_NOT_TRIED}")
    if occupancy.limits["registers"] == 0 or occupancy.limits["warps"] == 0:
        sizes = range((threads - 1) // WARP_THREADS * WARP_THREADS, 0, -WARP_THREADS)
        fitting = next(
            (size for size in sizes if resident(structs.replace(configuration, threads_per_block=size)).can_launch), 0
        )
        if fitting:
            yield Fix("fix", f"at most {count(fitting, 'thread')} per block")
    if occupancy.limits["shared_memory"] == 0:
        most, user = device.shared_bytes_per_block_optin, configuration.user_shared_bytes
        if user > most:
            opt_in = " (opt in: MaxDynamicSharedMemorySize)" if most > device.shared_bytes_per_block else ""
            yield Fix("fix", f"at most {most:,} B of shared memory per block{opt_in}")
        elif configuration.max_dynamic_shared_bytes is None and configuration.dynamic_shared_bytes:
            yield Fix("fix", f"set MaxDynamicSharedMemorySize to {configuration.dynamic_shared_bytes:,} B")


def _of_limiter(limiter: Limiter, occupancy: Occupancy, source: LaunchSource, *, tried: bool) -> Iterator[Fix]:
    configuration, now = occupancy.configuration, occupancy.resident_blocks
    ways = {way.resource: way.more_blocks for way in headroom(occupancy)}
    if limiter in ("warps", "blocks") and occupancy.unused_warps:
        bound = configuration.threads_per_block if source in ("bounds", "required") else None
        best = best_block_sizes(configuration, bound)
        if source != "required" and best.occupancy and best.occupancy.active_warps > occupancy.active_warps:
            warps = f"{best.occupancy.active_warps} of {occupancy.max_warps} warps"
            yield Fix("fix", f"{count(best.threads_per_block, 'thread')} per block: {warps} resident")
    elif limiter == "registers" and (step := ways["registers"]) and not tried:
        bounds = bounds_for_more_blocks(occupancy)
        blocks = f"{now} → {step.blocks_after} blocks/SM"
        setting = f"at most {step.after} registers"
        if bounds is not None:
            setting = f"__launch_bounds__({bounds.threads}, {bounds.blocks}): at most {bounds.registers} registers"
            blocks = f"{now} → {bounds.blocks} blocks/SM"
        yield Fix("try", f"{setting}, {blocks}; may spill {_NOT_TRIED}")
    elif limiter == "shared_memory" and (step := ways["shared"]):
        text = f"{step.before - step.after:,} B less shared memory per block: {now} → {step.blocks_after} blocks/SM"
        yield Fix("try", f"{text}; smaller tiles or fewer stages {_NOT_TRIED}")
    elif limiter == "barriers" and (step := ways.get("barriers")) and occupancy.limits["blocks"] != now:
        barriers = count(step.after, "named barrier")
        yield Fix("try", f"at most {barriers}: {now} → {step.blocks_after} blocks/SM {_NOT_TRIED}")


def summary_of(kernel: Kernel, launch: Launch | None, on: str | None = None) -> Summary | None:
    """Occupancy of a kernel; ``None`` if its launch is impossible."""
    try:
        return summarise(kernel.usage, on or kernel.key.arch, launch)
    except UsageError:
        return None
