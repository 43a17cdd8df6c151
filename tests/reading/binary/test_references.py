"""Texture, surface and sampler references are counted up to the last architecture whose compiler prints them."""

from __future__ import annotations

import pytest

from spillscan.reading.binary.elf import Elf
from spillscan.reading.binary.symbols import Symbols, references_by_section
from spillscan.reading.binary.window import Window
from tests.reading.binary.support import FOLDER


@pytest.mark.parametrize(("number", "known"), [(80, True), (89, True), (90, False), (120, False)])
def test_from_sm_90_on_there_are_none(number: int, known: bool) -> None:
    elf = Elf(Window((FOLDER / "textures-sm_80-13.5.cubin").read_bytes()))
    symbols = Symbols(elf).rows
    found = references_by_section(elf, symbols, number)
    assert bool(found) == known
    assert found == (references_by_section(elf, symbols, 80) if known else {})
