"""The Lark path: lines of a function that have no layout, or depart from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from spillscan.dumps import terminals
from spillscan.machine.function import Code
from spillscan.machine.kept import Instruction

_ENCODING = "latin-1"
"""One character a byte: whatever stands in a dump can be read, and bytes that are no ASCII are counted elsewhere."""

_PIECE = 1 << 18
"""Bytes that Lark gets at once: its tokens are copies."""


class Runs:
    """Reads lines of a function's body; ``unknown`` is called with each line that the grammar does not describe."""

    def __init__(self, unknown: Callable[[bytes, int], None]) -> None:
        self._unknown = unknown
        self._opcode = terminals.line_starts("head", only="opcode")
        self._marked: list[Instruction] = []
        self._instruction = terminals.line("instruction")

    def read(self, code: Code, text: bytes, line: int) -> int:
        """Add whole lines to ``code``; the first is line number ``line``. Returns how many there were."""
        self._marked = []
        first, begin = line, 0
        while begin < len(text):
            end = text.find(b"\n", begin + _PIECE) + 1 or len(text)
            line = self._piece(code, text[begin:end], line)
            begin = end
        if self._marked:
            code.pieces.append(self._marked)
        return line - first

    def _piece(self, code: Code, text: bytes, line: int) -> int:
        for token in terminals.parser().parse(text.decode(_ENCODING), start="lines").children:
            piece = str(token).encode(_ENCODING)
            kind = token.type  # type: ignore[union-attr]
            if kind == "PLAIN_RUN":
                for opcode, times in Counter(self._opcode.findall(piece)).items():
                    code.count(opcode.decode(), times)
                code.last_address = _last_address(piece)
                line += piece.count(b"\n")
                continue
            if kind in ("LOCAL_LINE", "CONTROL_LINE"):
                self._mark(code, piece, line, local=kind == "LOCAL_LINE")
            elif kind == "UNKNOWN_LINE":
                self._unknown(piece, line)
            line += 1
        return line

    def _mark(self, code: Code, piece: bytes, line: int, *, local: bool) -> None:
        match = self._instruction.match(piece)
        assert match, piece  # LOCAL_LINE and CONTROL_LINE begin as an instruction does
        address, guard, opcode, modifiers, operands, note = match.groups(b"")
        code.count(opcode.decode())
        code.local_count += local
        code.last_address = int(address, 16)
        self._marked.append((address, guard, opcode, modifiers, operands, note, line, None))


def _last_address(run: bytes) -> int:
    head = terminals.line("head")
    end = len(run)
    while end > 0:
        begin = run.rfind(b"\n", 0, end - 1) + 1
        if match := head.match(run, begin):
            return int(match["address"], 16)
        end = begin
    return 0
