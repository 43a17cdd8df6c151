"""SASS dumps and resource listings: cuobjdump -sass, nvdisasm text and JSON, cuobjdump -res-usage."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from spillscan.model import Issue, Reading, Stats

if TYPE_CHECKING:
    from spillscan.inputs.source import Stream
    from spillscan.machine.operands import Wanted

_COMPILER = re.compile(r"\b(?:ptxas|nvlink) +(?:info|warning|error|fatal) *:")

FORMAT = "sass"
PRIORITY = 5


def sniff(head: bytes) -> bool:
    """Whether ``head`` shows the first lines of a dump."""
    from spillscan import dumps as sass

    return sass.sniff(head) is not None


def read(stream: Stream, name: str) -> Reading:
    """The functions of one dump."""
    return _read(stream, name, None)


def read_operands(stream: Stream, name: str) -> Reading:
    """The functions of one dump, with the registers that they name and their bank conflicts."""
    return _read(stream, name, lambda symbol: True)


def _read(stream: Stream, name: str, operands: Wanted | None) -> Reading:
    from spillscan import dumps as sass
    from spillscan.dumps.archs import unsupported
    from spillscan.model.code import SassFunction

    reading = Reading()
    refused: dict[str | None, Issue] = {}
    plain_file = None if operands else stream.plain_file()
    dump = sass.reader(stream.file(), name, plain_file=plain_file, operands=operands)
    for item in dump:
        if isinstance(item, Issue):
            reading.issues.append(item)
        elif isinstance(item, SassFunction) and (refusal := unsupported(item.arch, item.stats.origin)):
            refused.setdefault(item.arch, refusal)
        else:
            reading.functions.append(item)
    reading.issues.extend(refused.values())
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
        recognised_lines=max(1, outcome.lines - outcome.unknown_lines) if reading.functions else 0,
        unknown_lines=outcome.unknown_lines,
    )
    return reading
