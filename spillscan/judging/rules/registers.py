"""Registers per thread: the commonest limit of occupancy."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.judging.compare.figures import allocated
from spillscan.judging.rules import Terms, finding
from spillscan.model import Change, Finding, Kernel, Limit, Rule

MAX_REGISTERS = Limit(
    name="max_registers",
    default=None,
    help="most registers per thread",
    judges="build",
    order=20,
)
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
    id="registers-no-loss",
    severity="warning",
    judges=("change",),
    needs=("registers",),
    recorded_as="registers",
)
IN_STEP = Rule(
    id="registers-in-step",
    severity="note",
    judges=("change",),
    needs=("registers",),
    recorded_as="registers",
)

RULES = (REGISTERS, NO_LOSS, IN_STEP)


def findings(kernel: Kernel, terms: Terms) -> Iterator[Finding]:
    """A kernel with more registers than allowed."""
    registers, most = kernel.usage.registers, terms.limit(MAX_REGISTERS)
    if most is not None and registers is not None and registers > most:
        yield finding(REGISTERS, f"uses {registers} registers, {most} allowed", kernel)


def undecided(kernel: Kernel, terms: Terms) -> tuple[Rule, str] | None:
    """A kernel whose registers the log does not give, or gives before the link."""
    if terms.limit(MAX_REGISTERS) is None or kernel.role == "function":
        return None
    if kernel.usage.registers is None:
        return REGISTERS, "; ".join(kernel.reasons) or "the log does not say how many registers it uses"
    if kernel.final is False:
        return REGISTERS, "relocatable code: its registers are not final; give the link's log too (nvcc -Xnvlink -v)"
    return None


def regressions(change: Change, terms: Terms) -> Iterator[Finding]:
    """More registers. Inside an allocation step they cost nothing: a note. Across one they are an error, unless the
    launch is known: then a lost block is the error (:mod:`spillscan.judging.rules.blocks`), and no loss a warning."""
    known = _known(change)
    if known is None or change.after is None:
        return
    before, after = known
    most = terms.limit(MAX_GROWTH)
    if most is None or after - before <= most:
        return
    message = f"registers {before} → {after} (+{after - before})"
    taken = f"{allocated(before)} → {allocated(after)} allocated"
    if allocated(after) == allocated(before):
        yield finding(IN_STEP, f"{message}, inside the allocation step of {allocated(after)}", change.after)
    elif not change.effects or any(effect.blocks is None for effect in change.effects):
        yield finding(REGISTERS, f"{message}: {taken}", change.after)
    elif all(effect.blocks[1] >= effect.blocks[0] for effect in change.effects if effect.blocks):
        still = ", ".join(f"{effect.resident_blocks[1]} on {effect.device}" for effect in change.effects)
        yield finding(NO_LOSS, f"{message}: {taken}, blocks per SM not fewer: {still}", change.after)


def undecided_change(change: Change, terms: Terms) -> tuple[Rule, str] | None:
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
            return REGISTERS, "; ".join(kernel.reasons) or f"the {build} does not say how many registers it uses"
    unlinked = "head" if change.after.final is False else "base"
    return REGISTERS, (
        f"relocatable code is not linked in the {unlinked}: registers are final only after the link; give its log too "
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


def measure(rule: str, kernel: Kernel, terms: Terms) -> dict[str, int] | None:
    """Registers, where they are final."""
    if rule != "registers" or kernel.usage.registers is None or kernel.final is False:
        return None
    return {"registers": kernel.usage.registers}
