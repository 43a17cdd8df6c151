"""Reader of snapshots written by ``scan -f json``, which allow comparing builds without their logs."""

from __future__ import annotations

import re

from spillscan.model import Reading, Stats
from spillscan.output.errors import InputError, NoBuildError
from spillscan.reading.inputs.source import DEFAULT, Options, Stream

FORMAT = "snapshot"

LARGEST_BYTES = 1 << 32
"""Largest snapshot read, about four million kernels; snapshots are read whole."""

_BEGINNING = re.compile(rb'\s*\{\s*"schema_version"\s*:')
_OF_CHANGES = re.compile(_BEGINNING.pattern + rb'\s*\d+\s*,\s*"tool_version"\s*:\s*"[^"]*"\s*,\s*"changes"\s*:')


def sniff(head: bytes) -> bool:
    """Whether ``head`` begins a JSON object with a schema version."""
    return _BEGINNING.match(head) is not None


def read(stream: Stream, name: str, _: Options = DEFAULT) -> Reading:
    """Build of one snapshot. Raises :class:`~spillscan.output.errors.NoBuildError` for a report of ``diff``."""
    from spillscan.model.serialize import build_of

    data = stream.read(LARGEST_BYTES)
    if _OF_CHANGES.match(data):
        raise NoBuildError(f"{name} is a report of diff: it has changes, not a build", "give what scan -f json wrote")
    try:
        build = build_of(data)
    except ValueError as error:
        raise InputError(f"{name} is not a valid snapshot: {error}", "write it again with scan -f json") from error
    stats = Stats(
        inputs=1,
        lines=data.count(b"\n"),
        bytes=len(data),
        recognised_lines=max(1, build.stats.recognised_lines),
        unknown_lines=build.stats.unknown_lines,
        unknown_clauses=build.stats.unknown_clauses,
    )
    return Reading(
        kernels=list(build.kernels),
        issues=list(build.issues),
        stats=stats,
        portable=list(build.portable),
        empty_units=list(build.empty_units),
    )
