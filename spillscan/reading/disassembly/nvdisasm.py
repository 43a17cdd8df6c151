"""Reader of `nvdisasm` text: instructions, labels, source lines, live registers, spill annotations."""

from __future__ import annotations

from collections.abc import Iterable

from spillscan.model.code import LivePeak
from spillscan.model.local import SourceLine
from spillscan.model.symbols import is_helper
from spillscan.reading import grammar
from spillscan.reading.disassembly.listing import LOCAL, Listing, ListingReader, Member, decode, known
from spillscan.reading.machine.function import role_by
from spillscan.reading.machine.instruction import ANNOTATION

_SHARED = frozenset({b"STS", b"LDS"})
_RULES = (
    *("label", "section", "other_section", "registers", "target", "flags"),
    *("type", "other", "size", "rule", "directive"),
)


class Disassembly(ListingReader):
    """Functions and issues of one disassembly."""

    form = "nvdisasm"

    def __init__(self, chunks: Iterable[bytes], origin: str) -> None:
        super().__init__(chunks, origin)
        rules = ("instruction", "encoding", "file")
        self._row, self._encoding, self._place = (grammar.line(rule, self.form) for rule in rules)
        self._member = Member()
        self._forget()

    def _forget(self) -> None:
        self._code: Listing | None = None
        self._labels: dict[bytes, int] = {}
        self._waiting: list[bytes] = []
        self._functions: set[bytes] = set()
        self._frames: list[tuple[str, int]] = []
        self._source: SourceLine | None = None
        self._ends: list[bytes] = []

    def _part(self, text: bytes) -> None:
        """Read one line."""
        live, line = self._cut(text) if b"// " in text else (None, text)
        if match := self._row.match(line):
            self._instruction(match.groups(b""), line, self.account.lines, live)
        elif match := self._place.match(line):
            self._frames.append((decode(match[1] or b""), int(match[2] or 0)))
        elif line.strip() and not self._encoding.match(line):
            self._line(line, self.account.lines)

    def _end(self, *, is_cut: bool) -> None:
        if is_cut:
            self.account.truncated("the last line of the disassembly is truncated", self.account.lines)
        self._finish()

    def _cut(self, text: bytes) -> tuple[int | None, bytes]:
        """Number of live general registers on a line, and the line without its register columns."""
        columns = grammar.line("columns", self.form).search(text)
        if columns is None:
            return None, text
        live = grammar.line("live", self.form).search(columns[0])
        return int(live["live"]) if live else None, text[: columns.start()] + b"\n"

    def _instruction(self, fields: tuple[bytes, ...], text: bytes, number: int, live: int | None) -> None:
        address, _, opcode, _, _, note = fields
        code = self._code
        if code is None:
            code = self._code = self._begin("", number)
            self.account.damaged("instructions outside any section", number)
        place = int(address, 16)
        code.count(place, opcode.decode())
        if self._waiting:
            self._labels.update(dict.fromkeys(self._waiting, place))
            self._waiting.clear()
        if self._frames:
            self._source = _chain(self._frames)
            self._frames.clear()
        if note and ANNOTATION in note:
            code.annotations = True
            code.shared_spills += opcode in _SHARED
        if opcode in LOCAL and ANNOTATION not in note and (b"(*" in text or b"*)" in text):
            self.account.damaged("the annotation of a local-memory access is incomplete", number, code.symbol)
        code.keep(place, fields[1:6], number, self._source)  # type: ignore[arg-type]
        if live is not None and (code.live_peak is None or live > code.live_peak.registers):
            code.live_peak = LivePeak(registers=live, address=place, line=number, source=self._source)

    def _begin(self, symbol: str, number: int) -> Listing:
        return Listing(symbol, self._member, self.account.origin(number))

    def _line(self, text: bytes, number: int) -> None:
        rule, values = known(text, self.form, _RULES)
        if rule == "label":
            self._waiting.append(values[0])
        elif rule == "section":
            self._finish()
            if self._member.arch is None and not self.account.functions:
                self.account.damaged(
                    "the disassembly does not begin with the header that names the architecture", number
                )
            self._code = self._begin(decode(values[0]), number)
        elif rule == "other_section":
            self._finish()
        elif rule == "registers" and self._code:
            self._code.registers = int(values[0])
        elif rule == "target":
            self._member = self._member._replace(arch=decode(values[0]))
        elif rule == "flags":
            self._member = self._member._replace(arch=_arch(*values))
        elif rule == "type":
            self._functions.add(values[0])
        elif rule == "other" and self._code and decode(values[0]) == self._code.symbol:
            self._code.role = "entry"
        elif rule == "size":
            self._ends.append(values[1])
        elif not rule:
            self.account.unknown_line(text, number, self._code.symbol if self._code else None)

    def _finish(self) -> None:
        code = self._code
        if code is None:
            self._forget()
            return
        if role_by(code.opcodes) != "entry" and code.symbol.encode() in self._functions and code.role == "unknown":
            code.role = "function"
        own = code.symbol.encode("utf-8", "surrogateescape")
        code.labels = self._labels
        inner = {
            place: name for name, place in self._labels.items() if name in self._functions and name != own and place
        }
        code.parts = tuple(sorted(inner))
        code.helpers = {place for place, name in inner.items() if _helps(decode(name), code.symbol)}
        known = {*self._waiting, *self._labels}
        if lost := next((label for label in code.targets() if label.startswith(b".L") and label not in known), b""):
            message = f"the listing of {code.symbol} is damaged: it lacks the label {decode(lost)}"
            self.account.damaged(message, code.origin.line, code.symbol)
        if code.symbol and code.opcodes and own not in known:
            self.account.damaged(
                f"the listing of {code.symbol} is damaged: its label is missing", code.origin.line, code.symbol
            )
        if not code.opcodes or not known.issuperset(self._ends):
            message = f"the listing of {code.symbol} is truncated: its values may be too low"
            self.account.truncated(message, code.origin.line, code.symbol)
        if code.opcodes:
            self._done(code)
        self._forget()


def _chain(frames: list[tuple[str, int]]) -> SourceLine:
    """Source lines before an instruction as one chain: innermost first, each followed by the line that it is inlined
    at."""
    chain: SourceLine | None = None
    for file, line in reversed(frames):
        chain = SourceLine(file=file, line=line, inlined_at=chain)
    assert chain
    return chain


def _arch(before: bytes, number: bytes, after: bytes) -> str:
    """Architecture from the flags of an ELF header, such as ``sm_90a``."""
    return f"sm_{number.decode()}{'a' if b'EF_CUDA_ACCELERATORS' in before + after else ''}"


def _helps(name: str, kernel: str) -> bool:
    """Whether a function in a kernel's code was added by ptxas, rather than copied from the program."""
    copied = f"${kernel}$"
    return not name.startswith(copied) or is_helper(name.removeprefix(copied))
