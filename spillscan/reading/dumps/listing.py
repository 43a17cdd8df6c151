"""One function of a disassembly while it is read, for all readers, and the record made at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

from spillscan.model import Issue, Origin, Role
from spillscan.model.code import NO_TRAFFIC, SETS_REGISTERS, LivePeak, SassFunction, SassStats, SourceLine, WarpRole
from spillscan.reading.dumps.common import DumpAccount, decode
from spillscan.reading.machine import accesses, flow
from spillscan.reading.machine.flow import FARTHEST, KINDS
from spillscan.reading.machine.function import (
    WORD,
    WORDS_A_GROUP,
    Analysis,
    Marked,
    instruction_bytes,
    role_by,
)

LOCAL = frozenset({b"STL", b"LDL"})
MARKED = LOCAL | KINDS.keys()
"""Opcodes that matter for local memory."""

Operation = tuple[bytes, bytes, bytes, bytes, bytes]
"""Predicate, opcode, modifiers, operands and remark of an instruction, as printed."""

Instruction = tuple[int, Operation, int | None, SourceLine | None]
"""An instruction that matters for local memory: address, operation, line of the disassembly, source line."""


class Member(NamedTuple):
    """A cubin of the disassembly."""

    number: int = 0
    """Number among the cubins of the input; -1 before the first."""
    arch: str | None = None
    identifier: str = ""
    object: str = ""
    """Object in its archive, such as ``libgemm.a:gemm.o`` for a static library."""

    @property
    def unit(self) -> str:
        """Object that contains the cubin, without its archive."""
        return self.object.rpartition(":")[2]

    def after(self, rule: str, values: Sequence[bytes]) -> Member:
        """Cubin after a line of this rule of `cuobjdump`'s grammars."""
        if rule == "member":
            return self._replace(object=decode(values[0]))
        if rule == "image":
            return Member(self.number + (values[0] == b"elf"), object=self.object)
        if rule == "field" and values[0] == b"arch":
            return self._replace(arch=decode(values[1]))
        if rule == "field" and values[0] == b"identifier":
            return self._replace(identifier=decode(values[1]))
        if rule == "code_for":
            return self._replace(number=max(self.number, 0), arch=decode(values[0]))
        return self


BEFORE_ALL = Member(-1)
"""State before the first cubin."""


class Listing:
    """State of a function while it is read."""

    role: Role = "unknown"
    last_address = 0
    disordered = False
    """Whether addresses are not ascending."""
    obscure = False
    """Whether it accesses local memory at an address that cannot be parsed."""
    annotations = False
    shared_spills = 0
    registers: int | None = None
    live_peak: LivePeak | None = None
    labels: Mapping[bytes, int] = MappingProxyType({})
    parts: tuple[int, ...] = ()
    """Start addresses of callees in the same listing, if it names them; otherwise targets of calls are used."""
    helpers: Collection[int] | None = None
    """Start addresses of helper functions that ptxas adds; ``None`` if the listing does not name callees."""

    def __init__(self, symbol: str, member: Member, origin: Origin) -> None:
        self.symbol = symbol
        self.member = member
        self.origin = origin
        self.opcodes: Counter[str] = Counter()
        self.marked: list[Instruction] = []
        """Parsed instructions that access local memory or move control."""
        self.stack: list[tuple[int, bytes]] = []
        """(address, operands) of parsed instructions that name R1, other than STL and LDL."""

    @property
    def local_count(self) -> int:
        """Number of instructions that access local memory."""
        return self.opcodes["STL"] + self.opcodes["LDL"]

    def count(self, address: int, opcode: str) -> None:
        """Count one more instruction."""
        if address <= self.last_address and self.opcodes:
            self.disordered = True
        self.last_address = address
        self.opcodes[opcode] += 1

    def keep(self, address: int, operation: Operation, line: int | None, source: SourceLine | None = None) -> None:
        """Keep a counted instruction, if it matters for local memory."""
        _, opcode, _, operands, _ = operation
        if opcode in MARKED:
            self.marked.append((min(address, FARTHEST), operation, line, source))
        if b"R1" in operands and opcode not in LOCAL:
            self.stack.append((address, operands))

    def record(self) -> SassFunction:
        """Record of the function; call at its end."""
        role, traffic, arch = self._role(), NO_TRAFFIC, self.member.arch
        roles: tuple[WarpRole, ...] = ()
        if self.local_count or SETS_REGISTERS in self.opcodes:
            marked = _marked(self.marked, self.labels)
            code = Analysis(
                marked=marked,
                role=role,
                last_address=self.last_address,
                parts=self.parts,
                helpers=self.helpers,
                stack_uses=iter(self.stack),
                annotations=self.annotations,
            )
            self.obscure = any(access.form == "unknown" for access in marked.accesses)
            if self.local_count:
                role, traffic = code.role, code.traffic()
            roles = code.roles()
        end = self.last_address + instruction_bytes(arch, self.last_address) if self.opcodes else 0
        return SassFunction(
            symbol=self.symbol,
            arch=arch,
            role=role,
            member=self.member.number,
            identifier=self.member.identifier or self.member.unit,
            stats=SassStats(
                instructions=sum(self.opcodes.values()),
                code_bytes=end,
                opcodes=tuple(sorted(self.opcodes.items())),
                local=traffic,
                shared_spills=self.shared_spills if self.annotations else None,
                registers=self.registers,
                live_peak=self.live_peak,
                origin=self.origin,
                roles=roles,
            ),
        )

    def targets(self) -> Iterator[bytes]:
        """Labels that its branches name, if it accesses local memory."""
        for _, operation, *_ in self.marked if self.local_count else ():
            if operation[1] in KINDS and (label := flow.form(*operation[:4]).label):
                yield label

    def damage(self, account: DumpAccount) -> Iterator[Issue]:
        """Issues if its addresses show missing or repeated instructions."""
        if self.obscure:
            message = f"{self.symbol} accesses local memory at an address that is not understood"
            yield account.issue("damaged-listing", message, self.origin.line, "error", symbol=self.symbol)
        found, words, arch = sum(self.opcodes.values()), self.last_address // WORD + 1, self.member.arch
        wide, narrow = self.last_address // (2 * WORD) + 1, words - -(-words // WORDS_A_GROUP)
        right = {wide, narrow}
        if arch is not None and arch.isprintable():  # otherwise the instruction size is unknown
            right = {narrow} if instruction_bytes(arch, 0) == WORD else {wide}
        if self.disordered or found not in right:
            message = f"the listing of {self.symbol} is damaged: {found} instructions up to {self.last_address:#x}"
            yield account.issue("damaged-listing", message, self.origin.line, "error", symbol=self.symbol)

    def _role(self) -> Role:
        return role_by(self.opcodes) if self.role == "unknown" else self.role


def _marked(lines: Sequence[Instruction], labels: Mapping[bytes, int]) -> Marked:
    """Instructions that matter for local memory, by address. In a damaged listing, an address may occur twice."""
    rows = sorted((each for each in lines if each[1][1] in LOCAL), key=itemgetter(0))
    numbers = [line for _, _, line, _ in rows if line is not None]
    sources = [source for *_, source in rows]
    moves = [flow.read(address, *operation[:4], labels) for address, operation, *_ in lines if operation[1] in KINDS]
    return Marked(
        [address for address, *_ in rows],
        [accesses.of_text(*operation) for _, operation, *_ in rows],
        moves,
        numbers if len(numbers) == len(rows) else None,
        sources if any(sources) else None,
    )
