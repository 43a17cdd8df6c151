"""Kernels grouped by family (one template), file, namespace or arch; the worst group first."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final, Literal

from msgspec import Struct

from spillscan.judging.places import source_of
from spillscan.model import Kernel
from spillscan.model.build import damage
from spillscan.model.symbols import namespace, natural
from spillscan.naming import Names
from spillscan.output.nouns import count, size
from spillscan.output.safe import printable

By = Literal["kernel", "family", "file", "namespace", "arch"]


_LONGEST_LABEL = 60
INSTANCES: Final = 3
"""Instances shown per family; the rest is counted."""
_FEW_ARCHS = 3
"""Most archs listed in a row; of more, the first, the last and their number are shown."""


class Group(Struct, frozen=True, kw_only=True):
    """Kernels with a common property."""

    label: str
    """Name of the group."""
    kernels: tuple[Kernel, ...]
    """Worst first."""
    template: bool = False
    """Whether the group is a family."""
    spilling: int
    """Number of kernels known to spill."""
    spill_bytes: int
    """Bytes of all known spill stores and loads."""

    @property
    def family(self) -> bool:
        """Whether the group is a family of several instances, which their arguments tell apart."""
        return self.template and len({kernel.named_by for kernel in self.kernels}) > 1

    @property
    def title(self) -> str:
        """``mul_mat_q: 169 of 704 spilling, 43,212 B``."""
        total, silent = len(self.kernels), sum(kernel.spills is None for kernel in self.kernels)
        unknown = f", {silent:,} unknown" if silent else ""
        if self.spilling:
            return f"{self.label}: {self.spilling:,} of {total:,} spilling, {size(self.spill_bytes)}{unknown}"
        functions = all(kernel.role == "function" for kernel in self.kernels)
        number = count(total, "device function" if functions else "kernel")
        return f"{self.label}: {number}{unknown or f', {none_spills(self.kernels)}'}"


def none_spills(kernels: Iterable[Kernel]) -> str:
    """``0 spilling, 26 with other local memory``, for kernels that are not known to spill."""
    others = len(other_local(kernels))
    return "0 spilling" + (f", {others:,} with other local memory" if others else "")


def other_local(kernels: Iterable[Kernel]) -> list[Kernel]:
    """Kernels that use local memory although neither they nor their callees spill, the largest use first."""
    quiet = (each for each in kernels if each.spills == (0, 0) and not sum(each.cumulative_spills or ()))
    using = [(each, _local(each)) for each in quiet]
    return [each for each, used in sorted(using, key=lambda pair: -pair[1]) if used]


def _local(kernel: Kernel) -> int:
    """Bytes of local memory as reported, else the bytes that the code accesses."""
    moved = kernel.sass.local.total.bytes if kernel.sass else 0
    return kernel.usage.stack_bytes or kernel.usage.local_bytes or moved


def shared_label(kernel: Kernel, by: By, names: Names) -> str:
    """Label of a kernel's group."""
    match by:
        case "family":
            return names.base(kernel.named_by)
        case "kernel":
            return names.of(kernel.named_by)
        case "arch":
            return kernel.key.arch or "arch unknown"
        case "namespace":
            return namespace(kernel.name)
    place = source_of(kernel) or kernel.key.unit or (kernel.origins[0].input if kernel.origins else "")
    return posixpath.basename(place.replace("\\", "/")) or "file unknown"


def archs_cell(archs: Iterable[str | None], missing: str = "-") -> str:
    """Archs that share a row: ``sm_80, 86, 90a``, ``sm_70 … 120 (8)``."""
    distinct = sorted({arch or missing for arch in archs}, key=natural)
    same = all(arch.startswith("sm_") for arch in distinct)
    shown = [arch.removeprefix("sm_") if same and at else arch for at, arch in enumerate(distinct)]
    return f"{shown[0]} … {shown[-1]} ({len(shown)})" if len(shown) > _FEW_ARCHS else ", ".join(shown)


def grouped(kernels: Iterable[Kernel], by: By, names: Names) -> Iterator[Group]:
    """Groups of kernels, most spilled bytes first, then by the damage of their worst kernel.

    Groups are sorted lazily, since tables may show only some of many.
    """
    by_label: dict[str, list[Kernel]] = {}
    base = cache(names.base)
    for kernel in kernels:
        label = base(kernel.named_by) if by == "family" else shared_label(kernel, by, names)
        by_label.setdefault(label, []).append(kernel)
    spilling: dict[int, list[tuple[str, list[Kernel]]]] = {}
    for label, members in by_label.items():
        spilling.setdefault(sum(sum(kernel.spills or ()) for kernel in members), []).append((label, members))
    for _, groups in sorted(spilling.items(), reverse=True):
        ordered = [(label, sorted(members, key=damage)) for label, members in groups]
        yield from (_group(*each, by) for each in sorted(ordered, key=lambda each: damage(each[1][0])))


def _group(label: str, kernels: Sequence[Kernel], by: By) -> Group:
    spills = [sum(kernel.spills or ()) for kernel in kernels]
    return Group(
        label=printable(label, _LONGEST_LABEL) or "(no name)",
        kernels=tuple(kernels),
        template=by == "family",
        spilling=sum(map(bool, spills)),
        spill_bytes=sum(spills),
    )
