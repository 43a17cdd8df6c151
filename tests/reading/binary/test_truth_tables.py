"""Truth tables of rules that combine several records of a cubin: one fact per row, with the expected result and the
reason. The records are typed by hand; fixtures of other tests have those of real compilers.
"""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
from msgspec import structs

from spillscan.model import LaunchBounds, Usage
from spillscan.model.code import SassFunction, SassStats
from spillscan.reading.binary.attributes import (
    FRAME_SIZE,
    MIN_STACK_SIZE,
    REGCOUNT,
    FunctionInfo,
    barriers_of,
    of_function,
)
from spillscan.reading.binary.cubin import Cubin, Function
from spillscan.reading.binary.fatbin import CUBIN, Entry
from spillscan.reading.binary.function_records import bounds_of, spills_of
from spillscan.reading.binary.images import Image, Place
from spillscan.reading.binary.records import KernelIndex
from spillscan.reading.binary.symbols import Sections
from spillscan.reading.binary.window import Window

HOME, SYMBOL = 1, 7
"""Numbers of the function's section and symbol."""
NONE_TAKEN = Usage(local_bytes=0, shared_bytes=0, constant_bytes=())


class Case(NamedTuple):
    """A cubin with one function."""

    arch: int = 80
    relocatable: bool = False
    new_layout: bool = True
    of_tiles: bool = False
    symbol: int = SYMBOL
    info: int = 0
    """Of the code section's header: registers in the high byte."""
    flags: int = 0
    """Likewise: barriers from bit 20 on."""
    registers: int | None = None
    """By attributes of its symbol, like the next two."""
    frame: int | None = None
    stack: int | None = None
    shared: tuple[int, int] | None = None
    """Bytes and alignment of its section."""
    local: int | None = None
    banks: tuple[tuple[int, int], ...] = ()


def resources(case: Case) -> tuple[Usage, bool | None]:
    cubin = Cubin.__new__(Cubin)
    cubin.number, cubin.relocatable, cubin.new_layout = case.arch, case.relocatable, case.new_layout
    cubin.elf = cast(Any, SimpleNamespace(sections=[None, SimpleNamespace(info=case.info, flags=case.flags)]))
    held = {"shared": case.shared, "local": case.local, "banks": [*case.banks] or None}
    each = {kind: {} if found is None else {HOME: found} for kind, found in held.items()}
    sections = Sections([HOME], {}, each["shared"], each["local"], each["banks"], {})  # type: ignore[arg-type]
    cubin.__dict__.update(_sections=sections, _of_tiles=case.of_tiles, _references={})
    reported = {REGCOUNT: case.registers, FRAME_SIZE: case.frame, MIN_STACK_SIZE: case.stack}
    figures = {attribute: {} if value is None else {SYMBOL: value} for attribute, value in reported.items()}
    return cubin._usage(HOME, figures, case.symbol), cubin._declares_dynamic(HOME)


