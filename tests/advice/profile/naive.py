"""An independent reading of Nsight Compute's tables, with the csv module alone; shares nothing with the product."""

from __future__ import annotations

import csv
from pathlib import Path

from tests.conftest import read_text

RAW = {
    "launch__registers_per_thread": "registers",
    "launch__shared_mem_per_block_dynamic": "dynamic_shared_bytes",
    "launch__cluster_size": "cluster_blocks",
    "sm__maximum_warps_per_active_cycle_pct": "theoretical_percent",
    "gpu__time_duration.sum": "duration_ns",
    "smsp__inst_executed.sum": "instructions",
    "sass__inst_executed_register_spilling": "spill_instructions",
}
LABELS = {
    ("Launch Statistics", "Registers Per Thread"): "registers",
    ("Launch Statistics", "Dynamic Shared Memory Per Block"): "dynamic_shared_bytes",
    ("Occupancy", "Theoretical Occupancy"): "theoretical_percent",
    ("GPU Speed Of Light Throughput", "Duration"): "duration_ns",
    ("Instruction Statistics", "Executed Instructions"): "instructions",
}
UNITS = {"Kbyte": 1e3, "Kbyte/block": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "us": 1e3, "ms": 1e6, "s": 1e9}

Launch = tuple[str, str, str, str]
"""(process, ID, kernel, block size)."""


def read(text: str) -> dict[Launch, dict[str, float]]:
    """Every launch with the figures that both readings know."""
    lines = text.splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith('"ID"'))
    head, *rows = csv.reader(line for line in lines[begin:] if line.startswith('"'))
    launches: dict[Launch, dict[str, float]] = {}
    wide = "Metric Name" not in head
    units = dict(zip(head, rows.pop(0), strict=True)) if wide else {}
    for row in rows:
        cells = dict(zip(head, row, strict=False))
        figures = launches.setdefault(
            tuple(cells[name] for name in ("Process ID", "ID", "Kernel Name", "Block Size")), {}
        )
        if wide:
            known = [(name, units[name], cells[name]) for name in RAW if name in cells]
            figures |= {RAW[name]: value(text, unit) for name, unit, text in known if text != "no data"}
        else:
            name = cells["Metric Name"]
            figure = RAW.get(name) or LABELS.get((cells["Section Name"], name))
            if figure and cells["Metric Value"]:
                figures[figure] = value(cells["Metric Value"], cells["Metric Unit"])
    return launches


def value(text: str, unit: str) -> float:
    """In base units."""
    return float(text.replace(",", "")) * UNITS.get(unit, 1)


def by_number(path: Path) -> dict[tuple[str, str], dict[str, float]]:
    """Figures of each launch of a fixture by its ID and kernel."""
    return {(number, kernel): figures for (_, number, kernel, _), figures in read(read_text(path)).items()}
