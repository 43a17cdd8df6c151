"""Comparison of two records of one kernel, metric by metric: what differs, what is unknown, and what is worse. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from spillscan.model import Change, Delta, Kernel
from spillscan.model.findings import Moved
from spillscan.model.metrics import BY_NAME, COMPARED, KEYED, Metric, rank

ALLOCATION_UNIT = 8
"""Registers per thread are allocated in units of 8 on compute capability 3.0 to 12.1 (256 per warp)."""

_NUMBERS = tuple((each.name, each.get) for each in COMPARED if each.get)
_WITHOUT_CODE = tuple((each.name, each.get) for each in COMPARED if each.get and each.source != "code")
_OF_CODE = frozenset(each.name for each in (*COMPARED, *KEYED) if each.source == "code" or "spill" in each.name)
_LINKED = tuple(each.name for each in COMPARED if each.linker)
"""Metrics of relocatable code that the linker decides."""
_CODE = ("binary", "sass", "nvdisasm", "res_usage")
"""Formats of inputs with code or its resource usage, but without compiler messages."""
_ECHOES = ("spill_warning", "local_memory_warning")
"""Messages that repeat metrics; options decide whether they are printed."""
_STATES = ("changed", "renamed", "added", "removed", "unknown", "recoded")


def allocated(registers: int) -> int:
    """Registers per thread that the hardware allocates for ``registers``: whole allocation units."""
    return -(-registers // ALLOCATION_UNIT) * ALLOCATION_UNIT


def metrics_of(kernel: Kernel) -> dict[str, int | None]:
    """Compared metrics of one kernel by name, without keyed ones; those of machine code only if it was read."""
    return {name: get(kernel) for name, get in (_NUMBERS if kernel.sass else _WITHOUT_CODE)}


def linked_apart(before: Kernel, after: Kernel, *, equal: bool) -> bool:
    """Whether metrics that the linker decides cannot be compared, because only one side is linked.

    If they are ``equal``, and only the older side is not final, they did not grow: the link never reduces them.
    """
    return (before.final is False) != (after.final is False) and not (equal and before.final is False)


def compare(before: Kernel, after: Kernel) -> Iterator[Delta]:
    """Metrics that differ or that only one side reports, worst first.
    A metric missing on one side is neither equal nor different. Registers of relocatable code before and after the link
    are different metrics. If the code is the same byte for byte, metrics of the code are not compared.
    """
    old, new = metrics_of(before), metrics_of(after)
    apart = [name for name in _LINKED if linked_apart(before, after, equal=old.get(name) == new.get(name))]
    (old if before.final is False else new).update(dict.fromkeys(apart))
    sides = [(name, old.get(name), new.get(name)) for name in max(old, new, key=len)]  # the code of one may be unread
    sides += (delta for each in KEYED for delta in _keyed(each, before, after))
    ignored = _OF_CODE if same_code(before, after) else ()  # equal bytes, read differently
    return (each for each in sides if each[1] != each[2] and each[0].partition("[")[0] not in ignored)


def _keyed(metric: Metric, one: Kernel, other: Kernel) -> Iterator[Delta]:
    """A metric per key. A bank that a side with banks does not list counts as 0.

    Roles are compared one by one if both sides have as many; their number is a metric of its own.
    """
    assert metric.get is not None
    old, new = metric.get(one), metric.get(other)
    if metric.unit or len(old or ()) == len(new or ()):
        first, second = dict(old or ()), dict(new or ())
        for key in sorted({*first, *second}):
            before = None if old is None else first.get(key, 0)
            yield f"{metric.name}[{key}]", before, None if new is None else second.get(key, 0)


def reported_alike(before: Kernel, after: Kernel) -> bool:
    """Whether two records are equal in all that is compared, decided without reading each metric."""
    return (
        before.usage == after.usage
        and before.sass is after.sass
        and before.launch == after.launch
        and not linked_apart(before, after, equal=True)
    )


def record_of(kernel: Kernel) -> tuple[object, ...] | None:
    """Key that is equal for kernels with the same metrics in a log; ``None`` if more than these is known.

    Equal records share their usage, whose ``id`` stays theirs as long as the build lives.
    """
    if kernel.sass is not None or kernel.launch_bounds is not None or kernel.dynamic_shared is not None:
        return None
    if kernel.reasons or kernel.advisories:
        return None
    return id(kernel.usage), kernel.key.arch, kernel.role, kernel.final, kernel.confidence, kernel.launch


def other_code(before: Kernel, after: Kernel) -> bool:
    """Whether the machine code of two kernels is known to differ, by its digest, else by its content."""
    from spillscan.naming.same_named import code, digest

    for key in (digest, code):
        old, new = key(before), key(after)
        if old is not None and new is not None:
            return old != new
    return False


def same_code(before: Kernel, after: Kernel) -> bool:
    """Whether the machine code of two kernels is the same byte for byte, so that unknown values have not changed."""
    from spillscan.naming.same_named import digest

    return digest(before) is not None and digest(before) == digest(after)


def by_rank(metrics: Iterable[Delta]) -> tuple[Delta, ...]:
    """``metrics`` sorted worst first."""
    return tuple(sorted(metrics, key=lambda metric: rank(metric[0])))


def moved(old: Counter[str], new: Counter[str], least: int = 1) -> list[Moved]:
    """Counts that differ by ``least`` or more, the largest difference first."""
    counts = [(name, old[name], new[name]) for name in {*old, *new} if abs(new[name] - old[name]) >= least]
    return sorted(counts, key=lambda each: (-abs(each[2] - each[1]), each[0]))


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
    kept, up, down, other = (Counter[str]() for _ in range(4))
    for metrics, number in Counter(change.metrics for change in changes).items():
        moved = Counter[str]()
        for name, before, after in _known(metrics):  # devices are added up
            moved[name.partition("[")[0]] += after - before
        for name, delta in moved.items():
            kept[name] += number * delta
            up[name] += number * (delta > 0)
            down[name] += number * (delta < 0)
    for change in changes:
        if change.before is None or change.after is None:
            sign = 1 if change.before is None else -1
            other.update({name: sign * (value or 0) for name, value in metrics_of(change.kernel).items()})
    moving = (name for name in {**kept, **other} if kept[name] + other[name] or up[name] or down[name])
    names = [name for name in moving if name != "footprint_bytes" and (wanted is None or name in wanted)]
    getters = [BY_NAME[name].get if BY_NAME[name].kind == "number" else None for name in names]
    kernels = list(base) if names else []
    sums = [sum(filter(None, map(get, kernels))) if get else 0 for get in getters]
    return [
        Total(name, before, before + kept[name] + other[name], up[name], down[name], kept[name])
        for name, before in zip(names, sums, strict=True)
    ]


def growth(change: Change, name: str) -> int:
    """Growth of a metric; negative if it fell, 0 if it did not change or is unknown."""
    return sum(after - before for metric, before, after in _known(change.metrics) if metric == name)


def moved_to_shared(change: Change) -> bool:
    """Whether spills moved to shared memory, where no spill bytes count them.

    True if the code marks more of them there; without marks, if spill bytes fell while shared memory grew.
    """
    if growth(change, "shared_spills") > 0:
        return True
    sides = [kernel.sass.shared_spills if kernel and kernel.sass else None for kernel in (change.before, change.after)]
    fallen = min(growth(change, "spill_store_bytes"), growth(change, "spill_load_bytes")) < 0
    return None in sides and fallen and growth(change, "shared_bytes") > 0


def ends_spills(change: Change) -> bool:
    """Whether a kernel that spilled has 0 B of spills now, known for certain and not in shared memory."""
    before, after = change.before, change.after
    if before is None or after is None or before.spill_bounds is None or after.spill_bounds is None:
        return False
    hidden = moved_to_shared(change) or bool(after.sass and after.sass.shared_spills)
    return sum(before.spill_bounds[0]) > 0 == sum(after.spill_bounds[1]) and not hidden


def messages(before: Kernel, after: Kernel) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(kinds of compiler messages that appeared, kinds that vanished), each in printed order.

    Empty if one side was only read as code, which contains no messages.
    """
    if not (before.advisories or after.advisories) or not (_has_log(before) and _has_log(after)):
        return (), ()
    old, new = (
        dict.fromkeys(each.kind for each in kernel.advisories if each.kind not in _ECHOES) for kernel in (before, after)
    )
    return tuple(kind for kind in new if kind not in old), tuple(kind for kind in old if kind not in new)


