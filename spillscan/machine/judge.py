"""Classes and loop depths of one function's accesses to local memory, callee by callee."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spillscan.machine import local, loops, pointer, spills
from spillscan.machine.accesses import Accesses, Part
from spillscan.machine.flow import Flow
from spillscan.machine.kept import Marked
from spillscan.machine.pointer import StackUse
from spillscan.model import Role
from spillscan.model.code import LocalTraffic, Traffic

if TYPE_CHECKING:
    from spillscan.machine.function import Code


class Judge:
    """Looks at one function; ``role`` is what it is as far as its opcodes tell."""

    def __init__(self, code: Code, marked: Marked, role: Role) -> None:
        self._code = code
        self._marked = marked
        self._flow = Flow(marked.moves, last=code.last_address, parts=code.parts, kernel=role != "function")
        self.role: Role = role if role != "unknown" else self._role()
        self._uses = code.stack_uses()
        self._seen: list[tuple[int, StackUse]] = []

    @cached_property
    def _starts(self) -> Sequence[int]:
        """Where each part begins."""
        return [0, *self._flow.entries]

    def _role(self) -> Role:
        end = self._starts[1] if len(self._starts) > 1 else None
        return "function" if self._flow.only_returns(end) else "entry"

    def _part_of(self, address: int) -> int:
        """0 for the function itself, n for the n-th callee in its listing."""
        return bisect_right(self._starts, address) - 1

    def _parts_of(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.array(self._starts).searchsorted(addresses, side="right") - 1

    @cached_property
    def callers(self) -> NDArray[np.bool_]:
        """By part: whether it calls something which may look for arguments on the stack."""
        found: NDArray[np.bool_] = np.zeros(len(self._starts), bool)
        found[self._parts_of(self._flow.calls())] = True
        inner, targets = self._flow.inner_calls()
        if len(inner):
            using = np.zeros(len(self._starts), bool)
            using[self._parts_of(self._marked.addresses)] = True
            found[self._parts_of(inner[using[self._parts_of(targets)]])] = True
        return found

    def _stack_uses(self, part: int) -> Iterator[StackUse]:
        """What names the stack pointer in one part; the code is read as far as somebody asks."""
        yield from (use for where, use in self._seen if where == part)
        for address, use in self._uses:
            where = self._part_of(address)
            self._seen.append((where, use))
            if where == part:
                yield use

    def depths(self, addresses: Sequence[int]) -> Sequence[int | None]:
        """Loops around each of some ascending addresses."""
        return loops.depths(self._flow.controls(), self._flow.entries, addresses)

    def traffic(self) -> LocalTraffic:
        """All accesses with their classes and depths."""
        marked = self._marked
        found = Accesses(
            addresses=marked.addresses,
            lines=marked.lines,
            accesses=marked.accesses,
            depths=loops.Depths(self._flow.paths(), marked.addresses),
            parts=[self._part(*each) for each in self._extents],
            sources=marked.sources,
        )
        return LocalTraffic(
            accesses=found,
            evidence="annotation" if self._code.annotations else "last-use",
            flow="guessed" if self._flow.guessed else "followed",
            frame=self._own_frame(found) if self.role == "function" else None,
        )

    @cached_property
    def _extents(self) -> list[tuple[int, int, int]]:
        """The parts that access local memory: their number, their first access and the one behind their last."""
        addresses = self._marked.addresses
        entries = self._flow.entries_before(int(addresses[-1])) if len(addresses) else []
        cuts = [0, *(addresses.searchsorted(entries).tolist() if entries else ()), len(addresses)]
        return [(part, begin, end) for part, (begin, end) in enumerate(pairwise(cuts)) if begin < end]

    def _distinct(self, begin: int, end: int) -> dict[int, int]:
        """How many there are of each access; the order is that in which they come last, from the end on."""
        return Counter(self._marked.accesses[begin:end][::-1].tolist())

    def _part(self, part: int, begin: int, end: int) -> Part:
        counts = self._distinct(begin, end)
        distinct = [local.access(number) for number in reversed(counts)]
        kinds = spills.classify(
            distinct,
            PartCode(self, part),
            annotations=self._code.annotations,
            device=bool(part) or self.role == "function",
        )
        return Part(part, begin, counts, dict(zip(counts, reversed(kinds), strict=True)))

    def _own_frame(self, found: Accesses) -> Traffic:
        """What a device function does with its own frame; where none is seen and nothing stored, it loads arguments."""
        size = self.frame(0)
        traffic = found.frame(size)
        return traffic if size is not None or traffic.stores else Traffic()

    def taken(self, part: int) -> bool:
        """Whether the address of the part's frame goes anywhere; callees may share the frame of the function itself."""
        parts = [part] if part else range(len(self._starts))
        return any(pointer.taken(use) for each in parts for use in self._stack_uses(each))

    def refilled(self) -> set[int]:
        """Slots of the function itself that callees refill from: ptxas allocates registers across calls."""
        found: set[int] = set()
        for part, begin, end in self._extents:
            if part:
                slots = {
                    target.slot for _, _, _, target in map(local.access, self._distinct(begin, end)) if target.last_use
                }
                found.update(slot - (self.frame(part) or 0) for slot in slots if slot is not None)
        return found

    def frame(self, part: int) -> int | None:
        """Bytes that a callee takes from the stack, where its first change of the stack pointer is a subtraction."""
        changes = (pointer.change(use) for use in self._stack_uses(part))
        first = next((change for change in changes if change is not None), 0)
        return -first if first < 0 else None


class PartCode:
    """The code of one part, as :mod:`spillscan.machine.spills` asks for it."""

    def __init__(self, judge: Judge, part: int) -> None:
        self._judge = judge
        self._part = part

    def calls(self) -> bool:
        """See :class:`~spillscan.machine.spills.Code`."""
        return bool(self._judge.callers[self._part])

    def frame(self) -> int | None:
        """See :class:`~spillscan.machine.spills.Code`."""
        return self._judge.frame(self._part)

    def taken(self) -> bool:
        """See :class:`~spillscan.machine.spills.Code`."""
        return self._judge.taken(self._part)

    def refilled(self) -> set[int]:
        """See :class:`~spillscan.machine.spills.Code`."""
        return set() if self._part else self._judge.refilled()
