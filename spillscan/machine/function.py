"""One function while it is read, whichever path reads it, and the record that it becomes at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from spillscan.dumps.headers import Cubin
from spillscan.machine import kept
from spillscan.machine.judge import Judge
from spillscan.machine.kept import Instruction, Marked, Piece
from spillscan.machine.operands import OperandReader
from spillscan.machine.pointer import StackUse
from spillscan.model import Origin, Role
from spillscan.model.code import NO_TRAFFIC, LivePeak, LocalTraffic, SassFunction, SassStats

LOCAL = frozenset({b"STL", b"LDL"})
WORD = 8
FIRST_WIDE_ARCH = 70


def _no_uses() -> Iterator[tuple[int, StackUse]]:
    return iter(())


class Code:
    """What is known of a function so far."""

    role: Role = "unknown"
    tally: Any = None
    """Rows by opcode number, of the row scanner."""
    last_address = 0
    local_count = 0
    stack_uses: Callable[[], Iterator[tuple[int, StackUse]]] = staticmethod(_no_uses)
    """(address, use) of the instructions other than STL and LDL that name R1; called only where it decides."""
    annotations = False
    shared_spills = 0
    registers: int | None = None
    live_peak: LivePeak | None = None
    operands: OperandReader | None = None
    """Set where somebody wants to know what the operands name."""
    labels: Mapping[bytes, int] = MappingProxyType({})
    parts: tuple[int, ...] = ()
    """Where callees begin in the same listing, if the dump says so; else the targets of its calls."""

    def __init__(self, symbol: str, cubin: Cubin, origin: Origin) -> None:
        self.symbol = symbol
        self.cubin = cubin
        self.origin = origin
        self.opcodes: dict[str, int] = {}
        self.pieces: list[Piece | Sequence[Instruction]] = []
        """What accesses local memory and what moves control, by the way it was read."""

    def count(self, opcode: str, times: int = 1) -> None:
        """Add instructions."""
        self.opcodes[opcode] = self.opcodes.get(opcode, 0) + times

    def add(self, opcodes: dict[str, int]) -> None:
        """Add instructions by opcode."""
        if not self.opcodes:
            self.opcodes = opcodes
            return
        for opcode, times in opcodes.items():
            self.count(opcode, times)

    def record(self, marked: Marked | None = None) -> SassFunction:
        """What the function is. ``marked`` is what its pieces say, where they were read already."""
        role, traffic, operands = self._role(), NO_TRAFFIC, None
        if self.local_count or self.operands:
            if marked is None:
                marked = next(kept.read([self.pieces], self.labels))
            judge = Judge(self, marked, role)
            if self.local_count:
                role, traffic = judge.role, judge.traffic()
            if self.operands:
                operands = self.operands.result(judge.depths(self.operands.conflicts))
        return SassFunction(
            symbol=self.symbol,
            arch=self.cubin.arch,
            role=role,
            member=self.cubin.member,
            identifier=self.cubin.identifier or self.cubin.unit,
            stats=SassStats(
                instructions=sum(self.opcodes.values()),
                code_bytes=self.last_address + instruction_bytes(self.cubin.arch, self.last_address)
                if self.opcodes
                else 0,
                opcodes=tuple(sorted(self.opcodes.items())),
                local=traffic,
                shared_spills=self.shared_spills if self.annotations else None,
                registers=self.registers,
                operands=operands,
                live_peak=self.live_peak,
                origin=self.origin,
            ),
        )

    def judged(self, marked: Marked) -> tuple[Role, LocalTraffic]:
        """What a function that uses local memory is, and its accesses."""
        judge = Judge(self, marked, self._role())
        return judge.role, judge.traffic()

    def _role(self) -> Role:
        """An entry leaves by EXIT, a device function by RET; the listing of an entry may hold callees behind it."""
        if self.role != "unknown" or "RET" not in self.opcodes:
            return self.role if self.role != "unknown" or "EXIT" not in self.opcodes else "entry"
        return "unknown" if "EXIT" in self.opcodes else "function"


def instruction_bytes(arch: str | None, last_address: int) -> int:
    """Two words from Volta on, one before; without an arch, what the address of the last instruction allows."""
    number = "".join(filter(str.isdigit, arch or ""))
    wide = int(number) >= FIRST_WIDE_ARCH if number else last_address % (2 * WORD) == 0
    return 2 * WORD if wide else WORD
