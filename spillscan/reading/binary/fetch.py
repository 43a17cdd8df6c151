"""Machine code of kernels, read from their binaries again for analyses that a scan skips."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from spillscan.model.symbols import arch_family
from spillscan.output.errors import InputError

if TYPE_CHECKING:
    from spillscan.model import Kernel
    from spillscan.model.code import CodeText
    from spillscan.reading.binary.cubin import Cubin, Function
    from spillscan.reading.binary.pressure import Pressure

_T = TypeVar("_T")


def _functions(kernels: Iterable[Kernel]) -> Iterator[tuple[list[Kernel], Cubin, Function]]:
    """Kernels that were read from a binary, grouped by function, while their input is open. Skips what cannot be read
    again: standard input, and for a snapshot a binary that is gone or was rebuilt."""
    by_input: dict[str, dict[tuple[str | None, ...], list[Kernel]]] = {}
    for kernel in kernels:
        origin = kernel.sass.origin if kernel.sass else None
        if origin is not None and origin.format == "binary" and kernel.sass is not None and kernel.sass.digest:
            wanted = by_input.setdefault(origin.input, {})
            wanted.setdefault((kernel.key.symbol, arch_family(kernel.key.arch), kernel.sass.digest), []).append(kernel)
    if not by_input:  # a log: neither NumPy nor the binary reader is loaded
        return
    from spillscan.reading.binary import records
    from spillscan.reading.binary.window import DEFAULT, DamageError
    from spillscan.reading.inputs.source import Source

    for name, wanted in by_input.items():
        if not os.path.isfile(name):
            continue
        with suppress(InputError), Source(name).open() as stream:
            for cubin, function in records.cubins(stream.buffer(), {str(symbol) for symbol, *_ in wanted}, DEFAULT):
                with suppress(DamageError):
                    if same := wanted.get((function.symbol, f"sm_{cubin.number}", cubin.digest_of(function))):
                        yield same, cubin, function


def _by_kernel(kernels: Iterable[Kernel], read: Callable[[Cubin, Function], _T | None]) -> dict[int, _T]:
    """Results of ``read`` that are not ``None``, by the kernel's ``id``; each function is read once."""
    found: dict[int, _T] = {}
    for same, cubin, function in _functions(kernels):
        new = [id(kernel) for kernel in same if id(kernel) not in found]
        if new and function.code.size and (result := read(cubin, function)) is not None:
            found |= dict.fromkeys(new, result)
    return found


def texts_of(kernels: Iterable[Kernel]) -> dict[int, CodeText]:
    """Code of kernels, from their snapshot or binary, by the kernel's ``id``."""
    from spillscan.reading.binary.references import text_of

    kernels = list(kernels)
    found = {id(each): each.sass.text for each in kernels if each.sass is not None and each.sass.text is not None}
    return found | _by_kernel((each for each in kernels if id(each) not in found), text_of)


def _pressure(cubin: Cubin, function: Function) -> Pressure | None:
    """Live registers of a function; ``None`` if its architecture has no table."""
    from spillscan.reading.binary.pressure import pressures

    return next((found for _, found in pressures(cubin, lambda each: each.section == function.section)), None)


def pressures_of(kernels: Iterable[Kernel]) -> dict[int, Pressure]:
    """Live registers, by the kernel's ``id``, if its architecture has a table."""
    return _by_kernel(kernels, _pressure)
