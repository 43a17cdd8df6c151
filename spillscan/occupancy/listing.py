"""The device table as text: one line a device, or everything about one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spillscan.occupancy.devices import Device, sources
from spillscan.occupancy.headroom import register_cliffs, shared_cliffs
from spillscan.occupancy.text import title


def devices_table(chosen: Sequence[Device]) -> list[str]:
    """One line a device."""
    rows = [
        (
            "target",
            "architecture",
            "warps",
            "blocks",
            "registers",
            "a block",
            "shared KB",
            "opt-in KB",
            "barriers",
            "GPUs",
        )
    ]
    for device in chosen:
        names = [gpu.name.removeprefix("GeForce ") for gpu in device.gpus]
        shown = ", ".join(names[:2]) + (" …" if len(names) > 2 else "")
        rows.append(
            (
                device.target,
                device.architecture,
                str(device.max_warps_per_sm),
                str(device.max_blocks_per_sm),
                f"{device.registers_per_sm:,}",
                f"{device.registers_per_block:,}",
                str(device.shared_bytes_per_sm // 1024),
                str(device.shared_bytes_per_block_optin // 1024),
                "-" if device.barriers_per_sm is None else str(device.barriers_per_sm),
                shown or device.status,
            )
        )
    wide = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    left = {0, 1, 9}
    return [
        "  ".join(
            f"{cell:<{w}}" if place in left else f"{cell:>{w}}"
            for place, (cell, w) in enumerate(zip(row, wide, strict=True))
        ).rstrip()
        for row in rows
    ]


def device_lines(device: Device) -> list[str]:
    """Everything the table says of one device: figures with their sources, conflicts, notes, cliffs."""
    lines = [f"{title(device)}, compute capability {device.compute_capability}", ""]
    figures = list(device.sources)
    wide = max(len(name) for name in figures)
    values = {name: _value(getattr(device, name)) for name in figures}
    broad = max(len(value) for value in values.values() if len(value) <= 12)
    lines += [f"  {name:<{wide}}  {values[name]:>{broad}}  [{' '.join(device.sources[name])}]" for name in figures]
    if device.gpus:
        known = [
            gpu.name + (f" ({gpu.multiprocessors} SMs)" if gpu.multiprocessors is not None else "")
            for gpu in device.gpus
        ]
        lines += ["", "GPUs: " + ", ".join(known)]
    lines += ["", "registers a thread, at most, for so many warps per SM"]
    lines += _wrapped(f"{cliff.count}: {cliff.most}" for cliff in register_cliffs(device))
    lines += ["shared memory a block, B (static + dynamic), at most, for so many blocks per SM"]
    lines += _wrapped(f"{cliff.count}: {cliff.most:,}" for cliff in shared_cliffs(device))
    for conflict in device.conflicts:
        lines += ["", f"conflict: {conflict.source} has {conflict.figure} {conflict.says:,}; {conflict.why}"]
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


def _wrapped(cells: Iterable[str]) -> list[str]:
    lines, line = [], ""
    for cell in cells:
        if len(line) + len(cell) > 76:
            lines.append(line)
            line = ""
        line += ("  " if not line else ", ") + cell
    return [*lines, line]
