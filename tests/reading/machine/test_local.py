"""Texts that no instruction shows."""

from __future__ import annotations

import pytest

from spillscan.model.code import SassFunction
from spillscan.reading.disassembly.cuobjdump import SassListing
from spillscan.reading.machine.instruction import of_text
from tests.reading.disassembly.test_cuobjdump import END, HEAD


@pytest.mark.parametrize("offset", [1 << 24, 1 << 70, -(1 << 70)])
def test_an_offset_that_no_instruction_holds_is_not_understood(offset: int) -> None:
    access = of_text(b"", b"LDL", b"", f" R4, [R1+{offset:#x}]".encode(), b"")
    assert (access.form, access.slot) == ("unknown", None)


def test_addresses_that_no_code_has() -> None:
    far = "f" * 40
    text = HEAD + f"        /*{far}*/  STL [R1+0x8], R2 ;\n        /*{far}*/  BRA 0x{far} ;\n".encode() + END
    (function,) = (item for item in SassListing([text], "dump") if isinstance(item, SassFunction))
    assert [(access.slot, access.kind) for access in function.stats.local.accesses] == [(8, "array")]
