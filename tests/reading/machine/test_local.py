"""Accesses as numbers, and texts that no instruction shows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillscan.model.code import AddressForm, SassFunction
from spillscan.reading.dumps.cuobjdump import Dump
from spillscan.reading.machine import accesses
from spillscan.reading.machine.accesses import Access, Target
from tests.reading.dumps.test_cuobjdump import END, HEAD

FORMS: tuple[AddressForm, ...] = ("stack", "register", "uniform", "register+uniform", "absolute", "unknown")


@given(
    st.builds(
        Access,
        store=st.just(False),
        predicated=st.booleans(),
        annotated=st.booleans(),
        target=st.builds(
            lambda width, form, slot, last_use: Target(width, form, slot if form == "stack" else None, last_use),
            st.sampled_from(accesses.WIDTHS),
            st.sampled_from(FORMS),
            st.integers(-(1 << 23), (1 << 23) - 1),
            st.booleans(),
        ),
    )
)
def test_a_number_says_all(access: Access) -> None:
    assert accesses.access(accesses.number(access)) == access
    stored = access._replace(store=True, target=access.target._replace(last_use=False))
    assert accesses.access(accesses.number(stored)) == stored


@pytest.mark.parametrize("offset", [1 << 24, 1 << 70, -(1 << 70)])
def test_an_offset_that_no_instruction_holds_is_not_understood(offset: int) -> None:
    assert accesses.target(b"", f" R4, [R1+{offset:#x}]".encode()) == Target(4, "unknown", None, False)


def test_addresses_that_no_code_has() -> None:
    far = "f" * 40
    text = HEAD + f"        /*{far}*/  STL [R1+0x8], R2 ;\n        /*{far}*/  BRA 0x{far} ;\n".encode() + END
    (function,) = (item for item in Dump([text], "dump") if isinstance(item, SassFunction))
    assert [(access.slot, access.kind) for access in function.stats.local.accesses] == [(8, "array")]
