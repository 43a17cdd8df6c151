"""Reads binaries: every kernel of every architecture with its resources, local memory, loops and spills, no tool needed.

``containers`` finds cubins in whatever they are packed in, ``cubin`` reads what sections and attributes say of each
function, ``decode`` its machine words. ``read`` is the whole way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from spillscan.binary.limits import DEFAULT, Limits

if TYPE_CHECKING:
    from spillscan.binary.window import Buffer
    from spillscan.model import Issue
    from spillscan.sass.model import SassFunction


def holds_code(head: bytes) -> bool:
    """Whether a file that begins with ``head`` may hold machine code of a GPU."""
    from spillscan.binary import containers

    return containers.holds_code(head)


def read(buffer: Buffer, name: str, limits: Limits = DEFAULT) -> Iterator[SassFunction | Issue]:
    """Every function of one file, and an issue for what could not be read. ``name`` is what the user calls it."""
    from spillscan.binary import containers
    from spillscan.binary.limits import Budget
    from spillscan.binary.records import Records
    from spillscan.binary.window import Window

    window = Window(buffer)
    records = Records(name, limits, len(buffer))
    for found in containers.images(window, Budget(limits, len(buffer))):
        if isinstance(found, containers.Damage):
            yield records.damage(found.error, found.place)
        else:
            yield from records.of(found)
    yield from records.rest()
