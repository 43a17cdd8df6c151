"""Kernels of a build as columns, which the page's table sorts, filters and shows.

100,000 kernels are about a dozen lists of numbers, not 100,000 objects; each text is stored once and numbered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2s
from operator import attrgetter
from typing import Any

from spillscan.judging.places import source_of
from spillscan.model import Kernel
from spillscan.model.local import LocalAccess
from spillscan.model.metrics import BY_NAME, PRINTED, Metric, find_metric
from spillscan.model.symbols import demangle, namespace
from spillscan.naming import Names, symbol_of
from spillscan.naming.symbol import canonical
from spillscan.output.safe import clip, printable
from spillscan.reading.machine.spillmap import base
from spillscan.reports.page.document import packed

FUNCTION, UNKNOWN_ROLE, AMBIGUOUS, NOT_FINAL = 1, 2, 4, 8
"""Flags of a kernel: device function; known only from a message; ambiguous metrics; registers before the link."""
LONGEST_NAME, LONGEST_ARCH, LONGEST_UNIT, LONGEST_LEGEND = 120, 24, 300, 300
"""Characters shown of names, archs, units and legends; the full name is shown on demand."""


def identifiers(kernels: Sequence[Kernel]) -> list[str]:
    """Kernel identifiers for URLs, stable across builds: hashes of identity and arch, numbered if repeated."""
    seen: dict[str, int] = {}
    identities = {symbol: f"{canonical(symbol)}\n" for symbol in dict.fromkeys(each.key.symbol for each in kernels)}
    names = []
    for kernel in kernels:
        identity = f"{identities[kernel.key.symbol]}{kernel.key.arch}".encode("utf-8", "replace")
        digest = blake2s(identity, digest_size=5).hexdigest()
        seen[digest] = number = seen.get(digest, 0) + 1
        names.append(digest if number == 1 else f"{digest}-{number}")
    return names


def columns(kernels: Sequence[Kernel], called: Names) -> dict[str, Any]:
    """Columns of the kernels, in the given order; ``None`` for values that the input does not report."""
    arches, units, files, callers, families, namespaces = (Texts() for _ in range(6))
    binaries = (each.origins[0].input for each in kernels if each.origins and each.origins[0].format == "binary")
    several = len(set(binaries)) > 1
    symbols = [kernel.named_by for kernel in kernels]
    keys = {key: number for number, key in enumerate(dict.fromkeys(symbols))}
    full = [demangle(symbol_of(key)) for key in keys]
    shown = _shown(kernels)
    code = shown.pop(_CODE_BYTES, None)
    return {
        "count": len(kernels),
        "id": identifiers(kernels),
        **({"code": code} if code is not None else {}),
        "symbol": [keys[symbol] for symbol in symbols],
        "arch": arches.numbers([kernel.key.arch for kernel in kernels], shown_arch),
        "unit": units.numbers([_object(kernel, several) for kernel in kernels], lambda unit: clip(unit, LONGEST_UNIT)),
        "file": files.numbers(
            [source_of(kernel) for kernel in kernels], lambda source: clip(base(source), LONGEST_NAME)
        ),
        "caller": callers.numbers([each.caller for each in kernels], lambda key: key and called.of(key)),
        "flags": [_flags(kernel) for kernel in kernels],
        **{each.name: values for each, values in shown.items()},
        "metrics": [{"key": each.name, "label": each.label, "unit": each.unit, "about": each.about} for each in shown],
        "names": [called.of(key) for key in keys],
        "family": families.numbers([called.base(key) for key in keys], shortened),
        "namespace": namespaces.numbers([namespace(name) for name in full], shortened),
        "families": families.texts,
        "namespaces": namespaces.texts,
        "files": files.texts,
        "callers": callers.texts,
        "arches": arches.texts,
        "units": units.texts,
        "full": packed([(printable(symbol_of(key)), printable(name)) for key, name in zip(keys, full, strict=True)]),
    }


def _object(kernel: Kernel, several: bool) -> str:
    """Object that contains the kernel; with ``several`` binaries, prefixed by the kernel's binary."""
    unit = kernel.key.unit
    if not several or not kernel.origins or kernel.origins[0].format != "binary":
        return unit
    return kernel.origins[0].input + (":" if unit and not unit.startswith("#") else "") + unit


def _flags(kernel: Kernel) -> int:
    return (
        {"entry": 0, "function": FUNCTION, "unknown": UNKNOWN_ROLE}[kernel.role]
        | (AMBIGUOUS if kernel.confidence == "ambiguous" else 0)
        | (NOT_FINAL if kernel.final is False else 0)
    )


def _shown(kernels: Sequence[Kernel]) -> dict[Metric, list[int | None]]:
    """Values of each metric that is known for at least one kernel.

    Kernels without code that share a usage record, as readers create them for equal values, share all values.
    """
    alike = [id(kernel.usage if kernel.sass is None else kernel) for kernel in kernels]
    distinct = dict(zip(alike, kernels, strict=True))
    columns = {}
    for each, get in _METRICS.items():
        values = {number: get(kernel) for number, kernel in distinct.items()}
        if each.name in _ALWAYS or any(value is not None for value in values.values()):
            columns[each] = [values[number] for number in alike]
    return columns


_ALWAYS = ("registers", "spill_store_bytes", "spill_load_bytes", "stack_bytes", "shared_bytes", "barriers")
"""Metrics that always have a column, even without values."""


def _metrics() -> Iterator[tuple[Metric, Callable[[Kernel], int | None]]]:
    """Printed metrics in column order, then code size; spills come from the code if no line reports them."""
    first = [BY_NAME[name] for name in _ALWAYS]
    for each in (*first, *(each for each in PRINTED if each not in first)):
        get = each.get if each.name.startswith("spill") else attrgetter(f"usage.{each.name}")
        if get is not None and each.kind == "number":
            yield each, get
    if _CODE_BYTES.get is not None:
        yield _CODE_BYTES, _CODE_BYTES.get


_CODE_BYTES = BY_NAME["code_bytes"]
_METRICS = dict(_metrics())


def sorted_by(name: str) -> dict[str, str]:
    """Sort order by a metric in the page's URLs, for kernels and for changes."""
    return {"table": f"-{name}", "changes": f"-{find_metric(name).label}"}


def shortened(name: str) -> str:
    """Name of a family, namespace or file for tables."""
    return clip(name, LONGEST_NAME)


def shown_arch(arch: str | None) -> str | None:
    """Target as shown in tables."""
    return None if arch is None else clip(arch, LONGEST_ARCH)


def letter(access: LocalAccess) -> str:
    """Class of an access as a letter: spill, array, frame, helper, unknown; uppercase for stores."""
    return access.kind[0].upper() if access.store else access.kind[0]


class Texts:
    """Distinct texts, numbered in the order of first use."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Number of ``text``, which is added if it is new."""
        number = self._numbers.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number

    def numbers(self, values: Sequence[Any], shown: Callable[[Any], str | None]) -> list[int | None]:
        """Number of each value's text, ``None`` without one; each distinct value is formatted once."""
        texts = {value: shown(value) for value in dict.fromkeys(values)}
        numbers = {value: None if text is None else self.number(text) for value, text in texts.items()}
        return [numbers[value] for value in values]
