"""The launch bounds that reach a kernel's next steps of occupancy. Pure: what ptxas makes of them, the sweep tells."""

from __future__ import annotations

from dataclasses import replace

from spillscan.errors import UsageError
from spillscan.occupancy.devices import device
from spillscan.occupancy.formula import check, resident
from spillscan.occupancy.headroom import bounds_for_more_blocks
from spillscan.occupancy.model import Configuration, Launch
from spillscan.sweep.model import Advice, Curve, Point
from spillscan.sweep.settings import Setting

MOST_STEPS = 3
_MOST_MAXNREG = 255


def proposals(curve: Curve, steps: int = MOST_STEPS) -> tuple[tuple[tuple[Setting, int], ...], str]:
    """((setting, register cap it makes) of each next step, ``""``), or (nothing, why there is none).

    Each step is proposed as ``__launch_bounds__`` and as ``__maxnreg__``: the same cap, and ptxas may make different
    code of them.
    """
    as_is, launch = curve.as_is, curve.launch
    if as_is.failure or as_is.registers is None:
        return (), "it could not be compiled as it is"
    if launch is None:
        return (), "its block size is not known: give --launch 'GLOB=THREADS'"
    try:
        now = resident(_configuration(curve.arch, as_is, launch))
    except UsageError as error:
        return (), error.what
    if not now.can_launch and "registers" not in now.limiters:
        return (), "it cannot be launched: " + "; ".join(now.reasons)
    if now.can_launch and now.limiters and "registers" not in now.limiters:
        return (), f"registers do not limit it, {' and '.join(now.limiters).replace('_', ' ')} do"
    found: list[tuple[Setting, int]] = []
    for _ in range(steps):
        bounds = bounds_for_more_blocks(now)
        if bounds is None:
            break
        found.append((Setting(kind="bounds", threads=bounds.threads, blocks=bounds.blocks), bounds.registers))
        found.append((Setting(kind="maxnreg", registers=min(bounds.registers, _MOST_MAXNREG)), bounds.registers))
        now = resident(replace(now.configuration, registers=bounds.registers))
    return tuple(found), "" if found else "no fewer registers bring another block"


def judged(curve: Curve, points: tuple[tuple[Point, int], ...]) -> tuple[Advice, ...]:
    """What came of the proposals: (point, cap) into advice, held against the kernel as it is."""
    before = curve.as_is.blocks or 0
    return tuple(
        Advice(point=point, cap=cap, gain=0 if point.blocks is None else point.blocks - before) for point, cap in points
    )


def _configuration(arch: str, point: Point, launch: Launch) -> Configuration:
    return check(
        Configuration(
            device=device(arch),
            registers=point.registers or 0,
            threads_per_block=launch.threads_per_block,
            static_shared_bytes=point.shared_bytes or 0,
            dynamic_shared_bytes=launch.dynamic_shared_bytes,
            max_dynamic_shared_bytes=launch.max_dynamic_shared_bytes,
            carveout_percent=launch.carveout_percent,
        )
    )
