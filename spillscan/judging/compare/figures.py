"""Comparison of two records of one kernel: what differs, what is unknown, and what is worse. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from msgspec import Struct

from spillscan.model import Change, Kernel, Metric
from spillscan.model.figures import COMPARED, KEYED, rank
from spillscan.model.usage import Figure
from spillscan.naming.identity.code import code, digest

ALLOCATION_UNIT = 8
"""Registers per thread are allocated in units of 8 on compute capability 3.0 to 12.1 (256 per warp)."""


_FULL = tuple((each.name, each.get) for each in COMPARED if each.get)
_BARE = tuple((each.name, each.get) for each in COMPARED if each.get and each.source != "code")
"""Metrics of a kernel without its machine code."""
_OF_CODE = frozenset(each.name for each in (*COMPARED, *KEYED) if each.source == "code" or "spill" in each.name)
_LINKED = tuple(each.name for each in COMPARED if each.linker)
"""Metrics of relocatable code that the linker decides."""
_CODE = ("binary", "sass", "nvdisasm", "res_usage")
"""Formats of inputs with code or its resource usage, but without compiler messages."""
_ECHOES = ("spill_warning", "local_memory_warning")
"""Messages that repeat metrics; options decide whether they are printed."""


def allocated(registers: int) -> int:
    """Registers per thread that the hardware allocates for ``registers``: whole allocation units."""
    return -(-registers // ALLOCATION_UNIT) * ALLOCATION_UNIT


def linked_apart(before: Kernel, after: Kernel, *, equal: bool) -> bool:
    """Whether metrics that the linker decides cannot be compared, because only one side is linked.

    If they are ``equal``, and only the older side is not final, they did not grow: the link never reduces them.
    """
    return (before.final is False) != (after.final is False) and not (equal and before.final is False)


def compare(before: Kernel, after: Kernel) -> tuple[tuple[Metric, ...], tuple[Metric, ...]]:
    """(metrics known on both sides that differ, metrics known on one side only), worst first.
    A metric missing on one side is neither equal nor different. Registers of relocatable code before and after the link
    are different metrics. If the code is the same byte for byte, metrics of the code are not compared.
    """
    differing, unknown = [], []
    same_code = digest(before) is not None and digest(before) == digest(after)
    for metric in sides(before, after):
        name, old, new = metric
        if same_code and name.partition("[")[0] in _OF_CODE:  # the same bytes, read differently, are no change
            continue
        if old is None or new is None:
            if old is not new:
                unknown.append(metric)
        elif old != new:
            differing.append(metric)
    return tuple(differing), tuple(unknown)


def reported_alike(before: Kernel, after: Kernel) -> bool:
    """Whether two records are equal in all that is compared, decided without reading each metric."""
    return (
        before.usage == after.usage
        and before.sass is after.sass
        and before.launch == after.launch
        and not linked_apart(before, after, equal=True)
    )


def sides(before: Kernel, after: Kernel, wanted: tuple[str, ...] | None = None) -> list[Metric]:
    """(name, before, after) of each metric that a side may have, equal or not, worst first.

    ``wanted``: only these metrics, none of which may have keys.
    """
    old, new = figures(before, wanted), figures(after, wanted)
    apart = [name for name in _LINKED if linked_apart(before, after, equal=old.get(name) == new.get(name))]
    (old if before.final is False else new).update(dict.fromkeys(apart))
    names = _getters(before.sass is not None or after.sass is not None, wanted)
    numbers: list[Metric] = [(name, old.get(name), new.get(name)) for name, _ in names]
    return numbers if wanted else numbers + [metric for each in KEYED for metric in _keyed(each, before, after)]


def other_code(before: Kernel, after: Kernel) -> bool:
    """Whether the machine code of two kernels is known to differ, by its digest, else by its content."""
    for key in (digest, code):
        old, new = key(before), key(after)
        if old is not None and new is not None:
            return old != new
    return False


def same_code(before: Kernel, after: Kernel) -> bool:
    """Whether the machine code of two kernels is the same byte for byte, so that unknown values have not changed."""
    return digest(before) is not None and digest(before) == digest(after)


def by_rank(metrics: Iterable[Metric]) -> tuple[Metric, ...]:
    """``metrics`` sorted worst first."""
    return tuple(sorted(metrics, key=lambda metric: rank(metric[0])))


def figures(kernel: Kernel, wanted: tuple[str, ...] | None = None) -> dict[str, int | None]:
    """Compared metrics of one kernel by name, without constant banks; those of machine code only if it was read.

    ``wanted``: only these metrics.
    """
    return {name: get(kernel) for name, get in _getters(kernel.sass is not None, wanted)}


@cache
def _getters(coded: bool, wanted: tuple[str, ...] | None) -> tuple[tuple[str, Callable[[Kernel], Any]], ...]:
    return tuple(pair for pair in (_FULL if coded else _BARE) if wanted is None or pair[0] in wanted)


class Total(Struct, frozen=True):
    """A metric summed over all kernels of two builds."""

    name: str
    """Name of the metric."""
    before: int
    """Sum in the base, over the kernels that report it."""
    after: int
    """Sum after the changes, including added and removed kernels."""
    up: int
    """Kernels of both builds in which it grew."""
    down: int
    """Kernels of both builds in which it fell."""
    kept: int
    """Growth in the kernels that both builds have: a removed kernel is no improvement."""


def totals(base: Iterable[Kernel], changes: Sequence[Change], wanted: tuple[str, ...] | None = None) -> list[Total]:
    """Sums of the metrics that changed (of ``wanted``, if given), in the order of appearance.

    Memory reserved on a whole GPU is omitted: kernels do not all run at once with their full stacks.
    """
    grown: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    up: Counter[str] = Counter()
    down: Counter[str] = Counter()
    alike = Counter(id(change.metrics) for change in changes if change.before is not None and change.after is not None)
    for change in changes:
        if change.before is not None and change.after is not None:
            moved: Counter[str] = Counter()
            number = alike.pop(id(change.metrics), 0)  # changes that share metrics are counted at once
            for name, before, after in _known(change.metrics) if number else ():  # devices are added up
                moved[name.partition("[")[0]] += after - before
            for name, delta in moved.items():
                grown[name] += number * delta
                kept[name] += number * delta
                up[name] += number * (delta > 0)
                down[name] += number * (delta < 0)
        else:
            sign = 1 if change.before is None else -1
            grown.update({name: sign * (value or 0) for name, value in figures(change.kernel, wanted).items()})
    moving = (name for name in grown if grown[name] or up[name] or down[name])
    names = tuple(name for name in moving if name != "footprint_bytes" and (wanted is None or name in wanted))
    kernels = list(base) if names else ()
    sums = dict.fromkeys(names, 0)
    sums |= {name: sum(filter(None, map(get, kernels))) for name, get in _getters(True, names)}
    return [Total(name, sums[name], sums[name] + grown[name], up[name], down[name], kept[name]) for name in names]


def growth(change: Change, name: str) -> int:
    """Growth of a metric; negative if it fell, 0 if it did not change or is unknown."""
    return next((after - before for metric, before, after in _known(change.metrics) if metric == name), 0)


def moved_to_shared(change: Change) -> bool:
    """Whether spills moved to shared memory, where no spill bytes count them.

    True if the code marks more of them there; without marks, if spill bytes fell while shared memory grew.
    """
    if growth(change, "shared_spills") > 0:
        return True
    sides = [kernel.sass.shared_spills if kernel and kernel.sass else None for kernel in (change.before, change.after)]
    fallen = min(growth(change, "spill_store_bytes"), growth(change, "spill_load_bytes")) < 0
    return None in sides and fallen and growth(change, "shared_bytes") > 0


def messages(before: Kernel, after: Kernel) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(kinds of compiler messages that appeared, kinds that vanished), each in printed order.

    Empty if one side was only read as code, which contains no messages.
    """
    if not before.advisories and not after.advisories:
        return (), ()
    if not (_has_log(before) and _has_log(after)):
        return (), ()
    old, new = (_kinds(kernel) for kernel in (before, after))
    return tuple(kind for kind in new if kind not in old), tuple(kind for kind in old if kind not in new)


