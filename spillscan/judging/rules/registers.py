"""Registers per thread, the most common limiter of occupancy."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from spillscan.judging.compare.effects import resident
from spillscan.judging.compare.metrics import allocated, ends_spills, linked_apart
from spillscan.judging.rules._declared import Check, Found, Terms, because, threshold, unlinked
from spillscan.model import Change, Kernel, Launch, Limit, Rule, Usage
from spillscan.occupancy.devices import WARP_THREADS
from spillscan.occupancy.launches import LARGEST_BLOCK
from spillscan.output.nouns import count

MAX_GROWTH = Limit("max_register_growth", "change", default=0)
REGISTERS = Rule("registers", "error", needs=("registers",), limits=(Limit("max_registers", "build"),))
GROWTH = Rule(
    "register-growth", "error", needs=("registers",), limits=(MAX_GROWTH,), recorded_as="registers", least="note"
)


def _unknown(kernel: Kernel, terms: Terms) -> str:
    if kernel.role == "function":
        return ""
    if kernel.usage.registers is None:
        return because(kernel, "the log does not report registers")
    return unlinked(kernel, "registers")


def _grown(change: Change, terms: Terms) -> Iterator[Found]:
    """More registers, with a severity by their effect.
    A note within one allocation unit, or if registers allow as many blocks at every block size; a warning if the known
    launch loses none, if registers allow fewer only at some sizes, or if spills end and the launch is unknown; else an
    error. A block lost at the known launch is an error of its own (:mod:`spillscan.judging.rules.blocks`).
    """
    known, most = _known(change), terms.limit(MAX_GROWTH)
    if known is None or most is None or known[1] - known[0] <= most:
        return
    before, after = map(allocated, known)
    text = f"uses more registers: {known[0]} → {known[1]} (+{known[1] - known[0]})"
    if after == before:
        yield Found(f"{text}, {after} allocated as before", "note")
        return
    effects = change.effects
    if any(effect.blocks and effect.blocks[1] < effect.blocks[0] for effect in effects):
        return
    text += f", {before} → {after} allocated"
    bounds = (side.launch_bounds for side in (change.before, change.after) if side is not None)
    most = min([LARGEST_BLOCK, *(each.threads for each in bounds if each and each.threads)])
    lost = [_loses(known, effect.device, most) for effect in effects]
    if lost and not any(map(any, lost)):
        yield Found(f"{text}; registers allow as many blocks/SM at every block size", "note")
    elif lost and all(effect.blocks for effect in effects):
        kept = ", ".join(f"{count(e.resident_blocks[1] or 0, 'block')}/SM on {e.device}" for e in effects)
        yield Found(f"{text}; keeps {kept}", "warning")
    elif lost and not any(map(all, lost)):
        yield Found(f"{text}; registers allow fewer blocks/SM at some block sizes", "warning")
    elif not any(effect.blocks for effect in effects) and ends_spills(change):
        yield Found(f"{text}; its spills end, block size unknown", "warning")
    else:
        yield Found(text)


@lru_cache(maxsize=4096)
def _loses(registers: tuple[int, int], device: str, most: int) -> tuple[bool, ...]:
    """For each block size up to ``most`` that the older kernel's registers allow: whether the newer's allow fewer."""
    sizes = [Launch(threads_per_block=size) for size in {*range(WARP_THREADS, most + 1, WARP_THREADS), most}]
    pairs = ([resident(Usage(registers=each, shared_bytes=0), device, size) for each in registers] for size in sizes)
    blocks = ([each.resident_blocks if each else 0 for each in pair] for pair in pairs)
    return tuple(after < before for before, after in blocks if before)


def _growth_unknown(change: Change, terms: Terms) -> str:
    """Registers are not reported, or reported before the link.

    Two disassemblies are not compared by registers, which they do not show, but by spills.
    """
    before, after = change.before, change.after
    if before is None or after is None or "function" in (before.role, after.role) or _known(change) is not None:
        return ""
    if all(kernel.sass and kernel.usage.registers is None for kernel in (before, after)):
        return ""
    for build, kernel in (("head", after), ("base", before)):
        if kernel.usage.registers is None:
            return because(kernel, f"the {build} does not report registers")
    return unlinked(after, "registers of the head") or unlinked(before, "registers of the base")


def _known(change: Change) -> tuple[int, int] | None:
    """Registers (before, after); ``None`` if a build does not report them, or only one side is linked."""
    if change.before is None or change.after is None:
        return None
    before, after = change.before.usage.registers, change.after.usage.registers
    if before is None or after is None or linked_apart(change.before, change.after, equal=before == after):
        return None
    return before, after


CHECKS = (
    threshold(
        REGISTERS,
        lambda kernel, _: kernel.usage.registers,
        key="registers",
        message=lambda kernel, terms, registers, most: f"uses {registers} registers, {most} allowed",
        unknown=_unknown,
    ),
    Check(rule=GROWTH, find_change=_grown, unknown_change=_growth_unknown),
)
