"""What limits each kernel's occupancy, in the page's words; each distinct question is asked once."""

from __future__ import annotations

from spillscan.model import Kernel
from spillscan.occupancy.summary import Summary, summarise
from spillscan.policy import Launches

LIMITERS = (
    *("registers", "shared memory", "block slots", "barriers", "several", "warp slots", "cannot launch", "unknown"),
)
"""What can limit a kernel, the parts that can be changed first."""
_WORDS = {
    "registers": "registers",
    "shared_memory": "shared memory",
    "blocks": "block slots",
    "barriers": "barriers",
    "warps": "warp slots",
    "virtual_resources": "virtual resources",
}


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
    if len(names) == 1 and (name := _WORDS[names.pop()]) in LIMITERS:
        return name
    return "several" if names else "unknown"


def words(found: Summary) -> str:
    """All that binds: ``registers``, ``warp slots + registers``."""
    if found.occupancy is not None and not found.occupancy.can_launch:
        return "cannot launch"
    return " + ".join(_WORDS[name] for name in found.limiters) or "unknown"
