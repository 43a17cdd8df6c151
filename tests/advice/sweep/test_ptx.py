"""Bounds in PTX, read and edited."""

from __future__ import annotations

import pytest

from spillscan.advice.sweep import ptx
from spillscan.advice.sweep.settings import AS_IS, SHARED_SPILLS, Setting

MODULE = """.version 8.0
.target sm_90a, debug
// .entry not_one() .maxntid 7 {
.extern .entry declared(.param .u64 p);
.extern .shared .align 16 .b8 pool[];
.visible .entry one(
    .param .align 8 .b8 one_param_0[16] // a comment with { and .maxntid 3
)
/* .minnctapersm 9 */
.maxntid 16, 8, 2
.minnctapersm 4
.maxclusterrank 8
{ ret; }
.entry two .reqntid 64 .explicitcluster .reqnctapercluster 2, 1, 1 .maxnreg 40 { mov.u64 %rd1, pool; }
.entry three() { ret; }
"""
CLUSTER = {"explicitcluster": 1, "reqnctapercluster": 2}
OWN = {"maxntid": 256, "minnctapersm": 4, "maxclusterrank": 8}


def test_kernels_and_their_bounds() -> None:
    found = ptx.kernels(MODULE)
    assert {name: dict(each.directives) for name, each in found.items()} == {
        "one": OWN,
        "two": {"reqntid": 64, "maxnreg": 40, **CLUSTER},
        "three": {},
    }
    assert [each.threads for each in found.values()] == [256, 64, None]
    assert [each.dynamic_shared for each in found.values()] == [False, True, False]
    assert ptx.target(MODULE) == "sm_90a"


@pytest.mark.parametrize(
    ("setting", "bounds"),
    [
        (Setting(limit=72), {"maxnreg": 72}),
        (Setting(threads=512, blocks=3), {"maxntid": 512, "minnctapersm": 3}),
        (Setting(threads=96), {"maxntid": 96}),
        (AS_IS, {}),
    ],
)
def test_bounds_replace_all_others(setting: Setting, bounds: dict[str, int]) -> None:
    """Comments, parameters, clusters and declarations stay; each kernel is confirmed to have exactly these."""
    before, after = ptx.kernels(MODULE), ptx.kernels(ptx.rewritten(MODULE, setting))
    assert {name: dict(each.directives) for name, each in after.items()} == {
        "one": bounds, "two": bounds | CLUSTER, "three": bounds,
    }  # fmt: skip
    assert all(each.has(setting, before[name]) for name, each in after.items())
    assert not any(each.has(Setting(limit=71), before[name]) for name, each in after.items())
    left = ptx.rewritten(MODULE, setting)
    for kept in ("// .entry not_one() .maxntid 7 {", "with { and .maxntid 3", "declared("):
        assert kept in left


def test_spills_to_shared_memory_keep_the_bounds() -> None:
    text = ptx.rewritten(MODULE, SHARED_SPILLS)
    assert ptx.kernels(text) == ptx.kernels(MODULE)
    assert text.count('{\n.pragma "enable_smem_spilling";') == 3


@pytest.mark.parametrize("text", [".entry k", ".entry k(", ".entry k(/*", ".entry k{.maxnreg", ".entry a " * 9])
def test_damaged_text_ends(text: str) -> None:
    for each in ptx.kernels(text).values():
        assert not each.directives
    assert ptx.rewritten(text, Setting(limit=40)).replace(".maxnreg 40\n", "") == text
