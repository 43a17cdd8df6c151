"""Occupancy of a kernel on a device: resident blocks, limits, limiters. Its only data is the device table.

``occupancy("sm_89", registers=153, threads_per_block=512)`` computes one configuration, ``summary.summarise`` a
kernel's.
"""

from __future__ import annotations

import sys
from types import ModuleType

from spillscan.model import Launch
from spillscan.occupancy.devices import Device, device, devices
from spillscan.occupancy.formula import check, resident
from spillscan.occupancy.model import CachePreference, Configuration, GlobalCaching, Limiter, Occupancy

__all__ = ["Configuration", "Device", "Launch", "Limiter", "Occupancy", "device", "devices", "occupancy"]


def occupancy(
    arch: str | float,
    *,
    registers: int,
    threads_per_block: int,
    static_shared_bytes: int = 0,
    dynamic_shared_bytes: int = 0,
    max_dynamic_shared_bytes: int | None = None,
    carveout_percent: int | None = None,
    barriers: int = 1,
    cache_preference: CachePreference = "none",
    global_caching: GlobalCaching = "off",
    virtual_resources: int = 0,
) -> Occupancy:
    """Theoretical occupancy of one launch on ``arch`` (``sm_90``, ``sm_90a``, ``9.0`` or ``H100``).

    Units are those of the field names: registers per thread, bytes per block, percent of the SM's largest shared
    memory. ``static_shared_bytes`` is the value that ptxas prints, without the driver's reserve. ``barriers`` defaults
    to 1, as in the header's converters; ptxas prints the true count ("used N barriers"). ``max_dynamic_shared_bytes``
    is the kernel's attribute of that name; ``None`` means not opted in (48 KB).

    Impossible values and unknown devices raise :class:`~spillscan.UsageError`. A possible launch that does not fit has
    ``resident_blocks == 0`` and explanations in ``reasons``. The rules and their sources are in ``formula.py``.
    """
    return resident(
        check(
            Configuration(
                device=device(arch),
                registers=registers,
                threads_per_block=threads_per_block,
                static_shared_bytes=static_shared_bytes,
                dynamic_shared_bytes=dynamic_shared_bytes,
                max_dynamic_shared_bytes=max_dynamic_shared_bytes,
                carveout_percent=carveout_percent,
                barriers=barriers,
                cache_preference=cache_preference,
                global_caching=global_caching,
                virtual_resources=virtual_resources,
            )
        )
    )


class _Package(ModuleType):
    """Callable package, because ``spillscan.occupancy`` is both its name and the function's."""

    __call__ = staticmethod(occupancy)


sys.modules[__name__].__class__ = _Package
