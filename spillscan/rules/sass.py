"""What the machine code shows of local memory: spills inside loops, local arrays, and counts that do not agree."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.model import Finding, Kernel, Rule
from spillscan.policy import Terms
from spillscan.rules import finding

IN_LOOP = Rule(
    id="spill-in-loop",
    severity="warning",
    judges=("build",),
    title="Spill instructions stand inside loops",
    means="The machine code shows spill stores or spill loads inside loops. The figures are instructions by loop "
    "depth, 1 for a loop that no other encloses. Only a dump (`cuobjdump -sass`, `nvdisasm`) can tell; a log does not.",
    matters="A spill before a loop is paid once a thread, one inside it with each iteration. A hundred bytes at depth "
    "0 may be harmless where eight bytes at depth 2 are not.",
    remedy="`spillscan show KERNEL DUMP` names the slots, loops and (with `-lineinfo`) source lines. Move what is "
    "spilled out of the loop: load it again from where it came, unroll less, or split the loop.",
    tuning="It obeys no limit. `max_spill_bytes` judges the bytes whatever loop they stand in.",
)
ARRAY = Rule(
    id="local-array",
    severity="note",
    judges=("build",),
    title="The kernel keeps arrays in local memory",
    means="The machine code stores and loads local memory that is no spill: arrays with an index that only the run "
    "decides, or variables whose address is taken. The figures are instructions, and bytes per thread.",
    matters="Local memory is as slow as global memory where L1 does not hold it. No log tells of it but as a stack "
    "frame, and no register limit makes it better or worse.",
    remedy="Make every index a constant after unrolling (`#pragma unroll`, template parameters), use shared memory or "
    "a `switch` for small tables, do not take the address of a local variable.",
    tuning="It is a note and fails a gate only under `fail_on: note`.",
)
MISMATCH = Rule(
    id="spill-mismatch",
    severity="warning",
    judges=("build",),
    title="The log and the machine code do not tell the same spills",
    means="The log and a dump of the same kernel and arch were read, and the spill bytes that ptxas printed are not "
    "those of the spill instructions that the code holds.",
    matters="Most often log and dump are of different builds, and then nothing that is said of both is true.",
    remedy="Make log and dump in one build, from the same objects. If they are, the kernel may have been linked or "
    "optimised again after ptxas wrote its report.",
    tuning="It obeys no limit.",
)

RULES = (IN_LOOP, ARRAY, MISMATCH)


def findings(kernel: Kernel, terms: Terms) -> Iterator[Finding]:
    """Warnings on spills in loops and on disagreement with the log; a note on local arrays."""
    if kernel.sass is None:
        return
    local = kernel.sass.local
    if local.spills_in_loops:
        depths = ", ".join(f"{count} at depth {depth}" for depth, count in local.spills_in_loops.items())
        yield finding(IN_LOOP, f"spill instructions inside loops: {depths}", kernel)
    arrays = local.of("array")
    if arrays.accesses:
        message = f"local arrays: {arrays.stores} stores ({arrays.store_bytes:,} B), {arrays.loads} loads"
        yield finding(ARRAY, f"{message} ({arrays.load_bytes:,} B) per thread", kernel)
    told = kernel.usage.spills
    if told is not None and kernel.role == "entry" and kernel.confidence == "certain":
        shown = (local.own_spill.store_bytes, local.own_spill.load_bytes)
        if shown != told:
            message = (
                f"the log counts {told[0]} B spill stores and {told[1]} B loads, the code {shown[0]} B and {shown[1]} B"
            )
            yield finding(MISMATCH, message, kernel)
