"""Registers per thread: the commonest limit of occupancy."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.judging.compare.effects import Sizes, over_sizes
from spillscan.judging.compare.figures import allocated, linked_apart
from spillscan.judging.rules._declared import Family, Said, Terms, Threshold, because
from spillscan.model import Change, Limit, Rule
from spillscan.output.nouns import count

MAX_REGISTERS = Limit("max_registers", "most registers per thread", "build", 20)
MAX_GROWTH = Limit(
    "max_register_growth", "most registers per thread by which a kernel may grow", "change", 70, default=0
)
REGISTERS = Rule("registers", "error", ("build", "change"), ("registers",), (MAX_REGISTERS, MAX_GROWTH))
NO_LOSS = Rule("registers-no-loss", "warning", ("change",), ("registers",), recorded_as="registers")
IN_STEP = Rule("registers-in-step", "note", ("change",), ("registers",), recorded_as="registers")


NO_SIZE = Rule("registers-no-size", "note", ("change",), ("registers",), recorded_as="registers")
SOME_SIZES = Rule("registers-some-sizes", "warning", ("change",), ("registers",), recorded_as="registers")

_RUNS = 4
"""So many runs of block sizes are named."""

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
    """More registers. Inside an allocation step they cost nothing, nor where no block size loses a block by them: a
    note. Where the launch is known, a lost block is the error (:mod:`spillscan.judging.rules.blocks`), and no loss a
    warning. Where it is not, it is an error if each block size loses blocks, and a warning if some do."""
    known, most = _known(change), terms.limit(MAX_GROWTH)
    if known is None or most is None or change.before is None or change.after is None:
        return
    before, after = known
    if after - before <= most:
        return
    message = f"uses more registers: {before} → {after} (+{after - before})"
    taken = f"{allocated(before)} → {allocated(after)} allocated"
    if allocated(after) == allocated(before):
        yield IN_STEP, f"{message}, {allocated(after)} allocated as before"
        return
    if any(effect.blocks and effect.blocks[1] < effect.blocks[0] for effect in change.effects):
        return
    sizes = [(effect.device, over_sizes(change.before, change.after, effect.device)) for effect in change.effects]
    if sizes and all(each is not None and not each.lost for _, each in sizes):
        yield NO_SIZE, f"{message}, {taken}; no block size loses blocks/SM"
    elif sizes and all(effect.blocks for effect in change.effects):
        still = ", ".join(
            f"{count(effect.resident_blocks[1] or 0, 'block')}/SM on {effect.device}" for effect in change.effects
        )
        yield NO_LOSS, f"{message}, {taken}; keeps {still}"
    elif not sizes or any(each is None or each.lost == each.allowed for _, each in sizes):
        yield REGISTERS, f"{message}, {taken}"
    else:
        lost = "; ".join(f"on {device} at {_ranges(each)}" for device, each in sizes if each is not None and each.lost)
        yield SOME_SIZES, f"{message}, {taken}; fewer blocks/SM {lost} threads"


def _ranges(sizes: Sizes) -> str:
    """``96, 192 to 320``: runs of the allowed block sizes that lose blocks, the first few."""
    runs: list[list[int]] = []
    for at, threads in enumerate(sizes.allowed):
        if threads in sizes.lost:
            if runs and at and runs[-1][-1] == sizes.allowed[at - 1]:
                runs[-1].append(threads)
            else:
                runs.append([threads])
    named = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    rest = sum(map(len, runs[_RUNS:]))
    return ", ".join(named[:_RUNS]) + (f" and {rest} other block sizes," if rest else "")


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
    """Registers (before, after); ``None`` where a build does not say, or only one kernel has been linked."""
    if change.before is None or change.after is None:
        return None
    before, after = change.before.usage.registers, change.after.usage.registers
    if before is None or after is None or linked_apart(change.before, change.after, equal=before == after):
        return None
    return before, after


FAMILIES = (
    Family(
        thresholds=(MOST,),
        rules=(NO_LOSS, IN_STEP, NO_SIZE, SOME_SIZES),
        regressions=regressions,
        undecided_change=undecided_change,
    ),
)
