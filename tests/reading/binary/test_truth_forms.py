"""Truth tables of rare forms that no fixture contains: headers, code and sizes by the specifications, written by
``struct``. One fact per row.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from spillscan.reading.binary import decode
from spillscan.reading.binary.decode import Decoded
from spillscan.reading.binary.elf import Elf
from spillscan.reading.binary.host import sources
from spillscan.reading.binary.window import Window
from tests.reading.binary.support import stored

# ---- host files, cubins, code ---------------------------------------------------------------------------------------


def test_a_relocation_locates_a_fat_binary() -> None:
    data = bytearray(stored("flags-linked-13.5.so"))
    file = Elf(Window(bytes(data)))
    expected = sources(file)
    assert expected
    index = file.index(b".nvFatBinSegment")
    assert index is not None
    home = file.contents(index)
    for at in range(home.start, home.end, 24):
        data[at + 8 : at + 16] = bytes(8)
    assert sources(Elf(Window(bytes(data)))) == expected


def test_offsets_outside_of_a_function_name_no_instruction() -> None:
    decoded = Decoded.__new__(Decoded)
    for size, wide, offsets, rows in (
        (16, True, [0, 16, 32, 48, -16, 24], [0, 1, 2, 1]),
        (8, False, [8, 16, 24, 40, 48, 0, 56, 72], [0, 1, 2, 3, 4, 5]),
    ):
        code = SimpleNamespace(bytes_per_instruction=size, codes=np.arange(len({*rows})))
        decoded.code, decoded.table = cast(Any, code), cast(Any, SimpleNamespace(wide=wide))
        assert decoded._rows_at(offsets).tolist() == rows


@pytest.mark.parametrize(
    ("rows", "found", "why"),
    [
        ([(True, 0, 96, 0), (False, 48, 0, 0)], [(48, 96)], "the meeting goes on where its barrier was set to"),
        ([(True, 0, 96, 1), (False, 48, 0, 2)], [], "another barrier"),
        ([(True, 0, 96, 0x13), (False, 48, 0, 0xF3)], [(48, 96)], "only the last four bits name it"),
        ([(True, 0, 80, 0), (True, 16, 96, 0), (False, 48, 0, 0)], [(48, 96)], "the last that was set"),
        ([(True, 0, 64, 0), (False, 48, 0, 0)], [], "it goes on at the next instruction anyway"),
        ([(True, 0, 65, 0), (False, 48, 0, 0)], [(48, 65)], "behind the next one"),
        ([(True, 0, 32, 0), (False, 48, 0, 0)], [], "never back"),
        ([(False, 48, 0, 0), (True, 64, 96, 0)], [], "set after it"),
    ],
)
def test_reconvergence_points(rows: list[tuple[bool, int, int, int]], found: list[Any], why: str) -> None:
    sets, *columns = (np.array(column) for column in zip(*rows, strict=True))
    code = SimpleNamespace(
        codes=np.where(sets, decode._SYNC_SET, decode._SYNC),
        addresses=lambda at: columns[0][at],
        meetings=lambda at: columns[1][at],
        registers=lambda _, at: columns[2][at],
    )
    assert [each[:2] for each in decode._reconverging(cast(Any, code))] == found, why
