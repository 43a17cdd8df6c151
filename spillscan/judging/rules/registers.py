"""Registers per thread: the commonest limit of occupancy."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.judging.compare.figures import allocated
from spillscan.judging.rules._declared import Family, Said, Terms, Threshold, because
from spillscan.model import Change, Limit, Rule

MAX_REGISTERS = Limit(name="max_registers", default=None, help="most registers per thread", judges="build", order=20)
MAX_GROWTH = Limit(
    name="max_register_growth",
    default=0,
    help="most registers per thread by which a kernel may grow",
    judges="change",
    order=70,
)
REGISTERS = Rule(
    id="registers",
    severity="error",
    judges=("build", "change"),
    needs=("registers",),
    limits=(MAX_REGISTERS, MAX_GROWTH),
)
NO_LOSS = Rule(
    id="registers-no-loss", severity="warning", judges=("change",), needs=("registers",), recorded_as="registers"
)
IN_STEP = Rule(
    id="registers-in-step", severity="note", judges=("change",), needs=("registers",), recorded_as="registers"
)


MOST = Threshold(
    rule=REGISTERS,
    key="registers",
    figure=lambda kernel, _: kernel.usage.registers,
    message=lambda kernel, terms, registers, most: f"uses {registers} registers, {most} allowed",
    silent="the log does not say how many registers it uses",
    unlinked="its registers are",
    functions=False,
)


def regressions(change: Change, terms: Terms) -> Iterator[Said]:
    """More registers. Inside an allocation step they cost nothing: a note. Across one they are an error, unless the
    launch is known: then a lost block is the error (:mod:`spillscan.judging.rules.blocks`), and no loss a warning."""
    known, most = _known(change), terms.limit(MAX_GROWTH)
    if known is None or most is None:
        return
    before, after = known
    if after - before <= most:
        return
    message = f"registers {before} → {after} (+{after - before})"
    taken = f"{allocated(before)} → {allocated(after)} allocated"
    if allocated(after) == allocated(before):
        yield IN_STEP, f"{message}, inside the allocation step of {allocated(after)}"
    elif not change.effects or any(effect.blocks is None for effect in change.effects):
        yield REGISTERS, f"{message}: {taken}"
    elif all(effect.blocks[1] >= effect.blocks[0] for effect in change.effects if effect.blocks):
        still = ", ".join(f"{effect.resident_blocks[1]} on {effect.device}" for effect in change.effects)
        yield NO_LOSS, f"{message}: {taken}, blocks per SM not fewer: {still}"


def undecided_change(change: Change, terms: Terms) -> Said | None:
    """A kernel whose registers one of the builds does not give, or gives before the link.

    Two dumps are compared by what dumps show: spills, not registers.
    """
    if terms.limit(MAX_GROWTH) is None or change.before is None or change.after is None:
        return None
    if all(kernel.sass and kernel.usage.registers is None for kernel in (change.before, change.after)):
        return None
    if "function" in (change.before.role, change.after.role) or _known(change) is not None:
        return None
    for build, kernel in (("head", change.after), ("base", change.before)):
        if kernel.usage.registers is None:
            return REGISTERS, because(kernel, f"the {build} does not say how many registers it uses")
    build = "head" if change.after.final is False else "base"
    return REGISTERS, (
        f"relocatable code is not linked in the {build}: registers are final only after the link; give its log too "
        "(nvcc -Xnvlink -v)"
    )


def _known(change: Change) -> tuple[int, int] | None:
    """Registers (before, after); ``None`` where a build does not say, or only one has been linked."""
    if change.before is None or change.after is None:
        return None
    before, after = change.before.usage.registers, change.after.usage.registers
    if before is None or after is None or (change.before.final is False) != (change.after.final is False):
        return None
    return before, after


FAMILIES = (
    Family(
        thresholds=(MOST,),
        rules=(NO_LOSS, IN_STEP),
        regressions=regressions,
        undecided_change=undecided_change,
    ),
)
