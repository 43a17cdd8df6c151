"""Similarity of two kernels' records and machine code."""

from __future__ import annotations

from collections.abc import Hashable

from spillscan.model import Kernel, Usage

_SHORT = 48
"""Minimum number of instructions; shorter code is often the same in unrelated kernels."""
FIGURES = (
    "registers",
    "stack_bytes",
    "spill_store_bytes",
    "spill_load_bytes",
    "shared_bytes",
    "local_bytes",
    "barriers",
)
"""Metrics compared between records, besides constant bank 0, which holds the parameters."""


def record(before: Usage, after: Usage) -> float:
    """Similarity of two records, from 0 to 1; 0.5 if no metric is in both.

    A metric that only one record has is skipped; one that is 0 in both has a low weight.
    """
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
    """Digest that is equal for byte-identical code; ``None`` if unknown."""
    return None if kernel.sass is None else kernel.sass.digest


def configuration(kernel: Kernel) -> Hashable:
    """Configuration that an autotuner chose for ``kernel``; ``None`` if unknown.

    The configuration that the tuner's compiler wrote with the code, else the block size that the code requires. Kernels
    of one symbol with different configurations are different autotuning configs, not one kernel that changed.
    """
    bounds = kernel.launch_bounds
    return kernel.configuration or (None if bounds is None else bounds.required_threads)


_LASTING = ("tensor", "global", "shared", "barrier", "sfu")
"""Instruction classes whose counts depend on the source more than on the compiler."""


def work(kernel: Kernel) -> tuple[int, ...] | None:
    """Instruction counts of the classes in :data:`_LASTING`, which compilers barely change; ``None`` without code."""
    if kernel.sass is None:
        return None
    classes = kernel.sass.opcode_classes
    return tuple(classes.get(name, 0) for name in _LASTING)


def as_much(one: tuple[int, ...] | None, other: tuple[int, ...] | None) -> float:
    """Similarity of two results of :func:`work`, from 0 to 1."""
    both = [(min(pair), max(pair)) for pair in zip(one or (), other or (), strict=False) if any(pair)]
    return sum(least / most for least, most in both) / len(both) if both else 0.0


def code(kernel: Kernel) -> Hashable:
    """Key that is equal for equal machine code from any input: instructions by opcode, and accesses to local memory.

    ``None`` if no code was read, or if it is too short to be distinctive.
    """
    sass = kernel.sass
    if sass is None or sass.instructions < _SHORT:
        return None
    return sass.instructions, sass.code_bytes, tuple(sass.opcodes), frozenset(sass.local.groups.items())
