"""Memory that a kernel's stack takes on the GPU: local memory is set aside for every thread that can be
resident."""

from __future__ import annotations

from dataclasses import dataclass

from spillscan.errors import UsageError
from spillscan.occupancy.devices import Device, Gpu

INITIAL_STACK_BYTES = 1024
"""What the driver holds for each thread slot from the start (measured on an H200)."""
WORTH_SHOWING_BYTES = 64 * 1024 * 1024
"""Below this the footprint is left out of reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Local memory that a launch makes the driver set aside, before its own rounding."""

    stack_bytes: int
    """Stack (with spills and local arrays), bytes per thread."""
    bytes_per_sm: int
    """Stack for every thread slot of one SM, bytes."""
    gpu: str | None
    """The GPU that the total is for; ``None`` where its number of SMs is not known."""
    multiprocessors: int | None
    """SMs of that GPU."""
    total_bytes: int | None
    """Stack for every thread slot of the GPU, bytes; ``None`` where the number of SMs is not known."""

    @property
    def matters(self) -> bool:
        """Whether reports show it: more than every context reserves anyway, and not little."""
        large = self.total_bytes is not None and self.total_bytes >= WORTH_SHOWING_BYTES
        return large and self.stack_bytes > INITIAL_STACK_BYTES


def footprint(device: Device, stack_bytes: int, gpu: Gpu | None = None) -> Footprint:
    """Stack times resident threads times SMs: 4,312 B reserve 1.1 GiB on an H100.

    Measured on an H200 to the byte for stacks of 1 to 64 KB. The driver holds 1 KB a thread from the start,
    so that a smaller stack takes nothing more.

    Without ``gpu``, the total is for the first GPU of the table with a known number of SMs.
    """
    if stack_bytes < 0:
        raise UsageError(f"stack must be at least 0 bytes per thread, not {stack_bytes:,}")
    if gpu is None:
        gpu = next((known for known in device.gpus if known.multiprocessors is not None), None)
    count = gpu.multiprocessors if gpu is not None else None
    per_sm = stack_bytes * device.max_threads_per_sm
    return Footprint(
        stack_bytes=stack_bytes,
        bytes_per_sm=per_sm,
        gpu=gpu.name if gpu is not None and count is not None else None,
        multiprocessors=count,
        total_bytes=None if count is None else per_sm * count,
    )
