"""The rules by which accesses get their class, one by one."""

from __future__ import annotations

import pytest

from spillscan import scan
from spillscan.model.code import SassFunction
from spillscan.model.local import LocalTraffic
from spillscan.reading.disassembly.cuobjdump import SassListing
from spillscan.reading.disassembly.listing import Listing
from tests.conftest import FIXTURES
from tests.reading.disassembly.test_cuobjdump import END, HEAD, row


def traffic(*texts: str) -> LocalTraffic:
    data = HEAD + b"".join(row(16 * index, text) for index, text in enumerate(texts)) + END
    (function,) = (item for item in SassListing([data], "dump") if isinstance(item, SassFunction))
    return function.stats.local


def kinds(*texts: str) -> list[str]:
    return [access.kind for access in traffic(*texts).accesses]


STORE, REFILL, ARRAY = "STL [R1+0x8], R2", "LDL.LU R2, [R1+0x8]", "LDL R4, [R3+0x4]"
SPILL, LOWER, CALL = f"{STORE}; {REFILL}", "STL [R1+0x4], R2; LDL R2, [R1+0x4]", "CALL.ABS.NOINC 0x0"


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (SPILL, "spill spill"),
        (f"STL [R1], R2; {SPILL}", "array spill spill"),
        (f"STL [R1], R2; LDL R2, [R1]; {SPILL}", "spill spill spill spill"),
        # an array whose indices are all constant: stored in one width, loaded in another
        (f"STL.64 [R1], R2; LDL R2, [R1]; LDL R3, [R1+0x4]; {SPILL}", "unknown unknown unknown spill spill"),
        (f"{STORE}; LDL R2, [R1+0x8]", "array array"),
        (f"STL [R1], R2; {SPILL}; {ARRAY}", "array spill spill array"),
        (f"MOV R5, R1; STL [R1], R2; {SPILL}", "array spill spill"),
        (f"IADD3 R1, R1, -0x8, RZ; STL [R1], R2; {SPILL}", "array spill spill"),
        (f"STL [R1], R2; {CALL}", "frame"),
        (f"STL [R1], R2; {CALL}; {ARRAY}", "unknown array"),
        (f"STL [R1], R2; {SPILL}; {CALL}", "frame spill spill"),
        (
            f"IADD3 R1, R1, -0x10, RZ; {STORE}; LDL R2, [R1+0x8]; LDL R3, [R1+0x10]; RET.REL.NODEC R4 0x0",
            "frame frame frame",
        ),
        ("STL [R1+0x4], RZ; LDL.LU R2, [R4]", "unknown unknown"),
        # only reloaded, right below what a refill proves: a spill next to calls, unknown next to arrays
        (f"{LOWER}; {SPILL}; {CALL}", "spill spill spill spill"),
        (f"{LOWER}; STL [R1], R2; {SPILL}; {ARRAY}", "unknown unknown array spill spill array"),
        (f"STL [R1], R2; {LOWER}; {SPILL}; {CALL}", "frame spill spill spill spill"),
        # a run down to the bottom may be an array that is also indexed, or begin right above one that is only indexed
        (f"{LOWER}; {SPILL}; {ARRAY}", "unknown unknown spill spill array"),
        # what is stored at once and reloaded in pieces has no last use (auto-gptq by ptxas 11.8 to 12.4)
        (
            f"STL.64 [R1+0x4], R2; LDL R2, [R1+0x4]; LDL R3, [R1+0x8]; STL [R1+0xc], R4; LDL.LU R4, [R1+0xc]; {ARRAY}",
            "unknown unknown unknown spill spill array",
        ),
        # no refill, but the upper end of the frame may have values that only loops reload
        (
            f"IADD3 R1, R1, -0x10, RZ; STL [R1], R2; STL [R1+0xc], R2; LDL R2, [R1+0xc]; {CALL}",
            "frame unknown unknown",
        ),
        # a callee left it there
        (f"STL [R1], R2; LDL R2, [R1+0x4]; {SPILL}; {CALL}", "frame unknown spill spill"),
    ],
)
def test_classes(texts: str, wanted: str) -> None:
    assert kinds(*texts.split("; ")) == wanted.split()


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (f"STL [R1], R2; {CALL}", "frame"),
        (f"MOV R4, R1; STL [R1], R2; {CALL}", "unknown"),
        (f"STL [R1], R2; {CALL}; {ARRAY}", "unknown array"),
        (f"IADD3 R1, R1, -0x10, RZ; MOV R4, R1; STL [R1], R2; {CALL}; RET.REL.NODEC R4 0x0", "unknown"),
        # a callee in the listing that has only the address of an array reads no arguments
        ("MOV R4, R1; STL [R1], R2; CALL.REL.NOINC 0x40; EXIT; LDL R3, [R4]; RET.REL.NODEC R6 0x0", "array array"),
        ("MOV R4, R1; STL [R1], R2; CALL.REL.NOINC 0x40; EXIT; LDL R3, [R1]; RET.REL.NODEC R6 0x0", "unknown frame"),
    ],
)
def test_classes_of_what_ptxas_does_not_annotate(texts: str, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Listing, "annotations", True)
    found = traffic(*texts.split("; "))
    assert [access.kind for access in found.accesses] == wanted.split()
    assert found.own.doubtful == []


