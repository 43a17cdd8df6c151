"""Archs that binaries contain code for, and those that a policy requires.

PTX can be compiled for any GPU of its own compute capability or a later one; PTX for an arch with a suffix letter only
for GPUs that run machine code with that letter (CUDA C++ Programming Guide).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field

from spillscan.model import Build, Gap, Origin
from spillscan.model.symbols import natural

REQUIREMENT = re.compile(r"(?:sm|compute)_\d+[af]?")
"""Syntax of a requirement: machine code for exactly one arch, or PTX that any GPU from a compute capability on can
run."""


class Archs(Struct):
    """Archs that a file contains GPU code for."""

    machine: set[str] = field(default_factory=set)
    """Machine code: ``sm_90a``."""
    portable: set[str] = field(default_factory=set)
    """PTX: ``compute_90``."""

    def lacks(self, wanted: Sequence[str]) -> list[str]:
        """``wanted`` archs that the file does not cover."""
        served = {each for each in wanted if any(_serves(arch, each) for arch in self.portable)}
        return [arch for arch in wanted if arch not in self.machine | served]


def _serves(arch: str, wanted: str) -> bool:
    """Whether PTX for ``arch`` satisfies the requirement ``wanted``."""
    if not wanted.startswith("compute_") or not wanted[-1].isdigit() or not arch[-1].isdigit():
        return arch == wanted
    return int(arch.removeprefix("compute_")) <= int(wanted.removeprefix("compute_"))


def of_build(build: Build) -> dict[str, Archs]:
    """Archs by binary; if no binary was read, those of the whole build, under an empty name."""
    archs: dict[str, Archs] = {}
    for kernel in build.kernels:
        for origin in kernel.origins:
            if origin.format == "binary" and kernel.key.arch:
                archs.setdefault(origin.input, Archs()).machine.add(kernel.key.arch)
    for module in build.portable:
        if module.form == "PTX" and module.arch:
            archs.setdefault(module.origin.input if module.origin else "", Archs()).portable.add(module.arch)
    return archs or {"": Archs(machine={kernel.key.arch for kernel in build.kernels if kernel.key.arch})}


def gaps(files: Mapping[str, Archs], wanted: Sequence[str]) -> Iterator[Gap]:
    """``wanted`` archs that files lack."""
    for name, archs in files.items():
        origin = Origin(input=name, format="binary") if name else None
        if lacking := archs.lacks(wanted):
            have = " ".join(sorted(archs.machine | archs.portable, key=natural)) or "no GPU code"
            message = f"no code for {', '.join(lacking)} (required by the policy); found {have}"
            yield Gap(code="arch-required", message=message, hides=("kernels",), origin=origin, names=tuple(lacking))
