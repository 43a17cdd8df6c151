"""One file, from its first bytes to its records: those that ``spillscan scan`` gives of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillscan import pipeline
from spillscan.errors import InputError
from spillscan.inputs import readers, source
from spillscan.inputs.readers import Reader
from spillscan.model import Reading

if TYPE_CHECKING:
    from spillscan.inputs.source import Stream
    from spillscan.model import Build

NO_OUTPUT = "no build output"
"""Why most files of a tree are skipped."""
NO_CODE = "no GPU machine code"
"""Why most libraries are."""

_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")


def may_be_read(head: bytes) -> bool:
    """Whether a file of a store that begins with these bytes is worth fetching."""
    if head.startswith(_COMPRESSED):
        return True
    return readers.reader_for(head, binary=source.kind_of_binary(head) is not None) is not None


def reader_of(stream: Stream) -> Reader | str:
    """Who reads it, or why nobody does. Little more than the beginning is looked at, of a binary its sections."""
    head = stream.head()
    binary = source.kind_of_binary(head) is not None
    reader = readers.reader_for(head, binary=binary)
    if reader is None:
        return NO_OUTPUT
    silent = getattr(reader, "silent", None)
    if silent is not None and len(head) < source.HEAD_BYTES and silent(head):
        return NO_OUTPUT
    if binary and not _has_code(stream):
        return NO_CODE
    return reader


def _has_code(stream: Stream) -> bool:
    """Whether there is a cubin, or damage that may hide one."""
    from spillscan.binary import containers
    from spillscan.binary.limits import DEFAULT, Budget
    from spillscan.binary.window import Window

    buffer = stream.buffer()
    return next(containers.images(Window(buffer), Budget(DEFAULT, len(buffer))), None) is not None


def build_of(reader: Reader, stream: Stream, uri: str) -> Build | str:
    """What it holds, or why it is no build output. Raises :class:`~spillscan.errors.InputError` where it is one and
    cannot be read."""
    reading: Reading = reader.read(stream, uri)
    if reading.understood:
        return pipeline.build_of(reading)
    grave = next((issue for issue in reading.issues if issue.severity != "note"), None)
    if grave is not None:
        raise InputError(f"{grave.origin or uri}: {grave.message}")
    return NO_CODE if getattr(reader, "BINARY", False) else NO_OUTPUT
