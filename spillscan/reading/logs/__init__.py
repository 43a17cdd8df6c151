"""Build logs: what ptxas, nvlink and the libraries that hold them print, anywhere in a compiler's or CI's output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillscan.reading.inputs.options import DEFAULT, Options

if TYPE_CHECKING:
    from spillscan.model import Reading
    from spillscan.reading.inputs.source import Stream

FORMAT = "ptxas"


def sniff(head: bytes) -> bool:
    """Any text may hold compiler output."""
    return True


def silent(text: bytes) -> bool:
    """Whether ``text``, a whole log, holds no compiler output."""
    from spillscan.reading.logs import log

    return log.silent(text)


def read(stream: Stream, name: str, _: Options = DEFAULT) -> Reading:
    """Every kernel, link record and issue of one log."""
    from spillscan.reading.logs import log

    return log.read(stream, name)
