"""One build log, block by block.

Two ways lead to the same records. Where the lines of one kernel stand together, one regular expression derived from the
grammar takes the whole block; any other line goes through the grammar on its own. Everything else in the log is
skipped at the speed of a search for literal text.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import replace
from itertools import islice

from spillscan import grammar
from spillscan.inputs.source import Stream
from spillscan.logs.attribution import PARALLEL_HINT, Writer
from spillscan.logs.failures import Failures
from spillscan.logs.messages import (
    EntryLine,
    Ignored,
    Message,
    Note,
    Properties,
    Stack,
    Unknown,
    nvlink_message,
    ptxas_message,
    used_line,
)
from spillscan.logs.steps import WINDOW_BYTES, Steps, split_prefix
from spillscan.model import Issue, Kernel, Origin, Reading, Stats, Usage

# Every line of interest holds one of these. A literal pattern is searched for faster than ``bytes.find`` does; the
# stack line, which no tool's name marks, comes first and counts only while one is due.
_LANDMARKS = tuple(map(re.compile, (b" bytes stack frame, ", b"ptxas", b"info    : ", b"nvlink")))

# Lines may be as long as the file: what is tried at many places of one never reads on to the next such place.
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_USED = re.compile(rb"sed \d+ registers,")
_LINK_REPORT = re.compile(r"nvlink |@[A-Z]@|info    : ")
"""Where a severity counts: a tool's name, a known padding or nothing but a prefix stands around it."""
_LIBRARY_TAG = re.compile(r"@[A-Z]@")
_USAGE_MEMO_ENTRIES = 1 << 16

_FUNCTION_FIELDS = ("PROPERTIES_SYMBOL", "STACK_BYTES", "SPILL_STORE_BYTES", "SPILL_LOAD_BYTES", "MILLISECONDS")
_KERNEL_FIELDS = (*_FUNCTION_FIELDS, "ARCH", "ENTRY_SYMBOL", "usage_line")


def silent(text: bytes) -> bool:
    """Whether ``text``, a whole log, holds no compiler output."""
    return not any(landmark.search(text) for landmark in _LANDMARKS)


def read(stream: Stream, name: str) -> Reading:
    """Every kernel, link record and issue of one log."""
    log = _Log(name)
    for block in stream.lines():
        log.take(block)
    return log.finish()


