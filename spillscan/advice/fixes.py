"""What to do about a family of kernels: the source line of its spills, their cause, and the fix.

A cause is a fact that code, records or a log show; where none does, it is not known. How many registers would end the
spills of a kernel is what a sweep measured, else an estimate that is called one. Whether it pays is not said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from msgspec import structs

from spillscan.advice.holding import DEBUG_BUILD, Holding, capped_by_option, causes, device_of, for_debugger, holdings
from spillscan.advice.outcomes import FEWER, of_sweep, outcome, rows, sentence
from spillscan.advice.ranking import Ranked, summary_of
from spillscan.advice.sweep.proposals import CALLED, release, spills_to_shared
from spillscan.judging.places import Place, Tree, weighed
from spillscan.model import Kernel, Launch
from spillscan.model.code import MOST_REGISTERS, NO_TRAFFIC
from spillscan.occupancy.binding import LABELS
from spillscan.occupancy.bounds import REGISTER_STEP, bounds_for_more_registers, largest_block
from spillscan.occupancy.devices import resolve
from spillscan.occupancy.formula import launched, resident
from spillscan.occupancy.headroom import available_dynamic_shared_bytes
from spillscan.occupancy.model import Configuration
from spillscan.output.errors import UsageError
from spillscan.output.nouns import count
from spillscan.reading.machine.spillmap import TOP, share_text

if TYPE_CHECKING:
    from spillscan.advice.sweep.model import Curve
    from spillscan.advice.sweep.trials import Trial
    from spillscan.occupancy.launches import Launches
    from spillscan.reading.binary.pressure import Pressure

Basis = Literal["tried", "estimate", "rough estimate"]
"""It was compiled; values that are live at once, in registers and in spill slots; every slot, or every store, taken
for one value. None is a bound: where ptxas has more registers, it orders instructions in another way."""

_REGISTER_BYTES = 4
_FIRST_WITH_MAXNREG = (12, 4)
"""The release of CUDA that takes ``__maxnreg__``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """How many registers end the spills of a kernel."""

    registers: int
    """Per thread; more than 255: no bounds end them."""
    basis: Basis
    """What says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxation:
    """The least launch bounds that leave so many registers."""

    threads: int
    """First argument of ``__launch_bounds__``."""
    blocks: int
    """Second argument."""
    registers: int
    """The cap that they make."""
    blocks_before: int
    """Resident blocks per SM now."""
    blocks_after: int
    """Resident blocks per SM with as many registers as the cap leaves: no fewer."""
    blocks_at_most: bool
    """Both are bounds: it is not known how much dynamic shared memory the kernel takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """What to do about one family."""

    ranked: Ranked
    """Which, and why here."""
    places: tuple[Place, ...] = ()
    """The source lines of its spills, the heaviest first."""
    causes: tuple[str, ...] = ()
    """Facts, a sentence each; empty: not known."""
    need: Need | None = None
    """Of what spills; ``None``: not known."""
    relaxation: Relaxation | None = None
    """``None`` where the block size is not known, or no bounds leave as many registers."""
    fixes: tuple[str, ...] = ()
    """What to do, a sentence each."""
    trial: Trial | None = None
    """What came of compiling it; ``None`` where that was not asked for."""
    untried: str = ""
    """Why it cannot be tried; empty where it can be, or that is not asked."""
    swept: Curve | None = None
    """What a sweep made of it; ``None`` where none did."""


# ---- fixes --------------------------------------------------------------------------------------------------------


def fix(
    about: Ranked,
    launches: Launches,
    tree: Tree,
    code: Pressure | None = None,
    trial: Trial | None = None,
    untried: str = "",
    swept: Curve | None = None,
) -> Fix:
    """What to do about a family. ``code``: the live registers of its worst kernel; ``trial``: what came of compiling
    that; ``untried``: why it cannot be compiled; ``swept``: what a sweep made of it."""
    kernel = about.worst
    launch = launches.launch_of(kernel)
    untried = untried if trial is None else trial.missing
    if about.about == "occupancy":
        return replace(_for_occupancy(about, launch, trial, untried), swept=swept)
    local = kernel.sass.local if kernel.sass else NO_TRAFFIC
    places = tuple(weighed(local, "spill", tree)[:TOP])
    ends = None if trial is None else trial.ends
    found = ends.registers if ends is not None else None if swept is None else swept.registers_needed
    need = registers_needed(kernel, code, found)
    step = None if need is None else relaxation(kernel, launch, need)
    held = [] if code is None else holdings(code, local, tree)
    why = tuple(causes(kernel, tree, code, held))
    return Fix(
        ranked=about,
        places=places,
        causes=why or (() if trial is None or not trial.cause else (trial.cause,)),
        need=need,
        relaxation=step,
        fixes=tuple(_fixes(kernel, launch, need, step, places, trial, held)),
        trial=trial,
        untried=untried,
        swept=swept,
    )


