"""What one input holds: its own records, or those of the members of an archive."""

from __future__ import annotations

from spillscan.model import Issue, Origin, Reading
from spillscan.output.errors import InputError
from spillscan.reading.inputs import archives, source
from spillscan.reading.inputs.options import DEFAULT, Options
from spillscan.reading.readers import reader_for


def contents(stream: source.Stream, name: str, options: Options = DEFAULT) -> Reading | None:
    """The records of one input, those of the members of an archive; ``None`` where no reader takes it.

    Raises :class:`~spillscan.InputError` where it cannot be read.
    """
    head = stream.head()
    reader = reader_for(head, binary=source.kind_of_binary(head) is not None)
    reading = None if reader is None else reader.read(stream, name, options)
    if members := archives.members_of(head):  # the reader of binaries has taken those with code
        reading = reading or Reading()
        deepest = options.unpacking.get("depth", archives.DEEPEST)
        for inner, member in members(stream.again() if reader else stream, name):
            reading.add(_text(inner, member, options, deepest))
    return reading


def _text(name: str, stream: source.Stream, options: Options, deeper: int) -> Reading:
    """What a member of an archive holds that is text; so many archives may stand inside each other. What cannot be read
    of it is an issue, and hides no other."""
    total = Reading()
    try:
        with stream:
            head = stream.head()
            if members := archives.members_of(head):
                if deeper <= 1:
                    raise InputError(f"{name} stands in too many archives", "unpack it by hand, or raise --max-nesting")
                for inner, member in members(stream, name):
                    total.add(_text(inner, member, options, deeper - 1))
            elif source.kind_of_binary(head) is None and (reader := reader_for(head)) is not None:
                total.add(reader.read(stream, name, options))
    except archives.errors(InputError) as error:
        total.add(unreadable(name, error))
    return total


def unreadable(uri: str, error: Exception) -> Reading:
    """That an input cannot be read, which is an issue."""
    message = str(error) if isinstance(error, InputError) else f"cannot read {uri}: {error}"
    return Reading(issues=[Issue(code="unreadable", message=message, severity="error", origin=Origin(input=uri))])
