"""One build log, block by block.

There are two equivalent ways to parse a report. Regular lines are matched by two expressions derived from the grammar
(``blocks``). Any other line is parsed by the grammar on its own. The rest of the log is skipped by a search for literal
text.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator

from msgspec.structs import replace

from spillscan.model import Issue, Origin, Reading, Stats
from spillscan.output.nouns import count, listed
from spillscan.reading.inputs.encoding import TOO_LONG
from spillscan.reading.inputs.source import DEFAULT, Options, Stream
from spillscan.reading.logs.blocks import Blocks
from spillscan.reading.logs.clean import Cleaner, printed
from spillscan.reading.logs.failures import Failures
from spillscan.reading.logs.fragments import lost_beginning, may_begin_report, may_remain
from spillscan.reading.logs.kernels import first_line
from spillscan.reading.logs.messages import (
    EntryLine,
    Ignored,
    LinkProperties,
    LinkUsed,
    Message,
    Module,
    Note,
    Properties,
    Stack,
    Torn,
    Unknown,
    Used,
)
from spillscan.reading.logs.parsing import BARE, message
from spillscan.reading.logs.steps import WINDOW_BYTES, Steps, Words, split_prefix, stem
from spillscan.reading.logs.writer import Writer

_TOOLS = Words(
    b"ptxas",
    b"info    : ",
    b"nvlink error",
    b"bytes stack frame",
    b"Compiling entry function",
    pattern=re.compile(rb"Used \d+ registers"),
)
"""One of these is on or near every line of interest."""
_NAMED = re.compile(rb"ptxas (?:info|warning|error|fatal)")
_REPORT_WORDS = Words(b"ptxas", b"info    : ", b"nvlink", b" bytes s", b" registers", b"Compiling entry", b"Function p")
"""One of these is in every line of interest; the last two also match lines that lost their beginnings."""
_UNWRITTEN = b"\0\0\0\0"
_WIDE = b"p\0t\0x\0a\0s\0"
_WRAPPED = re.compile(rb"[ \t]*, ")
"""Beginning of a line that a mail program or a terminal wrapped."""
_SHORT_GAP_BYTES = 512
_NEAR_BYTES = 1 << 12
_REPORT_HEAD = b"ptxas info    : "
_REPORTS = (Module, EntryLine, Properties, Stack, Used)
_NOT_UNDERSTOOD = (Unknown, Torn)


def silent(text: bytes) -> bool:
    """Whether ``text``, a whole log, holds no compiler output."""
    return not _REPORT_WORDS.occur_in(text)


def read(stream: Stream, name: str, _: Options = DEFAULT) -> Reading:
    """Every kernel, link record and issue of one log."""
    log = _Log(name)
    for text in stream.lines(log.too_long):
        log.take(text)
    return log.finish()


class _Log:
    """One log, block by block."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._writers: dict[str, Writer] = {}
        self._default = self._writer("")
        self._latest = self._default
        """Writer that reported last."""
        self._line = 1
        """Next clean line. All lines here are clean lines; :meth:`Cleaner.placed` converts them at the end."""
        self._bytes = 0
        self._recognised = 0
        self._unknown = 0
        self._gap = _Gap()
        self._cleaner = Cleaner()
        self._failures = Failures(name)
        self._blocks = Blocks(name)
        self._cut = ""
        self._unended = False
        self._head = b""

    def too_long(self) -> None:
        """Report that the next line is too long and was skipped."""
        self._default.issues.add("line-too-long", TOO_LONG, self._line, "error")

    def take(self, text: bytes) -> None:
        """Process the next text, which consists of whole lines."""
        self._bytes += len(text)
        text = self._cleaner.clean(text, self._line)
        position, size = 0, len(text)
        self._head = self._head or text[:WINDOW_BYTES]
        self._failures.begin(text)
        if b"\0" in text and (_WIDE in text or _UNWRITTEN in text):
            torn = "NUL bytes: the encoding changes inside the file, or a part of it was never written"
            self._default.issues.add_damage(torn, self._line + text.count(b"\n", 0, text.index(b"\0")))
        next_report = _NextReports(text, any(writer.awaits_values for writer in self._writers.values()))
        seen, seen_line = 0, self._line  # text up to here is not a report and was searched for failures
        while position < size:
            reports_end = self._take_reports(text, position)
            if reports_end > position:
                self._failures.look(seen, position, seen_line)
                position = seen = reports_end
                seen_line = self._line
                continue
            hit = next_report.at(position) if self._line > 1 else position
            start = size if hit == size else text.rfind(b"\n", position, hit) + 1 or position
            if start > position:
                self._skip(text, position, start)
                position = start
                continue
            end = text.find(b"\n", hit) + 1 or size
            parsed = self._one_line(text[position:end], wrapped=_WRAPPED.match(text, end) is not None)
            is_report = not (parsed is None or isinstance(parsed, Ignored))
            if is_report:
                self._failures.look(seen, position, seen_line)
            if isinstance(parsed, Note) and parsed.is_error:
                self._failures.error(parsed.advisory.text, position, self._line)
            self._line += 1
            position = end
            if is_report:
                seen, seen_line = position, self._line
        self._failures.look(seen, size, seen_line)

    def finish(self) -> Reading:
        """End the input and make its records."""
        reading = Reading()
        writers = self._writers.values()
        for writer in writers:
            writer.report.units_in_doubt = writer.steps.overlapping  # of steps announced later, no output follows
        self._gap.close(self._latest.steps, self._line)
        device_link = any(writer.linker.symbols or writer.steps.device_link for writer in writers)
        for writer in writers:
            writer.report.unended, writer.report.device_link = self._unended, device_link
            writer.finish(reading, self._line - 1, self._cut if writer is self._default else "")
        if len(self._writers) > 1:
            reading.kernels.sort(key=first_line)
        last_report = first_line(reading.kernels[-1]) if reading.kernels else 0
        reading.issues.extend(self._failures.issues(self._line - 1, last_report))
        reading.issues.extend(self._unreported())
        strange = [kernel for kernel in reading.kernels if kernel.usage.unknown_clauses]
        clauses = sum(len(kernel.usage.unknown_clauses) for kernel in strange)
        if strange:
            first = strange[0]
            unknown = count(clauses, "unknown value")
            message = f"ptxas lines contain {unknown}, such as {first.usage.unknown_clauses[0]!r}"
            reading.issues.append(Issue(code="unknown-clause", message=message, origin=first.origins[0]))
        reading.stats = Stats(
            inputs=1,
            lines=self._line - 1,
            bytes=self._bytes,
            recognised_lines=self._recognised,
            unknown_lines=self._unknown,
            unknown_clauses=clauses,
        )
        return self._cleaner.placed(reading)

    def _unreported(self) -> Iterator[Issue]:
        """Report steps that compile device code but have no report in the log."""
        reports = [len(writer.modules) for writer in self._writers.values()]
        if not any(reports):
            return
        alone, failed = sum(map(bool, reports)) == 1, self._failures.stems()
        steps = [writer.steps for writer in self._writers.values()]
        asked = any(each.step.reports for one in steps for each in one.announced.values())
        silent = [each for one in steps for each in one.silent(asked=asked, alone=alone)]
        silent = [each for each in silent if stem(each.step.unit) not in failed]
        expected: dict[str, int] = {}  # by name, as a command line may name an object by another path
        for each in (announced for one in steps for announced in one.announced.values()):
            name = stem(each.step.unit)
            if each.step.reports is not False and name not in failed:
                expected[name] = max(each.step.archs, expected.get(name, 0))
        reporting = sum(expected.values())
        if silent:
            units = listed((each.step.unit for each in silent[:3]), len(silent) - 3)
            message = f"compiled without a ptxas report: {units}"
        elif sum(reports) < reporting:
            message = (
                f"{count(len(expected), 'step compiles', 'steps compile')} device code: expected"
                f" {count(reporting, 'ptxas report')} (one per step and arch), but the log has at most {sum(reports)}"
            )
        else:
            return
        origin = Origin(input=self._name, line=silent[0].line if silent else self._line - 1)
        yield Issue(code="unreported-unit", message=message, severity="error", origin=origin)

    # ---- the two ways to parse a report ---------------------------------------------------------------------------

    def _take_reports(self, text: bytes, position: int) -> int:
        """Take regular reports from ``position`` on; return the position after them."""
        writer, first = self._default, self._line
        if not text.startswith(_REPORT_HEAD, position):
            return position
        if self._gap and self._blocks.written(text, position)[1]:
            self._gap.close(writer.steps, first)
        while True:
            if writer.idle and (found := self._blocks.kernels(text, position, self._line, writer.steps.current)):
                writer.kernels(found.records)
                self._line += found.lines
                position = found.end
                continue
            position, messages, line = self._blocks.written(text, position)
            if not messages:
                break
            for parsed in messages:
                writer.feed(parsed, self._line, line)
                self._line += 1
        if self._line > first:
            writer.steps.output()
            self._latest = writer
            self._recognised += self._line - first
        return position

    def _one_line(self, raw: bytes, *, wrapped: bool) -> Message | None:
        """Feed one line, which may be ``wrapped`` into the next. Returns its message; ``None`` if it is no report."""
        line = printed(raw)
        who, rest = split_prefix(line)
        writer = self._writer(who)
        parsed = message(line) or (message(rest) if rest != line else None)
        if wrapped and isinstance(parsed, Used):
            parsed = replace(parsed, cut=True)
        if not raw.endswith(b"\n"):
            self._unended = True
            parsed = self._at_the_end(parsed, line)
        elif (parsed is None and not writer.idle and may_remain(line)) or (
            self._line == 1 and _lost_beginning(parsed, line, self._head[len(raw) :])
        ):
            parsed = Torn(line)
        if parsed is None:
            self._gap.add(raw, 0, len(raw))
            return None
        if self._gap:
            if isinstance(parsed, Stack | LinkUsed) and writer.awaits_values and self._gap.printed(who):
                writer.interrupt()
            self._gap.close(writer.steps, self._line)
        writer.steps.output(report=isinstance(parsed, _REPORTS))
        self._latest = writer
        if isinstance(parsed, _NOT_UNDERSTOOD):
            self._unknown += 1
        else:
            self._recognised += 1
        writer.feed(parsed, self._line, line)
        return parsed

    def _at_the_end(self, parsed: Message | None, line: str) -> Message | None:
        """Message of the last line, which has no line end and may be cut."""
        if isinstance(parsed, Torn | Unknown) or (parsed is None and may_begin_report(line)):
            self._cut = line
            return None
        if isinstance(parsed, Module | Ignored) or (isinstance(parsed, Note) and parsed.spills is None):
            self._cut = line  # kernels follow, or the rest of the message
        if isinstance(parsed, Used) and " smem" not in line:  # the clause could follow
            parsed = replace(parsed, usage=replace(parsed.usage, shared_bytes=None))
        if isinstance(parsed, Used) and (parsed.cut or self._default.report.compile_times):
            self._cut = line
            return replace(parsed, cut=True)
        return parsed

    # ---- text between reports -------------------------------------------------------------------------------------

    def _skip(self, text: bytes, start: int, end: int) -> None:
        writer = self._default
        if end - start < (_SHORT_GAP_BYTES if writer.idle else WINDOW_BYTES):
            for number, line in enumerate(text[start:end].decode("utf-8", "replace").split("\n"), self._line):
                if may_remain(line):
                    writer.feed(Torn(line), number, line)
        self._line += text.count(b"\n", start, end)
        if end == len(text) and not text.endswith(b"\n"):
            self._line += 1
        self._gap.add(text, start, end)

    def _writer(self, who: str) -> Writer:
        writer = self._writers.get(who)
        if writer is None:
            writer = self._writers[who] = Writer(self._name)
        return writer


