"""Warp-specialised code: which instructions run with which number of registers.

``setmaxnreg`` (PTX ISA 8.0, sm_90a and later) is USETMAXREG in machine code: DEALLOC gives registers back to the block,
TRY_ALLOC takes some, in a loop that runs until it gets them. What control reaches from one of them without coming to
another is one role's code; what it reaches from the kernel's start is that of the warps that keep what they were
launched with, and of all on their way to their roles.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spillscan.machine.flow import Flow
from spillscan.machine.local import Accesses
from spillscan.machine.loops import Line
from spillscan.model.code import WarpRole

_MOST = 64
"""More than a compiler writes into one kernel; then there are none."""


def roles(flow: Flow, accesses: Accesses) -> tuple[WarpRole, ...]:
    """The start, then by registers; none where the code sets no registers."""
    settings = flow.settings()
    if not settings or len(settings) > _MOST:
        return ()
    reached = _Reach(flow, [address for address, _ in settings])
    found = [
        WarpRole(
            address=address,
            registers=registers,
            follows=address is not None and reached.follows(address),
            spill=None if not spill.accesses and accesses.some(mine, "unknown").accesses else spill,
            local=accesses.some(mine),
        )
        for address, registers in ((None, None), *settings)
        for mine in (reached.among(accesses.addresses, address),)
        for spill in (accesses.some(mine, "spill"),)
    ]
    return tuple(sorted(found, key=_order))


def _order(role: WarpRole) -> tuple[bool, int, int]:
    return role.address is not None, role.registers or 0, role.address or 0


class _Reach:
    """What is reached from where. The code is a line of places, as the loop finder has it."""

    def __init__(self, flow: Flow, settings: Sequence[int]) -> None:
        self._line = Line(flow.controls(), sorted({*flow.entries, *settings}))
        self._stops = {self._place(address) for address in settings}
        callers, callees = flow.inner_calls()[:2]
        self._calls: dict[int, list[int]] = {}
        for caller, callee in zip(callers.tolist(), callees.tolist(), strict=True):
            self._calls.setdefault(self._place(caller), []).append(self._place(callee))

    def _place(self, address: int) -> int:
        """The last one that is not behind an address."""
        return int(np.searchsorted(self._line.keys, 4 * address, side="right")) - 1

    def among(self, addresses: NDArray[np.int64], setting: int | None) -> NDArray[np.bool_]:
        """Which of some addresses are reached from a setting, or from the start, without coming to another one."""
        reached = np.zeros(len(self._line.keys), bool)
        reached[list(self._from(self._place(setting or 0)))] = True
        mine: NDArray[np.bool_] = reached[np.searchsorted(self._line.keys, 4 * addresses, side="right") - 1]
        return mine

    def follows(self, setting: int) -> bool:
        """Whether another setting leads to one, past no third."""
        place = self._place(setting)
        others = (other for other in self._stops if other != place)
        return any(place in self._ways(each) for other in others for each in self._from(other))

    def _ways(self, place: int) -> list[int]:
        return [*self._line.ways[place], *self._calls.get(place, ())]

    def _from(self, begin: int) -> set[int]:
        seen, work = {begin}, [begin]
        while work:
            for place in self._ways(work.pop()):
                if place not in seen and place not in self._stops:
                    seen.add(place)
                    work.append(place)
        return seen