class _Log:
    """One log, block by block."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._writers: dict[str, tuple[Writer, Steps]] = {}
        self._default = self._writer("")
        self._line = 1
        self._bytes = 0
        self._recognised = 0
        self._unknown = 0
        self._gap = _Gap()
        self._failures = Failures(name)
        self._usages: dict[tuple[bytes, ...], Usage] = {}
        self._parsed: dict[bytes, Usage] = {}
        self._kernel_block = grammar.pattern("ptxas", "kernel_block", ("usage_line",))
        self._function_block = grammar.pattern("ptxas", "function_block")
        self._entry_line = _text_pattern("ptxas", "entry_line")
        self._properties_line = _text_pattern("ptxas", "properties_line")
        self._ptxas_head = _text_pattern("ptxas", "_head")
        self._nvlink_head = _text_pattern("nvlink", "_head")
        self._stack = _text_pattern("ptxas", "stack")

    def take(self, text: bytes) -> None:
        """One block of whole lines."""
        self._bytes += len(text)
        position, size = 0, len(text)
        landmarks = _Landmarks(text)
        self._failures.begin(text)
        while position < size:
            if self._default[0].idle:
                end = self._blocks(text, position)
                if end > position:
                    position = end
                    continue
            hit = landmarks.next(position, any(writer.awaits_stack for writer, _ in self._writers.values()))
            start = size if hit == size else text.rfind(b"\n", position, hit) + 1 or position
            if start > position:
                self._skip(text, position, start)
                position = start
                continue
            end = text.find(b"\n", hit) + 1 or size
            line = text[position:end]
            if _broken_off(line):  # a mail program or a terminal wrapped it
                start, end = end, text.find(b"\n", end) + 1 or size
                line = line.rstrip() + b" " + text[start:end].lstrip()
            message = self._one_line(line)
            if message is None or isinstance(message, Ignored):
                self._failures.look(position, end, self._line)
            elif isinstance(message, Note) and message.is_error:
                self._failures.error(message.advisory.text, position, self._line)
            self._line += text.count(b"\n", position, end) or 1
            position = end

    def finish(self) -> Reading:
        """The input has ended."""
        reading = Reading()
        placed: list[tuple[int, Kernel]] = []
        for writer, steps in self._writers.values():
            writer.end()
            placed.extend(writer.kernels(units_in_doubt=steps.overlapping))
            reading.links.extend(writer.links())
            reading.issues.extend(writer.issues())
            if writer.interleaved:
                message = f"several compilers wrote into this log at once; {PARALLEL_HINT}"
                reading.issues.append(
                    Issue(code="interleaved", message=message, severity="note", origin=Origin(input=self._name))
                )
        placed.sort(key=lambda pair: pair[0])
        reading.kernels = [kernel for _, kernel in placed]
        reading.issues.extend(self._failures.issues(self._line - 1, placed[-1][0] if placed else 0))
        clauses = sum(len(kernel.usage.unknown_clauses) for kernel in reading.kernels)
        if clauses:
            first = next(kernel for kernel in reading.kernels if kernel.usage.unknown_clauses)
            message = f"{clauses} clauses are not understood, such as {first.usage.unknown_clauses[0]!r}; they are kept"
            reading.issues.append(Issue(code="unknown-clause", message=message, origin=first.origins[0]))
        reading.stats = Stats(
            inputs=1,
            lines=self._line - 1,
            bytes=self._bytes,
            recognised_lines=self._recognised,
            unknown_lines=self._unknown,
            unknown_clauses=clauses,
        )
        return reading

    # ---- the two ways ------------------------------------------------------------------------------------------

    def _blocks(self, text: bytes, position: int) -> int:
        """Take whole blocks of kernels and device functions from ``position`` on; return where they end."""
        writer, steps = self._default
        while True:
            match = self._kernel_block.match(text, position)
            if match is None:
                match = self._function_block.match(text, position)
                if match is None:
                    return position
                symbol, frame, stores, loads, time = match.group(*_FUNCTION_FIELDS)
                arch = named = used = None
            else:
                symbol, frame, stores, loads, time, arch, named, used = match.group(*_KERNEL_FIELDS)
            # The line path decides where two names differ, lines are garbled, or the block may go on in the next text.
            if (named is not None and named != symbol) or b"ptxas " in symbol or match.end() == len(text):
                return position
            self._gap.close(steps)
            steps.output()
            name = symbol.decode("utf-8", "replace")
            compile_ms = None if time is None else float(time)
            count = 2 if time is None else 3
            if used is None or arch is None:
                stack = Stack(int(frame), int(stores), int(loads))
                writer.function(name, stack, compile_ms, self._line, steps.current)
            else:
                usage = self._usage(used, frame, stores, loads)
                writer.block(name, arch.decode(), usage, compile_ms, self._line, steps.current)
                count += 2
            self._line += count
            self._recognised += count
            position = match.end()

    def _usage(self, used: bytes, frame: bytes, stores: bytes, loads: bytes) -> Usage:
        """The figures of a kernel block; equal lines share one record."""
        key = (used, frame, stores, loads)
        usage = self._usages.get(key)
        if usage is None:
            parsed = self._parsed.get(used)
            if parsed is None:
                parsed = self._parsed[used] = used_line(used.decode("utf-8", "replace"))
            usage = replace(
                parsed,
                stack_bytes=int(frame),
                spill_store_bytes=int(stores),
                spill_load_bytes=int(loads),
            )
            if len(self._usages) >= _USAGE_MEMO_ENTRIES:
                self._usages.clear()
                self._parsed.clear()
            self._usages[key] = usage
        return usage

    def _one_line(self, raw: bytes) -> Message | None:
        """Feed one line, and return what it says; ``None`` for a line that is no tool's report."""
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if "\x1b" in line:
            line = _ANSI.sub("", line)
        who, _ = split_prefix(line)
        writer, steps = self._writer(who)
        message = self._message(_without_project(line), writer.awaits_stack)
        if message is None:
            self._gap.add(raw, 0, len(raw))
            return None
        self._gap.close(steps)
        steps.output()
        if isinstance(message, Unknown):
            self._unknown += 1
            message = Unknown(message.text, cut=not raw.endswith(b"\n"))
        else:
            self._recognised += 1
        writer.feed(message, self._line, steps.current)
        return message

    def _message(self, line: str, awaits_stack: bool) -> Message | None:
        """What ``line`` says; ``None`` for a line that is no tool's report."""
        heads = [match.start() for match in islice(self._ptxas_head.finditer(line), 2)]
        if len(heads) > 1:
            return Unknown(f"garbled: {line[:200]}")
        if heads:
            line = line[heads[0] :]
            # Names are as many as lines: no parse tree for each.
            if named := self._properties_line.fullmatch(line):
                return Properties(named["PROPERTIES_SYMBOL"])
            if entry := self._entry_line.fullmatch(line):
                return EntryLine(entry["ENTRY_SYMBOL"], entry["ARCH"])
            return ptxas_message(line)
        if awaits_stack and (stack := self._stack.search(line)):
            return ptxas_message(stack[0])
        starts = (match.start() for match in _LINK_REPORT.finditer(line))
        start = next((start for start in starts if self._nvlink_head.match(line, start)), None)
        if start is not None and (line.startswith(("nvlink", "@"), start) or "ptxas" not in line):
            return self._library_message(line[start:])
        return None

    @staticmethod
    def _library_message(text: str) -> Message | None:
        message = nvlink_message(text)
        if isinstance(message, Unknown | Ignored) and not text.startswith("nvlink"):
            # Libraries print ptxas's own messages without its name, too.
            own = ptxas_message("ptxas " + _LIBRARY_TAG.sub("", text))
            return None if isinstance(own, Unknown) else own
        return message

    # ---- what lies between ------------------------------------------------------------------------------------------

    def _skip(self, text: bytes, start: int, end: int) -> None:
        self._failures.look(start, end, self._line)
        self._line += text.count(b"\n", start, end)
        if end == len(text) and not text.endswith(b"\n"):
            self._line += 1
        self._gap.add(text, start, end)

    def _writer(self, who: str) -> tuple[Writer, Steps]:
        pair = self._writers.get(who)
        if pair is None:
            pair = self._writers[who] = (Writer(self._name), Steps())
        return pair


