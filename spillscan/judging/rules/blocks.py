"""Blocks per SM: launches that fail, the minimum set by a policy, and blocks lost or traded since an older build."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.judging.compare.metrics import ends_spills
from spillscan.judging.rules import Check, Terms, Violation, unlinked
from spillscan.model import Change, Effect, Hidden, Kernel, Launch, Limit, Rule
from spillscan.occupancy.devices import WARP_THREADS, applicable_devices
from spillscan.occupancy.model import limited_by
from spillscan.occupancy.summary import Summary, summarise
from spillscan.output.nouns import count

_NEEDS: tuple[Hidden, ...] = ("registers", "shared", "launch")
MIN_BLOCKS = Limit("min_blocks_per_sm", "build")
FAILS = Rule("launch-fails", "error", least="warning")
BLOCKS = Rule("blocks-per-sm", "error", needs=_NEEDS, limits=(MIN_BLOCKS,))
LOST = Rule("blocks-lost", "error", needs=_NEEDS)
TRADED = Rule("blocks-traded", "warning", needs=_NEEDS)

_SMALLEST = Launch(threads_per_block=WARP_THREADS, source="given")
"""Smallest block: a kernel that cannot launch with it cannot launch with any."""


def _too_few(kernel: Kernel, terms: Terms) -> Iterator[Violation]:
    """Fewer blocks than the policy requires, with a finding per device."""
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
            yield Violation(f"has {most}{count(blocks, 'block')}/SM{where}, {least} required: {bound}")


def _failing(kernel: Kernel, terms: Terms) -> Iterator[Violation]:
    """Kernel that cannot launch: at its known launch, or at any.

    Launch bounds are the largest block size, not the launch: if only that size fails, it is a warning.
    """
    if kernel.final is False or any(each.severity == "error" for each in kernel.advisories):
        return  # not linked, or not compiled
    for device, summary in _summaries(kernel, terms, terms.launch or _SMALLEST):
        if summary.occupancy is None or summary.occupancy.can_launch:
            continue
        where, why = f" on {device}" if terms.devices else "", "; ".join(summary.occupancy.reasons)
        every = summarise(kernel.usage, device, None).occupancy
        if every is not None and not every.can_launch:
            yield Violation(f"cannot launch{where} with any block size: {'; '.join(every.reasons)}")
        elif summary.launch is not None and summary.by_bounds:
            largest = f"with its largest block ({count(summary.launch.threads_per_block, 'thread')})"
            yield Violation(f"cannot launch{where} {largest}: {why}", "warning")
        elif summary.launch is not None:
            yield Violation(f"cannot launch{where}: {why} (launch set by {_launch_from(summary.launch, terms)})")


def _fails(kernel: Kernel, terms: Terms) -> dict[str, int] | None:
    """Resources with which the launch fails; empty if it does not fail."""
    if kernel.usage.registers is None:
        return None
    if not [*_failing(kernel, terms)]:
        return {}
    threads, dynamic = (terms.launch.threads_per_block, terms.launch.dynamic_shared_bytes) if terms.launch else (0, 0)
    shared = (kernel.usage.shared_bytes or 0) + (dynamic or 0)
    return {"registers": kernel.usage.registers, "shared_bytes": shared, "threads": threads}


def _launch_from(launch: Launch, terms: Terms) -> str:
    return {"required": ".reqntid in its code", "sidecar": "the compiler's metadata file"}.get(
        launch.source, terms.launch_from or launch.source
    )


def _unknown(kernel: Kernel, terms: Terms) -> str:
    """Why blocks cannot be counted, or may be too few although enough are counted."""
    if reason := _open_end(kernel, terms):
        return reason
    least = terms.limit(MIN_BLOCKS) or 0
    may_be_fewer = any(
        summary.at_most and summary.occupancy is not None and summary.occupancy.resident_blocks >= least
        for _, summary in _summaries(kernel, terms)
    )
    return "dynamic shared memory unknown" if may_be_fewer else ""


def _missing(kernel: Kernel, terms: Terms) -> dict[str, int] | None:
    """Missing blocks per device; 0 if the policy requires none."""
    least = terms.limit(MIN_BLOCKS)
    if least is None:
        return {"missing": 0}
    if _open_end(kernel, terms):
        return None
    missing = {}
    for device, summary in _summaries(kernel, terms):
        if summary.occupancy is not None and not summary.at_most:
            name = f"missing-on-{device}".lower() if terms.devices else "missing"
            missing[name] = max(0, least - summary.occupancy.resident_blocks)
    return missing or None


def _open_end(kernel: Kernel, terms: Terms) -> str:
    """Why blocks cannot be counted; empty if they can, or need not be."""
    if kernel.role == "function":
        return ""
    if terms.launch is None:
        return "min_blocks_per_sm needs the block size"
    if unfinished := unlinked(kernel, "registers"):
        return unfinished
    if kernel.confidence == "ambiguous" and kernel.reasons:
        return "; ".join(kernel.reasons)
    return next((summary.unknown for _, summary in _summaries(kernel, terms) if summary.unknown), "")


def _summaries(kernel: Kernel, terms: Terms, launch: Launch | None = None) -> Iterator[tuple[str, Summary]]:
    """The occupancy on each device, at ``launch`` or, without, at the kernel's own."""
    if kernel.role == "function":
        return
    for device in applicable_devices(kernel.key.arch, terms.devices):
        yield device or "", summarise(kernel.usage, device, launch or terms.launch)


