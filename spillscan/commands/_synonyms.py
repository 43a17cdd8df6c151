"""Names that other tools use for our commands, verbs, options and metrics."""

from __future__ import annotations

from collections.abc import Collection

_SYNONYMS = {
    # commands and verbs
    "compare": "diff",
    "accept": "baseline write",
    "add": "audit write",
    "bisect": "history",
    "ci": "init",
    "clean": "prune",
    "create": "write",
    "gate": "check",
    "import": "audit",
    "lint": "check",
    "list": "scan",
    "ls": "scan",
    "nightly": "history",
    "record": "run audit write",
    "regressions": "history",
    "remove": "prune",
    "report": "scan",
    "save": "write",
    "setup": "init",
    "sql": "query",
    "suggest": "advise",
    "tune": "sweep",
    "update": "write",
    "watch": "run",
    "wrap": "run",
    # commands or options
    "fix": "try advise",
    "policy": "config",
    "rules": "explain",
    # options
    "against": "baseline",
    "allow": "accept",
    "block_size": "launch",
    "build": "label build",
    "columns": "metric",
    "compile": "try",
    "csv": "format",
    "data": "dataset",
    "date": "meta label",
    "disable": "severity",
    "dry_run": "try",
    "error_on": "fail-on",
    "exit_code": "fail-on",
    "filter": "kernel",
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
    "tag": "label",
    "threads": "launch",
    "threshold": "set",
    "v": "all",
    "verbose": "all",
    # metrics, by the heads of our tables
    "blocks": "resident_blocks",
    "occ": "resident_blocks",
    "occupancy": "resident_blocks",
    "regs": "registers",
    "smem": "shared_bytes",
    "spill": "spill_bytes",
    "spills": "spill_bytes",
}
"""By a name without leading dashes: our names, separated by blanks."""


def meant(name: str, known: Collection[str]) -> str:
    """The one of the ``known`` names that another tool calls ``name``; empty if there is none."""
    plain = {each.lstrip("-"): each for each in known}
    ours = _SYNONYMS.get(name.lstrip("-").lower().replace("-", "_"), "")
    return next((plain[each] for each in ours.split() if each in plain), "")
