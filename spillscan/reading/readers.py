"""Readers by format, most specific first, and the records of one input or of the archive members in it.

All bytes go through the same readers, however they are packed. A reader is a module that matches :class:`Reader`, as
checked by mypy.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from spillscan.model import Issue, Origin, Reading
from spillscan.output.errors import InputError
from spillscan.reading.inputs import archives
from spillscan.reading.inputs.source import DEFAULT, Options, Stream, kind_of_binary

if TYPE_CHECKING:
    from spillscan.reading.binary.window import Window


class Reader(Protocol):
    """Interface of a reader module."""

    FORMAT: str
    """Name of the format."""

    def sniff(self, head: bytes) -> bool:
        """Whether an input that begins with ``head``, its first 64 KiB, has this format."""

    def read(self, stream: Stream, name: str, options: Options = ...) -> Reading:
        """Read the whole input. ``name`` is its name as given by the user."""


@cache
def of_text() -> tuple[Reader, ...]:
    """Readers tried for text; the last accepts any."""
    from spillscan.reading import dumps, logs
    from spillscan.reading.inputs import build_file, ptx, sidecars, snapshot

    return build_file, ptx, snapshot, sidecars, dumps, logs


@cache
def of_binaries() -> tuple[Reader, ...]:
    """Readers tried for binary data."""
    from spillscan.reading import binary

    return (binary,)


def reader_for(head: bytes, *, binary: bool = False) -> Reader | None:
    """First reader that accepts ``head``; ``None`` if none does."""
    return next((reader for reader in (of_binaries() if binary else of_text()) if reader.sniff(head)), None)


def contents(stream: Stream, name: str, options: Options = DEFAULT, *, named: bool = True) -> Reading | None:
    """Records of one input, including those of archive members; ``None`` if no reader accepts it.

    ``named``: whether the user named it; otherwise files usually written by hand are not read as logs. Raises
    :class:`~spillscan.InputError` if it cannot be read.
    """
    from spillscan.reading import binary

    head = stream.head()
    text = partial(_text, options=options)
    if kind_of_binary(head) is not None:
        return binary.read(stream, name, options, texts=text) if binary.sniff(head) else None
    reader = reader_for(head)
    reading = None
    if reader is not None and (named or not name.lower().endswith(archives.WRITTEN_BY_HAND)):
        reading = reader.read(stream, name, options)
    if reading is not None and (reading.understood or reader is not of_text()[-1]):
        return reading

    def beside(window: Window, inner: str) -> Reading:
        return Reading() if inner == name else text(window, inner)  # the input itself was already read

    again = stream.again()
    if again is not None:  # text without records may contain code, or precede packed data
        walked = binary.read(again, name, options, texts=beside)
        if walked.understood or walked.issues:
            walked.add(reading or Reading())
            return walked
    return reading


def _text(window: Window, name: str, options: Options) -> Reading:
    """Records of an archive member that is text. An unreadable member becomes an issue and does not affect others."""
    from spillscan.reading.binary.archive import WindowFile

    try:
        with Stream(cast(BinaryIO, WindowFile(window)), name) as stream:
            reader = reader_for(stream.head())
            return Reading() if reader is None else reader.read(stream, name, options)
    except InputError as error:
        return unreadable(name, error)


def unreadable(uri: str, error: Exception) -> Reading:
    """Reading with one issue: the input cannot be read."""
    message = str(error) if isinstance(error, InputError) else f"cannot read {uri}: {error}"
    return Reading(issues=[Issue(code="unreadable", message=message, severity="error", origin=Origin(input=uri))])
