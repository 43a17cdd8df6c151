"""What compilations took, as nvcc writes it down: the table of ``nvcc --time FILE``, a row a step, and the trace of
``nvcc -fdevice-time-trace FILE`` (:mod:`spillscan.reading.inputs.traces`)."""

from __future__ import annotations

import re
from collections import defaultdict

from spillscan.model import Issue, Origin, Reading, Stats, Timing
from spillscan.output.nouns import count
from spillscan.reading import grammar
from spillscan.reading.inputs.source import DEFAULT, Options, Stream

FORMAT = "times"

_GRAMMAR = "nvcc_times"
_FIRST_COLUMN = b"source file name"
"""Every input is asked for it: the grammar takes longer to get ready than to read a small log."""
_TRACE = re.compile(rb'\s*\{\s*"otherData"\s*:\s*\{')
_END_BYTES = 200
"""The last columns of a row are shorter."""


def sniff(head: bytes) -> bool:
    """A table begins with its heading, a trace with what was compiled for which targets."""
    if _TRACE.match(head):
        return b'"targetArchs"' in head and b'"traceEvents"' in head
    return head.startswith(_FIRST_COLUMN) and grammar.line("head", _GRAMMAR).match(head) is not None


def read(stream: Stream, name: str, _: Options = DEFAULT) -> Reading:
    """All that one file says."""
    if not _TRACE.match(stream.head()):
        return _table(stream, name)
    from spillscan.reading.inputs import traces  # its library takes longer to import than a small log to read

    return traces.read(stream, name)


def _table(stream: Stream, name: str) -> Reading:
    origin = Origin(input=name, format=FORMAT)
    first, last = grammar.line("first", _GRAMMAR), grammar.line("last", _GRAMMAR)
    head = grammar.line("head", _GRAMMAR)
    found: defaultdict[tuple[str, str, str | None], float] = defaultdict(float)
    size = number = rows = 0
    wrong: list[int] = []

    def too_long() -> None:
        wrong.append(number + 1)

    for block in stream.lines(too_long):
        size += len(block)
        for line in block.splitlines():
            number += 1
            if not line.strip() or head.match(line):
                continue
            begin, end = first.match(line), last.search(line[-_END_BYTES:])
            if begin is None or end is None:
                wrong.append(number)
                continue
            rows += 1
            files, step, arch = ((each or b"").decode("utf-8", "replace") for each in (begin[1], begin[2], end[1]))
            found[files, step, arch or None] += float(end["time"])
    timings = [
        Timing(file=files, tool=step, arch=arch, milliseconds=spent, origin=origin)
        for (files, step, arch), spent in found.items()
    ]
    issues = [_damaged(f"{count(len(wrong), 'row is', 'rows are')} not understood", name, wrong[0])] if wrong else []
    stats = Stats(inputs=1, lines=number, bytes=size, recognised_lines=rows, unknown_lines=len(wrong))
    return Reading(timings=timings, issues=issues, stats=stats)


def _damaged(message: str, name: str, line: int | None = None) -> Issue:
    return Issue(code="damaged-times", message=message, origin=Origin(input=name, line=line, format=FORMAT))
