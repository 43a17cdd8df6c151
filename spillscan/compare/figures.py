"""What is compared between two records of one kernel, what stays unknown, and what is worse than what. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spillscan.model import Change, Kernel, Metric

if TYPE_CHECKING:
    from spillscan.model.code import AccessClass, SassStats

ALLOCATION_UNIT = 8
"""Registers per thread are allocated in eights on every compute capability from 3.0 to 12.1 (256 a warp)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One compared figure."""

    name: str
    """As in JSON: ``spill_store_bytes``."""
    label: str
    """As people read it: ``spill stores``."""
    unit: str = ""
    """``B`` for bytes; empty for counts."""


_LOCAL: tuple[tuple[AccessClass, str, str], ...] = (
    ("array", "array", "array"),
    ("frame", "frame", "frame"),
    ("unknown", "unclassified", "other local"),
)
"""(class, beginning of its figures' names, what people call it) of local memory that is no spill."""

FIGURES = (
    Figure(name="spill_store_bytes", label="spill stores", unit="B"),
    Figure(name="spill_load_bytes", label="spill loads", unit="B"),
    Figure(name="resident_blocks", label="blocks/SM"),
    Figure(name="active_warps", label="warps/SM"),
    Figure(name="spills_in_loops", label="spills in loops"),
    Figure(name="spill_loop_depth", label="spill loop depth"),
    Figure(name="registers", label="registers"),
    Figure(name="stack_bytes", label="stack", unit="B"),
    Figure(name="cumulative_stack_bytes", label="call stack", unit="B"),
    Figure(name="footprint_bytes", label="GPU memory", unit="B"),
    Figure(name="local_bytes", label="local", unit="B"),
    Figure(name="shared_bytes", label="shared", unit="B"),
    Figure(name="shared_spills", label="spills to shared"),
    Figure(name="spill_stores", label="spill store instr."),
    Figure(name="spill_loads", label="spill load instr."),
    *(
        Figure(name=f"{prefix}_{way}_bytes", label=f"{label} {way}s", unit="B")
        for _, prefix, label in _LOCAL
        for way in ("store", "load")
    ),
    *(
        Figure(name=f"{prefix}_{way}s", label=f"{label} {way} instr.")
        for _, prefix, label in _LOCAL
        for way in ("store", "load")
    ),
    Figure(name="barriers", label="barriers"),
)
"""What is compared, worst first; ``constant_bytes[BANK]`` comes after these. Compile time is not compared: it is never
the same twice."""

_BY_NAME = {figure.name: figure for figure in FIGURES}
_RANK = {figure.name: rank for rank, figure in enumerate(FIGURES)}
_PRINTED = ("registers", "stack_bytes", "cumulative_stack_bytes", "local_bytes", "shared_bytes", "barriers")
_LINKED = ("registers", "cumulative_stack_bytes", "shared_bytes", "local_bytes", "barriers")
"""What the linker decides of relocatable code."""
_ECHOES = ("spill_warning", "local_memory_warning")
"""Messages that repeat figures; whether they are printed is a matter of options."""


def figure(name: str) -> Figure:
    """The figure called ``name``; a key in brackets (``constant_bytes[2]``) is part of the label."""
    base, bracket, key = name.partition("[")
    if base == "spill_bytes":
        return Figure(name=name, label="spills", unit="B")
    if base == "constant_bytes":
        return Figure(name=name, label=f"cmem[{key}" if bracket else "cmem", unit="B")
    known = _BY_NAME[base]
    return Figure(name=name, label=f"{known.label} {key[:-1]}", unit=known.unit) if bracket else known


def allocated(registers: int) -> int:
    """Registers per thread that the hardware takes for ``registers``: whole allocation steps."""
    return -(-registers // ALLOCATION_UNIT) * ALLOCATION_UNIT


def compare(before: Kernel, after: Kernel) -> tuple[tuple[Metric, ...], tuple[Metric, ...]]:
    """(figures that both sides tell and that differ, figures that one side alone tells), worst first.

    A figure that is absent on one side is neither equal nor different. Registers of relocatable code before the link
    and after it are not the same figure.
    """
    if before.usage == after.usage and before.sass is after.sass and (before.final is False) == (after.final is False):
        return (), ()
    differing, unknown = [], []
    for metric in told(before, after):
        _, old, new = metric
        if old is None or new is None:
            if old is not new:
                unknown.append(metric)
        elif old != new:
            differing.append(metric)
    return tuple(differing), tuple(unknown)


def told(before: Kernel, after: Kernel) -> list[Metric]:
    """(name, before, after) of each figure that a side may tell, equal or not, worst first."""
    old, new = figures(before), figures(after)
    if (before.usage.spills is None) != (after.usage.spills is None):
        for kernel, mine in ((before, old), (after, new)):
            if kernel.usage.spills is None and kernel.sass is not None:  # the compiler counts no callee's spills
                own = kernel.sass.local.own_spill
                mine["spill_store_bytes"], mine["spill_load_bytes"] = own.store_bytes, own.load_bytes
    if (before.final is False) != (after.final is False):
        (old if before.final is False else new).update(dict.fromkeys(_LINKED))
    return [(name, old.get(name), new.get(name)) for name in sorted(old.keys() | new.keys(), key=_RANK.__getitem__)] + (
        _banks(before, after)
    )


def by_rank(metrics: Iterable[Metric]) -> tuple[Metric, ...]:
    """``metrics``, worst first."""
    return tuple(sorted(metrics, key=lambda metric: (_RANK.get(metric[0].partition("[")[0], len(_RANK)), metric[0])))


def figures(kernel: Kernel) -> dict[str, int | None]:
    """The compared figures of one kernel by name, constant banks aside; those of the machine code where it was read."""
    usage = kernel.usage
    found: dict[str, int | None] = {name: getattr(usage, name) for name in _PRINTED}
    found["shared_bytes"] = static_shared(kernel)
    found["spill_store_bytes"], found["spill_load_bytes"] = usage.spill_store_bytes, usage.spill_load_bytes
    if usage.spills is None and kernel.spills is not None:
        found["spill_store_bytes"], found["spill_load_bytes"] = kernel.spills
    return found if kernel.sass is None else found | _of_code(kernel.sass)


def static_shared(kernel: Kernel) -> int | None:
    """Bytes of static shared memory per block. ptxas prints none where a kernel has none, and none of what the linker
    places in relocatable code (that of templates; measured, 13.0): there its absence beside registers does not say 0.
    """
    usage = kernel.usage
    silent = usage.shared_bytes is None and usage.registers is not None and kernel.final is not False
    return 0 if silent else usage.shared_bytes


def growth(change: Change, name: str) -> int:
    """How much larger a figure became; below 0 where it fell, 0 where it did not change or is not known."""
    return next((after - before for metric, before, after in _known(change.metrics) if metric == name), 0)


def moved_to_shared(change: Change) -> bool:
    """Whether spills went to shared memory, where no spill bytes count them: the code marks more of them there; or,
    where no marks tell, spill bytes fell while shared memory grew.
    """
    if growth(change, "shared_spills") > 0:
        return True
    sides = [kernel.sass.shared_spills if kernel and kernel.sass else None for kernel in (change.before, change.after)]
    fallen = min(growth(change, "spill_store_bytes"), growth(change, "spill_load_bytes")) < 0
    return None in sides and fallen and growth(change, "shared_bytes") > 0


def messages(before: Kernel, after: Kernel) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(kinds of compiler messages that appeared, that vanished), each in the order printed."""
    if not before.advisories and not after.advisories:
        return (), ()
    old, new = (_kinds(kernel) for kernel in (before, after))
    return tuple(kind for kind in new if kind not in old), tuple(kind for kind in old if kind not in new)


def damage(change: Change) -> tuple[object, ...]:
    """Sort key of changes, worst first: new spills, lost blocks, allocation steps, then what else grew; improvements
    and removed kernels last."""
    kernel = change.kernel
    grown = {name: after - before for name, before, after in _known(change.metrics)}
    if change.state == "added":
        grown = dict(zip(("spill_store_bytes", "spill_load_bytes"), kernel.spills or (0, 0), strict=True))
    worse = {name: max(0, delta) for name, delta in grown.items()}
    spills = grown.get("spill_store_bytes", 0), grown.get("spill_load_bytes", 0)
    registers = next((metric for metric in _known(change.metrics) if metric[0] == "registers"), ("", 0, 0))
    lost = max((old - new for old, new in (e.blocks for e in change.effects if e.blocks)), default=0)
    order = ("changed", "renamed", "added", "removed", "unknown").index(change.state)
    return (
        -sum(max(0, spill) for spill in spills),
        -max(0, lost),
        -max(0, allocated(registers[2]) - allocated(registers[1])),
        -worse.get("spills_in_loops", 0),
        -sum(worse.get(f"array_{way}_bytes", 0) for way in ("store", "load")),
        -worse.get("stack_bytes", 0) - worse.get("cumulative_stack_bytes", 0),
        -worse.get("registers", 0),
        -worse.get("shared_bytes", 0),
        -len(change.appeared),
        -sum(delta > 0 for delta in grown.values()),
        order,
        sum(spills),
        min(0, grown.get("registers", 0)),
        kernel.key.symbol,
        kernel.key.arch or "",
        kernel.key.unit,
    )


def _known(metrics: Iterable[Metric]) -> Iterable[tuple[str, int, int]]:
    return ((name, old, new) for name, old, new in metrics if old is not None and new is not None)


def _kinds(kernel: Kernel) -> dict[str, None]:
    return {advisory.kind: None for advisory in kernel.advisories if advisory.kind not in _ECHOES}


def _banks(before: Kernel, after: Kernel) -> list[Metric]:
    """Constant memory by bank; a bank that a side with banks does not list holds nothing."""
    old, new = before.usage.constant_bytes, after.usage.constant_bytes
    banks = sorted({bank for bank, _ in (*(old or ()), *(new or ()))})
    sizes = [None if side is None else dict(side) for side in (old, new)]
    first, second = sizes
    return [
        (
            f"constant_bytes[{bank}]",
            None if first is None else first.get(bank, 0),
            None if second is None else second.get(bank, 0),
        )
        for bank in banks
    ]


def _of_code(sass: SassStats) -> dict[str, int | None]:
    local = sass.local
    found: dict[str, int | None] = {"shared_spills": sass.shared_spills}
    for kind, prefix, _ in _LOCAL:
        traffic = local.of(kind)
        found[f"{prefix}_stores"], found[f"{prefix}_loads"] = traffic.stores, traffic.loads
        found[f"{prefix}_store_bytes"], found[f"{prefix}_load_bytes"] = traffic.store_bytes, traffic.load_bytes
    found["spill_stores"], found["spill_loads"] = local.spill.stores, local.spill.loads
    placed = all(access.depth is not None for access in local.accesses if access.kind == "spill")
    found["spills_in_loops"] = sum(local.spills_in_loops.values()) if placed else None
    found["spill_loop_depth"] = max(local.spills_in_loops, default=0) if placed else None
    return found
