"""Which GPUs can run what a file holds: its machine code, and the PTX that their driver compiles.

Compatibility is that of the CUDA C++ Programming Guide; of machine code in
:func:`~spillscan.occupancy.devices.runs_on`. PTX is compiled for any GPU of its own compute capability or a later one;
with a letter, for those that run machine code with that letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from spillscan.model import Build, Hole, Origin
from spillscan.names import arch_family, natural
from spillscan.occupancy.devices import resolve, runs_on

REQUIREMENT = re.compile(r"(?:sm|compute)_\d+[af]?")
"""What may be required: machine code for just this arch; PTX that any GPU from this compute capability on can run."""
_TEGRA = frozenset({"sm_32", "sm_53", "sm_62", "sm_72", "sm_87", "sm_101", "sm_110"})
"""Machine code is compatible neither among these nor with others (the same guide, "Binary Compatibility")."""


@dataclass(slots=True)
class Archs:
    """What a file holds GPU code for."""

    machine: set[str] = field(default_factory=set)
    """``sm_90a``."""
    portable: set[str] = field(default_factory=set)
    """PTX: ``compute_90``."""

    def lacks(self, wanted: Iterable[str]) -> list[str]:
        """Those of what is ``wanted`` that it does not hold."""
        return [arch for arch in wanted if arch not in self.machine and not self._compiles(arch)]

    def _compiles(self, wanted: str) -> bool:
        return any(_serves(arch, wanted) for arch in self.portable)

    def for_gpu(self, name: str) -> tuple[list[str], list[str]]:
        """Of machine code and of PTX, what runs on a GPU; the driver takes PTX where there is no machine code."""
        target = resolve(name)[0].target
        alike = (arch for arch in self.machine if arch_family(arch) == target or _TEGRA.isdisjoint({arch, target}))
        machine = [arch for arch in alike if runs_on(arch, name)]
        portable = [arch for arch in self.portable if _runs(arch, name)]
        return sorted(machine, key=natural), sorted(portable, key=natural)


def _serves(arch: str, wanted: str) -> bool:
    """Whether PTX for ``arch`` is as good as that for ``wanted``."""
    if not wanted.startswith("compute_") or not wanted[-1].isdigit() or not arch[-1].isdigit():
        return arch == wanted
    return int(arch.removeprefix("compute_")) <= int(wanted.removeprefix("compute_"))


def _runs(portable: str, name: str) -> bool:
    number = portable.removeprefix("compute_")
    if not number.isdigit():
        return runs_on(f"sm_{number}", name)
    return divmod(int(number), 10) <= resolve(name)[0].version


def of_build(build: Build) -> dict[str, Archs]:
    """By binary; where no binary was read, of the whole build, under no name."""
    found: dict[str, Archs] = {}
    for kernel in build.kernels:
        origin = kernel.sass.origin if kernel.sass is not None else None
        if origin is not None and origin.format == "binary" and kernel.key.arch:
            found.setdefault(origin.input, Archs()).machine.add(kernel.key.arch)
    for module in build.portable:
        if module.form == "PTX" and module.arch:
            found.setdefault(module.origin.input if module.origin else "", Archs()).portable.add(module.arch)
    return found or {"": Archs(machine={kernel.key.arch for kernel in build.kernels if kernel.key.arch})}


def holes(held: Mapping[str, Archs], wanted: Sequence[str]) -> Iterator[Hole]:
    """What files do not hold that they must."""
    for name, archs in held.items():
        if lacking := archs.lacks(wanted):
            have = " ".join(sorted({*archs.machine, *archs.portable}, key=natural)) or "no GPU code"
            message = f"no code for {', '.join(lacking)}, which the policy requires; it has {have}"
            yield Hole(
                code="arch-required",
                message=message,
                hides=("kernels",),
                origin=Origin(input=name, format="binary") if name else None,
                names=tuple(lacking),
            )
