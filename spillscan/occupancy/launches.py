"""How kernels are launched, which no build log says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from spillscan.errors import UsageError
from spillscan.model import Kernel
from spillscan.occupancy.model import Launch
from spillscan.patterns import matches

_NUMBER = re.compile(r"[0-9]{1,9}")


class Launches(Protocol):
    """Anything that knows how kernels are launched: a :class:`LaunchMap`, a policy."""

    def launch_of(self, kernel: Kernel) -> Launch | None:
        """The launch of ``kernel``; ``None`` where it is not known."""


@dataclass(frozen=True, slots=True)
class LaunchMap:
    """(glob, launch) in order; the last match counts."""

    entries: tuple[tuple[str, Launch], ...] = ()

    def launch_of(self, kernel: Kernel) -> Launch | None:
        """The launch of ``kernel``; ``None`` where no entry says, and its binary has no bounds."""
        given = next((launch for pattern, launch in reversed(self.entries) if matches(kernel, pattern)), None)
        return given or of_bounds(kernel)


def of_bounds(kernel: Kernel) -> Launch | None:
    """The block size that the launch bounds of its binary promise; ``None`` without any."""
    bounds = kernel.launch_bounds
    if bounds is None or bounds.threads is None:
        return None
    return Launch(threads_per_block=bounds.threads, source="maxntid")


def parse_launch(text: str) -> tuple[str, Launch]:
    """``GLOB=THREADS[,DYNAMIC_SHARED_BYTES]`` as an entry of a :class:`LaunchMap`."""
    pattern, equals, figures = text.rpartition("=")
    threads, _, dynamic = figures.partition(",")
    if not equals or not pattern or not _NUMBER.fullmatch(threads) or (dynamic and not _NUMBER.fullmatch(dynamic)):
        raise UsageError(f"{text!r} is no launch", "write GLOB=THREADS or GLOB=THREADS,DYNAMIC_SHARED_BYTES")
    if not 1 <= int(threads) <= 1024:
        raise UsageError(f"{text!r} asks for {threads} threads per block", "a block has 1 to 1,024 threads")
    return pattern, launch(threads_per_block=int(threads), dynamic_shared_bytes=int(dynamic or 0))


def launch(**figures: int) -> Launch:
    """A launch of the given figures (fields of :class:`~spillscan.occupancy.model.Launch`).

    A kernel that is launched with dynamic shared memory is taken to have opted in for as much, unless the figures say
    otherwise: else it could not be launched.
    """
    dynamic = figures.get("dynamic_shared_bytes", 0)
    opted_in = {"max_dynamic_shared_bytes": dynamic} if dynamic else {}
    return Launch(source="policy", **(opted_in | figures))
