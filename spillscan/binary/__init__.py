"""Reads binaries: every kernel of every architecture with its resources, local memory, loops and spills.

``containers`` finds cubins in whatever they are packed in, ``cubin`` reads what sections and attributes say of each
function, ``decode`` its machine words. ``read`` is the whole way; no tool is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from spillscan.binary.limits import DEFAULT, Limits

if TYPE_CHECKING:
    from spillscan.binary.window import Buffer
    from spillscan.model import Issue
    from spillscan.model.code import SassFunction


def holds_code(head: bytes) -> bool:
    """Whether a file that begins with ``head`` may hold machine code of a GPU."""
    from spillscan.binary import containers

    return containers.holds_code(head)


def read(buffer: Buffer, name: str, limits: Limits = DEFAULT) -> Iterator[SassFunction | Issue]:
    """Every function of one file, and an issue for what could not be read. ``name`` is what the user calls it."""
    from spillscan.binary import archive, containers, shares
    from spillscan.binary.figures import Functions
    from spillscan.binary.limits import Budget
    from spillscan.binary.records import Records
    from spillscan.binary.window import Window

    window = Window(buffer)
    records, functions = Records(name), Functions(limits, len(buffer))
    found = containers.images(window, Budget(limits, len(buffer)))
    if isinstance(buffer, bytes) or archive.kind(window):  # small, or each member is decompressed where it is found
        told = shares.one_by_one(functions, found)
    else:
        told = shares.together(functions, list(found), name)
    number = 0
    for each, figures in told:
        if isinstance(each, containers.Damage):
            items: Iterator[SassFunction | Issue] = iter([records.damage(each.error, each.place)])
        else:
            items = records.of(each, number, figures)
            number += 1
        yield from filter(records.worth, items)
    yield from records.rest()


def extract(buffer: Buffer, member: int, limits: Limits = DEFAULT) -> bytes:
    """The bytes of one cubin, by its number in the file (``SassFunction.member``)."""
    from spillscan.binary import containers
    from spillscan.binary.limits import Budget
    from spillscan.binary.window import Window

    found = containers.images(Window(buffer), Budget(limits, len(buffer)))
    images = (image for image in found if isinstance(image, containers.Image))
    window = next(islice(images, member, None)).window
    return window.copy(0, window.size, "cubin")
