"""What documents print, rather than what the hardware does: each assumption is a wrong device or a left-out rule.

They reproduce published figures next to the true ones, and are never a default.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from spillscan.occupancy.devices import Device
from spillscan.occupancy.formula import registers_per_warp, resident
from spillscan.occupancy.model import Configuration, Limiter, Occupancy
from spillscan.output.errors import UsageError


class Assumption(Struct, frozen=True, kw_only=True):
    """What a document takes for granted."""

    name: str
    """What is written in the list of examples, before an optional ``=VALUE``."""
    what: str
    """What it takes for granted."""
    default: int | None = None
    """Value where none is written; ``None``: takes no value."""


ASSUMPTIONS = (
    Assumption(name="no-reserve", what="the driver reserves no shared memory in a block"),
    Assumption(name="max-warps", what="the SM has this many warp slots", default=48),
    Assumption(name="no-granule", what="registers and shared memory are handed out one by one, not in units"),
    Assumption(name="no-partitions", what="the register file is one pool, not one per sub-partition"),
    Assumption(name="loose-warps", what="warps fill the SM one by one, not in whole blocks"),
    Assumption(name="shared-per-sm", what="the SM has this much shared memory, KB", default=48),
)
_KNOWN = {assumption.name: assumption for assumption in ASSUMPTIONS}


class Assumed(Struct, frozen=True, kw_only=True):
    """An occupancy under assumptions: what a document prints, not what the hardware does."""

    assumptions: tuple[str, ...]
    """As written."""
    resident_blocks: int | None
    """Blocks per SM; ``None`` where warps are not counted in blocks."""
    active_warps: int
    """Warps per SM."""
    max_warps: int
    """Warp slots assumed."""
    limits: dict[Limiter, int | None]
    """Limits in blocks, or in warps where warps are not counted in blocks."""

    @property
    def fraction(self) -> float:
        """Occupancy, 0 to 1."""
        return self.active_warps / self.max_warps

    @property
    def limiters(self) -> tuple[Limiter, ...]:
        """The limits that bind."""
        least = min(limit for limit in self.limits.values() if limit is not None)
        return tuple(name for name, limit in self.limits.items() if limit == least)


def parse_assumptions(switches: Sequence[str]) -> dict[str, int | None]:
    """``["max-warps=48", "no-reserve"]`` -> switches with values; :class:`UsageError` for what is not known.

    ``48-warps`` is another way to write ``max-warps=48``.
    """
    found: dict[str, int | None] = {}
    for switch in ",".join(switches).split(","):
        name, _, value = switch.strip().partition("=")
        if name.endswith("-warps") and name[: -len("-warps")].isdigit() and not value:
            name, value = "max-warps", name[: -len("-warps")]
        if name not in _KNOWN:
            raise UsageError(f"unknown assumption {switch.strip()!r}", "known are " + ", ".join(_KNOWN))
        default = _KNOWN[name].default
        if (default is None and value) or (value and not (value.isdigit() and int(value) > 0)):
            raise UsageError(f"assumption {name} takes {'no value' if default is None else 'a positive number'}")
        found[name] = int(value) if value else default
    return found


def assumed_device(device: Device, switches: dict[str, int | None]) -> Device:
    """The device as the assumptions would have it."""
    if "no-reserve" in switches:
        device = replace(device, shared_bytes_reserved_per_block=0)
    if warps := switches.get("max-warps"):
        device = replace(device, max_threads_per_sm=32 * warps)
    if "no-granule" in switches:
        device = replace(device, register_alloc_unit=1, shared_alloc_unit=1)
    if "no-partitions" in switches:
        device = replace(device, sub_partitions=1)
    if kb := switches.get("shared-per-sm"):
        limit = min(device.shared_bytes_per_block_optin, 1024 * kb)
        device = replace(
            device,
            shared_bytes_per_sm=1024 * kb,
            shared_bytes_per_block_optin=limit,
            carveout_steps_kb=tuple(sorted({*(step for step in device.carveout_steps_kb if step < kb), kb})),
        )
    return device


def assume(configuration: Configuration, switches: dict[str, int | None]) -> Assumed:
    """The occupancy that the assumptions give for a configuration of the true device."""
    device = assumed_device(configuration.device, switches)
    occupancy = resident(replace(configuration, device=device))
    written = tuple(name if value is None else f"{name}={value}" for name, value in switches.items())
    if "loose-warps" not in switches:
        return Assumed(
            assumptions=written,
            resident_blocks=occupancy.resident_blocks,
            active_warps=occupancy.active_warps,
            max_warps=occupancy.max_warps,
            limits=occupancy.limits,
        )
    return _loose(occupancy, device, written)


def _loose(occupancy: Occupancy, device: Device, written: tuple[str, ...]) -> Assumed:
    configuration = occupancy.configuration
    warp = registers_per_warp(device, configuration.registers)
    by_registers = device.registers_per_sm // device.sub_partitions // warp * device.sub_partitions if warp else None
    warps = configuration.warps_per_block
    limits: dict[Limiter, int | None] = {
        name: None if limit is None else limit * warps for name, limit in occupancy.limits.items()
    }
    limits["warps"] = device.max_warps_per_sm
    limits["registers"] = by_registers
    limits["blocks"] = None
    return Assumed(
        assumptions=written,
        resident_blocks=None,
        active_warps=min(limit for limit in limits.values() if limit is not None),
        max_warps=device.max_warps_per_sm,
        limits=limits,
    )
