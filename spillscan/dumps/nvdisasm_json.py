"""Reads `nvdisasm -json` (12.8 and later), with `-annotate` (13.4 and later) ptxas's spill annotations.

The format is JSON: a list of a header and a list of functions. Functions are decoded one by one, so that memory is
bounded by the longest of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from spillscan.dumps.common import DumpAccount, Readable
from spillscan.dumps.listing import ANNOTATION, LOCAL, MARKED, Instruction, Listing, Member, records
from spillscan.errors import InputError
from spillscan.machine.function import WORD
from spillscan.machine.operands import Wanted
from spillscan.model import Issue
from spillscan.model.code import SassFunction

FORMAT = "nvdisasm-json"

_SIZE = 1 << 20
_FUNCTION = '{"function-name"'
_FIRST = re.compile(r"\s*,\s*\[\s*")
"""What stands before the first function."""
_BETWEEN, _END = re.compile(r"\s*,\s*"), re.compile(r"\s*\]\s*\]\s*")
"""What stands behind a function: before the next one, and at the end of the document."""
_OPCODE, _KEY = re.compile(r"(?:[A-Z][A-Z0-9_]*(?:\.\w+)*)?"), re.compile("[a-z-]+")
_FIRST_WIDE = 7


class JsonDisassembly:
    """One document: an iterator of functions and issues; ``account`` says how much was read."""

    def __init__(self, stream: Readable, origin: str, operands: Wanted | None = None) -> None:
        self.account = DumpAccount(origin, FORMAT)
        self._stream = stream
        self._operands = operands
        self._text = ""
        self._ended = False
        self._wide = True
        self._member = Member()

    def _more(self) -> bool:
        data = self._stream.read(_SIZE) or b""
        self.account.bytes_read += len(data)
        self.account.lines += data.count(b"\n")
        self._text += data.decode("utf-8", "backslashreplace")
        self._ended = self._ended or not data
        return bool(data)

    def __iter__(self) -> Iterator[SassFunction | Issue]:
        decoder = json.JSONDecoder()
        while _FUNCTION not in self._text and self._more():
            pass
        begin = self._text.find(_FUNCTION)
        behind = self._header(self._text[: begin if begin >= 0 else None])
        if begin >= 0 and not _FIRST.fullmatch(behind):
            yield self.account.issue("damaged-listing", "the document is damaged before its functions", None, "error")
        self._text = self._text[max(begin, 0) :]
        code: Listing | None = None
        while self._text.startswith(_FUNCTION):
            try:
                function, end = decoder.raw_decode(self._text)
                if code is not None and function.get("start", 0) == 0:
                    yield from self._done(code)
                    code = None
                code = self._function(function, code)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                if self._more():
                    continue
                yield self.account.truncated("the document breaks off inside a function, which is left out")
                break
            self._text = self._text[end:]
            while (begin := self._text.find(_FUNCTION)) < 0 and self._more():
                pass
            if begin >= 0:
                if not _BETWEEN.fullmatch(self._text[:begin]):
                    yield self.account.issue(
                        "damaged-listing", "the document is damaged between functions", None, "error"
                    )
                self._text = self._text[begin:]
        if code is not None:
            yield from self._done(code)
        elif begin < 0:
            yield self.account.issue("no-kernel", "no function in this document")
        if not _END.fullmatch(self._text):
            yield self.account.truncated("the document breaks off")
        yield from self.account.summary()

    def _header(self, text: str) -> str:
        """Read what the document says of itself; return what stands behind it."""
        begin = text.find("{")
        try:
            header, end = json.JSONDecoder().raw_decode(text[begin:])
            version = header["SM"]["version"]
            major, minor = int(version["major"]), int(version["minor"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(f"{self.account.input}: not a document of nvdisasm -json", "make it again") from error
        options = str(header.get(".note.nv.tkinfo", {}).get("tki_toolOptions", ""))
        compiled = re.search(
            rf"\bsm_{major}{minor}[a-z]?\b", options
        )  # the version itself is the same for sm_90 and sm_90a
        self._member = Member(0, compiled[0] if compiled else f"sm_{major}{minor}")
        self._wide = major >= _FIRST_WIDE
        return text[begin + end :]

    def _function(self, function: dict[str, Any], code: Listing | None) -> Listing:
        """Add a function; a callee that stands behind an entry in its section is a part of that."""
        start = int(function.get("start", 0))
        if code is None:
            code = Listing(str(function["function-name"]), self._member, self.account.origin(), self._operands)
        else:
            code.parts = (*code.parts, start)
        marked: list[Instruction] = []
        stack: list[tuple[int, bytes]] = []
        step = 2 * WORD if self._wide else WORD
        for index, item in enumerate(function["sass-instructions"]):
            if not _OPCODE.fullmatch(item["opcode"]) or not all(map(_KEY.fullmatch, item)):
                raise ValueError(f"not an instruction: {item}")
            opcode, _, modifiers = item["opcode"].partition(".")
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
            if name in MARKED:
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

    def _done(self, code: Listing) -> Iterator[SassFunction | Issue]:
        self.account.functions += 1
        if not code.opcodes:
            yield self.account.truncated(f"{code.symbol} holds no instruction", symbol=code.symbol)
        yield from records([code])
        yield from code.damage(self.account)