def test_widths_and_forms() -> None:
    found = traffic(
        "STL.U8 [R3+UR4+-0x1], R2", "LDL.LU.64 R4, [R1+-0x8]", "STL.128 [UR4], R4", "LDL.S16 R1, [0x8]", "EXIT"
    )
    assert [(a.bytes, a.form, a.slot, a.last_use) for a in found.accesses] == [
        (1, "register+uniform", None, False),
        (8, "stack", -8, True),
        (16, "uniform", None, False),
        (2, "absolute", None, False),
    ]


def test_callees_in_the_listing_are_apart() -> None:
    found = traffic(
        STORE, REFILL, "CALL.REL.NOINC 0x40", "EXIT", "IADD3 R1, R1, -0x10, RZ", STORE, REFILL, "RET.REL.NODEC R4 0x0"
    )
    assert [access.part for access in found.accesses] == [0, 0, 1, 1]
    assert found.own.spill.accesses == 2
    assert (found.spill.loads, found.of("unknown").loads) == (1, 1)  # it may be a helper of ptxas: no log counts those
    assert [each.pair for each in found.bounds("entry")] == [(4, 4), (8, 8)]


def test_a_callees_refill_is_a_spill_of_its_caller() -> None:
    """ptxas allocates registers across calls: the store is the kernel's, the refill its callee's."""
    found = traffic(
        "STL [R1+0x4], R2", STORE, REFILL, "CALL.REL.NOINC 0x50", "EXIT", "LDL.LU R2, [R1+0x4]", "RET.REL.NODEC R4 0x0"
    )
    assert [access.kind for access in found.accesses if not access.part] == ["spill"] * 3


def test_a_function_that_is_only_called_by_address() -> None:
    found = traffic(
        STORE,
        REFILL,
        "CALL.REL.NOINC R8 0x0",
        "EXIT",
        "IADD3 R1, R1, -0x8, RZ",
        "STL [R1], R2",
        "LDL R2, [R1]",
        "RET.REL.NODEC R4 0x0",
        "IADD3 R1, R1, -0x8, RZ",
        "STL [R1], R2",
        "RET.REL.NODEC R4 0x0",
    )
    assert [access.part for access in found.accesses] == [0, 0, 1, 1, 2]
    assert found.own.spill.accesses == 2


def test_a_device_function_without_a_frame_loads_arguments() -> None:
    found = traffic("LDL R2, [R1]", "LDL R3, [R1+0x4]", "RET.REL.NODEC R4 0x0")
    assert found.frame is not None
    assert found.frame.accesses == 0


def test_a_device_function_that_calls_nothing_stores_no_arguments() -> None:
    """Annotated code; its array is stored by constant indices, and loaded by another."""
    kernels = scan(FIXTURES / "binary" / "relocatable-13.5.a.zst").kernels
    (external,) = (each.sass for each in kernels if each.key.symbol == "_Z8externalfPf" and each.sass)
    found = [(each.store, each.bytes, each.slot, each.kind) for each in external.local.accesses]
    assert found == [(True, 16, 0, "array"), (True, 16, 16, "array"), (False, 4, None, "array")]


def test_a_call_that_never_returns_is_a_jump() -> None:
    found = traffic(STORE, "CALL.REL.NOINC 0x30", "EXIT", REFILL, "EXIT")
    assert {access.part for access in found.accesses} == {0}
    assert found.own.spill.accesses == 2


def test_a_device_function_has_a_frame() -> None:
    """ptxas counts saved registers as its spills; what the caller left on the stack above the frame is none."""
    found = traffic(
        "IADD3 R1, PT, PT, R1, -0x10, RZ", STORE, "LDL R2, [R1+0x8]", "LDL R3, [R1+0x10]", "RET.REL.NODEC R4 0x0"
    )
    assert found.frame
    assert (found.frame.store_bytes, found.frame.load_bytes) == (4, 4)