TAKEN = [
    (Case(), {}, "nothing says anything: unknown, and no shared, local and constant memory"),
    (Case(registers=24), {"registers": 24}, "the attribute says it"),
    (Case(info=16 << 24 | SYMBOL), {"registers": 16}, "only the section says it"),
    (Case(registers=24, info=16 << 24 | SYMBOL), {"registers": 24}, "the attribute wins over the section"),
    (Case(registers=0, info=16 << 24 | SYMBOL), {"registers": 0}, "also where it says 0"),
    (Case(info=SYMBOL), {}, "a section that says 0 says nothing"),
    (Case(symbol=-1, registers=24, info=16 << 24), {"registers": 16}, "attributes of another's symbol are not its own"),
    (
        Case(frame=48, stack=64),
        {"stack_bytes": 48, "cumulative_stack_bytes": 64},
        "own, and of its call tree",
    ),
    (Case(frame=0, stack=0), {"stack_bytes": 0, "cumulative_stack_bytes": 0}, "0 is known"),
    (Case(stack=0xFFFFFFFF), {}, "a dynamic stack has no bound"),
    (Case(symbol=-1, frame=48, stack=64), {}, "both are the symbol's alone"),
    (Case(shared=(512, 4)), {"shared_bytes": 512}, "before sm_90 the section is what ptxas counts"),
    (Case(shared=(2048, 4)), {"shared_bytes": 2048}, "also where it is larger than the reserve of later ones"),
    (Case(arch=89, shared=(2048, 4)), {"shared_bytes": 2048}, "the last without a reserve"),
    (Case(arch=90, shared=(2048, 4)), {"shared_bytes": 1024}, "from sm_90 on it counts the driver's reserve"),
    (Case(arch=90, shared=(1024, 4)), {}, "the reserve alone is no static memory"),
    (Case(arch=90, shared=(1023, 4)), {"shared_bytes": 1023}, "less than the reserve does not hold it"),
    (
        Case(arch=90, relocatable=True, shared=(2048, 4)),
        {"shared_bytes": 2048, "dynamic_shared": None},
        "the linker adds the reserve, and decides what is dynamic",
    ),
    (Case(shared=(0, 16)), {"dynamic_shared": True}, "an empty section of this alignment: dynamic memory"),
    (Case(shared=(0, 8)), {}, "no dynamic memory is aligned less"),
    (Case(shared=(64, 16)), {"shared_bytes": 64, "dynamic_shared": None}, "static memory may be aligned so, too"),
    (
        Case(shared=(64, 16), of_tiles=True),
        {"shared_bytes": 64, "dynamic_shared": False},
        "launches of cuTile's code give none",
    ),
    (Case(shared=(0, 16), of_tiles=True), {"dynamic_shared": True}, "unless it holds nothing else"),
    (
        Case(arch=90, shared=(1024, 16)),
        {"dynamic_shared": True},
        "what is left without the reserve decides, which is nothing",
    ),
    (Case(new_layout=False, flags=5 << 20 | 6), {"barriers": 5}, "the old layout has them in the section's flags"),
    (Case(new_layout=False, flags=6), {"barriers": 0}, "where 0 is known"),
    (Case(flags=5 << 20), {}, "the new layout has them in an attribute"),
    (Case(new_layout=False, flags=0xFF << 20), {"barriers": 0x7F}, "seven bits"),
    (Case(local=96), {"local_bytes": 96}, "of code without the ABI"),
    (
        Case(banks=((3, 8), (0, 368), (2, 24))),
        {"constant_bytes": ((0, 368), (2, 24), (3, 8))},
        "each bank, in their order",
    ),
]


@pytest.mark.parametrize(("case", "fields", "why"), TAKEN)
def test_precedence_of_section_symbol_and_attribute(case: Case, fields: dict[str, Any], why: str) -> None:
    expected = {"dynamic_shared": False} | fields
    dynamic = expected.pop("dynamic_shared")
    assert resources(case) == (structs.replace(NONE_TAKEN, **expected), dynamic), why


def _sized(attribute: int, *words: int) -> bytes:
    return struct.pack("<BBH", 4, attribute, 4 * len(words)) + struct.pack(f"<{len(words)}I", *words)


def _value(attribute: int, value: int) -> bytes:
    return struct.pack("<BBH", 3, attribute, value)


SAID = [
    (b"", {}, "no records"),
    (_sized(0x05, 128, 2, 1), {"max_threads": (128, 2, 1)}, "EIATTR_MAX_THREADS"),
    (_sized(0x05, 128, 2, 1) + _sized(0x05, 64, 1, 1), {"max_threads": (64, 1, 1)}, "the last of two"),
    (_sized(0x05, 128, 2), {}, "cut short: it says nothing"),
    (_sized(0x10, 32, 1, 1), {"required_threads": (32, 1, 1)}, "EIATTR_REQNTID"),
    (_sized(0x3D, 2, 1, 1), {"cluster_blocks": (2, 1, 1)}, "EIATTR_CTA_PER_CLUSTER"),
    (
        _sized(0x10, 32, 1, 1) + _sized(0x05, 128, 2, 1),
        {"max_threads": (128, 2, 1), "required_threads": (32, 1, 1)},
        "each bound is its own",
    ),
    (_value(0x4C, 3), {"barriers": 3}, "EIATTR_NUM_BARRIERS"),
    (_value(0x4C, 0x0103), {"barriers": 3}, "its low byte alone"),
    (_value(0x4C, 3) + _value(0x4C, 1), {"barriers": 1}, "the last of two"),
    (_value(0x1B, 64), {"register_limit": 64}, "EIATTR_MAXREG_COUNT"),
    (_value(0x1B, 255), {"register_limit": 255}, "all that an instruction can name"),
    (_value(0x1B, 0), {}, "0: no limit"),
    (_value(0x1B, 64) + _value(0x1B, 255), {"register_limit": 255}, "the last of two, which takes the limit away"),
    (_sized(0x37, 126), {"toolkit": 126}, "EIATTR_CUDA_API_VERSION"),
    (_value(0x54, 0), {"sets_registers": True}, "EIATTR_REG_RECONFIG, whatever its value"),
    (_sized(0x55), {"spills": ()}, "annotations, and none"),
    (_sized(0x55, 1, 16, 1, 48), {"spills": (16, 48)}, "offsets of kind 1"),
    (_sized(0x55, 1, 16, 2, 32), {"spills": (16,)}, "another kind is no spill"),
    (_sized(0x55, 1, 16) + _sized(0x55, 1, 64), {"spills": (16, 64)}, "of two records both"),
    (_sized(0x55, 1, 16, 1), {"spills": (16,)}, "half a pair is none"),
    (_sized(0x2F, SYMBOL, 24) + _value(0x03, 9), {}, "of the module, and of no use here"),
]


