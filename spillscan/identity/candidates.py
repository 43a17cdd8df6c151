"""Which pairs are worth a look, without looking at all of them.

Kernels meet in blocks: those that share a part of their name, or a word of it. In each block both builds' kernels are
put into one order and only neighbours in it are candidates, so the cost grows as n log n however large a block is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence

from spillscan.identity.anatomy import Anatomy
from spillscan.model import Kernel

_WINDOW = 3
"""Neighbours of the other build, to each side."""

Named = tuple[Kernel, Anatomy]
"""A kernel with its name taken apart."""
Blocks = Callable[[Kernel, Anatomy], Iterator[tuple[Hashable, ...]]]
"""The blocks that a kernel is in."""


def target(kernel: Kernel) -> tuple[bool, str | None]:
    """What must agree: device functions pair with device functions, and every kernel within its arch."""
    return kernel.role == "function", kernel.key.arch


def strong(kernel: Kernel, name: Anatomy) -> Iterator[tuple[Hashable, ...]]:
    """Blocks in which all parts of the names but one agree, or the signature and the record."""
    scopes, base, arguments, parameters = name.scopes.texts, name.base, name.arguments.plain, name.parameters.plain
    yield "moved", base, arguments, parameters
    yield "parameters", scopes, base, arguments
    yield "arguments", scopes, base, parameters
    yield "renamed", scopes, arguments, parameters
    usage = kernel.usage
    yield "record", arguments, parameters, usage.registers, usage.stack_bytes, usage.spills, usage.shared_bytes


def weak(kernel: Kernel, name: Anatomy) -> Iterator[tuple[Hashable, ...]]:
    """Blocks in which one part, or one word of the base name, agrees."""
    yield "base", name.base
    for word in name.words:
        if len(word) > 1:
            yield "word", word


def candidates(ours: Sequence[Named], theirs: Sequence[Named], *kinds: Blocks) -> Iterator[tuple[int, int]]:
    """Pairs of indices, each once."""
    seen: set[tuple[int, int]] = set()
    members: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, kernels in enumerate((ours, theirs)):
        for index, (kernel, name) in enumerate(kernels):
            group = target(kernel)
            for blocks in kinds:
                for block in blocks(kernel, name):
                    members[group, block][side].append(index)
    for left, right in members.values():
        if left and right:
            for pair in _neighbours(left, right, ours, theirs):
                if pair not in seen:
                    seen.add(pair)
                    yield pair


def _neighbours(
    left: list[int], right: list[int], ours: Sequence[Named], theirs: Sequence[Named]
) -> Iterator[tuple[int, int]]:
    if len(left) * len(right) <= 2 * _WINDOW:
        yield from ((one, other) for one in left for other in right)
        return
    for text in (_forwards, _backwards):
        merged = sorted(
            [(text(ours[index][1]), 0, index) for index in left]
            + [(text(theirs[index][1]), 1, index) for index in right]
        )
        for at, (_, side, index) in enumerate(merged):
            if side:
                continue
            for step in (1, -1):
                found, near = 0, at + step
                # Neighbours of the own build are passed over, but not endlessly.
                while 0 <= near < len(merged) and found < _WINDOW and abs(near - at) <= 8 * _WINDOW:
                    if merged[near][1]:
                        found += 1
                        yield index, merged[near][2]
                    near += step


def _forwards(name: Anatomy) -> tuple[str, ...]:
    return (*name.arguments.plain, *name.parameters.plain, name.base, *name.scopes.plain)


def _backwards(name: Anatomy) -> tuple[str, ...]:
    return (name.base[::-1], *name.arguments.plain[::-1], *name.parameters.plain[::-1], *name.scopes.plain[::-1])