def _fails_now(change: Change, terms: Terms) -> Iterator[Violation]:
    """A launch that fails now; for a new kernel, also one that fails only at its launch bounds."""
    if change.after is None:
        return
    fails = _failing(change.after, terms)
    if change.before is None:
        yield from fails
    elif not trade(change, terms) and any(old > new == 0 for old, new in _blocks(change)):
        yield from (each for each in fails if each.severity is None)


def _blocks(change: Change) -> list[tuple[int, int]]:
    """Blocks (before, after) on each device, as far as known."""
    return [effect.blocks for effect in change.effects if effect.blocks is not None]


def _traded(change: Change, terms: Terms) -> Iterator[Violation]:
    if traded := trade(change, terms):
        yield Violation(traded)


def _lost(change: Change, terms: Terms) -> Iterator[Violation]:
    """Lost blocks, with all devices in one finding."""
    lost = [text for effect in change.effects if (text := _loss(effect))]
    if lost and not trade(change, terms) and not any(True for _ in _fails_now(change, terms)):
        yield Violation(f"loses blocks/SM: {'; '.join(lost)}")


def trade(change: Change, terms: Terms) -> str:
    """Values that a change traded between spills and blocks; empty if it is no trade-off.
    Either spills end, at a known 0 B, and the kernel keeps a block and the minimum that the policy sets; or it could
    not launch at its known launch, now can, and spills.
    """
    before, after, blocks = change.before, change.after, _blocks(change)
    if before is None or after is None or not blocks or before.spill_bounds is None or after.spill_bounds is None:
        return ""
    spilled, spills = sum(before.spill_bounds[1]), sum(after.spill_bounds[1])
    moved = "; ".join(
        f"{effect.blocks[0]} → {effect.blocks[1]} blocks/SM on {effect.device} at {effect.threads_per_block:,} threads"
        for effect in change.effects
        if effect.blocks and effect.blocks[0] != effect.blocks[1]
    )
    left = min((new for old, new in blocks if new < old), default=0)
    if left >= max(1, terms.limit(MIN_BLOCKS) or 0) and ends_spills(change):
        return f"no longer spills ({spilled:,} → 0 B), but loses blocks: {moved}"
    launches_now = len(blocks) == len(change.effects) and all(old == 0 < new for old, new in blocks)
    by_bounds = any(effect.launch_source == "bounds" for effect in change.effects)
    grown = any(new > old for old, new in zip(before.spill_bounds[1], after.spill_bounds[1], strict=True))
    if launches_now and grown and not by_bounds:
        return f"can now launch, but spills: {spilled:,} → {spills:,} B, {moved}"
    return ""


def _loss(effect: Effect) -> str:
    if effect.blocks is None or effect.blocks[1] >= effect.blocks[0]:
        return ""
    before, after = effect.blocks
    dynamic = f" and {effect.dynamic_shared_bytes:,} B dynamic shared memory" if effect.dynamic_shared_bytes else ""
    bounds = " (its launch bounds)" if effect.launch_source == "bounds" else ""
    at = f"{effect.threads_per_block:,} threads{bounds}{dynamic}"
    what = f"{before} → {after} on {effect.device} at {at}"
    return f"{what}: cannot launch" if after == 0 else f"{what}, limited by {limited_by(effect.limiters[1])}"


CHECKS = (
    Check(rule=FAILS, find=_failing, measure=_fails, find_change=_fails_now),
    Check(rule=BLOCKS, find=_too_few, unknown=_unknown, measure=_missing),
    Check(rule=LOST, find_change=_lost),
    Check(rule=TRADED, find_change=_traded),
)
