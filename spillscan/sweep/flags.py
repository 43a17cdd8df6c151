"""What about a kernel's bounds does not do what it seems to: facts of its PTX, its arch and ptxas's figures. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.errors import UsageError
from spillscan.occupancy.devices import Device, device
from spillscan.occupancy.headroom import register_cap
from spillscan.sweep.model import Point
from spillscan.sweep.ptx import Entry

_LARGEST_BLOCK = 1024


def flags(entry: Entry, arch: str, as_is: Point, own_cap: int | None, caps_swept: bool) -> Iterator[str]:
    """Sentences on one kernel; ``own_cap`` is its build's ``-maxrregcount``."""
    try:
        here = device(arch)
    except UsageError:
        return
    if entry.overrides_cap and (own_cap is not None or caps_swept):
        cap = f"-maxrregcount={own_cap}" if own_cap is not None else "-maxrregcount"
        yield f"{entry.overrides_cap} overrides {cap}: ptxas ignores the cap (--maxnreg and --bounds do not)"
    yield from _beyond(entry, here)
    if entry.threads is None and as_is.registers is not None:
        yield from _too_large(as_is.registers, here)


def _beyond(entry: Entry, here: Device) -> Iterator[str]:
    threads, blocks = entry.threads, entry.min_blocks
    if threads is not None and threads > here.max_threads_per_block:
        yield f"its bounds of {threads:,} threads are more than a block may have ({here.max_threads_per_block:,})"
    elif threads is not None and blocks is not None:
        ignored = register_cap(here, threads, blocks).ignored if blocks >= 1 else ""
        if ignored:
            yield f"{entry.overrides_cap}: {ignored}; ptxas ignores the blocks"
    elif blocks is not None:
        yield f".minnctapersm {blocks} without a block size: ptxas ignores it"


def _too_large(registers: int, here: Device) -> Iterator[str]:
    """Registers are handed out to whole warps, and a block's must fit into what one block may have."""
    if register_cap(here, _LARGEST_BLOCK).registers >= registers:
        return
    threads = next(
        (size for size in range(_LARGEST_BLOCK, 0, -32) if register_cap(here, size).registers >= registers), 0
    )
    most = register_cap(here, _LARGEST_BLOCK).registers
    yield (
        f"without launch bounds, {registers} registers: blocks of more than {threads:,} threads cannot be launched"
        f" ({_LARGEST_BLOCK:,} need at most {most} registers)"
    )
