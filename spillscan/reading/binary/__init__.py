"""Reader of binaries: libraries, executables, objects, fat binaries, cubins, and archives of them. Reads every kernel
of every architecture with its resources, local memory, loops and spills, without NVIDIA's tools.

``containers`` finds cubins in any container, ``cubin`` reads the sections and attributes of each function, ``decode``
its machine words, ``function_records`` makes records of them, ``records`` reads all members of a file.

No grammar is involved: offsets are read and checked (``docs/internals/binaries.md``). Opcode and register tables are
derived from nvdisasm (``fixtures/opcodes.py``, ``fixtures/registers.py``). Control flow, loops, classes of local memory
and spills are analyzed in ``reading/machine``, for disassembly and binaries alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from spillscan.model import Issue, Reading, Stats
from spillscan.reading.inputs.source import DEFAULT, Options, Stream

if TYPE_CHECKING:
    from spillscan.reading.binary.window import Window


def read(
    stream: Stream, name: str, options: Options = DEFAULT, *, texts: Callable[[Window, str], Reading] | None = None
) -> Reading:
    """Functions of all cubins in one file, its PTX and LTO-IR, and issues. ``texts`` reads each text member, given its
    name."""
    from spillscan.model.code import SassFunction
    from spillscan.reading.binary import records
    from spillscan.reading.binary.window import DEFAULT as LIMITS

    buffer = stream.buffer()
    reading = Reading(stats=Stats(inputs=1, bytes=len(buffer)))
    logs = Reading()

    def text(window: Window, inner: str) -> None:
        if texts is not None:
            logs.add(texts(window, inner))

    for item in records.items(buffer, name, LIMITS, live=options.live, texts=text):
        if isinstance(item, SassFunction):
            reading.functions.append(item)
        elif isinstance(item, Issue):
            reading.issues.append(item)
        else:
            reading.portable.append(item)
    reading.add(logs)
    return reading
