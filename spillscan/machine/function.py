"""One function's machine code: what it is, and the classes and loop depths of its accesses to local memory, callee by
callee; whoever read it, and from whatever."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spillscan.machine import local, loops, spills
from spillscan.machine.flow import AnyMoves, Flow
from spillscan.machine.local import Accesses, Part
from spillscan.machine.spills import StackUse
from spillscan.model import Role
from spillscan.model.code import LocalTraffic, SourceLine, Traffic

WORD = 8
FIRST_WIDE_ARCH = 70


def role_by(opcodes: Collection[str]) -> Role:
    """An entry leaves by EXIT, a device function by RET; the listing of an entry may hold callees behind it."""
    if "RET" not in opcodes:
        return "entry" if "EXIT" in opcodes else "unknown"
    return "unknown" if "EXIT" in opcodes else "function"


def instruction_bytes(arch: str | None, last_address: int) -> int:
    """Two words from Volta on, one before; without an arch, what the address of the last instruction allows."""
    number = "".join(filter(str.isdigit, arch or ""))
    wide = int(number) >= FIRST_WIDE_ARCH if number else last_address % (2 * WORD) == 0
    return 2 * WORD if wide else WORD


class Marked(NamedTuple):
    """What matters for local memory in one function, by address."""

    addresses: NDArray[np.int64]
    """Of the accesses."""
    lines: NDArray[np.int64] | None
    """Of the dump, 1-based; ``None`` where it has none."""
    accesses: NDArray[np.int64]
    """What each says of itself, as :func:`spillscan.machine.local.number` has it."""
    sources: Sequence[SourceLine | None] | None
    """Source lines; ``None`` where the dump has none."""
    moves: AnyMoves


@dataclass(kw_only=True)
class Analysis:
    """Looks at one function; ``role`` is what its symbol or its opcodes say, else what its code does."""

    marked: Marked
    """Its accesses, and what moves control."""
    role: Role
    """Entry or device function."""
    last_address: int
    """Of its last instruction."""
    parts: tuple[int, ...]
    """Where callees begin in the same listing, if that is known; else the targets of its calls."""
    stack_uses: Iterator[tuple[int, StackUse]]
    """(address, use) of the instructions other than STL and LDL that name R1; taken only where it decides."""
    annotations: bool
    """ptxas marked the spills."""

    def __post_init__(self) -> None:
        kernel = self.role != "function"
        self._flow = Flow(self.marked.moves, last=self.last_address, parts=self.parts, kernel=kernel)
        self._seen: list[tuple[int, StackUse]] = []
        if self.role == "unknown":
            end = self._starts[1] if len(self._starts) > 1 else None
            self.role = "function" if self._flow.only_returns(end) else "entry"

    @cached_property
    def _starts(self) -> Sequence[int]:
        """Where each part begins."""
        return [0, *self._flow.entries]

    def _part_of(self, address: int) -> int:
        """0 for the function itself, n for the n-th callee in its listing."""
        return bisect_right(self._starts, address) - 1

    def _parts_of(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.array(self._starts).searchsorted(addresses, side="right") - 1

    @cached_property
    def _callers(self) -> NDArray[np.bool_]:
        """By part: whether it calls something which may look for arguments on the stack."""
        found: NDArray[np.bool_] = np.zeros(len(self._starts), bool)
        found[self._parts_of(self._flow.calls())] = True
        inner, targets = self._flow.inner_calls()
        if len(inner):
            using = np.zeros(len(self._starts), bool)
            using[self._parts_of(self.marked.addresses)] = True
            found[self._parts_of(inner[using[self._parts_of(targets)]])] = True
        return found

    def _stack_uses(self, part: int) -> Iterator[StackUse]:
        """What names the stack pointer in one part; the code is read as far as it is asked for."""
        yield from (use for where, use in self._seen if where == part)
        for address, use in self.stack_uses:
            where = self._part_of(address)
            self._seen.append((where, use))
            if where == part:
                yield use

    def depths(self, addresses: Sequence[int]) -> Sequence[int | None]:
        """Loops around each of some ascending addresses."""
        return loops.depths(self._flow.controls(), self._flow.entries, addresses)

    def traffic(self) -> LocalTraffic:
        """All accesses with their classes and depths."""
        marked = self.marked
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
            evidence="annotation" if self.annotations else "last-use",
            flow="guessed" if self._flow.guessed else "followed",
            frame=self._own_frame(found) if self.role == "function" else None,
        )

    @cached_property
    def _extents(self) -> list[tuple[int, int, int]]:
        """The parts that access local memory: their number, their first access and the one behind their last."""
        addresses = self.marked.addresses
        entries = self._flow.entries_before(int(addresses[-1])) if len(addresses) else []
        cuts = [0, *(addresses.searchsorted(entries).tolist() if entries else ()), len(addresses)]
        return [(part, begin, end) for part, (begin, end) in enumerate(pairwise(cuts)) if begin < end]

    def _distinct(self, begin: int, end: int) -> dict[int, int]:
        """How many there are of each access; the order is that in which they come last, from the end on."""
        return Counter(self.marked.accesses[begin:end][::-1].tolist())

    def _part(self, part: int, begin: int, end: int) -> Part:
        counts = self._distinct(begin, end)
        around = spills.Surroundings(
            calls=lambda: bool(self._callers[part]),
            frame=partial(self._frame, part),
            taken=partial(self._taken, part),
            refilled=lambda: set() if part else self._refilled(),
        )
        kinds = spills.classify(
            [local.access(number) for number in reversed(counts)],
            around,
            annotations=self.annotations,
            device=bool(part) or self.role == "function",
        )
        return Part(part, begin, counts, dict(zip(counts, reversed(kinds), strict=True)))

    def _own_frame(self, found: Accesses) -> Traffic:
        """What a device function does with its own frame; where none is seen and nothing stored, it loads arguments."""
        size = self._frame(0)
        traffic = found.frame(size)
        return traffic if size is not None or traffic.stores else Traffic()

    def _taken(self, part: int) -> bool:
        """Whether the address of the part's frame goes anywhere; callees may share the frame of the function itself."""
        parts = [part] if part else range(len(self._starts))
        return any(spills.taken(use) for each in parts for use in self._stack_uses(each))

    def _refilled(self) -> set[int]:
        """Slots of the function itself that callees refill from: ptxas allocates registers across calls."""
        found: set[int] = set()
        for part, begin, end in self._extents:
            if part:
                slots = {
                    target.slot for _, _, _, target in map(local.access, self._distinct(begin, end)) if target.last_use
                }
                found.update(slot - (self._frame(part) or 0) for slot in slots if slot is not None)
        return found

    def _frame(self, part: int) -> int | None:
        """Bytes that a part takes from the stack, where its first change of the stack pointer is a subtraction."""
        changes = (spills.change(use) for use in self._stack_uses(part))
        first = next((change for change in changes if change is not None), 0)
        return -first if first < 0 else None
