"""Fixtures' bytes, and what the readers make of them."""

from __future__ import annotations

import mmap
from itertools import islice
from pathlib import Path

from spillscan.model import Issue
from spillscan.model.code import SassFunction
from spillscan.reading import disassembly as sass
from spillscan.reading.binary import containers, decode, records
from spillscan.reading.binary.decode import Counts
from spillscan.reading.binary.images import Image
from spillscan.reading.binary.tables import Table
from spillscan.reading.binary.window import DEFAULT, Budget, Limits, Window
from spillscan.reading.inputs.codecs import zstd
from spillscan.reading.inputs.source import Source
from spillscan.reading.machine.liveness import Effects
from tests.conftest import FIXTURES

FOLDER = FIXTURES / "binary"


def stored(name: str) -> bytes:
    """A fixture of fixtures/binary, decompressed."""
    return zstd().decompress((FOLDER / f"{name}.zst").read_bytes())


def scanned(data: bytes, name: str = "file", limits: Limits = DEFAULT) -> tuple[list[SassFunction], list[Issue]]:
    """Functions and issues of a binary."""
    items = list(records.items(data, name, limits))
    return (
        [item for item in items if isinstance(item, SassFunction)],
        [item for item in items if isinstance(item, Issue)],
    )


def functions(name: str) -> list[SassFunction]:
    """Standalone functions of a fixture that must be read without issues: those that cuobjdump lists."""
    return [function for function in with_callees(name) if not function.caller]


def with_callees(name: str) -> list[SassFunction]:
    """The same, and the callees in the code of kernels."""
    found, issues = scanned(stored(name), name)
    assert not [issue for issue in issues if issue.severity != "note"]
    assert found
    return found


def dumped(path: Path) -> list[SassFunction]:
    """The functions of a dump."""
    with Source(str(path)).open() as stream:
        return [item for item in sass.reader(stream.chunks(), path.name) if isinstance(item, SassFunction)]


def without_place(function: SassFunction) -> tuple[object, ...]:
    """A function's figures, without where it was read."""
    stats, local = function.stats, function.stats.local
    return (
        function.symbol,
        function.arch,
        function.role,
        function.usage,
        function.launch_bounds,
        stats.instructions,
        stats.opcodes,
        local.accesses,
        local.evidence,
    )


def counted(windows: list[Window], held: Table, number: int) -> list[Counts]:
    """The counts of functions."""
    return [decode.Decoded(window, held, number).counts(0, window.size) for window in windows]


def extract(data: bytes | mmap.mmap, member: int) -> bytes:
    """The bytes of one cubin, by its number in the file (``SassFunction.member``)."""
    found = containers.images(Window(data), Budget(Limits(), len(data)))
    images = (image for image in found if isinstance(image, Image))
    window = next(islice(images, member, None)).plain()
    return window.copy(0, window.size, "cubin")


def nothing(rows: int) -> Effects:
    """Effects of instructions that access no register."""
    return Effects([0] * rows, [0] * rows, [False] * rows, [False] * rows)
