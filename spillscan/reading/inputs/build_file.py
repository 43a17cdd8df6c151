"""The file of a build that ``spillscan run`` leaves: its units, and what their compilers said of kernels."""

from __future__ import annotations

import io
import shlex

from msgspec.structs import replace

from spillscan.builds import buildfile
from spillscan.builds.records import head_of
from spillscan.model import Issue, Origin, Reading, Stats
from spillscan.reading import logs
from spillscan.reading.inputs.source import DEFAULT, Options, Stream

FORMAT = "build"

LARGEST_BYTES = 1 << 30

sniff = buildfile.sniff


def read(stream: Stream, name: str, options: Options = DEFAULT) -> Reading:
    """What its compilers said of kernels. The account reports what became of each unit, once all inputs are read."""
    build = buildfile.decoded(stream.read(LARGEST_BYTES), name)
    total = Reading(stats=Stats(inputs=1, recognised_lines=1))
    for kept in build.units:
        unit = kept.unit
        total.units.append(unit)
        if unit.state == "done" and kept.report:
            head = head_of(unit.object, unit.folder, shlex.join(unit.command))
            reading = logs.read(Stream(io.BytesIO(f"{head}{kept.report}".encode()), name), name)
            reading.stats = Stats(recognised_lines=reading.stats.recognised_lines)
            origins = (Origin(input=name),)  # a line of the report is no line of the file
            reading.kernels = [
                replace(kernel, source=unit.source or kernel.source, origins=origins) for kernel in reading.kernels
            ]
            total.add(reading)
    origin = Origin(input=name, format=FORMAT)
    if build.status and all(unit.state in ("done", "unknown") for unit in total.units):
        message = f"the build ended with exit status {build.status}: what it had not begun is not here"
        total.issues.append(Issue(code="build-incomplete", message=message, severity="error", origin=origin))
    for note in build.notes:
        total.issues.append(Issue(code="unseen-call", message=note, severity="note", origin=origin))
    return total
