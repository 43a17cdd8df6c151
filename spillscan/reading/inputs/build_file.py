"""The run file of ``spillscan run``: reports of its compilers, and what it leaves open."""

from __future__ import annotations

import io
import re

from msgspec.structs import replace

from spillscan.builds import gaps, record
from spillscan.builds.commands import of_call
from spillscan.model import Kernel, Origin, Reading, Stats
from spillscan.reading import logs
from spillscan.reading.inputs.source import DEFAULT, Options, Stream

FORMAT = "build"

LARGEST_BYTES = 1 << 30

_ARCH = re.compile(r"\bsm_\d+\w?")

sniff = record.sniff


def read(stream: Stream, name: str, options: Options = DEFAULT) -> Reading:
    """What compilers said of kernels; the outputs are inputs of their own."""
    build = record.decoded(stream.read(LARGEST_BYTES), name)
    total = Reading(stats=Stats(inputs=1, recognised_lines=1))
    total.units += gaps.units(build)
    for call in build.calls:
        if call.status == 0 and call.report:
            reading = logs.read(Stream(io.BytesIO(call.report.encode()), name), name)
            reading.stats = Stats(recognised_lines=reading.stats.recognised_lines)
            reading.kernels = [_placed(kernel, call, name) for kernel in reading.kernels]
            total.add(reading)
    total.issues += gaps.issues(build, name)
    return total


def _placed(kernel: Kernel, call: record.Call, name: str) -> Kernel:
    commands = of_call(call)
    unit = (commands[0].object or commands[0].source) if len(commands) == 1 and not kernel.key.unit else kernel.key.unit
    source = commands[0].source if commands and not kernel.source else kernel.source
    archs = set(_ARCH.findall(" ".join(call.words)))
    arch = kernel.key.arch or (archs.pop() if len(archs) == 1 else None)  # ptxas names none with device functions
    origins = (Origin(input=name),)  # a line of the report is no line of the file
    return replace(kernel, key=replace(kernel.key, unit=unit, arch=arch), source=source, origins=origins)


def outputs_of(path: str) -> list[str]:
    """The outputs to read with the run file ``path``; none if it is none."""
    from spillscan.builds.commands import shown
    from spillscan.output.errors import InputError

    if not record.is_one(path):
        return []
    try:
        build = record.read(path)
    except InputError:  # who reads it says so
        return []
    return [shown(each.path) for each in gaps.to_read(build)] if build else []
