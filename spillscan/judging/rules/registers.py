"""Registers per thread, the most common limiter of occupancy."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.judging.compare.effects import Sizes, over_sizes
from spillscan.judging.compare.metrics import allocated, linked_apart
from spillscan.judging.rules._declared import Check, Said, Terms, because, threshold, unlinked
from spillscan.model import Change, Kernel, Limit, Rule
from spillscan.output.nouns import count

MAX_GROWTH = Limit("max_register_growth", "change", default=0)
REGISTERS = Rule("registers", "error", needs=("registers",), limits=(Limit("max_registers", "build"),))
GROWTH = Rule(
    "register-growth", "error", needs=("registers",), limits=(MAX_GROWTH,), recorded_as="registers", least="note"
)
_RUNS = 4
"""Runs of block sizes named in a finding."""


def _unknown(kernel: Kernel, terms: Terms) -> str:
    if kernel.role == "function":
        return ""
    if kernel.usage.registers is None:
        return because(kernel, "the log does not say how many registers it uses")
    return unlinked(kernel, "its registers are")


def _grown(change: Change, terms: Terms) -> Iterator[Said]:
    """More registers, with a severity by their effect.
    A note within one allocation unit, or if no block size loses a block; a warning if the known launch loses none, or
    if only some block sizes do; else an error. A block lost at the known launch is an error of its own
    (:mod:`spillscan.judging.rules.blocks`).
    """
    known, most = _known(change), terms.limit(MAX_GROWTH)
    if known is None or most is None or change.before is None or change.after is None:
        return
    before, after = known
    if after - before <= most:
        return
    text = f"uses more registers: {before} → {after} (+{after - before})"
    if allocated(after) == allocated(before):
        yield Said(f"{text}, {allocated(after)} allocated as before", "note")
        return
    if any(effect.blocks and effect.blocks[1] < effect.blocks[0] for effect in change.effects):
        return
    text += f", {allocated(before)} → {allocated(after)} allocated"
    sizes = [(effect.device, over_sizes(change.before, change.after, effect.device)) for effect in change.effects]
    if sizes and all(each is not None and not each.lost for _, each in sizes):
        yield Said(f"{text}; no block size loses blocks/SM", "note")
    elif sizes and all(effect.blocks for effect in change.effects):
        still = ", ".join(
            f"{count(effect.resident_blocks[1] or 0, 'block')}/SM on {effect.device}" for effect in change.effects
        )
        yield Said(f"{text}; keeps {still}", "warning")
    elif not sizes or any(each is None or each.lost == each.allowed for _, each in sizes):
        yield Said(text)
    else:
        lost = "; ".join(f"on {device} at {_ranges(each)}" for device, each in sizes if each is not None and each.lost)
        yield Said(f"{text}; fewer blocks/SM {lost} threads", "warning")


def _ranges(sizes: Sizes) -> str:
    """``96, 192 to 320``: the first runs of the allowed block sizes that lose blocks."""
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


def _growth_unknown(change: Change, terms: Terms) -> str:
    """Registers are not reported, or reported before the link.

    Two disassemblies are not compared by registers, which they do not show, but by spills.
    """
    if change.before is None or change.after is None:
        return ""
    if all(kernel.sass and kernel.usage.registers is None for kernel in (change.before, change.after)):
        return ""
    if "function" in (change.before.role, change.after.role) or _known(change) is not None:
        return ""
    for build, kernel in (("head", change.after), ("base", change.before)):
        if kernel.usage.registers is None:
            return because(kernel, f"the {build} does not say how many registers it uses")
    build = "head" if change.after.final is False else "base"
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
