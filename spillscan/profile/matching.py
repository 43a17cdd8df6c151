"""Which kernel of a build a launch ran: by name, by the device's architecture, and by registers where these leave two.

Where several remain that differ, the launch is ambiguous and says between what; nothing is guessed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from spillscan.errors import UsageError
from spillscan.model import Kernel
from spillscan.occupancy.compatibility import runs_on
from spillscan.occupancy.devices import device
from spillscan.profile.model import ProfiledLaunch
from spillscan.profile.names import Name, parsed

LEAST_REGISTERS = 16
"""Nsight Compute shows at least so many registers: kernels of 10, 12 and 14 registers show 16 (measured on an H200)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """What was found for one launch."""

    launch: ProfiledLaunch
    """The launch."""
    kernel: Kernel | None = None
    """The kernel that it ran; ``None`` where none, or more than one, may be it."""
    copies: int = 1
    """Kernels of that name and arch with the same figures, in so many translation units."""
    reason: str = ""
    """Why there is no kernel, one line; empty where there is one."""


class Kernels:
    """The kernels of a build, by all that a profiler may call them."""

    def __init__(self, kernels: Iterable[Kernel]) -> None:
        entries = [kernel for kernel in kernels if kernel.role != "function"]
        self._by_symbol: dict[str, list[Kernel]] = defaultdict(list)
        self._by_name: dict[Name, list[Kernel]] = defaultdict(list)
        self._by_template: dict[str, list[Kernel]] = defaultdict(list)
        self._by_base: dict[str, list[Kernel]] = defaultdict(list)
        for kernel in entries:
            name = parsed(kernel.name)
            self._by_symbol[kernel.key.symbol].append(kernel)
            self._by_name[name].append(kernel)
            self._by_template[name.qualified].append(kernel)
            self._by_base[kernel.short_name].append(kernel)

    def named(self, printed: str) -> Sequence[Kernel]:
        """Kernels that ``printed`` may name: by symbol, else by full name, else by what the form of the name tells."""
        if printed in self._by_symbol:
            return self._by_symbol[printed]
        name = parsed(printed)
        if name in self._by_name:
            return self._by_name[name]
        if name.template:  # the parameters are those of the template, and cannot be compared
            return self._by_template.get(name.qualified, ())
        if name.parameters is None:  # --print-kernel-base function
            return self._by_template.get(name.qualified, ()) or self._by_base.get(printed.strip(), ())
        return ()

    def match(self, launch: ProfiledLaunch) -> Match:
        """The kernel that ``launch`` ran."""
        named = self.named(launch.kernel)
        if not named:
            return Match(launch=launch, reason="no kernel of that name in the build")
        found = _for_device(named, launch.arch)
        if not found:
            archs = ", ".join(sorted({kernel.key.arch or "unknown" for kernel in named}))
            return Match(launch=launch, reason=f"the build has it for {archs}, not for {launch.arch}")
        if _differ(found):
            found = [kernel for kernel in found if agrees(launch, kernel) is not False]
            if not found:
                return Match(launch=launch, reason="kernels of that name differ, and none has the launch's registers")
            if _differ(found):
                return Match(launch=launch, reason=f"{len(found)} kernels of that name differ: {_told_apart(found)}")
        return Match(launch=launch, kernel=found[0], copies=len(found))


def agrees(launch: ProfiledLaunch, kernel: Kernel) -> bool | None:
    """Whether registers are the same, with the least that a profiler shows; ``None`` where one side does not tell."""
    seen, compiled = launch.measured.registers, kernel.usage.registers
    if seen is None or compiled is None or kernel.final is False or kernel.confidence != "certain":
        return None
    return seen == max(compiled, LEAST_REGISTERS)


def _for_device(kernels: Sequence[Kernel], arch: str | None) -> list[Kernel]:
    """Those that the driver would load: of the archs that run on the device the nearest; the driver takes no other."""
    if arch is None:
        return list(kernels)
    running = [kernel for kernel in kernels if kernel.key.arch is None or _runs(kernel.key.arch, arch)]
    nearest = max(((_version(kernel.key.arch), kernel.key.arch or "") for kernel in running), default=None)
    return [kernel for kernel in running if nearest and kernel.key.arch in (nearest[1], None)]


def _runs(arch: str, on: str) -> bool:
    try:
        return runs_on(arch, on)
    except UsageError:  # a device that this release does not know: its own target is all that can be told
        return arch.rstrip("af") == on


def _version(arch: str | None) -> tuple[int, int]:
    try:
        return (0, 0) if arch is None else device(arch).version
    except UsageError:
        return (0, 0)


def _differ(kernels: Sequence[Kernel]) -> bool:
    first = kernels[0]
    return any((kernel.key.symbol, kernel.usage) != (first.key.symbol, first.usage) for kernel in kernels)


def _told_apart(kernels: Sequence[Kernel]) -> str:
    tellers: tuple[tuple[str, Callable[[Kernel], object]], ...] = (
        ("symbols", lambda kernel: kernel.key.symbol),
        ("objects", lambda kernel: kernel.key.unit),
        ("registers", lambda kernel: kernel.usage.registers),
        ("spills", lambda kernel: kernel.spills),
    )
    return ", ".join(what for what, tell in tellers if len({tell(kernel) for kernel in kernels}) > 1) or "figures"
