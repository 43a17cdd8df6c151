"""Binaries: libraries, executables, objects, fat binaries, cubins, and archives of them. Every kernel of every
architecture with its resources, local memory, loops and spills; no tool is needed.

``containers`` finds cubins in whatever they are packed in, ``cubin`` reads what sections and attributes say of each
function, ``decode`` its machine words, ``figures`` makes records of them, ``members`` reads one cubin or module.

Nothing has a grammar here: offsets are read and checked (``docs/internals/binaries.md``). Opcodes and registers
come from nvdisasm (``fixtures/opcodes.py``, ``fixtures/registers.py``). What code means (control flow, loops, classes
of local memory, spills) has one home, ``reading/machine``, for dumps and binaries alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from spillscan.model import Issue, Reading, Stats
from spillscan.reading.inputs.source import DEFAULT, Options, Stream

if TYPE_CHECKING:
    from spillscan.reading.binary.window import Window

FORMAT = "binary"


def sniff(head: bytes) -> bool:
    """Whether a file that begins with ``head`` may hold machine code of a GPU."""
    from spillscan.reading.binary import containers

    return containers.holds_code(head)


def read(
    stream: Stream, name: str, options: Options = DEFAULT, *, texts: Callable[[Window, str], Reading] | None = None
) -> Reading:
    """The functions of all cubins in one file; ``texts`` reads each member that is text, by its name."""
    from spillscan.model.code import SassFunction
    from spillscan.reading.binary import records
    from spillscan.reading.binary.window import DEFAULT as LIMITS

    buffer = stream.buffer()
    reading = Reading(stats=Stats(inputs=1, bytes=len(buffer)))
    said = Reading()

    def text(window: Window, inner: str) -> None:
        if texts is not None:
            said.add(texts(window, inner))

    for item in records.items(buffer, name, LIMITS, live=options.live, texts=text):
        if isinstance(item, SassFunction):
            reading.functions.append(item)
        elif isinstance(item, Issue):
            reading.issues.append(item)
        else:
            reading.portable.append(item)
    reading.add(said)
    return reading
