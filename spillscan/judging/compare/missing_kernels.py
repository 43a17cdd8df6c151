"""Kernels that the newer build does not have: deleted, or just not compiled this time.

A kernel was deleted if the newer build compiled its unit for its arch and the output does not contain it. Otherwise,
kernels may be missing whose metrics got worse. Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from spillscan.model import Build, Change, Gap, Kernel
from spillscan.model.symbols import arch_family, natural
from spillscan.naming import Names
from spillscan.naming.libraries import below_root, library_of
from spillscan.naming.symbol import canonical
from spillscan.output.nouns import count

FEW = 3
"""Kernels that may be gone from a build with unknown units, if they are at most one in ``SHARE``.

A commit that deletes kernels deletes one or two; a source that was not compiled takes all of its kernels along.
"""
SHARE = 4
_NAMED = 3
"""Kernels named in a message."""

_CODES = ("arch-missing", "unit-missing", "kernels-missing")


class _Group(NamedTuple):
    """Something that the newer build lacks, with its kernels."""

    code: str
    """Kind of gap."""
    place: str = ""
    """Unit; empty for the whole build."""
    arch: str | None = None


_UNKNOWN = _Group("kernels-missing")


def nothing_in_common(base: Build, head: Build) -> list[Gap]:
    """A gap if no kernel of ``base`` can have a counterpart in ``head``."""
    if not base.kernels or not head.kernels:
        return []
    families = _families(base)
    if any(arch_family(kernel.key.arch) in families for kernel in head.kernels):
        return []
    named = ({kernel.key.arch or "arch unknown" for kernel in build.kernels} for build in (base, head))
    older, newer = (", ".join(sorted(archs, key=natural)) for archs in named)
    message = f"the builds have no arch in common (older: {older}; newer: {newer}): nothing was compared"
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
    groups: dict[_Group, list[Kernel]] = defaultdict(list)
    for group, kernel in _unexplained(gone, base, head, places):
        groups[group].append(kernel)
    few = max(1, min(FEW, len(_entries(base)) // SHARE))
    return [
        _gap(group, groups[group], base, places)
        for group in sorted(groups, key=lambda group: _CODES.index(group.code))
        if group.code != "kernels-missing" or len({kernel.key.symbol for kernel in groups[group]}) > few
    ]


def _unexplained(gone: Sequence[Kernel], base: Build, head: Build, places: _Places) -> Iterator[tuple[_Group, Kernel]]:
    """Kernels whose arch or unit is gone, or whose unit is unknown, each with what is missing.
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
    for kernel in gone:
        unit, family, arch = places.unit(kernel), arch_family(kernel.key.arch), kernel.key.arch
        place = unit or (places.input(kernel) if several else "")
        of_unknown = not whole and kernel.role != "function"
        if family not in families:
            yield _Group("arch-missing", "", arch), kernel
        elif compiled_whole(unit_of(kernel), arch):
            continue
        elif (place, family) in compiled:
            if not unit and of_unknown:  # one log for many sources
                yield _UNKNOWN, kernel
        elif place in units:
            yield _Group("arch-missing", place, arch), kernel
        elif place and not (unit and nameless):
            yield _Group("unit-missing", place), kernel
        elif of_unknown:
            yield _UNKNOWN, kernel


def _holds_nameless(base: Build, head: Build) -> bool:
    """Whether ``head`` may contain a unit without naming it.

    True if kernels there have no unit, and the base does not assign each of them to a single one.
    """
    units: dict[str, set[str]] = defaultdict(set)
    for kernel in base.kernels:
        units[canonical(kernel.key.symbol)].add(kernel.key.unit)
    nameless = [kernel for kernel in head.kernels if not kernel.key.unit]
    several = any(len(units[canonical(kernel.key.symbol)]) != 1 for kernel in nameless)
    return several or len(nameless) == len(head.kernels)