def _for_occupancy(about: Ranked, launch: Launch | None, trial: Trial | None, untried: str) -> Fix:
    if for_debugger(about.worst):
        return Fix(ranked=about, causes=(DEBUG_BUILD,), fixes=(_NO_DEBUG,))
    summary = summary_of(about.worst, launch)
    entries = () if summary is None else summary.advice
    return Fix(
        ranked=about,
        causes=(*([summary.line] if summary else []), *(f"{LABELS[each.limiter]}: {each.finding}" for each in entries)),
        fixes=(
            *([sentence(trial, trial.curve)] if trial is not None and trial.curve is not None and not untried else []),
            *(f"{each.fix}; the price: {each.trade_off}" for each in entries if each.fix),
        ),
        trial=trial,
        untried=untried,
    )


def registers_needed(kernel: Kernel, code: Pressure | None, swept: int | None = None) -> Need | None:
    """How many registers end a kernel's spills; ``None`` where nothing bounds them."""
    if swept is not None:
        return Need(registers=swept, basis="tried")
    now, spills = kernel.usage.registers, kernel.spills
    if now is None or (spills is None and kernel.sass is None):
        return None
    local = kernel.sass.local if kernel.sass else NO_TRAFFIC
    demand = code.demand(local) if code is not None else None
    if demand is not None:
        return Need(registers=max(demand, now + 1), basis="estimate")
    slots = {
        (each.part, each.slot + offset)
        for each in local.accesses
        if each.kind == "spill" and each.slot is not None
        for offset in range(0, each.bytes, _REGISTER_BYTES)
    }
    bounds = [len(slots)] if slots else []
    bounds += [-(-spills[0] // _REGISTER_BYTES)] if spills else []
    bounds += [-(-kernel.usage.stack_bytes // _REGISTER_BYTES)] if kernel.usage.stack_bytes else []
    least = min(filter(None, bounds), default=None)
    if least is None or now >= MOST_REGISTERS:
        return None
    return Need(registers=min(now + least, MOST_REGISTERS), basis="rough estimate")


def relaxation(kernel: Kernel, launch: Launch | None, need: Need, on: str | None = None) -> Relaxation | None:
    """The smallest step of launch bounds that leaves as many registers; ``on`` a device, else on the kernel's arch."""
    configuration = _configuration(kernel, launch, on)
    if configuration is None or launch is None:
        return None
    for cap in bounds_for_more_registers(configuration):
        if cap.registers >= need.registers:
            after = resident(structs.replace(configuration, registers=cap.registers))
            return Relaxation(
                threads=cap.threads,
                blocks=cap.blocks,
                registers=cap.registers,
                blocks_before=resident(configuration).resident_blocks,
                blocks_after=after.resident_blocks,
                blocks_at_most=launch.dynamic_shared_bytes is None,
            )
    return None


def _configuration(kernel: Kernel, launch: Launch | None, on: str | None = None) -> Configuration | None:
    usage, target = kernel.usage, on or kernel.key.arch
    if launch is None or launch.source == "assumed" or usage.registers is None or target is None:
        return None
    try:
        return launched(
            resolve(target)[0],
            launch,
            registers=usage.registers,
            static_shared_bytes=usage.shared_bytes or 0,
            barriers=usage.barriers or 0,
        )
    except UsageError:
        return None


_ROLES = "give the warps that spill more registers (setmaxnreg), and those that do not fewer"
_NO_DEBUG = "judge a build without -G: what this one spills says nothing of that"
_ESTIMATE = "an estimate, not tried"
_BASES: dict[Basis, str] = {
    "tried": "{} registers end its spills (tried)",
    "estimate": f"about {{}} registers end its spills ({_ESTIMATE}: what is live at once, spill slots included)",
    "rough estimate": f"about {{}} registers may end its spills ({_ESTIMATE}: every slot or store taken for one value)",
}


def _fixes(
    kernel: Kernel,
    launch: Launch | None,
    need: Need | None,
    step: Relaxation | None,
    places: Sequence[Place],
    trial: Trial | None,
    held: Sequence[Holding],
) -> Iterator[str]:
    if for_debugger(kernel):
        yield _NO_DEBUG
    elif trial is not None and trial.curve is not None:
        yield sentence(trial, trial.curve)
    elif kernel.sass is not None and kernel.sass.roles:
        yield _ROLES
    elif kernel.role == "function":
        cap = capped_by_option(kernel)
        yield f"{CALLED if cap is None else f'a -maxrregcount above {cap} for its file, or none'}; {FEWER}"
    elif need is None and (kernel.usage.registers or 0) >= MOST_REGISTERS - 2:
        yield f"no bounds leave more registers: {FEWER}"
    elif need is not None:
        yield relief(kernel, need, step, launch)
    if held:
        yield f"{held[0].relief}: at most {count(held[0].fewer, 'register')} fewer ({_ESTIMATE})"
    elif places:
        share = f", {share_text(places[0].share)} of the weight" if places[0].share is not None else ""
        yield f"fewer values live at {places[0].text}{share}: split it, unroll less, or compute again what is held"
    if trial is None or trial.curve is None:
        yield from _shared_memory(kernel, launch)
    elif trial.shared is not None:
        yield f"{trial.shared.setting.source} in the kernel: {outcome(trial.curve.as_is, trial.shared)} (tried)"


def relief(kernel: Kernel, need: Need, step: Relaxation | None, launch: Launch | None) -> str:
    """How many registers end the spills, which bounds leave as many, and what that costs in blocks."""
    if kernel.sass is not None and kernel.sass.roles:
        return _ROLES
    if need.registers == MOST_REGISTERS + 1:  # no more than one that is missing is known
        return f"no bounds leave more registers: {FEWER}"
    if need.registers > MOST_REGISTERS:
        return (
            f"no bounds end its spills: about {count(need.registers, 'value')} are live at once ({_ESTIMATE}), and an"
            f" instruction names {MOST_REGISTERS} registers: {FEWER}"
        )
    ends = _BASES[need.basis].format(need.registers)
    if launch is None:
        most = min(-(-need.registers // REGISTER_STEP) * REGISTER_STEP, MOST_REGISTERS)
        maker = kernel.sass.maker if kernel.sass else None
        old = maker is not None and (0, 0) < release(maker.version) < _FIRST_WITH_MAXNREG
        cap = f"-maxrregcount={most} for its file" if old else f"__maxnreg__({most})"
        return f"{ends}: {cap}; what that costs in blocks is not known without its block size (--launch)"
    if step is None:
        here = device_of(kernel)
        fitting = 0 if here is None else largest_block(here, need.registers)
        smaller = f"; blocks of at most {count(fitting, 'thread')} leave as many" if fitting else ""
        return f"{ends}: more than any bounds of {count(launch.threads_per_block, 'thread')} leave{smaller}"
    cost = f"{step.blocks_before} → {count(step.blocks_after, 'block')}/SM"
    if step.blocks_before == step.blocks_after:
        cost = f"{count(step.blocks_after, 'block')}/SM as before"
    bound = "at most " if step.blocks_at_most else ""
    return f"{ends}: __launch_bounds__({step.threads}, {step.blocks}) leaves {step.registers}; {bound}{cost}"


def relief_data(need: Need | None, step: Relaxation | None) -> dict[str, Any]:
    """The same for programs."""
    return {
        "registers_needed": None if need is None else need.registers,
        "registers_needed_by": None if need is None else need.basis,
        "relaxation": None if step is None else asdict(step),
    }


def facts(made: Fix, commands: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """(heading, text) of everything that is said of one family."""
    if made.ranked.about == "spills":
        lines = ", ".join(f"{place.text} {share_text(place.share or 0)}" for place in made.places)
        binary = "" if made.ranked.worst.sass else ", and give the binary"
        yield "line", lines or f"not known: compile with -lineinfo{binary}"
    yield from (("cause", text) for text in made.causes or ["not known"])
    yield from (("fix", text) for text in made.fixes or ["not known"])
    if made.trial is not None and made.trial.curve is not None and not made.untried:
        yield from (("tried", text) for text in rows(made.trial, made.trial.curve, made.ranked.worst))
    elif made.untried:
        yield "tried", f"no: {made.untried}"
    if made.swept is not None:
        yield from (("sweep", text) for text in of_sweep(made.swept))
    yield from (("try", text) for text in commands)


def _shared_memory(kernel: Kernel, launch: Launch | None) -> Iterator[str]:
    """Where ptxas can spill to shared memory instead: CUDA 13, no dynamic shared memory, a block size that it knows."""
    maker = kernel.sass.maker if kernel.sass else None
    if maker is None or not spills_to_shared(maker.version, maker.options) or kernel.dynamic_shared is not False:
        return
    if kernel.final is not None:
        return  # relocatable code, linked or not
    configuration = _configuration(kernel, launch)
    bound = launch is not None and launch.source in ("bounds", "required")
    if configuration is None or not bound or (kernel.sass and kernel.sass.shared_spills):
        return
    free = available_dynamic_shared_bytes(configuration, resident(configuration).resident_blocks)
    if free:
        yield (
            'asm volatile (".pragma \\"enable_smem_spilling\\";"); in the kernel: ptxas 13 spills to shared memory what'
            f" fits, not tried; {free:,} B a block cost no resident block"
        )
