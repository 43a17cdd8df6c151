"""Analysis of one function's machine code: its role, and the classes and loop depths of its accesses to local memory,
per callee, for any input format. For warp-specialized code also the code and register count of each role.

``setmaxnreg`` (PTX ISA 8.0, sm_90a and later) is USETMAXREG in machine code: DEALLOC returns registers to the block,
TRY_ALLOC requests some, in a loop that runs until it gets them. Code that control reaches from one of them without
passing another belongs to one role. Code that it reaches from the kernel's start belongs to the warps that keep their
registers at launch, and to all warps on the way to their roles.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property, partial
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from spillscan.model import Role
from spillscan.model.code import NO_TRAFFIC, AccessClass, FlowKind, LocalTraffic, SourceLine, Traffic, WarpRole
from spillscan.reading.machine import accesses, local, loops
from spillscan.reading.machine.accesses import Accesses, Part
from spillscan.reading.machine.flow import Flow, Moves
from spillscan.reading.machine.local import StackUse
from spillscan.reading.machine.loops import Line

_MOST = 64
"""Maximum number of settings in one kernel; compilers write fewer. Beyond it no role is reported."""


def roles(flow: Flow, accesses: Accesses) -> tuple[WarpRole, ...]:
    """Warp roles: the start, then by registers; empty if the code sets no registers."""
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
    return tuple(sorted(found, key=lambda each: (each.address is not None, each.registers or 0, each.address or 0)))


class _Reach:
    """Reachability of code, which is a line of places as in :class:`~spillscan.reading.machine.loops.Line`."""

    def __init__(self, flow: Flow, settings: Sequence[int]) -> None:
        self._line = Line(flow.controls(), sorted({*flow.entries, *settings}))
        self._stops = {self._place(address) for address in settings}
        callers, callees = flow.inner_calls()[:2]
        self._calls: dict[int, list[int]] = {}
        for caller, callee in zip(callers.tolist(), callees.tolist(), strict=True):
            self._calls.setdefault(self._place(caller), []).append(self._place(callee))

    def _place(self, address: int) -> int:
        """Last place at or before an address."""
        return int(np.searchsorted(self._line.keys, 4 * address, side="right")) - 1

    def among(self, addresses: NDArray[np.int64], setting: int | None) -> NDArray[np.bool_]:
        """Whether each address is reached from a setting (``None``: from the start) without passing another one."""
        reached = np.zeros(len(self._line.keys), bool)
        reached[list(self._from(self._place(setting or 0)))] = True
        mine: NDArray[np.bool_] = reached[np.searchsorted(self._line.keys, 4 * addresses, side="right") - 1]
        return mine

    def follows(self, setting: int) -> bool:
        """Whether another setting leads to this one without passing a third."""
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


WORD = 8
FIRST_WIDE_ARCH = 70
WORDS_A_GROUP = 4
"""Before Volta: a control word and three instructions."""


def role_by(opcodes: Collection[str]) -> Role:
    """Role by opcodes: an entry leaves by EXIT, a device function by RET. Unknown with neither, or with both, since the
    listing of an entry may include callees."""
    if "RET" not in opcodes:
        return "entry" if "EXIT" in opcodes else "unknown"
    return "unknown" if "EXIT" in opcodes else "function"


def instruction_bytes(arch: str | None, last_address: int) -> int:
    """Bytes per instruction: two words from Volta on, one before; without an arch, judged by the last address."""
    number = "".join(filter(str.isdigit, arch or ""))
    wide = int(number) >= FIRST_WIDE_ARCH if number else last_address % (2 * WORD) == 0
    return 2 * WORD if wide else WORD


class Marked(NamedTuple):
    """Instructions of one function that matter for local memory, by address."""

    addresses: NDArray[np.int64]
    """Addresses of the accesses."""
    lines: NDArray[np.int64] | None
    """Lines of the disassembly, 1-based; ``None`` for binaries."""
    accesses: NDArray[np.int64]
    """Accesses packed by :func:`spillscan.reading.machine.accesses.number`."""
    registers: Callable[[], NDArray[np.int64]]
    """Register that each stores, or loads into; called only if needed."""
    sources: Sequence[SourceLine | None] | None
    """Source lines; ``None`` if the input has none."""
    moves: Moves

    def part(self, begin: int, end: int) -> Marked:
        """Accesses from index ``begin`` to ``end``."""
        lines = None if self.lines is None else self.lines[begin:end]
        sources = None if self.sources is None else self.sources[begin:end]
        registers = self.registers
        return self._replace(
            addresses=self.addresses[begin:end],
            lines=lines,
            accesses=self.accesses[begin:end],
            registers=lambda: registers()[begin:end],
            sources=sources,
        )


class Analysis(Struct, kw_only=True, dict=True):
    """Analysis of one function. ``role``: from its symbol or opcodes, else inferred from its code."""

    marked: Marked
    """Its accesses and control instructions."""
    role: Role
    """Entry or device function."""
    last_address: int
    """Address of its last instruction."""
    parts: tuple[int, ...]
    """Addresses of callees in the same listing, if known; else the targets of calls are used."""
    helpers: Collection[int] | None
    """Callees that are ptxas's own helpers; ``None`` if callees have no names, so that helpers are unknown."""
    stack_uses: Iterator[tuple[int, StackUse]]
    """(address, use) of the instructions other than STL and LDL that name R1; consumed only if needed."""
    annotations: bool
    """Whether ptxas marks spills."""

    def __post_init__(self) -> None:
        kernel = self.role != "function"
        self._flow = Flow(self.marked.moves, last=self.last_address, parts=self.parts, kernel=kernel)
        self._seen: list[tuple[int, StackUse]] = []
        if self.role == "unknown":
            end = self._starts[1] if len(self._starts) > 1 else None
            self.role = "function" if self._flow.only_returns(end) else "entry"

    @cached_property
    def _starts(self) -> Sequence[int]:
        """Address of each part."""
        return [0, *self._flow.entries]

    def _part_of(self, address: int) -> int:
        """0 for the function itself, n for the n-th callee in its listing."""
        return bisect_right(self._starts, address) - 1

    def _parts_of(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.array(self._starts).searchsorted(addresses, side="right") - 1

    @cached_property
    def _callers(self) -> NDArray[np.bool_]:
        """By part: whether it calls code that may read arguments from the stack."""
        found: NDArray[np.bool_] = np.zeros(len(self._starts), bool)
        found[self._parts_of(self._flow.calls())] = True
        inner, targets, _ = self._flow.inner_calls()
        if len(inner):
            using = np.zeros(len(self._starts), bool)
            using[self._parts_of(self.marked.addresses)] = True
            found[self._parts_of(inner[using[self._parts_of(targets)]])] = True
        return found

    def _stack_uses(self, part: int) -> Iterator[StackUse]:
        """Uses of the stack pointer in one part; the code is read on demand."""
        yield from (use for where, use in self._seen if where == part)
        for address, use in self.stack_uses:
            where = self._part_of(address)
            self._seen.append((where, use))
            if where == part:
                yield use

    def traffic(self) -> LocalTraffic:
        """All accesses with their classes and depths."""
        parts = self._classified
        traffic = LocalTraffic(
            accesses=self._accesses(self.marked, parts),
            evidence="annotation" if self.annotations else "last-use",
            flow=self._followed,
        )
        own = [part for part in parts if not part.number]
        plain = [part for part in parts if "helper" not in part.kinds]
        if self.role == "function":
            return replace(traffic, frame=self._counted(own[0]) if own else Traffic())
        known = [] if own == plain else [counted for part in plain if (counted := self._counted(part)) is not None]
        return replace(traffic, cumulative=sum(known[1:], known[0])) if known and len(known) == len(plain) else traffic

    def callee(self, begin: int) -> tuple[LocalTraffic, int | None]:
        """Traffic of the callee at ``begin`` in the listing, and the bytes of its own frame: 0 if it shares the
        kernel's, else unknown (ptxas prints more than the code takes)."""
        number = self._part_of(begin)
        traffic = NO_TRAFFIC
        for part, (_, first, end) in zip(self._classified, self._extents, strict=True):
            if part.number == number:
                alone = part._replace(number=0, begin=0)
                traffic = LocalTraffic(
                    accesses=self._accesses(self.marked.part(first, end), [alone]),
                    evidence="annotation" if self.annotations else "last-use",
                    flow=self._followed,
                    frame=self._counted(part),
                )
        return traffic, 0 if self._frame(number) is None else None

    def frame_bytes(self) -> int | None:
        """Bytes of the function's own frame, without those of its callees: the first amount that it takes from the
        stack pointer; 0 if it takes none but makes calls, else ``None``."""
        taken = self._frame(0)
        calls = len(self._starts) > 1 or len(self._flow.calls())
        return 0 if taken is None and calls else taken

    def roles(self) -> tuple[WarpRole, ...]:
        """Warp roles with their register counts; empty if the code sets none."""
        return roles(self._flow, self._accesses(self.marked, self._classified))

    @property
    def _followed(self) -> FlowKind:
        return "guessed" if self._flow.guessed else "followed"

    def _accesses(self, marked: Marked, parts: Sequence[Part]) -> Accesses:
        return Accesses(
            addresses=marked.addresses,
            lines=marked.lines,
            accesses=marked.accesses,
            depths=loops.Depths(self._flow, marked.addresses),
            parts=parts,
            sources=marked.sources,
        )

    @cached_property
    def _extents(self) -> list[tuple[int, int, int]]:
        """Parts that access local memory: (number, index of the first access, index after the last)."""
        addresses = self.marked.addresses
        entries = self._flow.entries_before(int(addresses[-1])) if len(addresses) else []
        cuts = [0, *(addresses.searchsorted(entries).tolist() if entries else ()), len(addresses)]
        return [(part, begin, end) for part, (begin, end) in enumerate(pairwise(cuts)) if begin < end]

    @cached_property
    def _classified(self) -> list[Part]:
        """These parts with the classes of their accesses; without annotations, parts that share a frame are classified
        together."""
        shared = self._extents
        if self.annotations or shared == [each for each in shared if not each[0]]:
            return [self._part(number, [(number, begin, end)])[0] for number, begin, end in shared]
        shared = [each for each in shared if not each[0] or self._frame(each[0]) is None]
        alone = [self._part(each[0], [each])[0] for each in self._extents if each not in shared]
        return sorted((*(self._part(0, shared) if shared else ()), *alone), key=lambda part: part.begin)

    def _distinct(self, begin: int, end: int) -> dict[int, int]:
        """Number of accesses equal to each distinct one, in the order of their last occurrence, from the end."""
        return Counter(self.marked.accesses[begin:end][::-1].tolist())

    def _part(self, part: int, extents: Sequence[tuple[int, int, int]]) -> list[Part]:
        """Classify the parts of one frame, whose owner is ``part``."""
        together = any(number != part for number, _, _ in extents)
        counts = [self._distinct(begin, end) for _, begin, end in extents]
        last: dict[int, None] = dict.fromkeys(chain.from_iterable(reversed(counts)))
        around = local.Surroundings(
            calls=lambda: together or bool(self._callers[part]),
            frame=partial(self._frame, part),
            taken=lambda: together or self._taken(part),
            refilled=lambda: set() if part else self._refilled(),
        )
        kinds = local.classify(
            [accesses.access(number) for number in reversed(last)],
            around,
            annotations=self.annotations,
            device=bool(part) or self.role == "function",
        )
        of = dict(zip(last, reversed(kinds), strict=True))
        return [
            Part(
                number,
                begin,
                array("q", own),
                tuple(own.values()),
                tuple(self._as_counted(number, of[each]) for each in own),
            )
            for (number, begin, _), own in zip(extents, counts, strict=True)
        ]

    def _as_counted(self, part: int, kind: AccessClass) -> AccessClass:
        """Class of an access for counting: logs do not count the spills of ptxas's helpers, and an unnamed callee may
        be one."""
        if not part:
            return kind
        if self.helpers is None:
            return "unknown" if kind == "spill" else kind
        return "helper" if self._starts[part] in self.helpers else kind

    def _counted(self, part: Part) -> Traffic | None:
        """Spills of one part as ptxas prints them; ``None`` if unknown."""
        if part.number and self.helpers is None:
            return None
        device = self.role == "function" and not part.number
        size = self._frame(part.number) if part.number or device else None
        unknown = "unknown" in part.kinds
        if size is None:
            if device and not self.annotations:  # without a frame, it loads arguments
                return None if part.slots().stores else Traffic()
            return None if unknown else part.traffic("spill")
        numbers = [accesses.access(number) for number in part.numbers]
        if self.annotations:
            rows = slice(part.begin, part.begin + sum(part.counts))
            marked = map(accesses.access, self.marked.accesses[rows].tolist())
            saved = local.saves([*marked], self.marked.registers()[rows].tolist(), size)
            return None if saved is None else part.traffic("spill") + accesses.traffic(saved)
        stored, loaded = ({each.target.slot for each in numbers if each.store == way} for way in (True, False))
        apart = None not in stored | loaded and not self._taken(part.number)
        handed_over = stored - loaded and self._callers[part.number]
        return part.slots(size) if apart and not handed_over else None

    def _taken(self, part: int) -> bool:
        """Whether the address of the part's frame is used other than to access it; callees may share the frame of the
        function itself."""
        parts = [part] if part else range(len(self._starts))
        return any(local.taken(use) for each in parts for use in self._stack_uses(each))

    def _refilled(self) -> set[int]:
        """Slots of the function itself from which callees refill: ptxas allocates registers across calls."""
        found: set[int] = set()
        for part, begin, end in self._extents:
            if part:
                slots = {
                    target.slot
                    for _, _, _, target in map(accesses.access, self._distinct(begin, end))
                    if target.last_use
                }
                found.update(slot - (self._frame(part) or 0) for slot in slots if slot is not None)
        return found

    def _frame(self, part: int) -> int | None:
        """Bytes that a part takes from the stack; ``None`` unless its first change of the stack pointer is a
        subtraction."""
        changes = (local.change(use) for use in self._stack_uses(part))
        first = next((change for change in changes if change is not None), 0)
        return -first if first < 0 else None
