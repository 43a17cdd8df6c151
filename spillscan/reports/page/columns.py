"""The kernels of a build as columns: what the table of a page sorts, filters and shows.

100,000 kernels are twelve lists of numbers, not 100,000 objects; texts stand once and are numbered.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2s
from typing import Any

from spillscan.judging.places import source_of
from spillscan.model import Kernel
from spillscan.model.figures import BY_NAME, figure
from spillscan.model.symbols import demangle, namespace
from spillscan.model.usage import PRINTED, Figure
from spillscan.naming import WIDTH, Key, Names, symbol_of
from spillscan.naming.identity.symbol import canonical
from spillscan.occupancy.binding import LABELS
from spillscan.occupancy.launches import Launches
from spillscan.occupancy.summary import Summary, summarise, whole
from spillscan.output.safe import clip, printable
from spillscan.reports.page.packing import packed

FUNCTION, UNKNOWN_ROLE, AMBIGUOUS, NOT_FINAL, ASSUMED, AT_MOST, BY_BOUNDS = 1, 2, 4, 8, 16, 32, 64
"""Flags of a kernel: no entry; only a message names it; figures not sure; registers before the link; occupancy at the
best block size, because it is not known how it is launched."""
LONGEST_NAME, LONGEST_ARCH, LONGEST_UNIT, LONGEST_LEGEND = 120, 24, 300, 300
"""Characters of what a table shows of them; the full name comes on demand."""


def identifiers(kernels: Sequence[Kernel]) -> list[str]:
    """A name for each kernel's address, the same in the page of another build: of its identity and arch; namesakes are
    numbered."""
    seen: dict[str, int] = {}
    found = []
    for kernel in kernels:
        identity = f"{canonical(kernel.key.symbol)}\n{kernel.key.arch}".encode("utf-8", "replace")
        digest = blake2s(identity, digest_size=5).hexdigest()
        seen[digest] = number = seen.get(digest, 0) + 1
        found.append(digest if number == 1 else f"{digest}-{number}")
    return found


def columns(kernels: Sequence[Kernel], summaries: Summaries, called: Names) -> dict[str, Any]:
    """The kernels in the order given; ``None`` where the input did not say."""
    arches, units, limiters, files, callers = Texts(), Texts(), Texts(), Texts(), Texts()
    families, namespaces = Texts(), Texts()
    keys: dict[Key, int] = {}
    binaries = (each.origins[0].input for each in kernels if each.origins and each.origins[0].format == "binary")
    several = len(set(binaries)) > 1
    table: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    known: dict[int, tuple[int, int | None, int | None, int | None]] = {}  # kernels of one summary share it
    for kernel in kernels:
        found = summaries.of(kernel)
        if id(found) not in known:
            known[id(found)] = _residency(found, limiters)
        sure, *residency = known[id(found)]
        flags = sure | {"entry": 0, "function": FUNCTION, "unknown": UNKNOWN_ROLE}[kernel.role]
        flags |= AMBIGUOUS if kernel.confidence == "ambiguous" else 0
        flags |= NOT_FINAL if kernel.final is False else 0
        symbol = keys.setdefault(kernel.named_by, len(keys))
        row = (
            symbol,
            None if kernel.key.arch is None else arches.number(clip(kernel.key.arch, LONGEST_ARCH)),
            units.number(clip(_object(kernel, several), LONGEST_UNIT)),
            files.number(shown_file(kernel)),
            callers.number(shown_name(kernel.caller, called) if kernel.caller else ""),
            flags,
            *residency,
        )
        for values, value in zip(table.values(), row, strict=True):
            values.append(value)
    figures = {each: [get(kernel) for kernel in kernels] for each, get in _FIGURES.items()}
    shown = {each: figures[each] for each in figures if each.name in _KEYS or figures[each].count(None) < len(kernels)}
    weigh = BY_NAME["code_bytes"].get
    code = [weigh(kernel) if weigh is not None else None for kernel in kernels]
    return {
        "count": len(kernels),
        "id": identifiers(kernels),
        **({"code": code} if any(size is not None for size in code) else {}),
        **table,
        **{_KEYS.get(each.name, each.name): values for each, values in shown.items()},
        "figures": [
            {"key": _KEYS.get(each.name, each.name), "label": each.label, "unit": each.unit, "about": each.about}
            for each in shown
        ],
        "names": [shown_name(key, called) for key in keys],
        "family": [families.number(shown_family(key, called)) for key in keys],
        "namespace": [namespaces.number(shown_namespace(key)) for key in keys],
        "families": families.texts,
        "namespaces": namespaces.texts,
        "files": files.texts,
        "callers": callers.texts,
        "arches": arches.texts,
        "units": units.texts,
        "limiters": limiters.texts,
        "full": packed([(printable(symbol), printable(demangle(symbol))) for symbol in map(symbol_of, keys)]),
    }


def _object(kernel: Kernel, several: bool) -> str:
    """What holds the kernel; of ``several`` binaries with the one that it is in."""
    unit = kernel.key.unit
    if not several or not kernel.origins or kernel.origins[0].format != "binary":
        return unit
    return kernel.origins[0].input + (":" if unit and not unit.startswith("#") else "") + unit


def _residency(found: Summary | None, limiters: Texts) -> tuple[int, int | None, int | None, int | None]:
    """Flags, occupancy in thousandths, all that binds, and what does; of a device function, which is never launched,
    nothing."""
    if found is None:
        return 0, None, None, None
    bound = LIMITERS.index(binds(found))
    if found.occupancy is None:
        return 0, None, None, bound
    flags = ASSUMED if found.assumed else AT_MOST if found.at_most else 0
    share = whole(1000 * found.occupancy.fraction, bool(flags))
    flags |= BY_BOUNDS if found.by_bounds else 0
    return flags, share, limiters.number(found.cells["limiter"] or "unknown"), bound


_COLUMNS = ("symbol", "arch", "unit", "file", "caller", "flags", "occupancy", "limiter", "bound")
_KEYS = {
    "registers": "registers",
    "spill_store_bytes": "stores",
    "spill_load_bytes": "loads",
    "stack_bytes": "stack",
    "shared_bytes": "shared",
    "barriers": "barriers",
}
"""Figures that have a column even where they are known of no kernel, and what addresses of a page call them."""


def _figures() -> Iterator[tuple[Figure, Callable[[Kernel], int | None]]]:
    """What is printed, as it is printed; spills that no line counts, as the code shows them."""
    places = {name: place for place, name in enumerate(_KEYS)}
    for each in sorted(PRINTED, key=lambda each: places.get(each.name, len(places))):
        get = BY_NAME[each.name].get if each.name.startswith("spill") else each.get
        if get is not None and each.kind == "number":
            yield each, get


_FIGURES = dict(_figures())


def sorted_by(name: str) -> dict[str, str]:
    """What addresses of a page call the order by a figure, of kernels and of changes."""
    return {"table": f"-{_KEYS.get(name, name)}", "changes": f"-{figure(name).label}"}


def shown_name(key: Key, called: Names) -> str:
    """What tables call a kernel: short, printable."""
    return called.of(key) or "(no name)"


def shown_family(key: Key, called: Names) -> str:
    """What tables call a kernel's family."""
    return _base(called.base(key))


