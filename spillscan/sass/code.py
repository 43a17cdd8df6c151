"""One function while it is read, whichever path reads it, and the record that it becomes at its end."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from spillscan.model import Origin, Role
from spillscan.sass import flow, local, loops, spills, terminals
from spillscan.sass.loops import Control
from spillscan.sass.model import (
    NO_TRAFFIC,
    LivePeak,
    LocalAccess,
    LocalTraffic,
    Operands,
    SassFunction,
    SassStats,
    SourceLine,
    traffic_of,
)
from spillscan.sass.operands import OperandReader

LOCAL = frozenset({b"STL", b"LDL"})
WORD = 8
FIRST_WIDE_ARCH = 70
ANNOTATION = b"SpillRefill"


Instruction = tuple[bytes, bytes, bytes, bytes, bytes, bytes, int | None, SourceLine | None]
"""A line that matters for local memory, an access to it or what moves control: address, predicate, opcode, modifiers,
operands and remark as printed, the line of the dump, the source line."""


class Cubin(NamedTuple):
    """Where a function stands in its dump."""

    member: int = 0
    arch: str | None = None
    identifier: str = ""
    object: str = ""
    """``libgemm.a:gemm.o`` of a static library."""

    @property
    def unit(self) -> str:
        """The object that holds it, without its archive."""
        return self.object.rpartition(":")[2]


def _no_uses() -> Iterator[tuple[int, bytes]]:
    return iter(())


class Marked(NamedTuple):
    """Some of a function's lines that matter for local memory."""

    lines: Iterable[Instruction]
    """As read by the grammar."""
    jumps: Iterable[Control] = ()
    """Plain jumps that are not among ``lines``."""
    calls: Iterable[tuple[int, int]] = ()
    """(address, target) of plain calls that are not among ``lines``; target 0: something outside of the listing."""


class _Access(NamedTuple):
    """An instruction that accesses local memory."""

    address: int
    guard: bytes
    opcode: bytes
    modifiers: bytes
    operands: bytes
    note: bytes
    line: int | None
    source: SourceLine | None


class Code:
    """What is known of a function so far."""

    def __init__(self, symbol: str, cubin: Cubin, origin: Origin) -> None:
        self.symbol = symbol
        self.cubin = cubin
        self.origin = origin
        self.role: Role = "unknown"
        self.opcodes: dict[str, int] = {}
        self.unsorted = False
        self.tally: Any = None
        """Rows by opcode number, of the row scanner."""
        self.last_address = 0
        self.local_count = 0
        self.marked: list[Callable[[], Marked]] = []
        """Local and control instructions, and plain jumps apart from them; called only when the function turns out to
        use local memory."""
        self.stack_uses: Callable[[], Iterator[tuple[int, bytes]]] = _no_uses
        """(address, operands) of the instructions other than STL and LDL that name R1; called only where it decides."""
        self.annotations = False
        self.shared_spills = 0
        self.registers: int | None = None
        self.live_peak: LivePeak | None = None
        self.operands: OperandReader | None = None
        """Set where somebody wants to know what the operands name."""
        self.labels: Mapping[bytes, int] = {}
        self.parts: tuple[int, ...] = ()
        """Where callees begin in the same listing, if the dump says so; else the targets of its calls."""

    def count(self, opcode: str, times: int = 1) -> None:
        """Add instructions."""
        self.unsorted = True
        self.opcodes[opcode] = self.opcodes.get(opcode, 0) + times

    def record(self) -> SassFunction:
        """What the function is."""
        role, traffic = self._role(), NO_TRAFFIC
        judge = _Judge(self, role) if self.local_count else None
        if judge is not None:
            role, traffic = judge.role, judge.traffic()
        return SassFunction(
            symbol=self.symbol,
            arch=self.cubin.arch,
            role=role,
            member=self.cubin.member,
            identifier=self.cubin.identifier or self.cubin.unit,
            stats=SassStats(
                instructions=sum(self.opcodes.values()),
                code_bytes=self.last_address + self._instruction_bytes() if self.opcodes else 0,
                opcodes=tuple(sorted(self.opcodes.items()) if self.unsorted else self.opcodes.items()),
                local=traffic,
                shared_spills=self.shared_spills if self.annotations else None,
                registers=self.registers,
                operands=self._operands(judge or _Judge(self, role)) if self.operands else None,
                live_peak=self.live_peak,
                origin=self.origin,
            ),
        )

    def _operands(self, judge: _Judge) -> Operands | None:
        assert self.operands
        return self.operands.result(judge.depths(self.operands.conflicts))

    def _instruction_bytes(self) -> int:
        """Two words from Volta on, one before."""
        number = "".join(filter(str.isdigit, self.cubin.arch or ""))
        wide = int(number) >= FIRST_WIDE_ARCH if number else self.last_address % (2 * WORD) == 0
        return 2 * WORD if wide else WORD

    def _role(self) -> Role:
        """An entry leaves by EXIT, a device function by RET; the listing of an entry may hold callees behind it."""
        if self.role != "unknown" or "RET" not in self.opcodes:
            return self.role if self.role != "unknown" or "EXIT" not in self.opcodes else "entry"
        return "unknown" if "EXIT" in self.opcodes else "function"