def _has_log(kernel: Kernel) -> bool:
    return not kernel.origins or not all(origin.format in _CODE for origin in kernel.origins)


def worst_first(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Changes sorted by new spills, lost blocks, allocated registers, other growth; improvements and removals last."""
    known: dict[object, tuple[object, ...]] = {}

    def order(change: Change) -> tuple[object, ...]:
        # Changes with equal metrics share them. Callers keep them alive, so that no other object gets their id.
        kernel = change.kernel
        spills = kernel.spills if change.state == "added" else None
        same = id(change.metrics), id(change.effects), len(change.appeared), change.state, spills
        damage = known.get(same)
        if damage is None:
            damage = known[same] = _damage(change)
        return *damage, kernel.key.symbol, kernel.key.arch or "", kernel.key.unit

    return tuple(sorted(changes, key=order))


def _damage(change: Change) -> tuple[object, ...]:
    """Sort key of a change, worst first: spills, blocks, allocated registers, then the worst metric that grew."""
    metrics = list(_known(change.metrics))
    if change.state == "added":
        stores, loads = change.kernel.spills or (0, 0)
        metrics = [("spill_store_bytes", 0, stores), ("spill_load_bytes", 0, loads)]
    grown = {name: after - before for name, before, after in metrics}
    spills = grown.get("spill_store_bytes", 0), grown.get("spill_load_bytes", 0)
    registers = next((allocated(new) - allocated(old) for name, old, new in metrics if name == "registers"), 0)
    lost = max((old - new for old, new in (each.blocks for each in change.effects if each.blocks)), default=0)
    worse = [(rank(name), -delta) for name, delta in map(_worsening, metrics) if delta > 0 and name != "registers"]
    return (
        -sum(max(0, spill) for spill in spills),
        -max(0, lost),
        -max(0, registers),
        min(worse, default=(rank(_NUMBERS[-1][0]), 1)),
        -len(change.appeared),
        -len(worse),
        _STATES.index(change.state),
        sum(spills),
        min(0, grown.get("registers", 0)),
    )


def _worsening(metric: tuple[str, int, int]) -> tuple[str, int]:
    """Name of a metric, and by how much it got worse."""
    name, before, after = metric
    fewer = BY_NAME[name.partition("[")[0]].worse == "fewer"
    return name, before - after if fewer else after - before


def _known(metrics: Iterable[Delta]) -> Iterable[tuple[str, int, int]]:
    return ((name, old, new) for name, old, new in metrics if old is not None and new is not None)
