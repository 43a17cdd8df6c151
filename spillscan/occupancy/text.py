"""Occupancy and the device table as text: pure functions without terminal or file access."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spillscan.occupancy.bounds import RegisterLimit
from spillscan.occupancy.devices import Device, sources
from spillscan.occupancy.headroom import (
    Headroom,
    available_dynamic_shared_bytes,
    best_block_sizes,
    current,
    headroom,
    next_block,
)
from spillscan.occupancy.model import LABELS, Configuration, Occupancy, findings, limited_by, verdict
from spillscan.occupancy.summary import Clusters, Footprint, percent
from spillscan.output.nouns import count, size

_STATUS = {"confirmed": "", "preliminary": "preliminary values", "renamed": "now sm_110"}


def title(device: Device) -> str:
    """Title of a device, such as ``sm_90 (Hopper GH100)``."""
    chip = f" {device.chip}" if device.chip else ""
    status = _STATUS[device.status] and f", {_STATUS[device.status]}"
    return f"{device.target} ({device.architecture}{chip}{status})"


def inputs(configuration: Configuration) -> str:
    """One line that describes the configuration."""
    parts = [
        count(configuration.threads_per_block, "thread"),
        f"{configuration.registers} registers",
        f"{configuration.static_shared_bytes:,} B static + {configuration.dynamic_shared_bytes:,} B dynamic shared",
    ]
    if configuration.max_dynamic_shared_bytes is not None:
        parts.append(f"opted in to {configuration.max_dynamic_shared_bytes:,} B dynamic")
    if configuration.carveout_percent is not None:
        parts.append(f"carve-out {configuration.carveout_percent}%")
    if configuration.device.version >= (9, 0):
        parts.append(count(configuration.barriers, "barrier"))
    return ", ".join(parts)


def result(occupancy: Occupancy) -> str:
    """One line with the result."""
    if not occupancy.can_launch:
        return "cannot launch: " + "; ".join(occupancy.reasons)
    return (
        f"{count(occupancy.resident_blocks, 'block')}/SM, {occupancy.active_warps} of {occupancy.max_warps} warps,"
        f" occupancy {percent(occupancy.fraction)}, limited by {limited_by(occupancy.limiters)}"
    )


def report(
    occupancy: Occupancy,
    clusters: Clusters | None = None,
    local: Footprint | None = None,
    wanted_blocks: int | None = None,
    fixes: Sequence[str] = (),
) -> list[str]:
    """Report of one configuration; ``fixes``: changes that add blocks, or make the launch possible."""
    configuration = occupancy.configuration
    lines = [title(configuration.device), inputs(configuration), "", result(occupancy), ""]
    lines += _limits(occupancy)
    if occupancy.can_launch:
        lines += [
            "",
            f"unused per SM: {count(occupancy.unused_warps, 'warp')}, {occupancy.unused_registers:,} registers,"
            f" {occupancy.unused_shared_bytes:,} B shared memory",
        ]
    lines += ["", "next steps"]
    lines += [f"  {line}" for line in headroom_lines(headroom(occupancy))]
    lines += [f"  {line}" for line in [next_block_line(occupancy)] if line]
    best = best_block_sizes(configuration)
    if best.occupancy is not None:
        sizes = ", ".join(str(one) for one in best.alternatives)
        lines.append(f"  best block sizes: {sizes} threads ({percent(best.occupancy.fraction)})")
    blocks = wanted_blocks or occupancy.resident_blocks
    if occupancy.can_launch or wanted_blocks:
        free = available_dynamic_shared_bytes(configuration, blocks)
        lines.append(
            f"  dynamic shared memory available per block at {count(blocks, 'block')}/SM: "
            + ("none (too many blocks)" if free is None else f"{free:,} B")
        )
    if occupancy.can_launch:
        lines += ["", "limiters", *(f"  {LABELS[name]}: {text}" for name, text in findings(occupancy))]
    lines += [f"  {each}" for each in fixes]
    lines += ["", verdict(occupancy)]
    lines += [""] if clusters or local else []
    if clusters is not None:
        lines.append(cluster_line(clusters))
    if local is not None:
        lines.append(footprint_line(local))
    return lines


def _limits(occupancy: Occupancy) -> list[str]:
    configuration = occupancy.configuration
    device = configuration.device
    rows = [("limit", "blocks/SM", "per block", "per SM")]
    takes = {
        "warps": (count(configuration.warps_per_block, "warp"), f"{occupancy.max_warps}"),
        "registers": (count(occupancy.allocated_registers_per_block, "register"), f"{device.registers_per_sm:,}"),
        "shared_memory": (f"{occupancy.allocated_shared_bytes_per_block:,} B", f"{occupancy.shared_bytes_per_sm:,} B"),
        "blocks": ("1 slot", f"{device.max_blocks_per_sm}"),
        "barriers": (count(configuration.barriers, "barrier"), f"{device.barriers_per_sm}"),
        "virtual_resources": (f"{configuration.virtual_resources}", f"{device.virtual_resources_per_sm}"),
    }
    for name, limit in occupancy.limits.items():
        if limit is None and name in ("barriers", "virtual_resources"):
            continue
        mark = "  <- limiter" if name in occupancy.limiters else ""
        taken, whole = takes[name]
        rows.append((LABELS[name], "-" if limit is None else str(limit), taken, whole + mark))
    wide = [max(len(row[column]) for row in rows) for column in range(3)]
    return [f"  {a:<{wide[0]}}  {b:>{wide[1]}}  {c:>{wide[2]}}  {d}" for a, b, c, d in rows]


def limit_lines(device: Device, limit: RegisterLimit, occupancy: Occupancy) -> list[str]:
    """Register limit by launch bounds, and the occupancy at that limit."""
    lines = [
        title(device),
        f"__launch_bounds__({limit.threads}, {limit.blocks}) limits registers to {limit.registers} per thread",
    ]
    if limit.ignored:
        lines.append(
            f"ptxas ignores the {count(limit.blocks, 'block')}: {limit.ignored}; ptxas may use fewer registers"
        )
    return [*lines, f"at {limit.registers} registers: {result(occupancy)}"]


def next_block_line(occupancy: Occupancy) -> str:
    """``5 blocks need at most 40 registers per thread (now 48) and 20,480 B of shared memory per block (now 24,576)``.

    Empty if nothing adds another block, or if one resource alone does, which its own line shows.
    """
    block, now = next_block(occupancy), occupancy.configuration
    if block is None:
        return ""
    shared = current(now, "shared")
    needs = [
        *([f"{count(block.threads, 'thread')} per block (now {now.threads_per_block:,})"] if block.threads else []),
        *([f"{block.registers} registers per thread (now {now.registers})"] if block.registers is not None else []),
        *([f"{block.shared:,} B of shared memory per block (now {shared:,})"] if block.shared is not None else []),
        *([f"{count(block.barriers, 'barrier')} per block (now {now.barriers})"] if block.barriers is not None else []),
    ]
    if len(needs) < 2 and block.threads is None:
        return ""
    verb = "needs" if block.blocks == 1 else "need"
    return f"{count(block.blocks, 'block')} {verb} at most {' and '.join(needs)}"


def headroom_lines(ways: Iterable[Headroom]) -> list[str]:
    """Changes in both directions, one line per resource: ``registers: 41 → 40: 5 → 6 blocks``."""
    unit = {"registers": "", "shared": " B", "barriers": ""}
    lines = []
    for way in ways:
        name, more, fewer = way.resource, way.more_blocks, way.fewer_blocks
        parts = []
        if more is not None:
            less = f" ({more.before - more.after:,} B less)" if name == "shared" else ""
            parts.append(
                f"{more.before:,} → {more.after:,}{unit[name]}{less} gives {more.blocks_before} →"
                f" {count(more.blocks_after, 'block')}"
            )
        if way.free:
            parts.append(f"+{way.free:,}{unit[name]} at no cost")
        if fewer is not None:
            rest = count(fewer.blocks_after, "block") if fewer.blocks_after else "cannot launch"
            parts.append(f"from {fewer.after:,}{unit[name]}: {rest}")
        if parts:
            lines.append(f"{'shared memory' if name == 'shared' else name}: " + "; ".join(parts))
    return lines


def cluster_line(clusters: Clusters) -> str:
    """One line about the number of active clusters."""
    text = f"clusters of {clusters.cluster_blocks}: "
    if clusters.active is None:
        text += "active clusters unknown: pass a GPU such as H200 instead of an arch"
    else:
        text += f"{'' if clusters.exact else 'at most '}{clusters.active} active on the GPU"
        text += "" if clusters.exact else " (depends on the layout of its SM clusters)"
    return text + ("" if clusters.portable else "; non-portable size, needs NonPortableClusterSizeAllowed")


def footprint_line(local: Footprint) -> str:
    """One line about the local memory reserved for the stack."""
    if local.total_bytes is None:
        return f"local memory: a {local.stack_bytes:,} B stack reserves {size(local.bytes_per_sm)} per SM"
    return (
        f"local memory: a {local.stack_bytes:,} B stack reserves {size(local.total_bytes)} on one {local.gpu}"
        f" ({local.multiprocessors} SMs)"
    )


# ---- the device table ------------------------------------------------------------------------------------------------


DEVICE_HEADS = ("arch", "generation", "warps", "blocks", "regs", "regs/block", "KB/SM", "KB/block", "barriers", "GPUs")
DEVICE_LEGEND = "warps, blocks, regs and barriers: per SM; KB: shared memory (KB/block: limit with opt-in)"


def device_row(device: Device, gpus: int) -> Sequence[str]:
    """Table row of a device, with the names of at most ``gpus`` GPUs."""
    names = [gpu.name.removeprefix("GeForce ") for gpu in device.gpus]
    return (
        device.target,
        device.architecture,
        str(device.max_warps_per_sm),
        str(device.max_blocks_per_sm),
        f"{device.registers_per_sm:,}",
        f"{device.registers_per_block:,}",
        str(device.shared_bytes_per_sm // 1024),
        str(device.shared_bytes_per_block_optin // 1024),
        "-" if device.barriers_per_sm is None else str(device.barriers_per_sm),
        (", ".join(names[:gpus]) + (" …" if len(names) > gpus else "")) or _STATUS[device.status] or "-",
    )


def device_lines(device: Device) -> list[str]:
    """All data about one device: values with their sources, conflicts, notes."""
    lines = [f"{title(device)}, compute capability {device.compute_capability}", ""]
    names = list(device.sources)
    wide = max(len(name) for name in names)
    values = {name: _value(getattr(device, name)) for name in names}
    broad = max(len(value) for value in values.values() if len(value) <= 12)
    lines += [f"  {name:<{wide}}  {values[name]:>{broad}}  [{' '.join(device.sources[name])}]" for name in names]
    if device.gpus:
        known = [
            gpu.name + (f" ({count(gpu.multiprocessors, 'SM')})" if gpu.multiprocessors is not None else "")
            for gpu in device.gpus
        ]
        lines += ["", "GPUs: " + ", ".join(known)]
    for conflict in device.conflicts:
        lines += ["", f"conflict: [{conflict.source}] has {conflict.says:,} for {conflict.name}; {conflict.why}"]
    lines += [f"note: {note}" for note in device.notes]
    used = sorted({key for keys in device.sources.values() for key in keys})
    lines += ["", *(f"[{key}] {sources()[key]}" for key in used)]
    return lines


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " ".join(str(one) for one in value)
    return "-" if value is None else f"{value:,}"
