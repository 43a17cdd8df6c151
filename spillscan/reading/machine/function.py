"""Analysis of one function's machine code: its role, and the classes and loop depths of its accesses to local memory,
per callee, for any input format. For warp-specialized code also the code and register count of each role.

``setmaxnreg`` (PTX ISA 8.0, sm_90a and later) is USETMAXREG in machine code: DEALLOC returns registers to the block,
TRY_ALLOC requests some, in a loop that runs until it gets them. Code that control reaches from one of them without
passing another belongs to one role. Code that it reaches from the kernel's start belongs to the warps that keep their
registers at launch, and to all warps on the way to their roles.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import islice, pairwise
from operator import attrgetter
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from spillscan.model import Role
from spillscan.model.code import WarpRole
from spillscan.model.local import NO_TRAFFIC, AccessClass, LocalAccess, LocalTraffic, SourceLine, Traffic, traffic
from spillscan.reading.machine import local, loops
from spillscan.reading.machine.flow import Flow, Move
from spillscan.reading.machine.instruction import Access
from spillscan.reading.machine.local import StackUse
from spillscan.reading.machine.loops import Line

_MOST = 64
"""Maximum number of settings in one kernel; compilers write fewer. Beyond it no role is reported."""


def roles(flow: Flow, accesses: Sequence[LocalAccess]) -> tuple[WarpRole, ...]:
    """Warp roles: the start, then by registers; empty if the code sets no registers."""
    settings = flow.settings()
    if not settings or len(settings) > _MOST:
        return ()
    reached = _Reach(flow, [address for address, _ in settings])
    found = []
    for address, registers in ((None, None), *settings):
        mine = reached.among(accesses, address)
        spills = [access for access in mine if access.kind == "spill"]
        unknown = not spills and any(access.kind == "unknown" for access in mine)
        found.append(
            WarpRole(
                address=address,
                registers=registers,
                follows=address is not None and reached.follows(address),
                spill=None if unknown else _traffic(spills),
                local=_traffic(mine),
            )
        )
    return tuple(sorted(found, key=lambda each: (each.address is not None, each.registers or 0, each.address or 0)))


class _Reach:
    """Reachability of code, which is a line of places as in :class:`~spillscan.reading.machine.loops.Line`."""

    def __init__(self, flow: Flow, settings: Sequence[int]) -> None:
        self._line = Line(flow.branches(), {*flow.entries, *settings})
        self._stops = {self._line.place(address) for address in settings}
        self._calls: dict[int, list[int]] = {}
        for call in flow.inner_calls():
            self._calls.setdefault(self._line.place(call.address), []).append(self._line.place(call.target))

    def among(self, accesses: Iterable[LocalAccess], setting: int | None) -> list[LocalAccess]:
        """Accesses that are reached from a setting (``None``: from the start) without passing another one."""
        reached = self._from(self._line.place(setting or 0))
        return [access for access in accesses if self._line.place(access.address) in reached]

    def follows(self, setting: int) -> bool:
        """Whether another setting leads to this one without passing a third."""
        place = self._line.place(setting)
        others = (other for other in self._stops if other != place)
        return any(place in self._successors(each) for other in others for each in self._from(other))

    def _successors(self, place: int) -> list[int]:
        return [*self._line.successors[place], *self._calls.get(place, ())]

    def _from(self, begin: int) -> set[int]:
        reached, work = {begin}, [begin]
        while work:
            for place in self._successors(work.pop()):
                if place not in reached and place not in self._stops:
                    reached.add(place)
                    work.append(place)
        return reached


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
    """Bytes per instruction: two words from Volta on, one before; without an arch, inferred from the last address."""
    number = "".join(filter(str.isdigit, arch or ""))
    wide = int(number) >= FIRST_WIDE_ARCH if number else last_address % (2 * WORD) == 0
    return 2 * WORD if wide else WORD


class Marked(NamedTuple):
    """Instructions of one function that matter for local memory, by address."""

    addresses: list[int]
    """Addresses of the accesses."""
    accesses: list[Access]
    moves: list[Move]
    lines: list[int] | None = None
    """Line of the disassembly of each access, 1-based; ``None`` for binaries."""
    sources: list[SourceLine | None] | None = None
    """Source lines; ``None`` if the input has none."""


class Part(NamedTuple):
    """Accesses of the function itself, or of one callee in its listing."""

    number: int
    """0 for the function itself, n for the n-th callee."""
    begin: int
    end: int
    kinds: Sequence[AccessClass]


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

    @cached_property
    def _callers(self) -> set[int]:
        """Parts that call code that may read arguments from the stack."""
        using = {number for number, begin, end in self._extents if self._may_read(number, begin, end)}
        inner = (call.address for call in self._flow.inner_calls() if self._part_of(call.target) in using)
        return {self._part_of(address) for address in (*self._flow.calls(), *inner)}

    def _may_read(self, number: int, begin: int, end: int) -> bool:
        """Whether a part may read arguments from the stack: by slots that are no spills, or by an address."""
        slots = any(each.slot is not None and not each.annotated for each in self.marked.accesses[begin:end])
        return slots or self._taken(number)

    @cached_property
    def _uses(self) -> dict[int, list[StackUse]]:
        """Uses of the stack pointer, by part."""
        uses: dict[int, list[StackUse]] = {}
        for address, use in self.stack_uses:
            uses.setdefault(self._part_of(address), []).append(use)
        return uses

    def traffic(self) -> LocalTraffic:
        """All accesses with their classes and depths."""
        parts = self._parts
        local = self._local([record for part in parts for record in self._records(part, part.number)])
        own = [part for part in parts if not part.number]
        plain = [part for part in parts if "helper" not in part.kinds]
        if self.role == "function":
            return replace(local, frame=self._printed(own[0]) if own else Traffic())
        known = [] if own == plain else [printed for part in plain if (printed := self._printed(part)) is not None]
        return replace(local, cumulative=sum(known[1:], known[0])) if known and len(known) == len(plain) else local

    def callee(self, begin: int) -> tuple[LocalTraffic, int | None]:
        """Traffic of the callee at ``begin`` in the listing, and the bytes of its own frame: 0 if it shares the
        kernel's, else unknown (ptxas prints more than the code takes)."""
        number = self._part_of(begin)
        own = next((part for part in self._parts if part.number == number), None)
        frame = 0 if self._frame(number) is None else None
        return (NO_TRAFFIC if own is None else self._local(self._records(own, 0), self._printed(own))), frame

    def frame_bytes(self) -> int | None:
        """Bytes of the function's own frame, without those of its callees: the first amount that it takes from the
        stack pointer; 0 if it takes none but makes calls, else ``None``."""
        taken = self._frame(0)
        calls = len(self._starts) > 1 or self._flow.calls()
        return 0 if taken is None and calls else taken

    def roles(self) -> tuple[WarpRole, ...]:
        """Warp roles with their register counts; empty if the code sets none."""
        if not self._flow.settings():
            return ()
        return roles(self._flow, [record for part in self._parts for record in self._records(part, part.number)])

    def _local(self, accesses: Iterable[LocalAccess], frame: Traffic | None = None) -> LocalTraffic:
        return LocalTraffic(
            accesses=tuple(accesses),
            evidence="annotation" if self.annotations else "last-use",
            flow="guessed" if self._flow.guessed else "followed",
            frame=frame,
        )

    @cached_property
    def _depths(self) -> Sequence[int | None]:
        return loops.depths((*self._flow.branches(),), (*self._flow.entries,), (*self.marked.addresses,))

    def _records(self, part: Part, number: int) -> Iterator[LocalAccess]:
        """Accesses of one part, as those of part ``number``."""
        marked, rows = self.marked, slice(part.begin, part.end)
        unknown = [None] * len(part.kinds)
        for address, line, access, kind, depth, source in zip(
            marked.addresses[rows],
            marked.lines[rows] if marked.lines else unknown,
            marked.accesses[rows],
            part.kinds,
            self._depths[rows],
            marked.sources[rows] if marked.sources else unknown,
            strict=True,
        ):
            store, size, form, slot, last_use, predicated, _, _ = access
            yield LocalAccess(address, line, store, size, form, slot, last_use, predicated, kind, depth, number, source)

    @cached_property
    def _extents(self) -> list[tuple[int, int, int]]:
        """Parts that access local memory: (number, index of the first access, index after the last)."""
        addresses = self.marked.addresses
        entries = self._flow.entries if addresses else []
        cuts = [0, *(bisect_left(addresses, entry) for entry in entries), len(addresses)]
        return [(part, begin, end) for part, (begin, end) in enumerate(pairwise(cuts)) if begin < end]

    @cached_property
    def _parts(self) -> list[Part]:
        """These parts with the classes of their accesses; without annotations, parts that share a frame are classified
        together."""
        shared = [] if self.annotations else self._extents
        if any(number for number, _, _ in shared):
            shared = [each for each in shared if not each[0] or self._frame(each[0]) is None]
        alone = [part for each in self._extents if each not in shared for part in self._classified(each[0], [each])]
        return sorted((*(self._classified(0, shared) if shared else ()), *alone), key=attrgetter("begin"))

    def _classified(self, owner: int, extents: Sequence[tuple[int, int, int]]) -> list[Part]:
        """Classify the parts of one frame, whose owner is the part ``owner``."""
        together = any(number != owner for number, _, _ in extents)
        around = local.Surroundings(
            calls=lambda: together or owner in self._callers,
            frame=partial(self._frame, owner),
            taken=lambda: together or self._taken(owner),
            refilled=lambda: set() if owner else self._refilled(),
        )
        accesses = [access for _, begin, end in extents for access in self.marked.accesses[begin:end]]
        device = bool(owner) or self.role == "function"
        kinds = iter(local.classify(accesses, around, annotations=self.annotations, device=device))
        return [
            Part(number, begin, end, [self._as_counted(number, kind) for kind in islice(kinds, end - begin)])
            for number, begin, end in extents
        ]

    def _as_counted(self, part: int, kind: AccessClass) -> AccessClass:
        """Class of an access for counting: logs do not count the spills of ptxas's helpers, and an unnamed callee may
        be one."""
        if not part:
            return kind
        if self.helpers is None:
            return "unknown" if kind == "spill" else kind
        return "helper" if self._starts[part] in self.helpers else kind

    def _printed(self, part: Part) -> Traffic | None:
        """Spills of one part as ptxas prints them; ``None`` if unknown."""
        if part.number and self.helpers is None:
            return None
        accesses = self.marked.accesses[part.begin : part.end]
        spills = [access for access, kind in zip(accesses, part.kinds, strict=True) if kind == "spill"]
        device = self.role == "function" and not part.number
        size = self._frame(part.number) if part.number or device else None
        if size is None:
            if device and not self.annotations:  # without a frame, it loads arguments
                return None if any(access.store and access.slot is not None for access in accesses) else Traffic()
            return None if "unknown" in part.kinds and not self.annotations else _traffic(spills)
        if self.annotations:
            saved = local.saves(accesses, size)
            return None if saved is None else _traffic([*spills, *saved])
        stored, loaded = ({access.slot for access in accesses if access.store == way} for way in (True, False))
        if None in stored | loaded or self._taken(part.number) or (stored - loaded and part.number in self._callers):
            return None
        return _traffic(access for access in accesses if (access.slot or 0) < size)

    def _taken(self, part: int) -> bool:
        """Whether the address of the part's frame is used other than to access it; callees may share the frame of the
        function itself."""
        parts = [part] if part else range(len(self._starts))
        return any(use.taken for each in parts for use in self._uses.get(each, ()))

    def _refilled(self) -> set[int]:
        """Slots of the function itself from which callees refill: ptxas allocates registers across calls."""
        slots: set[int] = set()
        for part, begin, end in self._extents:
            if part:
                refills = {access.slot for access in self.marked.accesses[begin:end] if access.last_use}
                slots.update(slot - (self._frame(part) or 0) for slot in refills if slot is not None)
        return slots

    def _frame(self, part: int) -> int | None:
        """Bytes that a part takes from the stack; ``None`` unless its first change of the stack pointer is a
        subtraction."""
        first = next((use.change for use in self._uses.get(part, ()) if use.change is not None), 0)
        return -first if first < 0 else None


def _traffic(accesses: Iterable[Access | LocalAccess]) -> Traffic:
    return traffic((access, 1) for access in accesses)
