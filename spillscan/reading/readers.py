"""Who reads what, one reader a format, listed once, the most particular first; and what one input holds: its own
records, or those of what is packed in it. Whatever the way to some bytes, the same readers get them.

A reader is a module, and one that is none is refused by mypy.
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
    """What a reader module offers."""

    FORMAT: str
    """Its name."""

    def sniff(self, head: bytes) -> bool:
        """Whether an input that begins with ``head``, its first 64 KiB, is of this format."""

    def read(self, stream: Stream, name: str, options: Options = ...) -> Reading:
        """Read it all. ``name`` is what the user calls the input."""


@cache
def of_text() -> tuple[Reader, ...]:
    """Those that are asked about text; the last takes any."""
    from spillscan.reading import dumps, logs
    from spillscan.reading.inputs import build_file, ptx, sidecars, snapshot

    return build_file, ptx, snapshot, sidecars, dumps, logs


@cache
def of_binaries() -> tuple[Reader, ...]:
    """Those that are asked about what is no text."""
    from spillscan.reading import binary

    return (binary,)


def reader_for(head: bytes, *, binary: bool = False) -> Reader | None:
    """The reader whose format ``head`` begins; ``None`` where no reader takes it."""
    return next((reader for reader in (of_binaries() if binary else of_text()) if reader.sniff(head)), None)


def contents(stream: Stream, name: str, options: Options = DEFAULT, *, named: bool = True) -> Reading | None:
    """The records of one input, those of the members of an archive among them; ``None`` where no reader takes it.
    ``named``: whether it is meant; else what people write is no log.

    Raises :class:`~spillscan.InputError` where it cannot be read.
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
        return Reading() if inner == name else text(window, inner)  # the input itself was read

    again = stream.again()
    if again is not None:  # text that says nothing may hold code, or have something packed behind it
        walked = binary.read(again, name, options, texts=beside)
        if walked.understood or walked.issues:
            walked.add(reading or Reading())
            return walked
    return reading


def _text(window: Window, name: str, options: Options) -> Reading:
    """What a member that is text holds. What cannot be read of it is an issue, and hides no other."""
    from spillscan.reading.binary.archive import WindowFile

    try:
        with Stream(cast(BinaryIO, WindowFile(window)), name) as stream:
            reader = reader_for(stream.head())
            return Reading() if reader is None else reader.read(stream, name, options)
    except InputError as error:
        return unreadable(name, error)


def unreadable(uri: str, error: Exception) -> Reading:
    """That an input cannot be read, which is an issue."""
    message = str(error) if isinstance(error, InputError) else f"cannot read {uri}: {error}"
    return Reading(issues=[Issue(code="unreadable", message=message, severity="error", origin=Origin(input=uri))])
