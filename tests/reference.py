"""An independent, naive reading of a sequential ptxas log: one line after the other, no grammar, nothing shared.

It is what the product is compared with, so it must stay simple enough to be seen right: no prefixes, no interleaving.
"""

from __future__ import annotations

import re
from typing import Any

ENTRY = re.compile(r"ptxas info +: Compiling entry function '(.*)' for '(sm_\w+)'$")
PROPERTIES = re.compile(r"ptxas info +: Function properties for (.*)$")
STACK = re.compile(r"^(?:ptxas +\.)? +(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads$")
USED = re.compile(r"ptxas info +: Used (\d+) registers(.*)$")
MODULE = re.compile(r"ptxas info +: \d+ bytes gmem")
TIME = re.compile(r"ptxas info +: Compile time = ([\d.]+) ms$")

METRICS = (
    "registers",
    "stack_bytes",
    "cumulative_stack_bytes",
    "spill_store_bytes",
    "spill_load_bytes",
    "cumulative_spill_store_bytes",
    "cumulative_spill_load_bytes",
    "local_bytes",
    "shared_bytes",
    "constant_bytes",
    "barriers",
    "textures",
    "surfaces",
    "samplers",
)
CLAUSES = {
    "barriers": r"used (\d+) barriers",
    "cumulative_stack_bytes": r"(\d+) bytes cumulative stack size",
    "shared_bytes": r"(\d+) bytes smem",
    "local_bytes": r"(\d+) bytes lmem",
    "textures": r"(\d+) textures",
    "surfaces": r"(\d+) surfaces",
    "samplers": r"(\d+) samplers",
}


def read(text: str) -> list[dict[str, Any]]:
    """The kernels and device functions of ``text``, in the order in which their records begin."""
    records: list[dict[str, Any]] = []
    section: list[dict[str, Any]] = []
    open_entry: dict[str, Any] | None = None
    target: dict[str, Any] | None = None
    arch: str | None = None
    for number, line in enumerate(text.replace("\0", "").replace("\r\n", "\n").split("\n"), 1):
        if MODULE.match(line):
            section, arch = [], None
        elif match := ENTRY.match(line):
            arch = match[2]
            for record in section:
                record["arch"] = record["arch"] or arch
            open_entry = new(match[1], arch, "entry", number)
            records.append(open_entry)
            section.append(open_entry)
        elif match := PROPERTIES.match(line):
            if open_entry is not None and open_entry["symbol"] == match[1]:
                target = open_entry
            else:
                target = new(match[1], arch, "function", number)
                records.append(target)
                section.append(target)
        elif (match := STACK.match(line)) and target is not None:
            target["stack_bytes"], target["spill_store_bytes"], target["spill_load_bytes"] = map(int, match.groups())
        elif match := USED.match(line):
            assert open_entry is not None
            open_entry["registers"] = int(match[1])
            open_entry["shared_bytes"] = 0  # what is not 0 has its clause
            for name, clause in CLAUSES.items():
                if found := re.search(clause, match[2]):
                    open_entry[name] = int(found[1])
            banks = re.findall(r"(\d+) bytes cmem\[(\d+)\]", match[2])
            open_entry["constant_bytes"] = {
                bank: int(size) for size, bank in sorted(banks, key=lambda b: int(b[1]))
            } or None
            open_entry = None
    add_callees(records, text)
    return records


def add_callees(records: list[dict[str, Any]], text: str) -> None:
    """Add to each kernel of a whole program the spills of the device functions printed after it.

    Relocatable code and debug builds have some before a module's kernels, or with a compile time of their own: nothing
    is summed up in such a module, and nowhere in the log if ptxas knows no callees in it (no cumulative stack). A log
    whose last line has no end may lack callees.
    """
    if not text.endswith("\n"):
        return
    lines = [*text.replace("\r\n", "\n").split("\n"), ""]
    starts = [number for number, line in enumerate(lines, 1) if MODULE.match(line)]
    modules: dict[int, list[dict[str, Any]]] = {}
    for record in records:
        modules.setdefault(sum(start < record["line"] for start in starts), []).append(record)
    whole = []
    for module in modules.values():
        timed = [each for each in module if each["role"] == "function" and TIME.match(lines[each["line"] + 1])]
        if not timed and module[0]["role"] == "entry":
            whole.append(module)
        elif all(each["cumulative_stack_bytes"] is None for each in module):
            return
    for module in whole:
        caller = module[0]
        for record in module:
            if record["role"] == "entry":
                caller = record
                continue
            for kind in ("store", "load"):
                own, summed = f"spill_{kind}_bytes", f"cumulative_spill_{kind}_bytes"
                caller[summed] = (caller[own] if caller[summed] is None else caller[summed]) + record[own]


def new(symbol: str, arch: str | None, role: str, line: int) -> dict[str, Any]:
    """A record that says nothing yet."""
    return {"symbol": symbol, "arch": arch, "role": role, "line": line, **dict.fromkeys(METRICS)}
