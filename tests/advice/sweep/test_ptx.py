"""Launch bounds of PTX, read and rewritten."""

from __future__ import annotations

import pytest

from spillscan.advice.sweep import ptx
from spillscan.advice.sweep.model import AS_IS, Setting
from tests.advice.sweep.support import PTX

HEAD = ".version 8.0\n.target sm_90a, debug\n.address_size 64\n"
BOUNDED = (
    HEAD
    + """
// .entry not_one() .maxntid 7 {
.extern .entry declared(.param .u64 p);
.visible .entry one(
    .param .align 8 .b8 one_param_0[16] // a comment with { and .maxntid 3
)
/* .minnctapersm 9 */
.maxntid 16, 8, 2
.minnctapersm 4
.pragma "used_bytes_mask .maxnreg 3";
{ ret; }
.entry two .reqntid 64 .explicitcluster .maxnreg 40 { ret; }
.entry three() { ret; }
"""
)


def test_it_reads_bounds() -> None:
    one, two, three = ptx.entries(BOUNDED)
    assert (one.symbol, one.max_threads, one.min_blocks, one.max_registers) == ("one", 256, 4, None)
    assert (two.symbol, two.required_threads, two.max_registers, two.threads) == ("two", 64, 40, 64)
    assert (three.symbol, three.threads, three.overrides_cap) == ("three", None, "")
    assert one.overrides_cap == "__launch_bounds__(256, 4)"
    assert ptx.target(BOUNDED) == "sm_90a"


def test_bounds_take_the_place_of_all() -> None:
    text = ptx.rewritten(BOUNDED, Setting(kind="bounds", threads=128, blocks=8))
    assert [(each.max_threads, each.required_threads, each.min_blocks) for each in ptx.entries(text)] == [
        (128, None, 8)
    ] * 3
    assert all(each.max_registers is None for each in ptx.entries(text))
    for kept in (
        "// .entry not_one() .maxntid 7 {",
        ".explicitcluster",
        "used_bytes_mask .maxnreg 3",
        "/* .minnctapersm 9 */",
    ):
        assert kept in text


def test_maxnreg_leaves_a_required_block_size() -> None:
    text = ptx.rewritten(BOUNDED, Setting(kind="maxnreg", registers=72))
    assert [(each.threads, each.min_blocks, each.max_registers) for each in ptx.entries(text)] == [
        (None, None, 72),
        (64, None, 72),
        (None, None, 72),
    ]


@pytest.mark.parametrize("setting", [AS_IS, Setting(kind="cap", registers=64)])
def test_other_settings_change_nothing(setting: Setting) -> None:
    assert ptx.rewritten(BOUNDED, setting) is BOUNDED


def test_a_real_module() -> None:
    text = PTX.read_text()
    assert len(ptx.entries(text)) == text.count(".entry ") == 12
    twice = ptx.rewritten(
        ptx.rewritten(text, Setting(kind="maxnreg", registers=32)), Setting(kind="bounds", threads=64)
    )
    assert twice.replace(".maxntid 64, 1, 1\n", "").count(".max") == 0
    assert {each.threads for each in ptx.entries(twice)} == {64}
