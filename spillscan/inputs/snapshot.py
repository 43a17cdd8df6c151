"""What ``scan -f json`` wrote: builds are compared without keeping their logs."""

from __future__ import annotations

import json
import re

from spillscan.errors import InputError
from spillscan.inputs.source import Stream
from spillscan.model import Reading, Stats
from spillscan.serialize import build_from_json

FORMAT = "snapshot"
PRIORITY = 10

LARGEST_BYTES = 1 << 32
"""A snapshot is read as a whole; this is some four million kernels."""

_MAY_BE_HALF = b"\\ud"
_BEGINNING = re.compile(rb'\s*\{\s*"schema_version"\s*:')


def sniff(head: bytes) -> bool:
    """A JSON object that begins with its schema version."""
    return _BEGINNING.match(head) is not None


def read(stream: Stream, name: str) -> Reading:
    """The build of one snapshot."""
    data = stream.read(LARGEST_BYTES)
    try:
        document = json.loads(data)
        if _MAY_BE_HALF in data:
            json.dumps(document, ensure_ascii=False).encode()  # half a surrogate is a ValueError: no log holds one
        build = build_from_json(document)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(f"{name} is not a sound snapshot: {what}", "write it again with scan -f json") from error
    stats = Stats(
        inputs=1,
        lines=data.count(b"\n"),
        bytes=len(data),
        recognised_lines=max(1, build.stats.recognised_lines),
        unknown_lines=build.stats.unknown_lines,
        unknown_clauses=build.stats.unknown_clauses,
    )
    return Reading(kernels=list(build.kernels), issues=list(build.issues), stats=stats)
