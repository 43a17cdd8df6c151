"""Reads `nvdisasm` text: labels, ptxas's spill annotations, source lines and live registers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial

from spillscan.dumps import terminals
from spillscan.dumps.blocks import Stream
from spillscan.dumps.headers import Cubin
from spillscan.dumps.lines import lines
from spillscan.machine.function import LOCAL, Code
from spillscan.machine.kept import ANNOTATION, Instruction
from spillscan.machine.moves import KINDS
from spillscan.machine.operands import OperandReader, Wanted
from spillscan.model import Issue, Origin, Severity
from spillscan.model.code import LivePeak, Outcome, SassFunction, SourceLine

FORMAT = "nvdisasm"

_MARKED = LOCAL | KINDS.keys()
_SHARED = frozenset({b"STS", b"LDS"})
_SHOWN = 120
_MANY = 20
_RULES = (
    "label",
    "section",
    "other_section",
    "registers",
    "target",
    "flags",
    "type",
    "other",
    "rule",
    "directive",
)


class Disassembly:
    """One text: an iterator of functions and issues; ``outcome`` says how much was read."""

    def __init__(self, stream: Stream, origin: str, operands: Wanted | None = None) -> None:
        self.outcome = Outcome()
        self._stream = stream
        self._operands = operands
        self._input = origin
        self._cubin = Cubin()
        self._ready: list[SassFunction | Issue] = []
        self._forget()

    def _forget(self) -> None:
        self._code: Code | None = None
        self._marked: list[Instruction] = []
        self._stack: list[tuple[int, bytes]] = []
        self._labels: dict[bytes, int] = {}
        self._waiting: list[bytes] = []
        self._functions: set[bytes] = set()
        self._frames: list[tuple[str, int]] = []
        self._source: SourceLine | None = None

    def __iter__(self) -> Iterator[SassFunction | Issue]:
        instruction, encoding, file = (terminals.line(rule, FORMAT) for rule in ("instruction", "encoding", "file"))
        number = 0
        for number, text in enumerate(lines(self._stream), 1):
            self.outcome.bytes += len(text)
            live, line = _cut(text) if b"// " in text else (None, text)
            if match := instruction.match(line):
                self._instruction(match.groups(b""), number, live)
            elif match := file.match(line):
                self._file(match.groups())
            elif line.strip() and not encoding.match(line):
                self._line(line, number)
            if self._ready:
                yield from self._ready
                self._ready.clear()
        self.outcome.lines = number
        self._finish()
        yield from self._ready
        if self.outcome.unknown_lines > _MANY:
            yield self._issue(
                "unknown-line",
                f"{self.outcome.unknown_lines} lines of the dump are not understood; {_MANY} are shown",
            )

    def _instruction(self, fields: tuple[bytes, ...], number: int, live: int | None) -> None:
        address, guard, opcode, modifiers, operands, note = fields
        code = self._code
        if code is None:
            code = self._code = self._begin("", number)
        code.count(opcode.decode())
        place = code.last_address = int(address, 16)
        if code.operands:
            code.operands.instruction(place, guard, opcode, modifiers, operands)
        if self._waiting:
            self._labels.update(dict.fromkeys(self._waiting, place))
            self._waiting.clear()
        if self._frames:
            self._source = _chain(self._frames)
            self._frames.clear()
        if note and ANNOTATION in note:
            code.annotations = True
            code.shared_spills += opcode in _SHARED
        if opcode in _MARKED:
            code.local_count += opcode in LOCAL
            self._marked.append((*fields[:6], number, self._source))  # type: ignore[arg-type]
        if b"R1" in operands and opcode not in LOCAL:
            self._stack.append((place, operands))
        if live is not None and (code.live_peak is None or live > code.live_peak.registers):
            code.live_peak = LivePeak(registers=live, address=place, line=number, source=self._source)

    def _begin(self, symbol: str, number: int) -> Code:
        code = Code(symbol, self._cubin, self._origin(number))
        if self._operands and self._operands(symbol):
            code.operands = OperandReader(self._cubin.arch)
        return code

    def _file(self, values: tuple[bytes | None, ...]) -> None:
        file, line, _ = values
        self._frames.append((_decode(file or b""), int(line or 0)))

    def _line(self, text: bytes, number: int) -> None:
        rule, values = _known(text)
        if rule == "label":
            self._waiting.append(values[0])
        elif rule == "section":
            self._finish()
            self._code = self._begin(_decode(values[0]), number)
        elif rule == "other_section":
            self._finish()
        elif rule == "registers" and self._code:
            self._code.registers = int(values[0])
        elif rule == "target":
            self._cubin = self._cubin._replace(arch=_decode(values[0]))
        elif rule == "flags":
            self._cubin = self._cubin._replace(arch=_arch(*values))
        elif rule == "type":
            self._functions.add(values[0])
        elif rule == "other" and self._code and _decode(values[0]) == self._code.symbol:
            self._code.role = "entry"
        elif not rule:
            self._unknown(text, number)

    def _finish(self) -> None:
        code = self._code
        if code is not None and code.opcodes:
            if code.role == "unknown" and code.symbol.encode() in self._functions:
                code.role = "function"
            own = code.symbol.encode("utf-8", "surrogateescape")
            code.labels = self._labels
            code.parts = tuple(
                sorted(
                    {place for name, place in self._labels.items() if name in self._functions and name != own and place}
                )
            )
            if self._marked:
                code.pieces.append(self._marked)
            code.stack_uses = partial(iter, self._stack)
            self.outcome.functions += 1
            self._ready.append(code.record())
        self._forget()

    def _unknown(self, text: bytes, number: int) -> None:
        shown = ascii(text.rstrip().decode("utf-8", "backslashreplace"))[1:-1][:_SHOWN]
        if terminals.line("diagnostic", FORMAT).match(text):
            self._ready.append(self._issue("tool-message", f"the dump holds a message of its tool: {shown}", number))
            return
        self.outcome.unknown_lines += 1
        if self.outcome.unknown_lines <= _MANY:
            self._ready.append(self._issue("unknown-line", f"not a line of a dump: {shown}", number))

    def _origin(self, line: int | None) -> Origin:
        return Origin(input=self._input, line=line, format=FORMAT)

    def _issue(self, code: str, message: str, line: int | None = None) -> Issue:
        severity: Severity = "error" if code == "truncated" else "warning"
        return Issue(code=code, message=message, severity=severity, origin=self._origin(line))


def _cut(text: bytes) -> tuple[int | None, bytes]:
    """A line without the columns of live registers, and how many general registers are live there."""
    columns = terminals.line("columns", FORMAT).search(text)
    if columns is None:
        return None, text
    live = terminals.line("live", FORMAT).search(columns[0])
    return int(live["live"]) if live else None, text[: columns.start()] + b"\n"


def _chain(frames: list[tuple[str, int]]) -> SourceLine:
    """The lines in front of an instruction as one chain: innermost first, each followed by where it was inlined."""
    chain: SourceLine | None = None
    for file, line in reversed(frames):
        chain = SourceLine(file=file, line=line, inlined_at=chain)
    assert chain
    return chain


def _arch(before: bytes, number: bytes, after: bytes) -> str:
    """``sm_90a`` from the flags of an ELF header."""
    return f"sm_{number.decode()}{'a' if b'EF_CUDA_ACCELERATORS' in before + after else ''}"


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "backslashreplace")


@lru_cache(maxsize=4096)
def _known(text: bytes) -> tuple[str, tuple[bytes, ...]]:
    for rule in _RULES:
        if match := terminals.line(rule, FORMAT).match(text):
            return rule, match.groups(b"")
    return "", ()
