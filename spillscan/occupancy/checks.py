"""What a launch cannot be at all: each wrong figure is one clear line (:class:`UsageError`)."""

from __future__ import annotations

from spillscan.errors import UsageError
from spillscan.occupancy.model import Configuration
from spillscan.occupancy.rules import checked_registers


def check(configuration: Configuration) -> Configuration:
    """The configuration itself, if its figures are possible; :class:`UsageError` names the first that is
    not.
    """
    device = configuration.device
    target = device.target
    _range("threads per block", configuration.threads_per_block, 1, device.max_threads_per_block, "a block")
    # 256 is what the header still accepts from 7.0 on; before 7.0 it answers 0 blocks.
    most = max(256, checked_registers(device))
    if not 0 <= configuration.registers <= most:
        raise UsageError(
            f"registers must be 0 to {device.max_registers_per_thread} on {target}, not {configuration.registers:,}"
        )
    _range("static shared memory", configuration.static_shared_bytes, 0, None, "bytes")
    _range("dynamic shared memory", configuration.dynamic_shared_bytes, 0, None, "bytes")
    if configuration.max_dynamic_shared_bytes is not None:
        _range("MaxDynamicSharedMemorySize", configuration.max_dynamic_shared_bytes, 0, None, "bytes")
    if configuration.carveout_percent is not None:
        _range("carve-out", configuration.carveout_percent, 0, 100, "percent")
    _range("barriers per block", configuration.barriers, 0, device.barriers_per_block, "named barriers")
    _range("virtual resources", configuration.virtual_resources, 0, None, "per block")
    return configuration


def _range(what: str, value: int, least: int, most: int | None, unit: str) -> None:
    if value < least or (most is not None and value > most):
        bounds = f"at least {least:,}" if most is None else f"{least:,} to {most:,}"
        raise UsageError(f"{what} must be {bounds} ({unit}), not {value:,}")
