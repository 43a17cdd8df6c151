"""How much two records and two kernels' machine code have in common."""

from __future__ import annotations

from collections.abc import Hashable

from spillscan.model import Kernel, Usage

_SHORT = 48
"""Instructions; shorter code is often the same in unrelated kernels."""
FIGURES = (
    "registers",
    "stack_bytes",
    "spill_store_bytes",
    "spill_load_bytes",
    "shared_bytes",
    "local_bytes",
    "barriers",
)
"""What of a record is compared, besides constant bank 0, which holds the parameters."""


def record(before: Usage, after: Usage) -> float:
    """How near two records are; figures that only one of them has, or that both have as 0, say little."""
    value = weight = 0.0
    for name in FIGURES:
        one, other = getattr(before, name), getattr(after, name)
        if one is None or other is None:
            continue
        weighs = 1.0 if one or other else 0.2
        weight += weighs
        value += weighs * (1.0 if one == other else min(one, other) / max(one, other))
    if before.constant_bytes and after.constant_bytes:
        weight += 1.0
        value += before.constant_bytes[0] == after.constant_bytes[0]
    return value / weight if weight else 0.5


def digest(kernel: Kernel) -> str | None:
    """What byte for byte the same code has in common; ``None`` where it is not known."""
    return None if kernel.sass is None else kernel.sass.digest


def configuration(kernel: Kernel) -> Hashable:
    """What a tuner chose for it: what its compiler wrote beside it, else the block size that its code requires, which
    compilers of tuned kernels state; ``None`` where nothing says. Kernels of one symbol that differ in it are several
    candidates, not one kernel that changed."""
    bounds = kernel.launch_bounds
    return kernel.configuration or (None if bounds is None else bounds.required_threads)


_LASTING = ("tensor", "global", "shared", "barrier", "sfu")
"""Classes of instructions whose number the source decides, more than the compiler."""


def work(kernel: Kernel) -> tuple[int, ...] | None:
    """How many instructions it has of each class that another compiler leaves much as it is; ``None`` without code."""
    if kernel.sass is None:
        return None
    classes = kernel.sass.opcode_classes
    return tuple(classes.get(name, 0) for name in _LASTING)


def as_much(one: tuple[int, ...] | None, other: tuple[int, ...] | None) -> float:
    """How near two counts of :func:`work` are, from 0 to 1."""
    both = [(min(pair), max(pair)) for pair in zip(one or (), other or (), strict=False) if any(pair)]
    return sum(least / most for least, most in both) / len(both) if both else 0.0


def code(kernel: Kernel) -> Hashable:
    """What equal machine code has in common, wherever it was read: instructions by opcode, and the accesses to local
    memory; ``None`` where no code was read, or where it is too short to say anything."""
    sass = kernel.sass
    if sass is None or sass.instructions < _SHORT:
        return None
    return sass.instructions, sass.code_bytes, tuple(sass.opcodes), frozenset(sass.local.groups.items())
