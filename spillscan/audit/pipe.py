"""Objects through a pipe between two processes of one program."""

from __future__ import annotations

import pickle
import struct
from typing import Any, BinaryIO

_LENGTH = struct.Struct("<Q")


def send(stream: BinaryIO, message: object) -> None:
    """Write ``message`` at once. Raises ``BrokenPipeError`` where nobody reads any more."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """The next message; ``None`` where the other side has gone, in the middle of one or not."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (size,) = _LENGTH.unpack(head)
    data = stream.read(size)
    return pickle.loads(data) if len(data) == size else None
