"""Disassembly while it is read, for all readers: lines of a stream, statistics, and one function and its record."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from msgspec import Struct, field

from spillscan.model import Issue, Origin, Role, Severity
from spillscan.model.code import SETS_REGISTERS, FunctionUsage, LivePeak, SassFunction, SassStats, WarpRole
from spillscan.model.gaps import Hidden
from spillscan.model.local import NO_TRAFFIC, SourceLine
from spillscan.output.nouns import count
from spillscan.reading import grammar
from spillscan.reading.inputs.encoding import TOO_LONG, whole_lines
from spillscan.reading.machine import flow
from spillscan.reading.machine.flow import FARTHEST, KINDS
from spillscan.reading.machine.function import WORD, WORDS_A_GROUP, Analysis, Marked, instruction_bytes, role_by
from spillscan.reading.machine.instruction import of_text
from spillscan.reading.machine.local import stack_use

SHOWN = 20
"""Most unknown lines that get their own message; the rest is counted."""

FIRST_ARCH = 50
"""Maxwell, the first architecture whose machine code is read. The control flow of Kepler is not analysed."""

_CHARACTERS = 120
"""Characters of a line shown in a message."""


def pieces(chunks: Iterable[bytes], account: ListingAccount) -> Iterator[bytes]:
    """Blocks of whole lines from ``chunks`` of any size, in bounded memory.

    The last block may lack its final line end. A line that is too long is replaced by an empty one, and reported before
    the block that begins with it.
    """

    def counted() -> Iterator[bytes]:
        for data in chunks:
            account.bytes_read += len(data)
            account.unwritten |= b"\0" in data
            yield data

    return whole_lines(counted(), account.too_long)


def lines(chunks: Iterable[bytes], account: ListingAccount) -> Iterator[bytes]:
    """Lines with their ends, which are counted; the last may have none. A lone carriage return does not end a line."""
    for piece in pieces(chunks, account):
        *whole, rest = piece.split(b"\n")
        for line in whole:
            account.lines += 1
            yield line + b"\n"
        if rest:
            account.lines += 1
            yield rest


@lru_cache(maxsize=4096)
def known(text: bytes, form: str, rules: tuple[str, ...]) -> tuple[str, tuple[bytes, ...]]:
    """First rule of a grammar that matches the beginning of a line, and its values; an empty rule if none does."""
    for rule in rules:
        if match := grammar.line(rule, form).match(text):
            return rule, match.groups(b"")
    return "", ()


def decode(text: bytes) -> str:
    """A name from a disassembly, as text; invalid bytes are escaped."""
    return text.decode("utf-8", "backslashreplace")


def unsupported(arch: str | None, origin: Origin | None) -> Issue | None:
    """Issue for functions of an architecture that is not supported; ``None`` if it is."""
    number = re.match(r"sm_([0-9]+)", arch or "")
    if number is None or int(number[1]) >= FIRST_ARCH:
        return None
    message = f"machine code of {arch} is not supported (supported: sm_{FIRST_ARCH} and later)"
    return Issue(code="unsupported-arch", message=message, severity="error", origin=origin)


class ListingAccount(Struct):
    """Statistics of one input, filled while it is read, and the issues derived from them."""

    input: str
    """Name of the input, as given by the user."""
    form: str
    """Its format, which is also the name of its grammar."""
    lines: int = 0
    """Lines read."""
    bytes_read: int = 0
    """Bytes read."""
    functions: int = 0
    """Functions found."""
    unknown_lines: int = 0
    """Lines that no grammar rule describes."""
    undecodable_bytes: int = 0
    """Number of bytes outside ASCII."""
    hides: tuple[Hidden, ...] | None = None
    """Properties that unknown lines may hide."""
    damaged_names: int = 0
    """Number of functions whose names are not valid text."""
    unwritten: bool = False
    """Whether it contains NUL bytes, which no tool writes."""

    found: list[SassFunction | FunctionUsage | Issue] = field(default_factory=list)
    """Records read and not yet returned, in input order."""

    def origin(self, line: int | None = None) -> Origin:
        """Location in the input."""
        return Origin(input=self.input, line=line, format=self.form)

    def report(
        self,
        code: str,
        message: str,
        line: int | None = None,
        severity: Severity = "warning",
        hides: tuple[Hidden, ...] | None = None,
        symbol: str = "",
    ) -> None:
        """Report an issue of this input."""
        self.found.append(
            Issue(code=code, message=message, severity=severity, origin=self.origin(line), hides=hides, symbol=symbol)
        )

    def unknown_line(
        self, text: bytes, line: int, symbol: str | None = None, hides: tuple[Hidden, ...] | None = None
    ) -> None:
        """Report a line that no rule describes, unless too many were reported.

        Inside the function ``symbol``, the line may have been an instruction.
        """
        shown = ascii(decode(text.rstrip()))[1:-1][:_CHARACTERS]
        if grammar.line("diagnostic").match(text):
            self.report("tool-message", f"the disassembly contains a message of the disassembler: {shown}", line)
            return
        if symbol is not None:
            hides = ("spills", "code")
        self.unknown_lines += 1
        self.hides = self.hides or hides
        if self.unknown_lines <= SHOWN:
            self.report("unknown-line", f"not a disassembly line: {shown}", line, hides=hides, symbol=symbol or "")

    def damaged(self, message: str, line: int | None = None, symbol: str = "") -> None:
        """Report lines that no tool writes like that."""
        self.report("damaged-listing", message, line, "error", symbol=symbol)

    def truncated(self, message: str, line: int | None, symbol: str = "") -> None:
        """Report that the input ends too early."""
        self.report("truncated", message, line, "error", symbol=symbol)

    def too_long(self) -> None:
        """Report that the next line is too long to be read."""
        self.report("line-too-long", TOO_LONG, self.lines + 1, "error")

    def summary(self) -> None:
        """Report what is reported once, at the end of the input."""
        if self.unwritten:
            self.damaged("NUL bytes: part of the disassembly was never written")
        if damaged := self.damaged_names:
            self.damaged(f"damaged function names: {damaged:,}")
        if strange := self.undecodable_bytes:
            self.report(
                "undecodable",
                f"the disassembly has {count(strange, 'non-ASCII byte')}, so it may be damaged",
            )
        if self.unknown_lines > SHOWN:
            message = (
                f"{count(self.unknown_lines, 'line')} of the disassembly not understood; the first {SHOWN} are shown"
            )
            self.report("unknown-line", message, hides=self.hides)


class ListingReader:
    """Reader of one format. ``account`` counts the lines read and is final at the end."""

    form: ClassVar[str]
    """Name of the format and of its grammar."""

    def __init__(self, chunks: Iterable[bytes], origin: str) -> None:
        self.account = ListingAccount(origin, self.form)
        self._parts = lines(chunks, self.account)

    def __iter__(self) -> Iterator[SassFunction | FunctionUsage | Issue]:
        """Functions and issues, in input order."""
        text, found = b"", self.account.found
        for text in self._parts:
            self._part(text)
            if found:
                yield from found
                found.clear()
        self._end(is_cut=bool(text) and not text.endswith(b"\n"))
        self.account.summary()
        yield from found

    def _part(self, text: bytes) -> None:
        """Read the next line or lines."""
        raise NotImplementedError

    def _end(self, *, is_cut: bool) -> None:
        """Finish at the end of the input. ``is_cut``: its last line lacks its end."""
        raise NotImplementedError

    def _done(self, code: Listing) -> None:
        """Add a function that was read completely."""
        self.account.functions += 1
        self.account.found.append(code.record())
        code.damage(self.account)


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
                stack_uses=((address, stack_use(operands)) for address, operands in self.stack),
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
            if operation[1] in KINDS:
                yield flow.form(*operation[:4]).destination

    def damage(self, account: ListingAccount) -> None:
        """Report if its addresses show missing or repeated instructions."""
        if self.obscure:
            message = f"{self.symbol} accesses local memory at an address of unknown form"
            account.damaged(message, self.origin.line, self.symbol)
        counted, words, arch = sum(self.opcodes.values()), self.last_address // WORD + 1, self.member.arch
        wide, narrow = self.last_address // (2 * WORD) + 1, words - -(-words // WORDS_A_GROUP)
        right = {wide, narrow}
        if arch is not None and arch.isprintable():  # otherwise the instruction size is unknown
            right = {narrow} if instruction_bytes(arch, 0) == WORD else {wide}
        if self.disordered or counted not in right:
            message = f"{self.symbol} has missing or repeated instructions ({counted} up to {self.last_address:#x})"
            account.damaged(message, self.origin.line, self.symbol)

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
        [of_text(*operation) for _, operation, *_ in rows],
        moves,
        numbers if len(numbers) == len(rows) else None,
        sources if any(sources) else None,
    )
