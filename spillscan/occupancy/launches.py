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
        given = (launch for pattern, launch in reversed(self.entries) if matches(kernel, pattern))
        return settled(kernel, next(given, None))


def settled(kernel: Kernel, given: Launch | None) -> Launch | None:
    """Launch of ``kernel``: the user's (``given``), else its sidecar's, else by its launch bounds; ``None`` if unknown.

    A policy's block size that contradicts the code counts only with ``override``, because the source may have changed
    since. Dynamic shared memory that the user left open is the sidecar's; 0 if the code declares none, or if no code
    was read.
    """
    if given is None:
        return kernel.launch or of_bounds(kernel)
    if (code := overruling(kernel, given)) is not None:
        given = replace(given, threads_per_block=code.threads_per_block, source=code.source)
    if given.source != "override" and kernel.launch_bounds is not None and kernel.launch_bounds.required_depth:
        given = replace(given, depth=kernel.launch_bounds.required_depth, source="required")
    if given.dynamic_shared_bytes is not None:
        return given
    if kernel.launch is not None:
        return replace(given, **_dynamic(kernel.launch.dynamic_shared_bytes))
    return given if kernel.dynamic_shared else replace(given, dynamic_shared_bytes=0)


def overruling(kernel: Kernel, given: Launch) -> Launch | None:
    """Launch by the code of ``kernel`` if it contradicts the policy's launch ``given``; else ``None``.

    Also ``None`` if the code has no block size, the user overrides it, or the policy's is within the launch bounds.
    """
    code = kernel.launch or of_bounds(kernel)
    if code is None or given.source != "policy" or code.threads_per_block == given.threads_per_block:
        return None
    if code.source == "bounds" and given.threads_per_block < code.threads_per_block:
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
        depth=bounds.required_depth or 1,
        source="required" if bounds.required_threads else "bounds",
    )


def parse_launch(text: str) -> tuple[str, Launch]:
    """Parse ``GLOB=THREADS[,DYNAMIC_SHARED_BYTES][,override]``, an entry of a :class:`LaunchMap`. Raises UsageError."""
    pattern, _, numbers = text.rpartition("=")
    stated = numbers.removesuffix(",override")
    source: LaunchSource = "policy" if stated == numbers else "override"
    threads, _, dynamic = stated.partition(",")
    if not pattern or not _NUMBER.fullmatch(threads) or (dynamic and not _NUMBER.fullmatch(dynamic)):
        raise UsageError(f"invalid launch {text!r}", "write GLOB=THREADS or GLOB=THREADS,DYNAMIC_SHARED_BYTES")
    if not 1 <= int(threads) <= 1024:
        raise UsageError(f"{text!r} sets {threads} threads per block", "a block has 1 to 1,024 threads")
    shared = {"dynamic_shared_bytes": int(dynamic)} if dynamic else {}
    return pattern, launch(source, threads_per_block=int(threads), **shared)


def launch(source: LaunchSource = "policy", /, **values: int) -> Launch:
    """A launch with the given values (fields of :class:`~spillscan.model.Launch`)."""
    return Launch(source=source, **(_dynamic(values.get("dynamic_shared_bytes")) | values))


def _dynamic(size: int | None) -> dict[str, Any]:
    """Fields for ``size`` bytes of dynamic shared memory.

    The kernel is assumed to have opted in to as much, because it could not be launched otherwise.
    """
    return {"dynamic_shared_bytes": size} | ({"max_dynamic_shared_bytes": size} if size else {})