class _Gap:
    """The end of what was printed since a compiler's last line: build steps are announced there."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._bytes = 0
        self._complete = True

    def add(self, text: bytes, start: int, end: int) -> None:
        """``text[start:end]``: whole lines. No more than the last ``WINDOW_BYTES`` or so are kept."""
        if end - start > WINDOW_BYTES:
            start = text.find(b"\n", end - WINDOW_BYTES, end) + 1 or end
            self._complete = False
        self._pieces.append(text[start:end])
        self._bytes += end - start
        while self._bytes > 2 * WINDOW_BYTES:
            self._bytes -= len(self._pieces.popleft())
            self._complete = False

    def close(self, steps: Steps) -> None:
        """A compiler's line follows: what was announced since the last one?"""
        if self._pieces:
            steps.gap(b"".join(self._pieces), self._complete)
            self._pieces.clear()
            self._bytes, self._complete = 0, True


class _Landmarks:
    """Where the next line of interest may be; each landmark is searched for once."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._next = [-1] * len(_LANDMARKS)
        # What nvlink reports has `info    : ` in it, too; its few warnings count only in the neighbourhood of reports.
        if not any(landmark.search(text) for landmark in _LANDMARKS[1:3]):
            self._next[1:] = [len(text)] * (len(_LANDMARKS) - 1)

    def next(self, position: int, stack_awaited: bool) -> int:
        """The first landmark at or after ``position``; the end of the text where there is none."""
        found = self._next
        for index, landmark in enumerate(_LANDMARKS):
            if found[index] < position and (index or stack_awaited):
                match = landmark.search(self._text, position)
                found[index] = len(self._text) if match is None else match.start()
        return min(found) if stack_awaited else min(found[1:])


def _broken_off(line: bytes) -> bool:
    """Whether a registers line goes on in the next one."""
    return line.endswith(b"\n") and line.rstrip(b" \r\n").endswith(b",") and _USED.search(line) is not None


def _without_project(line: str) -> str:
    """``line`` without the project that MSBuild puts behind it: ``… [C:\\x.vcxproj::TargetFramework=net8.0]``."""
    head, bracket, project = line.removesuffix("]").rpartition(" [")
    if not bracket or not line.endswith("]") or "[" in project or "]" in project:
        return line
    return head if project.endswith("proj") or "proj::" in project else line


def _text_pattern(name: str, rule: str) -> re.Pattern[str]:
    return re.compile(grammar.pattern(name, rule).pattern.decode())
