"""Launches of kernels, which no build log contains."""

from __future__ import annotations

import re
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from spillscan.model import Kernel, Launch, LaunchSource
from spillscan.model.patterns import matches
from spillscan.output.errors import UsageError

LARGEST_BLOCK = 1024
"""Threads of the largest block on every compute capability from 2.0 on (CUDA C++ Programming Guide)."""
_NUMBER = re.compile(r"[0-9]{1,9}")


class Launches(Protocol):
    """Source of launches of kernels: a :class:`LaunchMap` or a policy."""

    def launch_of(self, kernel: Kernel) -> Launch | None:
        """Launch of ``kernel``; ``None`` if unknown."""


class LaunchMap(Struct, frozen=True):
    """(glob, launch) pairs; the last match counts."""

    entries: tuple[tuple[str, Launch], ...] = ()

    def launch_of(self, kernel: Kernel) -> Launch | None:
        """Launch of ``kernel``; ``None`` if no entry matches, it has no sidecar, and its code has no launch bounds."""
        said = (launch for pattern, launch in reversed(self.entries) if matches(kernel, pattern))
        return settled(kernel, next(said, None))


def settled(kernel: Kernel, said: Launch | None) -> Launch | None:
    """Launch of ``kernel``: the user's (``said``), else its sidecar's, else by its launch bounds; ``None`` if unknown.

    A policy's block size that contradicts the code counts only with ``override``, because the source may have changed
    since. Dynamic shared memory that the user left open is the sidecar's; 0 if the code declares none, or if no code
    was read.
    """
    if said is None:
        return kernel.launch or of_bounds(kernel)
    if (code := overruling(kernel, said)) is not None:
        said = replace(said, threads_per_block=code.threads_per_block, source=code.source)
    if said.dynamic_shared_bytes is not None:
        return said
    if kernel.launch is not None:
        return replace(said, **_dynamic(kernel.launch.dynamic_shared_bytes))
    return said if kernel.dynamic_shared else replace(said, dynamic_shared_bytes=0)


def overruling(kernel: Kernel, said: Launch) -> Launch | None:
    """Launch by the code of ``kernel`` if it contradicts the policy's launch ``said``; else ``None``.

    Also ``None`` if the code has no block size, the user overrides it, or the policy's is within the launch bounds.
    """
    code = kernel.launch or of_bounds(kernel)
    if code is None or said.source != "policy" or code.threads_per_block == said.threads_per_block:
        return None
    if code.source == "bounds" and said.threads_per_block < code.threads_per_block:
        return None
    return code


def of_bounds(kernel: Kernel) -> Launch | None:
    """Launch with the block and cluster size of the kernel's launch bounds; ``None`` without any.

    Includes a required block size that no device can launch.
    """
    bounds = kernel.launch_bounds
    if bounds is None or not bounds.threads or not (bounds.required_threads or bounds.threads <= LARGEST_BLOCK):
        return None
    return Launch(
        threads_per_block=bounds.threads,
        dynamic_shared_bytes=0 if kernel.dynamic_shared is False else None,
        cluster_blocks=bounds.cluster_blocks or 1,
        source="required" if bounds.required_threads else "bounds",
    )


def parse_launch(text: str) -> tuple[str, Launch]:
    """Parse ``GLOB=THREADS[,DYNAMIC_SHARED_BYTES][,override]``, an entry of a :class:`LaunchMap`. Raises UsageError."""
    pattern, _, figures = text.rpartition("=")
    stated = figures.removesuffix(",override")
    source: LaunchSource = "policy" if stated == figures else "override"
    threads, _, dynamic = stated.partition(",")
    if not pattern or not _NUMBER.fullmatch(threads) or (dynamic and not _NUMBER.fullmatch(dynamic)):
        raise UsageError(f"{text!r} is not a launch", "write GLOB=THREADS or GLOB=THREADS,DYNAMIC_SHARED_BYTES")
    if not 1 <= int(threads) <= 1024:
        raise UsageError(f"{text!r} asks for {threads} threads per block", "a block has 1 to 1,024 threads")
    shared = {"dynamic_shared_bytes": int(dynamic)} if dynamic else {}
    return pattern, launch(source, threads_per_block=int(threads), **shared)


def launch(source: LaunchSource = "policy", /, **figures: int) -> Launch:
    """A launch with the given values (fields of :class:`~spillscan.model.Launch`)."""
    return Launch(source=source, **(_dynamic(figures.get("dynamic_shared_bytes")) | figures))


def _dynamic(size: int | None) -> dict[str, Any]:
    """Fields for ``size`` bytes of dynamic shared memory.

    The kernel is assumed to have opted in to as much, because it could not be launched otherwise.
    """
    return {"dynamic_shared_bytes": size} | ({"max_dynamic_shared_bytes": size} if size else {})
