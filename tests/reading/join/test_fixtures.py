"""Kernels of a log and functions of a dump become one; what contradicts is said, with both places."""

from __future__ import annotations

from msgspec.structs import replace

from spillscan.model import Kernel, KernelKey, Origin, Usage
from spillscan.model.code import FunctionUsage, SassFunction, SassStats
from spillscan.model.local import LocalAccess, LocalTraffic
from spillscan.reading.join.code import attach_code

LOG, DUMP = Origin(input="build.log", line=7), Origin(input="x.sass", line=12, format="sass")


def access(address: int, slot: int, *, store: bool, kind: str = "spill") -> LocalAccess:
    return LocalAccess(
        address=address,
        line=None,
        store=store,
        bytes=4,
        form="stack",
        slot=slot,
        last_use=not store,
        predicated=False,
        kind=kind,  # type: ignore[arg-type]
        depth=0,
        part=0,
    )


def function(*accesses: LocalAccess, symbol: str = "k", arch: str = "sm_90", identifier: str = "") -> SassFunction:
    local = LocalTraffic(accesses=accesses, evidence="last-use" if accesses else "none")
    stats = SassStats(instructions=9, code_bytes=144, opcodes=(("NOP", 9),), local=local, registers=32, origin=DUMP)
    return SassFunction(symbol=symbol, arch=arch, role="entry", member=0, identifier=identifier, stats=stats)


def kernel(stores: int | None, loads: int | None, *, registers: int = 32, unit: str = "") -> Kernel:
    return Kernel(
        key=KernelKey(symbol="k", arch="sm_90", unit=unit),
        role="entry",
        usage=Usage(registers=registers, spill_store_bytes=stores, spill_load_bytes=loads),
        origins=(LOG,),
    )


SPILL = (access(0, 8, store=True), access(16, 8, store=False))


def test_the_log_agrees() -> None:
    (joined,), issues = attach_code([kernel(4, 4)], [function(*SPILL)])
    assert not issues
    assert joined.sass
    assert joined.sass.local.evidence == "last-use+log"
    assert joined.origins == (LOG, DUMP)


def test_the_log_disagrees() -> None:
    (joined,), issues = attach_code([kernel(8, 4)], [function(*SPILL)])
    assert [issue.code for issue in issues] == ["spill-mismatch"]
    assert "(-4, +0)" in issues[0].message
    assert "build.log:7" in issues[0].message
    assert "x.sass:12" in issues[0].message
    assert joined.sass
    assert joined.sass.local.evidence == "last-use"


def test_the_log_decides() -> None:
    """Slots below the lowest refill are spills as well, where only that makes the bytes of the log."""
    more = (access(32, 4, store=True, kind="array"), access(48, 4, store=False, kind="array"))
    array = access(64, 0, store=True, kind="array")
    (joined,), issues = attach_code([kernel(8, 8)], [function(array, *more, *SPILL)])
    assert not issues
    assert joined.sass
    local = joined.sass.local
    assert local.evidence == "log"
    assert (local.spill.store_bytes, local.spill.load_bytes) == (8, 8)
    assert local.of("array").stores == 1
    assert sum(local.of(kind).accesses for kind in ("spill", "array", "frame", "unknown")) == local.total.accesses  # type: ignore[arg-type]


def test_registers_contradict() -> None:
    _, issues = attach_code([kernel(None, None, registers=40)], [function()])
    assert [issue.code for issue in issues] == ["registers-mismatch"]


def test_missing() -> None:
    kernels, issues = attach_code([kernel(0, 0)], [function(symbol="other")])
    assert [issue.code for issue in issues] == ["not-in-dump", "not-in-log"]
    assert [k.key.symbol for k in kernels] == ["k", "other"]


def test_another_arch_is_not_missing() -> None:
    _, issues = attach_code([kernel(0, 0)], [function(arch="sm_80")])
    assert [issue.code for issue in issues] == ["not-in-log"]


def test_units_decide() -> None:
    both = [function(*SPILL, identifier="src/a.cu"), function(identifier="src/b.cu")]
    kernels, _ = attach_code([kernel(0, 0, unit="obj/b.cu.o")], both)
    assert kernels[0].sass
    assert kernels[0].sass.local.total.accesses == 0


def test_a_dump_alone() -> None:
    kernels, issues = attach_code([], [function(*SPILL), function()])
    assert not issues
    assert len(kernels) == 2
    assert len({k.key for k in kernels}) == 2


def test_a_listing_fills_in() -> None:
    listing = FunctionUsage(
        symbol="k",
        arch="sm_90",
        identifier="",
        usage=Usage(registers=33, cumulative_stack_bytes=8),
        dynamic_stack=False,
        origin=replace(DUMP, format="res_usage"),
    )
    (joined,), issues = attach_code([kernel(0, 0)], [listing])
    assert (joined.usage.stack_bytes, joined.usage.cumulative_stack_bytes) == (None, 8)
    assert joined.usage.registers == 32
    assert [issue.code for issue in issues] == ["registers-mismatch"]
