"""Classes and loop depths of one function's accesses to local memory, callee by callee."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from spillscan.model import Role
from spillscan.sass import flow, loops, pointer, spills
from spillscan.sass.accesses import Accesses
from spillscan.sass.kept import Marked
from spillscan.sass.model import AccessClass, LocalTraffic, Traffic
from spillscan.sass.pointer import StackUse

if TYPE_CHECKING:
    from spillscan.sass.code import Code


class Judge:
    """Looks at one function; ``role`` is what it is as far as its opcodes tell."""

    def __init__(self, code: Code, marked: Marked, role: Role) -> None:
        self._code = code
        self._marked = marked
        self._flow = flow.read(marked.moves, last=code.last_address, parts=code.parts)
        if role != "function":
            self._flow = self._flow._replace(entries=sorted({*self._flow.entries, *flow.unnamed(self._flow)}))
        self._starts = [0, *self._flow.entries]
        self.role: Role = role if role != "unknown" else self._role()
        used = self._parts_of(marked.addresses) if self._flow.inner_calls else ()
        self._callers = self._parts_of(self._flow.calls)
        self._callers |= {
            self._part_of(address) for address, target in self._flow.inner_calls if self._part_of(target) in used
        }
        """Parts that call something which may look for arguments on the stack."""
        self._uses = code.stack_uses()
        self._seen: list[tuple[int, StackUse]] = []

    def _role(self) -> Role:
        returns = {is_return for address, is_return in self._flow.leaves if self._part_of(address) == 0}
        return "function" if returns == {True} else "entry"

    def _part_of(self, address: int) -> int:
        """0 for the function itself, n for the n-th callee in its listing."""
        return bisect_right(self._starts, address) - 1

    def _parts_of(self, addresses: Sequence[int]) -> set[int]:
        """The parts that hold any of some addresses."""
        if not addresses or len(self._starts) == 1:
            return {0} if addresses else set()
        return set((np.searchsorted(self._starts, addresses, side="right") - 1).tolist())

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
        return loops.depths(self._flow.controls, self._flow.entries, addresses)

    def traffic(self) -> LocalTraffic:
        """All accesses with their classes and depths."""
        marked, addresses = self._marked, self._marked.addresses
        kinds: list[AccessClass] = []
        parts: list[int] = []
        cuts = [0, *(bisect_left(addresses, start) for start in self._starts[1:]), len(addresses)]
        for part, (begin, end) in enumerate(pairwise(cuts)):
            if begin < end:
                kinds += self._kinds(part, begin, end)
                parts += [part] * (end - begin)
        found = Accesses(
            addresses=addresses,
            lines=marked.lines,
            accesses=marked.accesses,
            kinds=kinds,
            depths=loops.Depths(self._flow.controls, self._flow.entries, addresses),
            parts=parts,
            sources=marked.sources,
        )
        return LocalTraffic(
            accesses=found,
            evidence="annotation" if self._code.annotations else "last-use",
            flow="guessed" if self._flow.guessed else "followed",
            frame=self._own_frame(found) if self.role == "function" else None,
        )

    def _kinds(self, part: int, begin: int, end: int) -> Sequence[AccessClass]:
        device = bool(part) or self.role == "function"
        return spills.classify(
            self._marked.accesses[begin:end],
            annotations=self._code.annotations,
            device=device,
            calls=part in self._callers,
            frame=lambda: self._frame(part),
            taken=lambda: self._taken(part),
            refilled=() if part or len(self._starts) == 1 else self._refilled(),
        )

    def _own_frame(self, found: Accesses) -> Traffic:
        """What a device function does with its own frame; where none is seen and nothing stored, it loads arguments."""
        size = self._frame(0)
        traffic = found.frame(size)
        return traffic if size is not None or traffic.stores else Traffic()

    def _taken(self, part: int) -> bool:
        """Whether the address of the part's frame goes anywhere; callees may share the frame of the function itself."""
        parts = [part] if part else range(len(self._starts))
        return any(pointer.taken(use) for each in parts for use in self._stack_uses(each))

    def _refilled(self) -> set[int]:
        """Slots of the function itself that callees refill from: ptxas allocates registers across calls."""
        found = set()
        for address, access in zip(self._marked.addresses, self._marked.accesses, strict=True):
            target = access.target
            if target.last_use and target.slot is not None and (part := self._part_of(address)):
                found.add((part, target.slot))
        return {slot - (self._frame(part) or 0) for part, slot in found}

    def _frame(self, part: int) -> int | None:
        """Bytes that a callee takes from the stack, where its first change of the stack pointer is a subtraction."""
        changes = (pointer.change(use) for use in self._stack_uses(part))
        first = next((change for change in changes if change is not None), 0)
        return -first if first < 0 else None
