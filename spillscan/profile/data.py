"""Judged launches as plain data, for JSON and CSV. Every key is stable, units are in the names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from spillscan.model import Issue
from spillscan.profile.judged import Judged
from spillscan.profile.model import Measured
from spillscan.profile.verdict import THRESHOLDS

_FIGURES = tuple(
    field.name for field in fields(Measured) if field.name not in ("rounded", "capability_major", "capability_minor")
)


def row(judged: Judged) -> dict[str, Any]:
    """One launch, flat: lists and pairs are left out."""
    launch, kernel = judged.launch, judged.match.kernel
    measured = launch.measured
    return {
        "kernel": launch.kernel,
        "symbol": None if kernel is None else kernel.key.symbol,
        "unit": None if kernel is None else kernel.key.unit,
        "unmatched": judged.match.reason,
        "launch": launch.number,
        "process": launch.process,
        "context": launch.context,
        "stream": launch.stream,
        "device": launch.device,
        "arch": launch.arch,
        "threads_per_block": launch.threads,
        **{name: getattr(measured, name) for name in _FIGURES if name != "block_threads"},
        "local_share": measured.local_share,
        "spill_instruction_share": measured.spill_instruction_share,
        "occupancy": None if judged.occupancy is None else judged.occupancy.fraction,
        "resident_blocks": None if judged.occupancy is None else judged.occupancy.resident_blocks,
        "limiters": "+".join(judged.limiters),
        "occupancy_unknown": judged.unknown,
        "compiled_registers": None if kernel is None else kernel.usage.registers,
        "compiled_spill_bytes": None if kernel is None or kernel.spills is None else sum(kernel.spills),
        "verdict": judged.verdict.kind,
        "verdict_text": judged.verdict.text,
        "input": launch.origin.input,
        "line": launch.origin.line,
    }


def document(judged: Sequence[Judged], issues: Sequence[Issue]) -> dict[str, Any]:
    """All launches, with what a row leaves out, the thresholds of the verdicts, and the issues."""
    return {
        "launches": [
            row(each)
            | {
                "block": each.launch.block,
                "grid": each.launch.grid,
                "limiters": list(each.limiters),
                "rounded": sorted(each.measured.rounded),
                "copies": each.match.copies if each.match.kernel is not None else 0,
                "concerns": list(each.verdict.concerns),
            }
            for each in judged
        ],
        "thresholds": {name: {"value": each.value, "source": each.source} for name, each in THRESHOLDS.items()},
        "issues": [
            {
                "code": issue.code,
                "severity": issue.severity,
                "message": issue.message,
                "origin": str(issue.origin or ""),
            }
            for issue in issues
        ],
    }
