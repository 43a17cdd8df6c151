"""Registers per thread, the most common limiter of occupancy."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.judging.compare.effects import over_sizes
from spillscan.judging.compare.metrics import allocated, linked_apart
from spillscan.judging.rules._declared import Check, Found, Terms, because, threshold, unlinked
from spillscan.model import Change, Kernel, Limit, Rule
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
        return because(kernel, "the log does not say how many registers it uses")
    return unlinked(kernel, "its registers are")


def _grown(change: Change, terms: Terms) -> Iterator[Found]:
    """More registers, with a severity by their effect.
    A note within one allocation unit, or if no block size loses a block; a warning if the known launch loses none, or
    if only some block sizes do; else an error. A block lost at the known launch is an error of its own
    (:mod:`spillscan.judging.rules.blocks`).
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
    lost = {effect.device: _lost(change, effect.device) for effect in effects}
    if lost and not any(lost.values()):
        yield Found(f"{text}; no block size loses blocks/SM", "note")
    elif lost and all(effect.blocks for effect in effects):
        kept = ", ".join(f"{count(e.resident_blocks[1] or 0, 'block')}/SM on {e.device}" for e in effects)
        yield Found(f"{text}; keeps {kept}", "warning")
    elif lost and _EVERY not in lost.values():
        where = "; ".join(f"on {device} at {sizes}" for device, sizes in lost.items() if sizes)
        yield Found(f"{text}; fewer blocks/SM {where}", "warning")
    else:
        yield Found(text)


_EVERY = "every block size"


def _lost(change: Change, device: str) -> str:
    """Block sizes that lose blocks, which a launch without them may have; empty if none does."""
    assert change.before is not None
    assert change.after is not None
    sizes = over_sizes(change.before, change.after, device)
    if sizes is None or sizes.lost == sizes.allowed:
        return _EVERY
    return f"{len(sizes.lost)} of {len(sizes.allowed)} block sizes (from {sizes.lost[0]} threads)" if sizes.lost else ""


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
            return because(kernel, f"the {build} does not say how many registers it uses")
    build = "head" if after.final is False else "base"
    return (
        f"relocatable code is not linked in the {build}: registers are final only after the link; give its log too "
        "(nvcc -Xnvlink -v)"
    )


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