def _has_log(kernel: Kernel) -> bool:
    return not kernel.origins or not all(origin.format in _CODE for origin in kernel.origins)


def worst_first(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Changes sorted by new spills, lost blocks, allocated registers, other growth; improvements and removals last."""
    known: dict[object, tuple[int, ...]] = {}

    def order(change: Change) -> tuple[tuple[int, ...], str, str, str]:
        # Changes with equal metrics share them. Callers keep them alive, so that no other object gets their id.
        kernel = change.kernel
        said = id(change.metrics), id(change.effects), len(change.appeared), change.state
        figures = (*said, kernel.spills if change.state == "added" else None)
        worse = known.get(figures)
        if worse is None:
            worse = known[figures] = _damage(change)
        return worse, kernel.key.symbol, kernel.key.arch or "", kernel.key.unit

    return tuple(sorted(changes, key=order))


def _damage(change: Change) -> tuple[int, ...]:
    """Sort key of a change, worst first."""
    kernel = change.kernel
    grown = {name: after - before for name, before, after in _known(change.metrics)}
    if change.state == "added":
        grown = dict(zip(("spill_store_bytes", "spill_load_bytes"), kernel.spills or (0, 0), strict=True))
    worse = {name: max(0, delta) for name, delta in grown.items()}
    spills = grown.get("spill_store_bytes", 0), grown.get("spill_load_bytes", 0)
    registers = next((metric for metric in _known(change.metrics) if metric[0] == "registers"), ("", 0, 0))
    lost = max((old - new for old, new in (e.blocks for e in change.effects if e.blocks)), default=0)
    order = ("changed", "renamed", "added", "removed", "unknown", "recoded").index(change.state)
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
    )


def _known(metrics: Iterable[Metric]) -> Iterable[tuple[str, int, int]]:
    return ((name, old, new) for name, old, new in metrics if old is not None and new is not None)


def _kinds(kernel: Kernel) -> dict[str, None]:
    return {advisory.kind: None for advisory in kernel.advisories if advisory.kind not in _ECHOES}


def _keyed(figure: Figure, before: Kernel, after: Kernel) -> list[Metric]:
    """A metric per key. A bank that a side with banks does not list counts as 0.

    Roles are compared one by one if both sides have as many; their number is a metric of its own.
    """
    assert figure.get is not None
    old, new = figure.get(before), figure.get(after)
    if not figure.unit and len(old or ()) != len(new or ()):
        return []
    first, second = (None if side is None else dict(side) for side in (old, new))
    return [
        (
            f"{figure.name}[{key}]",
            None if first is None else first.get(key, 0),
            None if second is None else second.get(key, 0),
        )
        for key in sorted({*(first or ()), *(second or ())})
    ]
