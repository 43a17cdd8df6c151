"""Resident blocks per SM: against the fewest that a kernel must have, and what registers, shared memory and barriers
together cost of them since an older build."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.judging.rules._declared import Family, Said, Terms
from spillscan.model import Change, Effect, Kernel, Limit, Rule
from spillscan.occupancy.binding import limited_by
from spillscan.occupancy.devices import judged_on
from spillscan.occupancy.summary import Summary, summarise
from spillscan.output.nouns import count

MIN_BLOCKS = Limit("min_blocks_per_sm", "fewest resident blocks per SM at the kernel's launch", "build", 50)
BLOCKS = Rule("blocks-per-sm", "error", ("build",), ("registers", "shared", "launch"), (MIN_BLOCKS,))
LOST = Rule("blocks-lost", "error", ("change",), ("registers", "shared", "launch"))
BARRIERS = Rule("barrier-growth", "note", ("change",), ("registers", "shared", "launch"))

_SAY = "give `launch: {threads_per_block: …}` in the policy, or --launch"


def findings(kernel: Kernel, terms: Terms) -> Iterator[Said]:
    """One finding for each device on which too few blocks fit."""
    least = terms.limit(MIN_BLOCKS)
    if least is None or _open_end(kernel, terms):
        return
    for device, summary in _summaries(kernel, terms):
        if summary.occupancy is not None and summary.occupancy.resident_blocks < least:
            blocks = summary.occupancy.resident_blocks
            bound = f"limited by {limited_by(summary.limiters)}" if blocks else "; ".join(summary.occupancy.reasons)
            where = f" on {device}" if terms.devices else ""
            if summary.launch is not None and summary.by_bounds:
                where += f" at its launch bounds of {count(summary.launch.threads_per_block, 'thread')}"
            most = "at most " if summary.at_most else ""
            yield BLOCKS, f"{most}{count(blocks, 'block')}/SM{where}, {least} asked for: {bound}"


def undecided(kernel: Kernel, terms: Terms) -> Said | None:
    """A kernel whose launch is not known, or whose figures are not known or not final."""
    least = terms.limit(MIN_BLOCKS)
    if least is None:
        return None
    reason = _open_end(kernel, terms) or _least_unknown(kernel, terms, least)
    return (BLOCKS, reason) if reason else None


def _missing(kernel: Kernel, terms: Terms) -> dict[str, int] | None:
    """Blocks that are missing on each device; none where none are asked for."""
    least = terms.limit(MIN_BLOCKS)
    if least is None:
        return {"missing": 0}
    if _open_end(kernel, terms):
        return None
    figures = {}
    for device, summary in _summaries(kernel, terms):
        if summary.occupancy is not None and not summary.at_most:
            name = f"missing-on-{device}".lower() if terms.devices else "missing"
            figures[name] = max(0, least - summary.occupancy.resident_blocks)
    return figures or None


def _open_end(kernel: Kernel, terms: Terms) -> str:
    """Why its blocks cannot be counted; empty where they can, or need not be."""
    if kernel.role == "function":
        return ""
    if terms.launch is None:
        return f"min_blocks_per_sm needs its launch: {_SAY}"
    if kernel.final is False:
        return "relocatable code: its registers are not final; give the link's log too (nvcc -Xnvlink -v)"
    if kernel.confidence == "ambiguous" and kernel.reasons:
        return "; ".join(kernel.reasons)
    return next((summary.unknown for _, summary in _summaries(kernel, terms) if summary.unknown), "")


def _least_unknown(kernel: Kernel, terms: Terms, least: int) -> str:
    """Why enough blocks may be too few; empty where they cannot."""
    open_end = any(
        summary.at_most and summary.occupancy is not None and summary.occupancy.resident_blocks >= least
        for _, summary in _summaries(kernel, terms)
    )
    return f"its dynamic shared memory is not known: {_SAY}" if open_end else ""


def _summaries(kernel: Kernel, terms: Terms) -> Iterator[tuple[str, Summary]]:
    if kernel.role == "function":
        return
    for device in judged_on(kernel.key.arch, terms.devices):
        yield device or "", summarise(kernel.usage, device, terms.launch)


def regressions(change: Change, terms: Terms) -> Iterator[Said]:
    """Lost blocks, all devices in one finding; more barriers."""
    if change.before is None or change.after is None:
        return
    lost = [text for effect in change.effects if (text := _loss(effect))]
    if lost:
        yield LOST, "; ".join(lost)
    before, after = change.before.usage.barriers, change.after.usage.barriers
    if ("barriers", before, after) in change.metrics and (after or 0) > (before or 0):
        yield BARRIERS, f"barriers {before} → {after}"


def _loss(effect: Effect) -> str:
    if effect.blocks is None or effect.blocks[1] >= effect.blocks[0]:
        return ""
    before, after = effect.blocks
    dynamic = f" and {effect.dynamic_shared_bytes:,} B dynamic shared memory" if effect.dynamic_shared_bytes else ""
    bounds = " (its launch bounds)" if effect.launch_source == "bounds" else ""
    at = f"{effect.threads_per_block} threads{bounds}{dynamic}"
    what = f"blocks per SM {before} → {after} on {effect.device} at {at}"
    return f"{what}: cannot launch" if after == 0 else f"{what}, limited by {limited_by(effect.limiters[1])}"


FAMILIES = (
    Family(
        rules=(BLOCKS, LOST, BARRIERS),
        findings=findings,
        undecided=undecided,
        regressions=regressions,
        measures={BLOCKS: _missing},
    ),
)
