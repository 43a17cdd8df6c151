"""Which devices run machine code that was compiled for an arch."""

from __future__ import annotations

from collections.abc import Sequence

from spillscan.errors import UsageError
from spillscan.occupancy.devices import device, resolve


def judged_on(arch: str | None, devices: Sequence[str]) -> tuple[str | None, ...]:
    """Those of ``devices`` that run code for ``arch``; without devices, or where the arch is not known, the arch."""
    if not devices or arch is None:
        return (arch,)
    return tuple(name for name in devices if runs_on(arch, name))


def runs_on(arch: str, name: str) -> bool:
    """Whether code for ``arch`` (``sm_80``, ``sm_90a``, ``sm_100f``) runs on the device ``name`` (``H100``, ``sm_86``).

    By the rules of the CUDA C++ Programming Guide (binary compatibility; architecture- and family-specific features):
    code runs within its major compute capability, from its own minor on; with ``a`` on its own compute capability only;
    with ``f`` within its family, which is the major but for 10.1, the former name of 11.0.

    An arch that no device is known of runs nowhere; an unknown device raises :class:`~spillscan.errors.UsageError`.
    """
    there = resolve(name)[0].version
    try:
        here = device(arch).version
    except UsageError:
        return False
    if arch.endswith("a"):
        return here == there
    if arch.endswith("f") and (10, 1) in (here, there):
        return here == there
    return here[0] == there[0] and here[1] <= there[1]
