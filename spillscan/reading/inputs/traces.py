"""The trace of ``nvcc -fdevice-time-trace FILE``: an event for each part of a step, each kernel's among them.

Events enclose each other: each counts what it took itself, so that the sum is what all processes took.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from posixpath import basename
from typing import Annotated, Any, NamedTuple

import msgspec

from spillscan.model import Issue, Origin, Reading, Stats, Timing
from spillscan.reading.inputs.source import Stream

LARGEST_BYTES = 1 << 30
"""A trace is read as a whole."""
TRACE = "trace"
"""Format of what a trace says, in :class:`Origin`."""

_ARCH = re.compile(r"(.*) \[((?:compute|sm)_\d{1,9}[a-z]?)\]", re.DOTALL)
_SCRATCH = "tmpxft_"
"""What nvcc's temporary files begin with: their names are never the same twice."""
_OF_FUNCTION = ("Optimizing compilation unit", "OptFunction", "Generating Function IR")
"""Events of one function, by its symbol: ptxas's (what it prints as ``Compile time``), and those of the optimiser."""
_OF_KERNEL = _OF_FUNCTION[0]

_Microseconds = Annotated[float, msgspec.Meta(ge=0, le=1e15)]


class _About(msgspec.Struct):
    """What an event is about."""

    name: str = ""
    detail: str = ""


class _Event(msgspec.Struct):
    """One of Chrome's format: complete (``X``), or what a process is called (``M``)."""

    name: str = ""
    ph: str = ""
    pid: int = 0
    tid: int = 0
    ts: _Microseconds = 0
    dur: _Microseconds = 0
    args: _About = msgspec.field(default_factory=_About)


class _Document(msgspec.Struct):
    """The file."""

    traceEvents: list[_Event]  # noqa: N815 - its name there


def read(stream: Stream, name: str) -> Reading:
    """All that one trace says."""
    text = stream.read(LARGEST_BYTES)
    stats = Stats(inputs=1, bytes=len(text), lines=text.count(b"\n"))
    try:
        events = msgspec.json.decode(text.decode("utf-8", "replace"), type=_Document).traceEvents
    except (msgspec.DecodeError, RecursionError) as error:
        message = f"the trace is damaged or cut off: {error}"
        issue = Issue(code="damaged-times", message=message, origin=Origin(input=name, format=TRACE))
        return Reading(issues=[issue], stats=stats)
    origin = Origin(input=name, format=TRACE)
    found: defaultdict[_Part, float] = defaultdict(float)
    for part, spent in _parts(events):
        found[part] += spent
    timings = [
        Timing(**part._asdict(), milliseconds=spent / 1000, kernel=part.step == _OF_KERNEL, origin=origin)
        for part, spent in found.items()
    ]
    return Reading(timings=timings, stats=stats + Stats(recognised_lines=len(events)))


class _Part(NamedTuple):
    """What events are added up by: fields of :class:`~spillscan.model.Timing`."""

    file: str
    arch: str | None
    tool: str
    step: str
    symbol: str
    about: str


def _parts(events: Sequence[_Event]) -> Iterator[tuple[_Part, float]]:
    """What each event took without those inside it, in microseconds."""
    called = {(each.name, each.pid): each.args.name for each in events if each.ph == "M"}
    spans = sorted(
        (each for each in events if each.ph == "X"), key=lambda each: (each.pid, each.tid, each.ts, -each.dur)
    )
    for (pid, _), several in groupby(spans, key=attrgetter("pid", "tid")):
        tool, file = called.get(("process_name", pid), ""), called.get(("thread_name", pid), "")
        match = _ARCH.fullmatch(file)
        name, arch = (match[1], match[2]) if match else (file, None)
        open_ones: list[list[Any]] = []  # [part, end, what it took itself]
        for event in several:
            end = event.ts + event.dur
            while open_ones and open_ones[-1][1] <= event.ts:
                part, _, spent = open_ones.pop()
                yield part, max(0.0, spent)
            if open_ones:
                open_ones[-1][2] -= min(end, open_ones[-1][1]) - event.ts
            about = event.args.detail or event.args.name
            symbol = about if event.name in _OF_FUNCTION else open_ones[-1][0].symbol if open_ones else ""
            if about in (symbol, event.name) or basename(about).startswith(_SCRATCH):
                about = ""
            open_ones.append([_Part(name, arch, tool, event.name, symbol, about), end, event.dur])
        yield from ((part, max(0.0, spent)) for part, _, spent in open_ones)