def _compiled(base: Build, head: Build, places: _Places) -> set[tuple[str, str | None]]:
    """Units of the base that the head compiled: those that it names, and those that have another name there.

    A unit has another name if the head has half of the kernels that only this unit had. In logs that name no units, the
    inputs take their place.
    """
    owners: dict[tuple[str, str | None], set[str]] = defaultdict(set)
    for kernel in base.kernels:
        owners[_identity(kernel)].add(places.of(kernel))
    alone: dict[tuple[str, str | None], set[object]] = defaultdict(set)
    for identity, units in owners.items():
        if len(units) == 1:
            alone[min(units), identity[1]].add(identity)
    known = {places.of(kernel) for kernel in base.kernels}
    theirs = _Places(head)
    built = {(theirs.of(kernel), arch_family(kernel.key.arch)) for kernel in head.kernels}
    elsewhere = {_identity(kernel) for kernel in head.kernels if theirs.of(kernel) not in known}
    # A module without kernels names no arch.
    built |= {(unit, family) for unit in head.empty_units for family in _families(base)}
    return built | {group for group, own in alone.items() if 2 * len(own & elsewhere) >= len(own)}


def _identity(kernel: Kernel) -> tuple[str, str | None]:
    return canonical(kernel.key.symbol), arch_family(kernel.key.arch)


class _Places:
    """Places of the kernels of one build: the library, else the unit, else the input, whatever folder was given."""

    def __init__(self, build: Build) -> None:
        self._below = cache(below_root(build.kernels))
        self._several = len({library_of(kernel, self._below) for kernel in build.kernels}) > 1

    def input(self, kernel: Kernel) -> str:
        """Input, relative to the folder common to all."""
        return self._below(kernel.origins[0].input) if kernel.origins else ""

    def unit(self, kernel: Kernel) -> str:
        """Library or object of the kernel; empty if neither is named. The number of a copy is no name; an object in the
        only library is named without it, whose own name may contain a version."""
        library = library_of(kernel, self._below)
        unit = library if library and self._several else kernel.key.unit.removeprefix(library).lstrip(":")
        return "" if unit.startswith("#") else unit

    def of(self, kernel: Kernel) -> str:
        """Unit, else input."""
        return self.unit(kernel) or self.input(kernel)


def _entries(build: Build) -> set[str]:
    return {kernel.key.symbol for kernel in build.kernels if kernel.role != "function"}


def _families(build: Build) -> set[str | None]:
    return set(map(arch_family, {kernel.key.arch for kernel in build.kernels}))


def _gap(group: _Group, kernels: Sequence[Kernel], base: Build, places: _Places) -> Gap:
    by_arch = Counter(arch for _, arch in {(kernel.key.symbol, kernel.key.arch) for kernel in kernels})
    archs = ", ".join(f"{arch or 'arch unknown'}: {by_arch[arch]:,}" for arch in sorted(by_arch, key=natural))
    if group.code == "arch-missing":
        where = f"{group.place} of the newer build" if group.place else "the newer build"
        units = len({places.of(kernel) for kernel in kernels})
        lost = count(len(kernels), "kernel") + (f" in {count(units, 'unit')}" if units > 1 else "")
        message = f"{where} has no kernel for {group.arch or 'an unknown arch'}: {lost} of the older build missing"
    elif group.code == "unit-missing":
        message = f"{group.place} is not in the newer build: {_counted(kernels)} ({archs})"
    else:
        message = f"{_counted(kernels, len(_entries(base)))} ({archs}); the logs do not name their sources"
    origin = kernels[0].origins[0] if kernels[0].origins else None
    names = tuple(filter(None, (group.place, group.arch)))
    return Gap(code=group.code, message=message, hides=("kernels",), origin=origin, names=names)


def _counted(kernels: Sequence[Kernel], every: int = 0) -> str:
    symbols = list(dict.fromkeys(kernel.key.symbol for kernel in kernels))
    more = ", …" if len(symbols) > _NAMED else ""
    names = Names(symbols)
    named = ", ".join(names.of(symbol) for symbol in symbols[:_NAMED])
    number = f"{len(symbols):,} of {count(every, 'kernel')}" if every else count(len(symbols), "kernel")
    return f"{number} of the older build missing ({named}{more})"
