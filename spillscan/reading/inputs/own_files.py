"""Reader of the files that spillscan writes: run files of ``spillscan run``, and snapshots of ``scan -f json``.

A run file has compiler reports, and gaps of the build. A snapshot is a build: it allows comparing builds without their
logs.
"""

from __future__ import annotations

import io
import os
import re

from msgspec.structs import replace

from spillscan.builds import record
from spillscan.builds.tree import shown
from spillscan.model import Kernel, Origin, Reading, Stats
from spillscan.output.errors import InputError, NoBuildError
from spillscan.reading.inputs.source import DEFAULT, Options, Stream

LARGEST_RUN_BYTES = 1 << 30
LARGEST_SNAPSHOT_BYTES = 1 << 32
"""Largest snapshot read, about four million kernels; snapshots are read whole."""

_OF_CHANGES = re.compile(rb'\s*\{\s*"schema_version"\s*:\s*\d+\s*,\s*"tool_version"\s*:\s*"[^"]*"\s*,\s*"changes"\s*:')

_ARCH = re.compile(r"sm_")


def read(stream: Stream, name: str, _: Options = DEFAULT) -> Reading:
    """Records of one file of spillscan."""
    return _run_file(stream, name) if record.sniff(stream.head()) else _snapshot(stream, name)


def _run_file(stream: Stream, name: str) -> Reading:
    """Kernels that compilers reported, and gaps; outputs are separate inputs."""
    from spillscan.builds import gaps
    from spillscan.reading import logs

    build = record.decoded(stream.read(LARGEST_RUN_BYTES), name)
    total = Reading(stats=Stats(inputs=1, recognised_lines=1), units=[*gaps.units(build)])
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
    path = os.path.abspath(unit) if unit and not kernel.key.unit else ""
    arch = kernel.key.arch or (min(machine) if len(machine := set(filter(_ARCH.match, call.archs))) == 1 else None)
    key = replace(kernel.key, unit=unit, arch=arch)  # ptxas prints no arch for device functions
    # lines of the report are not lines of the file
    return replace(kernel, key=key, source=kernel.source or call.source, path=path, origins=(Origin(input=name),))


def outputs_of(path: str) -> list[str]:
    """Outputs to read along with ``path``; empty if it is not a run file."""
    if not record.is_one(path):
        return []
    try:
        build = record.read(path)
    except InputError:  # reported when the file itself is read
        return []
    from spillscan.builds import gaps

    return [shown(each.path) for each in gaps.to_read(build)]


def _snapshot(stream: Stream, name: str) -> Reading:
    """Build of one snapshot. Raises :class:`~spillscan.output.errors.NoBuildError` for a report of ``diff``."""
    from spillscan.model.serialize import build_of

    data = stream.read(LARGEST_SNAPSHOT_BYTES)
    if _OF_CHANGES.match(data):
        raise NoBuildError(f"{name} is a diff report, not a build", "pass the output of scan -f json")
    try:
        build = build_of(data)
    except ValueError as error:
        raise InputError(f"{name} is not a valid snapshot: {error}", "write it again with scan -f json") from error
    stats = replace(
        build.stats,
        inputs=1,
        lines=data.count(b"\n"),
        bytes=len(data),
        recognised_lines=max(1, build.stats.recognised_lines),
    )
    return Reading(
        kernels=list(build.kernels),
        issues=list(build.issues),
        stats=stats,
        portable=list(build.portable),
        empty_units=list(build.empty_units),
    )
