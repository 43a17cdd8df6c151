"""Truth tables of short names: types and functions by their last words, and base names in little room."""

from __future__ import annotations

from random import Random

import pytest

from spillscan.naming.columns import BRIEF, CUT, DIFFERING, shortest
from spillscan.naming.words import cut, cuts, words_of


@pytest.mark.parametrize(
    ("heads", "level", "shown"),
    [
        (["float"], DIFFERING, ["float"]),
        (["float"], BRIEF, ["f32"]),
        (["float", "double"], BRIEF, ["f32", "f64"]),
        (["float", "float*"], BRIEF, ["float", "float*"]),
        (["float const*", "float*"], DIFFERING, ["float const*", "float*"]),
        (["ns::A", "ns::B"], DIFFERING, ["A", "B"]),
        (["one::A", "two::A"], DIFFERING, ["one::A", "two::A"]),
        (["one::x::A", "two::x::A"], DIFFERING, ["one::x::A", "two::x::A"]),
        (["one::A", "two::A", "two::B"], DIFFERING, ["one::A", "two::A", "B"]),
        (["12345678"], BRIEF, ["12345678"]),
        (["123456789"], BRIEF, ["…6789"]),
        (["123456789"], DIFFERING, ["123456789"]),
        (["123456789", "223456789"], BRIEF, ["123456789", "223456789"]),
        (["4 warps", "3 stages"], BRIEF, ["4w", "3s"]),
        (["4 warps", "3 stages"], DIFFERING, ["4 warps", "3 stages"]),
        (["ns::f#2"], BRIEF, ["f"]),
        (["ns::f#1", "ns::f#2"], BRIEF, ["f#1", "f#2"]),
        (["a::b::c::d::e::f", "z::b::c::d::e::f"], DIFFERING, ["a::b::c::d::e::f", "z::b::c::d::e::f"]),
        (
            ["q::a::b::c::d::e::f", "z::a::b::c::d::e::f"],
            DIFFERING,
            ["q::a::b::c::d::e::f", "z::a::b::c::d::e::f"],
        ),
        # cut: without what all begin or end with
        (["RowMajorLayout"], CUT, ["RowMajorLayout"]),
        (["RowMajorLayout", "ColumnMajorLayout"], CUT, ["Row", "Column"]),
        (["KernelFastMode", "KernelSlowMode"], CUT, ["Fast", "Slow"]),
        (["KernelFastMode", "KernelSlowMode", "KernelFastExact"], CUT, ["FastMode", "Slow", "FastExact"]),
        (["AbcDefX", "AbcDefY"], CUT, ["X", "Y"]),
        (["short", "RowMajorLayout", "RowMajorTensor"], CUT, ["i16", "Layout", "Tensor"]),
        (["ToFooBarKernel", "OfFooBarKernel"], CUT, ["To", "Of"]),
        (["ToFooBarKernel", "InOutBarKernel"], CUT, ["ToFoo", "InOut"]),
        (["sixsix", "RowMajorTensor"], CUT, ["sixsix", "Row"]),
    ],
)
def test_shortest(heads: list[str], level: int, shown: list[str]) -> None:
    assert list(shortest(heads, level).values()) == shown


def test_shortest_names_stay_apart() -> None:
    """Whatever they are: of different names two are never shown alike."""
    chance = Random(3)
    words = ("Row", "Col", "Major", "x", "_", "ns::", "in::", "Layout", "7", "12345678901", "*", " const")
    for _ in range(400):
        heads = {"".join(chance.choices(words, k=chance.randrange(1, 6))) for _ in range(chance.randrange(1, 6))}
        for level in (DIFFERING, BRIEF, CUT):
            shown = shortest(heads, level)
            assert set(shown) == heads
            assert len(set(shown.values())) == len(heads), heads


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("DeviceScanKernel", ["Device", "Scan", "Kernel"]),
        ("scan_by_key2", ["scan", "_", "by", "_", "key2"]),
        ("GEMMKernel", ["GEMM", "Kernel"]),
        ("__k__", ["__", "k", "__"]),
        ("x86A5b", ["x86", "A5", "b"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert words_of(text) == words


COMMON = {"Kernel": 9, "Device": 5, "kernel": 9}


@pytest.mark.parametrize(
    ("base", "room", "taken", "shown"),
    [
        ("DeviceScanKernel", 16, (), "DeviceScanKernel"),
        ("DeviceScanKernel", 15, (), "DeviceScan…"),
        ("DeviceScanKernel", 11, (), "DeviceScan…"),
        ("DeviceScanKernel", 10, (), "…Scan…"),
        ("DeviceScanKernel", 6, (), "…Scan…"),
        ("DeviceScanKernel", 5, (), "De…el"),
        ("DeviceScanKernel", 11, ("DeviceScan…",), "…ScanKernel"),
        ("DeviceScanKernel", 3, (), "D…l"),
        ("scan_by_key_kernel", 18, (), "scan_by_key_kernel"),
        ("scan_by_key_kernel", 17, (), "scan…key_kernel"),
        ("scan_by_key_kernel", 12, (), "scan_by_key…"),
        ("scan_by_key_kernel", 11, (), "scan…key…"),
        ("scan_by_key_kernel", 9, (), "scan…key…"),
        ("scan_by_key_kernel", 8, (), "scan_by…"),
        ("scan_by_key_kernel", 5, (), "scan…"),
        ("scan_by_key_kernel", 4, (), "…by…"),
    ],
)
def test_cut(base: str, room: int, taken: tuple[str, ...], shown: str) -> None:
    assert cut(base, room, COMMON, taken) == shown


def test_cuts_fit_and_are_of_whole_words_where_one_fits() -> None:
    chance = Random(8)
    pieces = ("Device", "Scan", "Kernel", "_", "by", "key2", "GEMM", "x")
    for _ in range(300):
        base = "".join(chance.choices(pieces, k=chance.randrange(1, 8)))
        rooms = sorted(chance.sample(range(4, 40), 5), reverse=True)
        shown = cuts(base, rooms, COMMON)
        for room, text in zip(rooms, shown, strict=True):
            assert len(text) <= max(room, 2), (base, room)
            assert text == cut(base, room, COMMON)
            if room >= len(base) and base.strip("_"):
                assert text == base or "…" in text