@pytest.mark.parametrize(("records", "fields", "why"), SAID)
def test_records_of_a_function(records: bytes, fields: dict[str, Any], why: str) -> None:
    assert of_function(Window(records)) == structs.replace(FunctionInfo(), **fields), why


ANNOTATED = [
    ((16, 48), None, (), (16, 48), "what is annotated is a spill, whoever wrote it"),
    ((), 118, (11, 8), (), "annotations of no spill"),
    (None, 126, (), (), "its own toolkit writes them, and there are none"),
    (None, 125, (), None, "its own toolkit writes none: not known"),
    (None, 125, (13, 0, 88), None, "its own toolkit wins over that of its cubin: nvlink is another"),
    (None, 126, (12, 4), (), "likewise"),
    (None, None, (12, 6), (), "the cubin's tool writes them"),
    (None, None, (12, 5, 82), None, "it writes none"),
    (None, None, (12, 10), (), "versions are numbers"),
    (None, None, (), None, "nobody says"),
]


@pytest.mark.parametrize(("spills", "own", "version", "expected", "why"), ANNOTATED)
def test_toolkits_whose_missing_annotation_means_no_spill(
    spills: tuple[int, ...] | None, own: int | None, version: tuple[int, ...], expected: object, why: str
) -> None:
    assert spills_of(FunctionInfo(spills=spills, toolkit=own), version) == expected, why


BARRIERS = [
    (None, None, 0, "an attribute is there where there are some"),
    (None, 3, 3, "the attribute"),
    (2, None, 2, "the section's flags"),
    (2, 3, 2, "the flags win in the layout that has them"),
    (0, 3, 0, "also where they say none"),
]


@pytest.mark.parametrize(("of_section", "of_attribute", "expected", "why"), BARRIERS)
def test_barriers(of_section: int | None, of_attribute: int | None, expected: int, why: str) -> None:
    taken = structs.replace(NONE_TAKEN, barriers=of_section)
    info = FunctionInfo(barriers=of_attribute)
    assert barriers_of(taken, info) == expected, why


BOUNDS = [
    (FunctionInfo(), None, "no bounds"),
    (FunctionInfo((128, 2, 1)), LaunchBounds(max_threads=256), "the product of the dimensions"),
    (FunctionInfo(None, (32, 1, 1)), LaunchBounds(required_threads=32), "of exactly so many"),
    (FunctionInfo(None, None, (2, 2, 1)), LaunchBounds(cluster_blocks=4), "of a cluster, blocks"),
    (FunctionInfo((1024, 1, 1)), LaunchBounds(max_threads=1024), "the most of a block"),
    (FunctionInfo((1025, 1, 1)), LaunchBounds(), "no block has more: not known"),
    (
        FunctionInfo(None, (64, 64, 2)),
        LaunchBounds(required_threads=8192, required_depth=2),
        "required, and no launch succeeds",
    ),
    (FunctionInfo(None, (1 << 16, 1 << 16, 2)), LaunchBounds(), "damage"),
    (FunctionInfo((0, 1, 1)), LaunchBounds(), "none has 0"),
    (FunctionInfo(None, None, (17, 1, 1)), LaunchBounds(), "no device takes so many blocks"),
]


@pytest.mark.parametrize(("info", "expected", "why"), BOUNDS)
def test_launch_bounds(info: FunctionInfo, expected: LaunchBounds | None, why: str) -> None:
    assert bounds_of(info) == expected, why


