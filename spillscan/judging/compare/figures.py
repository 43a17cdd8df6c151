"""What is compared between two records of one kernel, what stays unknown, and what is worse than what. Pure."""

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
"""Registers per thread are allocated in eights on every compute capability from 3.0 to 12.1 (256 a warp)."""


_FULL = tuple((each.name, each.get) for each in COMPARED if each.get)
_BARE = tuple((each.name, each.get) for each in COMPARED if each.get and each.source != "code")
"""What a kernel has without its machine code."""
_OF_CODE = frozenset(each.name for each in (*COMPARED, *KEYED) if each.source == "code" or "spill" in each.name)
_LINKED = tuple(each.name for each in COMPARED if each.linker)
"""What the linker decides of relocatable code."""
_CODE = ("binary", "sass", "nvdisasm", "res_usage")
"""Formats of inputs that show code, or what it takes, and no message of a compiler."""
_ECHOES = ("spill_warning", "local_memory_warning")
"""Messages that repeat figures; whether they are printed is a matter of options."""


def allocated(registers: int) -> int:
    """Registers per thread that the hardware takes for ``registers``: whole allocation steps."""
    return -(-registers // ALLOCATION_UNIT) * ALLOCATION_UNIT


def linked_apart(before: Kernel, after: Kernel, *, equal: bool) -> bool:
    """Whether figures that the linker decides cannot be compared, as only one side gives them before the link. If they
    are ``equal``, and only the older side's are not final, they did not grow: the link adds, and takes nothing away."""
    return (before.final is False) != (after.final is False) and not (equal and before.final is False)


def compare(before: Kernel, after: Kernel) -> tuple[tuple[Metric, ...], tuple[Metric, ...]]:
    """(figures that are known of both sides and differ, figures that are known of one side alone), worst first.

    A figure that is absent on one side is neither equal nor different. Registers of relocatable code before the link
    and after it are not the same figure. Of code that is the same byte for byte only what stands beside it can differ.
    """
    differing, unknown = [], []
    same_code = digest(before) is not None and digest(before) == digest(after)
    for metric in sides(before, after):
        name, old, new = metric
        if same_code and name.partition("[")[0] in _OF_CODE:  # another reading of the same bytes is no change
            continue
        if old is None or new is None:
            if old is not new:
                unknown.append(metric)
        elif old != new:
            differing.append(metric)
    return tuple(differing), tuple(unknown)


def reported_alike(before: Kernel, after: Kernel) -> bool:
    """Whether two records are equal in all that is compared, without a look at each figure."""
    return (
        before.usage == after.usage
        and before.sass is after.sass
        and before.launch == after.launch
        and not linked_apart(before, after, equal=True)
    )


def sides(before: Kernel, after: Kernel, wanted: tuple[str, ...] | None = None) -> list[Metric]:
    """(name, before, after) of each figure that may be known of a side, equal or not, worst first; where some are
    ``wanted``, of which none is kept key by key, only these."""
    old, new = figures(before, wanted), figures(after, wanted)
    apart = [name for name in _LINKED if linked_apart(before, after, equal=old.get(name) == new.get(name))]
    (old if before.final is False else new).update(dict.fromkeys(apart))
    names = _getters(before.sass is not None or after.sass is not None, wanted)
    numbers: list[Metric] = [(name, old.get(name), new.get(name)) for name, _ in names]
    return numbers if wanted else numbers + [metric for each in KEYED for metric in _keyed(each, before, after)]


def other_code(before: Kernel, after: Kernel) -> bool:
    """Whether the machine code of two kernels is known to differ: by its digest, else by what it holds."""
    for key in (digest, code):
        old, new = key(before), key(after)
        if old is not None and new is not None:
            return old != new
    return False


def same_code(before: Kernel, after: Kernel) -> bool:
    """Whether the machine code of two kernels is the same, byte for byte: what nobody knows of it has not changed."""
    return digest(before) is not None and digest(before) == digest(after)


def by_rank(metrics: Iterable[Metric]) -> tuple[Metric, ...]:
    """``metrics``, worst first."""
    return tuple(sorted(metrics, key=lambda metric: rank(metric[0])))


def figures(kernel: Kernel, wanted: tuple[str, ...] | None = None) -> dict[str, int | None]:
    """The compared figures of one kernel by name, constant banks aside; those of the machine code where it was read.
    Only ``wanted`` ones, where some are."""
    return {name: get(kernel) for name, get in _getters(kernel.sass is not None, wanted)}


@cache
def _getters(coded: bool, wanted: tuple[str, ...] | None) -> tuple[tuple[str, Callable[[Kernel], Any]], ...]:
    return tuple(pair for pair in (_FULL if coded else _BARE) if wanted is None or pair[0] in wanted)


class Total(Struct, frozen=True):
    """A figure over all kernels of two builds."""

    name: str
    """Of the figure."""
    before: int
    """Its sum in the base, of the kernels that report it."""
    after: int
    """What the changes make of that: what is added and removed counts, too."""
    up: int
    """Kernels of both builds in which it grew."""
    down: int
    """Kernels of both builds in which it fell."""
    kept: int
    """By how much it grew in the kernels of both builds together: what went with a kernel is no gain."""


def totals(base: Iterable[Kernel], changes: Sequence[Change], wanted: tuple[str, ...] | None = None) -> list[Total]:
    """The figures that changed (of ``wanted`` ones, where some are), in the order of coming. What a kernel reserves of
    a whole GPU is none of them: kernels do not run side by side with all their stacks."""
    grown: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    up: Counter[str] = Counter()
    down: Counter[str] = Counter()
    alike = Counter(id(change.metrics) for change in changes if change.before is not None and change.after is not None)
    for change in changes:
        if change.before is not None and change.after is not None:
            moved: Counter[str] = Counter()
            number = alike.pop(id(change.metrics), 0)  # those that share their metrics at once
            for name, before, after in _known(change.metrics) if number else ():  # a figure of several devices is one
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
    """How much larger a figure became; below 0 where it fell, 0 where it did not change or is not known."""
    return next((after - before for metric, before, after in _known(change.metrics) if metric == name), 0)


def moved_to_shared(change: Change) -> bool:
    """Whether spills went to shared memory, where no spill bytes count them: the code marks more of them there; or,
    where there are no marks, spill bytes fell while shared memory grew.
    """
    if growth(change, "shared_spills") > 0:
        return True
    sides = [kernel.sass.shared_spills if kernel and kernel.sass else None for kernel in (change.before, change.after)]
    fallen = min(growth(change, "spill_store_bytes"), growth(change, "spill_load_bytes")) < 0
    return None in sides and fallen and growth(change, "shared_bytes") > 0


def messages(before: Kernel, after: Kernel) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(kinds of compiler messages that appeared, that vanished), each in the order printed; none where one of the two
    was only read as code, which carries no messages."""
    if not before.advisories and not after.advisories:
        return (), ()
    if not (_has_log(before) and _has_log(after)):
        return (), ()
    old, new = (_kinds(kernel) for kernel in (before, after))
    return tuple(kind for kind in new if kind not in old), tuple(kind for kind in old if kind not in new)


def _has_log(kernel: Kernel) -> bool:
    return not kernel.origins or not all(origin.format in _CODE for origin in kernel.origins)


def worst_first(changes: Iterable[Change]) -> tuple[Change, ...]:
    """New spills, lost blocks, allocation steps, then what else grew; improvements and removed kernels last."""
    known: dict[object, tuple[int, ...]] = {}

    def order(change: Change) -> tuple[tuple[int, ...], str, str, str]:
        # Changes of equal figures share them. They are kept by those who ask, so that no other takes their place.
        kernel = change.kernel
        said = id(change.metrics), id(change.effects), len(change.appeared), change.state
        figures = (*said, kernel.spills if change.state == "added" else None)
        worse = known.get(figures)
        if worse is None:
            worse = known[figures] = _damage(change)
        return worse, kernel.key.symbol, kernel.key.arch or "", kernel.key.unit

    return tuple(sorted(changes, key=order))


def _damage(change: Change) -> tuple[int, ...]:
    """Sort key of what changed, worst first."""
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
    """A figure key by key. A bank that a side with banks does not list holds nothing; roles are compared one by one
    where there are as many of them on both sides, and their number is a figure of its own."""
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
