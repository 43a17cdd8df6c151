"""Kernels that the newer build does not have: deleted, or just not compiled this time.

A kernel was deleted if the newer build compiled its unit for its arch and the output does not contain it. Otherwise,
kernels may be missing whose metrics got worse. Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import PurePosixPath

from spillscan.model import Build, Change, Gap, Kernel
from spillscan.model.symbols import arch_family, natural
from spillscan.naming import Names
from spillscan.naming.identity import canonical
from spillscan.naming.identity.libraries import below_root, library_of
from spillscan.output.nouns import count

FEW = 3
"""Kernels that may be gone from a build with unknown units, if they are at most one in ``SHARE``.

A commit that deletes kernels deletes one or two; a source that was not compiled takes all of its kernels along.
"""
SHARE = 4
_NAMED = 3
"""Kernels named in a message."""

_Group = tuple[str, str | None]
"""A unit and a family of archs."""


def nothing_in_common(base: Build, head: Build) -> list[Gap]:
    """A gap if no kernel of ``base`` can have a counterpart in ``head``."""
    if not base.kernels or not head.kernels:
        return []
    families = _families(base)
    if any(arch_family(kernel.key.arch) in families for kernel in head.kernels):
        return []
    named = ({kernel.key.arch or "arch unknown" for kernel in build.kernels} for build in (base, head))
    archs = " and ".join(", ".join(sorted(archs)) for archs in named)
    message = f"the builds have no arch in common ({archs}): nothing was compared"
    return [Gap(code="nothing-compared", message=message, hides=("kernels",))]


def missing_kernels(changes: Iterable[Change], base: Build, head: Build) -> list[Gap]:
    """Gaps for removed kernels among ``changes`` that may only be missing.
    ``base`` and ``head`` are the whole builds: kernels that are not compared also show what was compiled. No kernel may
    be gone if its unit or arch is missing, and only few if the units are unknown.
    """
    gone = [change.before for change in changes if change.state == "removed" and change.before]
    if not gone or not head.kernels:
        return []
    places = _Places(base)
    by_arch, by_unit, unknown = _unexplained(gone, base, head, places)
    unknown = unknown if len({kernel.key.symbol for kernel in unknown}) > _few(base) else []
    return [*_archs_missing(by_arch, places), *_units_missing(by_unit), *_kernels_missing(unknown, base)]


def _unexplained(
    gone: Sequence[Kernel], base: Build, head: Build, places: _Places
) -> tuple[dict[_Group, list[Kernel]], dict[str, list[Kernel]], list[Kernel]]:
    """Kernels whose arch is gone (by unit and arch), whose unit is gone (by unit), and whose unit is unknown.
    Kernels missing from a binary are deleted, since it contains all of its code; so are those missing from the report
    of a unit that was compiled again.
    """
    compiled = _compiled(base, head, places)
    units = {unit for unit, _ in compiled}
    unit_of, compiled_whole = base.unit_names(), head.compiled()
    families = _families(head)
    nameless = _holds_nameless(base, head)
    whole = all(kernel.origins and kernel.origins[0].format == "binary" for kernel in head.kernels)
    several = len({places.input(kernel) for kernel in base.kernels}) > 1
    by_arch: dict[_Group, list[Kernel]] = defaultdict(list)
    by_unit: dict[str, list[Kernel]] = defaultdict(list)
    unknown: list[Kernel] = []
    for kernel in gone:
        unit, family = places.unit(kernel), arch_family(kernel.key.arch)
        place = unit or (places.input(kernel) if several else "")
        if family not in families:
            by_arch["", kernel.key.arch].append(kernel)
        elif compiled_whole(unit_of(kernel), kernel.key.arch):
            continue
        elif (place, family) in compiled:
            if not unit and not whole and kernel.role != "function":
                unknown.append(kernel)  # one log for many sources
        elif place in units:
            by_arch[place, kernel.key.arch].append(kernel)
        elif place and not (unit and nameless):
            by_unit[place].append(kernel)
        elif not whole and kernel.role != "function":
            unknown.append(kernel)
    return by_arch, by_unit, unknown


def _holds_nameless(base: Build, head: Build) -> bool:
    """Whether ``head`` may contain a unit without naming it.

    True if kernels there have no unit, and the base does not assign each of them to a single one.
    """
    units: dict[str, set[str]] = defaultdict(set)
    for kernel in base.kernels:
        units[canonical(kernel.key.symbol)].add(kernel.key.unit)
    nameless = [kernel for kernel in head.kernels if not kernel.key.unit]
    if len(nameless) == len(head.kernels):
        return True
    return any(len(units[canonical(kernel.key.symbol)]) != 1 for kernel in nameless)


def _compiled(base: Build, head: Build, places: _Places) -> set[_Group]:
    """Units of the base that the head compiled: those that it names, and those that have another name there.

    A unit has another name if the head has half of the kernels that only this unit had. In logs that name no units, the
    inputs take their place.
    """
    owners: dict[tuple[str, str | None], set[str]] = defaultdict(set)
    for kernel in base.kernels:
        owners[canonical(kernel.key.symbol), arch_family(kernel.key.arch)].add(places.of(kernel))
    known = {places.of(kernel) for kernel in base.kernels}
    stems = Counter(_stem(place) for place in known)
    by_stem = {_stem(place): place for place in known if stems[_stem(place)] == 1}
    own = Counter((unit, family) for (_, family), units in owners.items() for unit in units if len(units) == 1)
    seen: dict[_Group, set[str]] = defaultdict(set)
    # A module without kernels names no arch.
    found: set[_Group] = {(unit, family) for unit in head.empty_units for family in _families(base)}
    found |= {(by_stem[_stem(unit)], family) for unit, family in found if _stem(unit) in by_stem and unit not in known}
    theirs = _Places(head)
    for kernel in head.kernels:
        place, family = theirs.of(kernel), arch_family(kernel.key.arch)
        found.add((place, family))
        if place not in known:
            symbol = canonical(kernel.key.symbol)
            mine = owners.get((symbol, family), set())
            if len(mine) == 1:
                seen[next(iter(mine)), family].add(symbol)
            if theirs.unit(kernel) and _stem(place) in by_stem:
                found.add((by_stem[_stem(place)], family))
    return found | {group for group, symbols in seen.items() if 2 * len(symbols) >= own[group] > 0}


class _Places:
    """Places of the kernels of one build: the library, else the unit, else the input, whatever folder was given."""

    def __init__(self, build: Build) -> None:
        self._below = cache(below_root(build.kernels))
        self._several = len({library_of(kernel, self._below) for kernel in build.kernels}) > 1

    def input(self, kernel: Kernel) -> str:
        """Input, relative to the folder common to all."""
        return self._below(kernel.origins[0].input) if kernel.origins else ""

    def unit(self, kernel: Kernel) -> str:
        """Library or object of the kernel; empty if neither is named. The number of a copy is no name."""
        library = library_of(kernel, self._below) if self._several else ""
        return library or ("" if kernel.key.unit.startswith("#") else kernel.key.unit)

    def of(self, kernel: Kernel) -> str:
        """Unit, else input."""
        return self.unit(kernel) or self.input(kernel)


def _stem(unit: str) -> str:
    """``gemm`` for ``obj/gemm.cu.o``."""
    return PurePosixPath(unit).name.partition(".")[0]


def _few(base: Build) -> int:
    """Number of kernels that may be gone if the compiled sources are unknown."""
    return max(1, min(FEW, len({kernel.key.symbol for kernel in base.kernels if kernel.role != "function"}) // SHARE))


def _families(build: Build) -> set[str | None]:
    return set(map(arch_family, {kernel.key.arch for kernel in build.kernels}))


def _archs_missing(groups: dict[_Group, list[Kernel]], places: _Places) -> Iterator[Gap]:
    for (unit, arch), kernels in groups.items():
        where = f"{unit} of the newer build" if unit else "the newer build"
        units = len({places.of(kernel) for kernel in kernels})
        among = f" in {count(units, 'unit')}" if units > 1 else ""
        message = f"{where} has no kernel for {arch or 'an unknown arch'}: {_counted(kernels)}{among}"
        yield _gap("arch-missing", message, kernels, (unit, arch or ""))


def _units_missing(groups: dict[str, list[Kernel]]) -> Iterator[Gap]:
    for unit, kernels in groups.items():
        message = f"{unit} is not in the newer build: {_counted(kernels)} ({_by_arch(kernels)})"
        yield _gap("unit-missing", message, kernels, (unit,))


def _kernels_missing(kernels: Sequence[Kernel], base: Build) -> Iterator[Gap]:
    if kernels:
        every = len({kernel.key.symbol for kernel in base.kernels if kernel.role != "function"})
        message = f"{_counted(kernels)}, of {every:,}, and no line says which sources were compiled"
        yield _gap("kernels-missing", f"{message} ({_by_arch(kernels)})", kernels, ())


def _gap(code: str, message: str, kernels: Sequence[Kernel], names: tuple[str, ...]) -> Gap:
    origin = kernels[0].origins[0] if kernels[0].origins else None
    return Gap(code=code, message=message, hides=("kernels",), origin=origin, names=tuple(filter(None, names)))


def _counted(kernels: Sequence[Kernel]) -> str:
    symbols = list(dict.fromkeys(kernel.key.symbol for kernel in kernels))
    more = ", …" if len(symbols) > _NAMED else ""
    names = Names(symbols)
    named = ", ".join(names.of(symbol) for symbol in symbols[:_NAMED])
    return f"{count(len(symbols), 'kernel')} of the older one gone ({named}{more})"


def _by_arch(kernels: Sequence[Kernel]) -> str:
    counts = Counter(kernel.key.arch for kernel in kernels)
    return ", ".join(f"{arch or 'arch unknown'}: {counts[arch]:,}" for arch in sorted(counts, key=natural))
