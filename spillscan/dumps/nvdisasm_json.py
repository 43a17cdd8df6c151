"""Reads `nvdisasm -json` (12.8 and later), with `-annotate` (13.4 and later) ptxas's spill annotations.

The format is JSON: a list of a header and a list of functions. Functions are decoded one by one, so that memory is
bounded by the longest of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from spillscan.dumps.blocks import Stream
from spillscan.dumps.headers import Cubin
from spillscan.errors import InputError
from spillscan.machine.function import LOCAL, WORD, Code
from spillscan.machine.kept import ANNOTATION, Instruction
from spillscan.machine.moves import KINDS
from spillscan.machine.operands import OperandReader, Wanted
from spillscan.model import Issue, Origin, Severity
from spillscan.model.code import Outcome, SassFunction

FORMAT = "nvdisasm-json"

_SIZE = 1 << 20
_FUNCTION = '{"function-name"'
_MARKED = LOCAL | KINDS.keys()
_FIRST_WIDE = 7


class JsonDisassembly:
    """One document: an iterator of functions and issues; ``outcome`` says how much was read."""

    def __init__(self, stream: Stream, origin: str, operands: Wanted | None = None) -> None:
        self.outcome = Outcome()
        self._stream = stream
        self._operands = operands
        self._input = origin
        self._text = ""
        self._ended = False
        self._wide = True
        self._cubin = Cubin()

    def _more(self) -> bool:
        data = self._stream.read(_SIZE) or b""
        self.outcome.bytes += len(data)
        self.outcome.lines += data.count(b"\n")
        self._text += data.decode("utf-8", "surrogateescape")
        self._ended = self._ended or not data
        return bool(data)

    def __iter__(self) -> Iterator[SassFunction | Issue]:
        decoder = json.JSONDecoder()
        while _FUNCTION not in self._text and self._more():
            pass
        begin = self._text.find(_FUNCTION)
        self._header(self._text[: begin if begin >= 0 else None])
        code: Code | None = None
        while begin >= 0:
            self._text, begin = self._text[begin:], 0
            try:
                function, end = decoder.raw_decode(self._text)
            except ValueError:
                if self._more():
                    continue
                yield self._issue("truncated", "the document breaks off inside a function, which is left out")
                break
            if code is not None and function.get("start", 0) == 0:
                yield self._done(code)
                code = None
            code = self._function(function, code)
            self._text = self._text[end:]
            while (begin := self._text.find(_FUNCTION)) < 0 and self._more():
                pass
        if code is not None:
            yield self._done(code)
        elif begin < 0:
            yield self._issue("empty", "no function in this document")
        if not self._text.rstrip().endswith("]]"):
            yield self._issue("truncated", "the document breaks off")

    def _header(self, text: str) -> None:
        begin = text.find("{")
        try:
            header, _ = json.JSONDecoder().raw_decode(text[begin:])
            version = header["SM"]["version"]
            major, minor = int(version["major"]), int(version["minor"])
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self._input}: not a document of nvdisasm -json", "make it again") from error
        options = str(header.get(".note.nv.tkinfo", {}).get("tki_toolOptions", ""))
        compiled = re.search(
            rf"\bsm_{major}{minor}[a-z]?\b", options
        )  # the version itself does not tell sm_90 from sm_90a
        self._cubin = Cubin(0, compiled[0] if compiled else f"sm_{major}{minor}")
        self._wide = major >= _FIRST_WIDE

    def _function(self, function: dict[str, Any], code: Code | None) -> Code:
        """Add a function; a callee that stands behind an entry in its section is a part of that."""
        start = int(function.get("start", 0))
        if code is None:
            code = Code(str(function["function-name"]), self._cubin, Origin(input=self._input, format=FORMAT))
            if self._operands and self._operands(code.symbol):
                code.operands = OperandReader(self._cubin.arch)
        else:
            code.parts = (*code.parts, start)
        marked: list[Instruction] = []
        stack: list[tuple[int, bytes]] = []
        step = 2 * WORD if self._wide else WORD
        for index, item in enumerate(function["sass-instructions"]):
            opcode, _, modifiers = str(item["opcode"]).partition(".")
            if not opcode:  # a control word
                continue
            address = code.last_address = start + index * step
            code.count(opcode)
            name, operands = (
                opcode.encode(),
                (" " + str(item.get("operands", "")).replace(",", ", ")).encode(),
            )
            guard = str(item.get("predicate", ""))
            if code.operands:
                dots = b"." + modifiers.encode() if modifiers else b""
                code.operands.instruction(address, guard.encode(), name, dots, operands)
            note = b""
            if any(ANNOTATION.decode() in str(note.get("info")) for note in item.get("annotations", ())):
                note = ANNOTATION
                code.annotations = True
                code.shared_spills += opcode in ("STS", "LDS")
            if name in _MARKED:
                code.local_count += name in LOCAL
                text = f"{guard} ".encode() if guard.startswith("@") else b""
                dotted = f".{modifiers}".encode() if modifiers else b""
                marked.append((b"%x" % address, text, name, dotted, operands, note, None, None))
            if b"R1" in operands and name not in LOCAL:
                stack.append((address, operands))
        code.pieces.append(marked)
        before = code.stack_uses
        code.stack_uses = lambda: iter([*before(), *stack])
        return code

    def _done(self, code: Code) -> SassFunction:
        self.outcome.functions += 1
        return code.record()

    def _issue(self, code: str, message: str) -> Issue:
        severity: Severity = "error" if code == "truncated" else "warning"
        return Issue(code=code, message=message, severity=severity, origin=Origin(input=self._input, format=FORMAT))
