"""Effect of a change on a kernel's residency, per device: blocks, warps, limiters, reserved memory. Pure.

Blocks need a launch: a build log does not contain launches, and none is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from spillscan.model import Delta, Effect, Kernel, Launch, Usage
from spillscan.model.symbols import arch_family
from spillscan.occupancy.devices import Device, Gpu, applicable_devices, resolve
from spillscan.occupancy.launches import Launches
from spillscan.occupancy.model import Occupancy
from spillscan.occupancy.summary import footprint, summarise
from spillscan.output.errors import UsageError


def effects(before: Kernel, after: Kernel, launches: Launches, devices: Sequence[str] = ()) -> tuple[Effect, ...]:
    """One effect per device: the kernel's own target, or each of ``devices`` on which its code runs.
    Both sides have the same launch: the one in ``launches`` of the kernel in the head, else of the one in the base. If
    the builds contain the launches, each side has its own dynamic shared memory; if their block sizes differ, blocks
    cannot be compared. Empty for device functions, if the archs are of two families, or if one is unknown.
    """
    arch = after.key.arch
    if arch is None or arch_family(arch) != arch_family(before.key.arch) or "function" in (before.role, after.role):
        return ()
    launched = _launches(before, after, launches)
    results = []
    for name in filter(None, applicable_devices(arch, devices)):
        try:
            results.append(_effect(before, after, name, launched))
        except UsageError:  # an arch from a log, missing in the table
            continue
    return tuple(results)


def _launches(before: Kernel, after: Kernel, launches: Launches) -> tuple[Launch, Launch] | None:
    """Launches of the two sides; ``None`` if they are unknown or cannot be compared."""
    old, new = launches.launch_of(before), launches.launch_of(after)
    if old is None or new is None:
        known = new or old
        return (known, known) if known else None
    if old == new or not {old.source, new.source} <= {"sidecar", "required", "bounds", "baseline"}:
        return new, new
    alike = old.threads_per_block == new.threads_per_block and old.source in (new.source, "baseline")
    return (old, new) if alike else None


def effect_metrics(results: Sequence[Effect]) -> Iterable[Delta]:
    """Effects as metrics; if there are several devices, with their names in brackets."""
    for effect in results:
        key = f"[{effect.device}]" if len(results) > 1 else ""
        for name in ("resident_blocks", "active_warps", "footprint_bytes"):
            before, after = getattr(effect, name)
            if before != after:
                yield f"{name}{key}", before, after


def _effect(before: Kernel, after: Kernel, name: str, launched: tuple[Launch, Launch] | None) -> Effect:
    reserved, gpu = _footprints(before.usage, after.usage, *resolve(name))
    if launched is None:
        unknown = "its launch is unknown, or differs between the builds"
        return Effect(device=name, footprint_bytes=reserved, gpu=gpu, unknown=unknown)
    known = Effect(
        device=name,
        threads_per_block=launched[1].threads_per_block,
        dynamic_shared_bytes=launched[1].dynamic_shared_bytes,
        launch_source=launched[1].source,
        footprint_bytes=reserved,
        gpu=gpu,
    )
    if before.final is False or after.final is False:
        return replace(known, unknown="relocatable code: registers are final only after the link")
    if any(each.dynamic_shared_bytes is None for each in launched):
        return replace(known, unknown="dynamic shared memory unknown; set --launch 'GLOB=THREADS,BYTES'")
    old, new = _residents(before.usage, after.usage, name, launched)
    return replace(
        known,
        resident_blocks=(_blocks(old), _blocks(new)),
        active_warps=(old.active_warps if old else None, new.active_warps if new else None),
        limiters=(_limiters(old, before), _limiters(new, after)),
        unknown="" if old and new else "one of the builds does not report registers or barriers",
    )


def _residents(before: Usage, after: Usage, name: str, launched: tuple[Launch, Launch]) -> list[Occupancy | None]:
    """Occupancy of both sides. If only one reports barriers, the other's is known only if they make no difference."""
    usages = before, after
    sides = [resident(usage, name, launch) for usage, launch in zip(usages, launched, strict=True)]
    silent = [usage.barriers is None for usage in usages]
    if silent[0] != silent[1]:
        other = silent.index(False)
        without = resident(replace(usages[other], barriers=None), name, launched[other])
        if _blocks(without) != _blocks(sides[other]):
            sides[1 - other] = None
    return sides


def resident(usage: Usage, name: str, launch: Launch) -> Occupancy | None:
    """Occupancy of one launch on one device; ``None`` if record and launch do not determine it."""
    return None if launch.dynamic_shared_bytes is None else summarise(usage, name, launch).occupancy


def _blocks(occupancy: Occupancy | None) -> int | None:
    return None if occupancy is None else occupancy.resident_blocks


def _limiters(occupancy: Occupancy | None, kernel: Kernel) -> tuple[str, ...]:
    """Limiters of a kernel; an assumed number of barriers is none."""
    if occupancy is None:
        return ()
    return tuple(name for name in occupancy.limiters if name != "barriers" or kernel.usage.barriers is not None)


def _footprints(
    before: Usage, after: Usage, device: Device, gpu: Gpu | None
) -> tuple[tuple[int | None, int | None], str | None]:
    """Local memory that both sides reserve, and on which GPU.

    Both use the same kind of stack: that of the call tree if both report it, else their own frame.
    """
    stacks = [usage.cumulative_stack_bytes for usage in (before, after)]
    if stacks == [None, None]:
        stacks = [usage.stack_bytes for usage in (before, after)]
    if stacks[0] is None or stacks[1] is None:
        return (None, None), None
    first, second = footprint(device, stacks[0], gpu), footprint(device, stacks[1], gpu)
    return (first.total_bytes, second.total_bytes), first.gpu


def blocks(kernel: Kernel, launches: Launches) -> int | None:
    """Resident blocks per SM of one kernel on its own target; ``None`` if launch, arch or registers are unknown."""
    launch = launches.launch_of(kernel)
    if launch is None or kernel.key.arch is None or kernel.final is False or kernel.role == "function":
        return None
    return _blocks(resident(kernel.usage, kernel.key.arch, launch))
