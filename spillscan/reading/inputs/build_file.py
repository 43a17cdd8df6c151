"""Reader of the run file of ``spillscan run``: compiler reports, and gaps of the build."""

from __future__ import annotations

import io
import re

from msgspec.structs import replace

from spillscan.builds import record
from spillscan.builds.tree import shown
from spillscan.model import Kernel, Origin, Reading, Stats
from spillscan.reading import logs
from spillscan.reading.inputs.source import DEFAULT, Options, Stream

FORMAT = "build"

LARGEST_BYTES = 1 << 30

_ARCH = re.compile(r"sm_")

sniff = record.sniff


def read(stream: Stream, name: str, options: Options = DEFAULT) -> Reading:
    """Kernels that compilers reported, and gaps; outputs are separate inputs."""
    from spillscan.builds import gaps

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
    unit = kernel.key.unit or call.object or call.source
    arch = kernel.key.arch or (min(machine) if len(machine := set(filter(_ARCH.match, call.archs))) == 1 else None)
    origins = (Origin(input=name),)  # lines of the report are not lines of the file
    key = replace(kernel.key, unit=unit, arch=arch)  # ptxas prints no arch for device functions
    return replace(kernel, key=key, source=kernel.source or call.source, origins=origins)


def outputs_of(path: str) -> list[str]:
    """Outputs to read along with ``path``; empty if it is not a run file."""
    from spillscan.output.errors import InputError

    if not record.is_one(path):
        return []
    try:
        build = record.read(path)
    except InputError:  # reported when the file itself is read
        return []
    from spillscan.builds import gaps

    return [shown(each.path) for each in gaps.to_read(build)]