def _base(base: str) -> str:
    return clip(base, LONGEST_NAME) or "(no name)"


def letters(keys: Iterable[Key], called: Names, least: int = WIDTH) -> list[tuple[str, str]]:
    """(family, what letters in the names of its kernels stand for), as tables call them; ``least``: characters of
    names where they are shortest."""
    shown = list(keys)
    found = {**(called.legend(shown, least) if least < WIDTH else {}), **called.legend(shown)}
    return [(_base(base), clip(line, LONGEST_LEGEND)) for base, line in found.items()]


def shown_namespace(key: Key) -> str:
    """The namespace that a kernel is from."""
    return clip(namespace(demangle(symbol_of(key))), LONGEST_NAME)


def shown_file(kernel: Kernel) -> str:
    """The name of the source that a kernel is from; empty where nothing says it."""
    return clip(posixpath.basename(source_of(kernel).replace("\\", "/")), LONGEST_NAME)


def shown_arch(arch: str | None) -> str | None:
    """A target as tables show it."""
    return None if arch is None else clip(arch, LONGEST_ARCH)


class Texts:
    """Texts by number, each once, in the order of coming."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The text's number."""
        number = self._numbers.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number


LIMITERS = (
    *("registers", "shared memory", "block slots", "barriers", "several", "warp slots", "cannot launch", "unknown"),
)
"""What can limit a kernel, the parts that can be changed first."""


class Summaries:
    """Occupancy of kernels, each distinct question asked once. Builds have many kernels and few distinct figures."""

    def __init__(self, launches: Launches) -> None:
        self._launches = launches
        self._found: dict[tuple[object, ...], Summary] = {}

    def of(self, kernel: Kernel) -> Summary | None:
        """What residency knows of it; ``None`` for a device function, which is never launched."""
        if kernel.role == "function":
            return None
        launch = self._launches.launch_of(kernel)
        question = (kernel.usage, kernel.key.arch, launch)
        if question not in self._found:
            self._found[question] = summarise(kernel.usage, kernel.key.arch, launch)
        return self._found[question]


def binds(found: Summary | None) -> str:
    """One of :data:`LIMITERS`. Where warp slots bind too, nothing that the kernel uses stands in the way."""
    if found is None or found.occupancy is None:
        return "unknown"
    if not found.occupancy.can_launch:
        return "cannot launch"
    names = set(found.limiters)
    if "warps" in names:
        return "warp slots"
    if len(names) == 1 and (name := LABELS[names.pop()]) in LIMITERS:
        return name
    return "several" if names else "unknown"