CALLEES: list[tuple[list[tuple[int, str]], dict[int, str], str]] = [
    ([], {}, "none"),
    ([(64, "$kernel$callee")], {64: "callee"}, "ptxas's copy for this kernel"),
    ([(64, "$other$callee")], {64: ""}, "of another kernel: a part without a name"),
    ([(64, "$__internal_0_$__cuda_sm20_div_f64")], {64: ""}, "ptxas's own helper: likewise"),
    ([(64, "callee")], {64: ""}, "no copy"),
    ([(64, "$kernel$one"), (128, "$kernel$two")], {64: "one", 128: "two"}, "each where it begins"),
    ([(64, "$kernel$one"), (64, "$kernel$two")], {64: "one"}, "of two names for one place the first"),
    ([(256, "$kernel$callee")], {}, "behind the code is no part"),
    ([(240, "$kernel$callee")], {240: "callee"}, "the last instruction may be one"),
    ([(64, "$kernel$$other$callee")], {64: "$other$callee"}, "what stands behind its own prefix, as it is"),
]


@pytest.mark.parametrize(("symbols", "expected", "why"), CALLEES)
def test_callees_in_a_kernel(symbols: list[tuple[int, str]], expected: dict[int, str], why: str) -> None:
    cubin = Cubin.__new__(Cubin)
    inner = {HOME: [(begin, place) for place, (begin, _) in enumerate(symbols)]} if symbols else {}
    names = [name.encode() for _, name in symbols]
    cubin.__dict__["symbols"] = SimpleNamespace(inner=inner, name=names.__getitem__)
    function = Function("kernel", "entry", Window(bytes(256)), None, NONE_TAKEN, False, HOME)
    assert cubin.parts_of(function) == expected, why


def _image(file: Window, *, relocatable: bool) -> Image:
    entry = Entry(
        kind=CUBIN, arch=80, flags=0, identifier="", container=0, header=file, stored=file, plain_bytes=file.size
    )
    return Image(entry, Place(), file, "80", relocatable)


KERNEL, DEVICE = ("kernel", "entry"), ("device", "function")
LINKED = [
    ([KERNEL, DEVICE], "sm_80", True, [KERNEL], True, "its kernel is linked"),
    ([KERNEL, DEVICE], "sm_80", True, [KERNEL, ("lost", "function")], True, "kernels decide: the linker drops others"),
    ([KERNEL, DEVICE], "sm_80", True, [KERNEL, ("other", "entry")], False, "a kernel of it is not linked"),
    ([KERNEL, DEVICE], "sm_80", True, [DEVICE], True, "without kernels a function"),
    ([KERNEL, DEVICE], "sm_80", True, [("other", "function")], False, "none of its functions is"),
    ([KERNEL, DEVICE], "sm_80", True, [], False, "it has none"),
    ([KERNEL, DEVICE], "sm_90", True, [KERNEL], False, "linked for another architecture"),
    ([KERNEL, DEVICE], "sm_80", False, [KERNEL], False, "what is no input of the linker is stated"),
    ([], "sm_80", True, [KERNEL], False, "nothing is linked"),
]


@pytest.mark.parametrize(("linked", "arch", "relocatable", "held", "expected", "why"), LINKED)
def test_linked_code_is_not_reported_again(
    linked: list[tuple[str, Any]],
    arch: str,
    relocatable: bool,
    held: list[tuple[str, Any]],
    expected: bool,
    why: str,
) -> None:
    file, index = Window(b"file"), KernelIndex()
    stats = SassStats(instructions=0, code_bytes=0, opcodes=())
    functions = [SassFunction(symbol=symbol, arch="sm_80", role=role, member=0, stats=stats) for symbol, role in linked]
    index.add(_image(file, relocatable=False), functions)
    cubin = SimpleNamespace(functions=lambda: (SimpleNamespace(symbol=name, role=role) for name, role in held))
    assert index.is_linked(_image(file, relocatable=relocatable), arch, cast(Any, cubin)) is expected, why
    waiting = KernelIndex()
    waiting.add(_image(file, relocatable=True), functions)
    assert not waiting.is_linked(_image(file, relocatable=True), arch, cast(Any, cubin)), "it waits itself"
    assert not index.is_linked(_image(Window(b"other"), relocatable=True), arch, cast(Any, cubin)), "of another file"
