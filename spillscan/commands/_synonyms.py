"""Names that other tools use for our commands, verbs, options and metrics."""

from __future__ import annotations

from collections.abc import Collection

from spillscan.model.metrics import labelled

_SYNONYMS = {
    # commands
    "compare": "diff",
    "accept": "baseline write",
    "add": "audit write",
    "bisect": "history",
    "gate": "check",
    "lint": "check",
    "list": "scan",
    "ls": "scan",
    "regressions": "history",
    "report": "scan",
    "suggest": "advise",
    "wrap": "run",
    # commands or options
    "fix": "try advise",
    "policy": "config",
    "rules": "explain",
    # options
    "allow": "accept",
    "block_size": "launch",
    "csv": "format",
    "dry_run": "try",
    "error_on": "fail-on",
    "function": "kernel",
    "group_by": "by",
    "html": "format",
    "ignore": "accept",
    "json": "format",
    "limit": "set top",
    "markdown": "format",
    "name": "label kernel",
    "o": "format",
    "output": "format",
    "rule": "severity",
    "sarif": "format",
    "skip": "exclude accept",
    "sm": "arch",
    "source": "source-root",
    "suppress": "accept",
    "threads": "launch",
    "threshold": "set",
    "verbose": "all",
    # metrics, by the heads of our tables
    "blocks": "resident_blocks",
    "occ": "resident_blocks",
    "occupancy": "resident_blocks",
    "smem": "shared_bytes",
    "spill": "spill_bytes",
}
"""By a name without leading dashes: our names, separated by blanks."""


def meant(name: str, known: Collection[str]) -> str:
    """The one of the ``known`` names that another tool, or the head of a table, calls ``name``; empty if there is
    none."""
    plain = {each.lstrip("-"): each for each in known}
    ours = _SYNONYMS.get(name.lstrip("-").lower().replace("-", "_")) or labelled(name)
    return next((plain[each] for each in ours.split() if each in plain), "")