class _Gap:
    """The last text printed since a compiler's line, in which build steps are announced."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._bytes = 0
        self._complete = True

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, text: bytes, start: int, end: int) -> None:
        """Add ``text[start:end]``, whole lines. Only about the last ``WINDOW_BYTES`` are kept."""
        if end - start > WINDOW_BYTES:
            start = text.find(b"\n", end - WINDOW_BYTES, end) + 1 or end
            self._complete = False
        self._pieces.append(text[start:end])
        self._bytes += end - start
        while self._bytes > 2 * WINDOW_BYTES:
            self._bytes -= len(self._pieces.popleft())
            self._complete = False

    def printed(self, who: str) -> bool:
        """Whether ``who`` printed text since the last compiler's line."""
        lines = (line.decode("utf-8", "replace") for piece in self._pieces for line in piece.split(b"\n"))
        return any(rest.strip() for writer, rest in map(split_prefix, lines) if writer == who)

    def close(self, steps: Steps, line: int) -> None:
        """Pass the gap's steps on, because a compiler's line follows on ``line``."""
        if self._pieces:
            steps.gap(b"".join(self._pieces), self._complete, line)
            self._pieces.clear()
            self._bytes, self._complete = 0, True


class _NextReports:
    """Finds the next position that may be on a line of interest."""

    def __init__(self, text: bytes, stack_awaited: bool) -> None:
        self._text = text
        self._unended = len(text) if text.endswith(b"\n") else text.rfind(b"\n") + 1
        # nvlink's reports contain `info    : ` too; pieces of lines count only near reports.
        self._next = -1 if stack_awaited or _TOOLS.occur_in(text) else len(text)
        self._positions = _REPORT_WORDS.positions(text)

    def at(self, position: int) -> int:
        """First such position at or after ``position``; the end of the text if there is none."""
        if self._text.startswith(b"ptxas", position):  # most lines of a report do
            return position
        if position > self._next + _NEAR_BYTES:  # skipped blocks of kernels
            self._positions = _REPORT_WORDS.positions(self._text, position)
        while self._next < position:
            self._next = next(self._positions, len(self._text))
        return min(self._next, max(position, self._unended))


def _lost_beginning(parsed: Message | None, line: str, following: bytes) -> bool:
    """Whether ``line``, the log's first, lost its beginning.

    Libraries name no tool in their lines, and their link reports begin with a module's line.
    """
    if parsed is None:
        return lost_beginning(line, following)
    named = isinstance(parsed, Stack) or "ptxas" in line or "nvlink" in line or line.startswith(("@", *BARE))
    return not named and (
        isinstance(parsed, Properties | Used | LinkProperties | LinkUsed) or _NAMED.search(following) is not None
    )
