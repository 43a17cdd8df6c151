"""A cubin gives what cuobjdump, nvdisasm and ptxas's own log say of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spillscan.model.code import FunctionUsage, SassFunction
from spillscan.model.local import LocalAccess
from spillscan.reading.binary.cubin import Cubin
from spillscan.reading.binary.elf import Elf
from spillscan.reading.binary.window import Window
from spillscan.reading.inputs.source import Source
from tests.conftest import FIXTURES, read_any
from tests.reading.binary.support import FOLDER, dumped, functions, scanned, stored, with_callees, without_place

CUBINS = sorted(path.name.removesuffix(".cubin.zst").removeprefix("sass-") for path in FOLDER.glob("sass-*.cubin.zst"))
SASS = FIXTURES / "sass"


def of_kind(pattern: str) -> list[tuple[str, Path]]:
    """(arch and release, text of the same cubin) of each that there is."""
    found = [(name, path) for name in CUBINS for path in SASS.glob(pattern.format(name))]
    assert found
    return found


def test_there_are_cubins_of_both_layouts_and_both_encodings() -> None:
    layouts = {Cubin(Window(stored(f"sass-{name}.cubin"))).new_layout for name in CUBINS}
    assert layouts == {True, False}
    assert {"sm_52", "sm_90a"} <= {name.split("-")[0] for name in CUBINS}


def places(accesses: tuple[LocalAccess, ...]) -> list[tuple[object, ...]]:
    return [(a.address, a.store, a.bytes, a.form, a.slot, a.last_use, a.predicated, a.depth, a.part) for a in accesses]


@pytest.mark.parametrize(("name", "dump"), of_kind("cuobjdump-{}.sass.zst"))
def test_equals_the_disassembly(name: str, dump: Path) -> None:
    ours = {function.symbol: function for function in functions(f"sass-{name}.cubin")}
    theirs = {function.symbol: function for function in dumped(dump)}
    assert ours.keys() == theirs.keys()
    for symbol, function in theirs.items():
        mine = ours[symbol]
        assert mine.stats.opcodes == function.stats.opcodes
        assert mine.stats.instructions == function.stats.instructions
        assert mine.stats.code_bytes == function.stats.code_bytes
        assert places(mine.stats.local.accesses) == places(function.stats.local.accesses)
        assert function.role in (mine.role, "unknown")


@pytest.mark.parametrize(("name", "dump"), of_kind("nvdisasm-c-{}.sass"))
def test_classes_equal_those_of_nvdisasm(name: str, dump: Path) -> None:
    ours = {function.symbol: function.stats.local for function in functions(f"sass-{name}.cubin")}
    annotated = False
    for function in dumped(dump):
        local = function.stats.local
        mine = ours[function.symbol]
        assert [access.kind for access in mine.accesses] == [access.kind for access in local.accesses]
        assert mine.frame == local.frame
        annotated = annotated or local.evidence == "annotation"
        assert mine.evidence in {local.evidence, "annotation"}
    assert annotated == (name.endswith("13.5"))


def listed(path: Path) -> list[FunctionUsage]:
    """Values of a resource listing."""
    from spillscan.reading import disassembly as sass

    with Source(str(path)).open() as stream:
        return [item for item in sass.reader(stream.chunks(), path.name) if isinstance(item, FunctionUsage)]


@pytest.mark.parametrize(("name", "listing"), of_kind("res-usage-{}.txt"))
def test_resources_equal_the_listing(name: str, listing: Path) -> None:
    number = int(re.sub(r"\D", "", name.split("-", maxsplit=1)[0]))
    ours = {function.symbol: function.usage for function in functions(f"sass-{name}.cubin")}
    theirs = listed(listing)
    assert len(theirs) == len(ours)
    for function in theirs:
        mine, usage = ours[function.symbol], function.usage
        assert mine is not None
        assert (mine.registers, mine.cumulative_stack_bytes, mine.local_bytes) == (
            usage.registers,
            usage.cumulative_stack_bytes,
            usage.local_bytes,
        )
        assert usage.stack_bytes == (0 if usage.cumulative_stack_bytes == 0 else None), "it may be its callees'"
        if usage.shared_bytes is None:
            assert number >= 90, "the listing of a bare cubin does not name the arch, nor whether it counts the reserve"
        else:
            assert mine.shared_bytes == usage.shared_bytes
        assert mine.constant_bytes == usage.constant_bytes


@pytest.mark.parametrize("name", CUBINS)
def test_values_equal_the_compilers_log(name: str) -> None:
    arch, release = name.split("-")
    log = [k for k in read_any(SASS / f"ptxas-{release}.log").kernels if k.key.arch == arch and k.role == "entry"]
    ours = {function.symbol: function for function in functions(f"sass-{name}.cubin")}
    assert log
    spilling = 0
    for kernel in log:
        mine = ours[kernel.key.symbol]
        assert mine.arch == arch
        assert mine.role == "entry"
        assert mine.usage is not None
        reported, usage = kernel.usage, mine.usage
        assert (usage.registers, usage.stack_bytes) == (reported.registers, reported.stack_bytes)
        assert usage.shared_bytes == (reported.shared_bytes or 0)
        assert reported.cumulative_stack_bytes in (None, usage.cumulative_stack_bytes)
        assert reported.barriers in (None, usage.barriers)
        assert set(reported.constant_bytes or ()) <= set(usage.constant_bytes or ())
        own = mine.stats.local.own.spill
        assert (own.store_bytes, own.load_bytes) == reported.spills
        annotated = mine.stats.local.evidence == "annotation"
        assert usage.spills == (reported.spills if annotated or not mine.stats.local.accesses else None)
        spilling += reported.spills != (0, 0)
    assert spilling


def by_symbol(name: str) -> dict[str, SassFunction]:
    return {function.symbol: function for function in functions(name)}


@pytest.mark.parametrize(("release", "archs"), [("12.4", {"sm_80"}), ("12.6", {"sm_80"}), ("13.5", {"sm_120"})])
def test_launch_bounds_are_those_of_the_source(release: str, archs: set[str]) -> None:
    found = by_symbol(f"bounds-{release}.cubin")
    source = (FIXTURES / "sources" / "bounds.cu").read_text()
    declared = re.findall(r"__launch_bounds__\((\d+)[^)]*\)\s*(\w+)\(", source)
    assert len(declared) > 2
    assert {function.arch for function in found.values()} == archs
    for threads, symbol in declared:
        bounds = found[symbol].launch_bounds
        assert bounds is not None
        assert bounds.threads == bounds.max_threads == int(threads)


def test_spills_to_shared_memory_are_counted() -> None:
    found = by_symbol("shared-spills-13.5.cubin")
    assert found["smem_spill_64"].stats.shared_spills
    assert not found["smem_spill_64"].stats.local.spill.accesses
    assert found["smem_spill_off"].stats.shared_spills == 0
    log = read_any(FIXTURES / "nvcc" / "smem-spill-13.5.log").kernels
    reported = {kernel.key.symbol: kernel.usage for kernel in log if kernel.key.arch == "sm_100"}
    assert reported.keys() == found.keys()
    for symbol, function in found.items():
        assert function.usage is not None
        assert function.usage.spills == reported[symbol].spills
        assert function.usage.shared_bytes == (reported[symbol].shared_bytes or 0)


def test_toolkit_and_options_are_reported() -> None:
    cubin = Cubin(Window(stored("sass-sm_90a-13.5.cubin")))
    new = cubin.maker
    assert new is not None
    assert cubin.toolkit[:2] == (13, 5)
    assert new.tool == "ptxas"
    assert "-maxrregcount=32" in new.options.replace(" 32", "=32")
    assert Cubin(Window(stored("sass-sm_80-12.3.cubin"))).toolkit == (12, 3)


def test_without_an_opcode_table_the_resources_are_still_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from spillscan.reading.binary import function_records
    from tests.reading.binary.support import scanned

    known = by_symbol("sass-sm_80-13.5.cubin")
    monkeypatch.setattr(function_records, "table", lambda number: None)
    found, issues = scanned(stored("sass-sm_80-13.5.cubin"))
    assert [issue.code for issue in issues] == ["unknown-arch"]
    for function in found:
        assert function.usage is not None
        assert function.usage.registers == known[function.symbol].stats.registers
        assert function.usage.spills is None
        assert function.stats.opcodes == ()


@pytest.mark.parametrize(
    "name", ["sass-sm_52-12.3.cubin", "callees-12.4.cubin", "sass-sm_120-13.5.cubin", "callees-13.5.cubin"]
)
def test_no_flipped_bit_in_the_name_of_a_section_changes_a_value_unseen(name: str) -> None:
    """Sections of a function have its name; their headers name its section, too."""
    data = stored(name)
    elf = Elf(Window(data))
    begin = elf.sections[names].offset if (names := elf.index(b".shstrtab")) is not None else 0
    places = {
        begin + start + at
        for (start, *_), title in zip(elf.sections, elf.names, strict=True)
        if title.startswith((b".nv.constant", b".nv.shared", b".nv.info."))
        for at in range(14)
    }
    wanted = [without_place(function) for function in with_callees(name)]
    for number, place in enumerate(sorted(places)[::3]):
        flipped = bytearray(data)
        flipped[place] ^= 1 << number % 8
        found, issues = scanned(bytes(flipped))
        assert [without_place(each) for each in found] == wanted or any(each.severity == "error" for each in issues)