class _Judge:
    """Classes and loop depths of one function's accesses, callee by callee."""

    def __init__(self, code: Code, role: Role) -> None:
        self.code = code
        marked: list[Instruction] = []
        jumps: list[Control] = []
        calls: list[tuple[int, int]] = []
        for read in code.marked:
            lines, controls, called = read()
            marked.extend(lines)
            jumps.extend(controls)
            calls.extend(called)
        self.accesses = sorted(
            (_Access(int(fields[0], 16), *fields[1:]) for fields in marked if fields[2] in LOCAL),
            key=lambda access: access.address,
        )
        self.graph = flow.read(
            [fields[:5] for fields in marked if fields[2] not in LOCAL],
            jumps,
            calls,
            last=code.last_address,
            labels=code.labels,
            parts=code.parts,
        )
        if role != "function":
            self.graph = self.graph._replace(entries=sorted({*self.graph.entries, *_unnamed(self.graph)}))
        self.starts = [0, *self.graph.entries]
        self.role: Role = role if role != "unknown" else self._role()
        used = {self.part_of(access.address) for access in self.accesses}
        self.callers = {self.part_of(address) for address in self.graph.calls}
        self.callers |= {
            self.part_of(address) for address, target in self.graph.inner_calls if self.part_of(target) in used
        }
        """Parts that call something which may look for arguments on the stack."""
        self._uses = code.stack_uses()
        self._seen: list[tuple[int, bytes]] = []

    def _role(self) -> Role:
        leaves = {opcode for address, opcode in self.graph.leaves if self.part_of(address) == 0}
        return "function" if leaves and leaves <= flow.RETURNS else "entry"

    def part_of(self, address: int) -> int:
        """0 for the function itself, n for the n-th callee in its listing."""
        return bisect_right(self.starts, address) - 1

    def uses(self, part: int) -> Iterator[bytes]:
        """Operands of what names the stack pointer in one part; the text is read as far as somebody asks."""
        yield from (operands for where, operands in self._seen if where == part)
        for address, operands in self._uses:
            where = self.part_of(address)
            self._seen.append((where, operands))
            if where == part:
                yield operands

    def depths(self, addresses: Sequence[int]) -> Sequence[int | None]:
        """Loops around each of some ascending addresses."""
        return loops.depths(self.graph.controls, self.graph.entries, addresses)

    def traffic(self) -> LocalTraffic:
        """All accesses with their classes and depths."""
        depths = self.depths([access.address for access in self.accesses])
        found: list[LocalAccess] = []
        begin = 0
        while begin < len(self.accesses):
            part = self.part_of(self.accesses[begin].address)
            end = begin
            while end < len(self.accesses) and self.part_of(self.accesses[end].address) == part:
                end += 1
            found.extend(self._part(part, self.accesses[begin:end], depths[begin:end]))
            begin = end
        own_frame = None
        if self.role == "function":
            frame = self._frame(0)
            if frame is None and not any(a.store for a in found if not a.part and a.slot is not None):
                frame = 0  # it has none: what it loads are arguments
            saved = (a for a in found if not a.part and a.slot is not None and (frame is None or a.slot < frame))
            own_frame = traffic_of(tuple(saved))
        return LocalTraffic(
            accesses=tuple(found),
            evidence="annotation" if self.code.annotations else "last-use",
            flow="guessed" if self.graph.guessed else "followed",
            frame=own_frame,
        )

    def _part(self, part: int, accesses: Sequence[_Access], depths: Sequence[int | None]) -> Iterable[LocalAccess]:
        targets = [local.target(access.modifiers, access.operands) for access in accesses]
        device = bool(part) or self.role == "function"
        kinds = spills.classify(
            [
                spills.Access(target, access.opcode == b"STL", ANNOTATION in access.note)
                for access, target in zip(accesses, targets, strict=True)
            ],
            annotations=self.code.annotations,
            device=device,
            calls=part in self.callers,
            frame=lambda: self._frame(part),
            taken=lambda: self._taken(part),
            refilled=() if part else self._refilled(),
        )
        for access, target, kind, depth in zip(accesses, targets, kinds, depths, strict=True):
            yield LocalAccess(
                address=access.address,
                line=access.line,
                store=access.opcode == b"STL",
                bytes=target.bytes,
                form=target.form,
                slot=target.slot,
                last_use=target.last_use,
                predicated=bool(access.guard),
                kind=kind,
                depth=depth,
                part=part,
                source=access.source,
            )

    def _taken(self, part: int) -> bool:
        """Whether the address of the part's frame goes anywhere; callees may share the frame of the function itself."""
        parts = range(len(self.starts)) if not part else [part]
        return any(terminals.line("taken").match(operands) for each in parts for operands in self.uses(each))

    def _refilled(self) -> set[int]:
        """Slots of the function itself that callees refill from: ptxas allocates registers across calls."""
        found = set()
        for access in self.accesses:
            part = self.part_of(access.address)
            target = local.target(access.modifiers, access.operands)
            if part and target.last_use and target.slot is not None:
                found.add(target.slot - (self._frame(part) or 0))
        return found

    def _frame(self, part: int) -> int | None:
        """Bytes that a callee takes from the stack, where its first change of the stack pointer is a subtraction."""
        for operands in self.uses(part):
            if match := terminals.line("frame").match(operands):
                amount = int(match["amount"], 16)
                amount -= (amount >= 1 << 31) << 32
                return -amount if amount < 0 else None
        return None


def _unnamed(graph: flow.Flow) -> Iterator[int]:
    """Where functions begin behind a kernel that are called by address only: right behind a sure way out, no branch
    leads there, and the next sure way out is a return."""
    targets = {control.target for control in graph.controls} | {target for _, target in graph.inner_calls}
    sure = {control.address for control in graph.controls if control.target is None and not control.conditional}
    leaves = [(address, opcode) for address, opcode in sorted(graph.leaves) if address in sure]
    for (address, _), (_, following) in pairwise(leaves):
        near = {address + WORD, address + 2 * WORD}  # on Maxwell a control word may stand between
        if following in flow.RETURNS and not near & targets:
            yield address + WORD
