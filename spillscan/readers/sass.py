"""SASS dumps and resource listings: cuobjdump -sass, nvdisasm text and JSON, cuobjdump -res-usage."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from spillscan.model import Issue, Stats
from spillscan.readers import Reading

if TYPE_CHECKING:
    from spillscan.source import Stream

_COMPILER = re.compile(r"\b(?:ptxas|nvlink) +(?:info|warning|error|fatal) *:")

FORMAT = "sass"
PRIORITY = 5


def sniff(head: bytes) -> bool:
    """Whether ``head`` shows the first lines of a dump."""
    from spillscan import sass

    return sass.sniff(head) is not None


def read(stream: Stream, name: str) -> Reading:
    """The functions of one dump."""
    from spillscan import sass

    reading = Reading()
    dump = sass.reader(stream.file(), name, plain_file=stream.plain_file())
    for item in dump:
        if isinstance(item, Issue):
            reading.issues.append(item)
        else:
            reading.functions.append(item)
    log_line = next((issue for issue in reading.issues if _COMPILER.search(issue.message)), None)
    if log_line is not None:
        # A gate must not pass because half of its input was taken for the other half's noise.
        message = "the dump holds lines of a compiler's log, which are not read; give log and dump as two inputs"
        reading.issues.append(Issue(code="mixed-input", message=message, severity="error", origin=log_line.origin))
    outcome = dump.outcome
    reading.stats = Stats(
        inputs=1,
        lines=outcome.lines,
        bytes=outcome.bytes,
        recognised_lines=outcome.lines - outcome.unknown_lines if reading.functions else 0,
        unknown_lines=outcome.unknown_lines,
    )
    return reading
