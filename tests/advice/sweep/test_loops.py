"""What the loops of the first point without spills hold more than those of the next."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from spillscan.advice.sweep import toolkits
from spillscan.advice.sweep.loops import grown, instructions_in_loops, spill_free
from spillscan.advice.sweep.model import AS_IS, Setting
from tests.advice.sweep.support import RELEASE, point

IT = "cap 48, the first without spills, has 147 instructions in loops, 4 more than cap 56"


@pytest.mark.parametrize(
    ("rows", "counts", "said"),
    [
        # (cap, bytes of spills), instructions in loops by cap
        ([(40, 80), (48, 0), (56, 0)], {48: 147, 56: 143}, IT),
        ([(56, 0), (48, 0), (40, 80), (96, 0)], {48: 147, 56: 143}, IT),
        ([(40, 80), (48, 0), (56, 0)], {48: 143, 56: 143}, ""),
        ([(40, 80), (48, 0), (56, 0)], {48: 140, 56: 143}, ""),
        ([(40, 80), (48, 0), (56, 0)], {48: 147}, ""),
        ([(40, 80), (48, 0)], {48: 147}, ""),
        ([(48, 0), (56, 0)], {48: 147, 56: 143}, ""),
        ([(40, 80), (48, 8)], {}, ""),
        ([], {}, ""),
    ],
)
def test_how_many_more(rows: list[tuple[int, int]], counts: dict[int, int], said: str) -> None:
    points = [point(cap, 8, spills=spills) for cap, spills in rows]
    assert grown(points, lambda each: counts.get(each.registers or 0)) == said


def test_of_equal_registers_the_kernel_as_it_is_then_the_least_cap_is_named() -> None:
    caps = [replace(point(118, 8), setting=Setting(kind="cap", registers=cap)) for cap in (255, 128, 120)]
    assert [each.setting.registers for each in spill_free(caps)] == [120, 128, 255]
    assert spill_free([*caps, replace(caps[0], setting=AS_IS)])[0].setting == AS_IS
    assert spill_free([replace(caps[0], overridden="__launch_bounds__(64)")]) == []


LOOP = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 to, .param .u32 times) {
  .reg .u32 %r<4>; .reg .u64 %d<2>; .reg .pred %p<2>;
  ld.param.u64 %d1, [to]; ld.param.u32 %r1, [times]; mov.u32 %r2, 0;
$again:
  .pragma "nounroll";
  BODY
  add.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, %r1; @%p1 bra $again;
  ret;
}
"""


def test_instructions_in_loops_are_counted_each_once(tmp_path: Path) -> None:
    """One store more in the source is one instruction more; outside of the loop it is none."""
    store = "st.volatile.global.u32 [%d1], %r2;"
    found = [
        instructions_in_loops(compiled(text, tmp_path), "k")
        for text in (
            LOOP.replace("BODY", store),
            LOOP.replace("BODY", store * 4),
            LOOP.replace("BODY", store).replace("  ret;", f"{store * 3} ret;"),
        )
    ]
    first = found[0]
    assert first is not None
    assert first > 1
    assert found == [first, first + 3, first]


def compiled(text: str, folder: Path) -> bytes:
    (folder / "k.ptx").write_text(text)
    (found,) = toolkits.choose([RELEASE])
    subprocess.run([found.ptxas, "-arch=sm_90", "k.ptx", "-o", "k.cubin"], cwd=folder, check=True)
    return (folder / "k.cubin").read_bytes()


def test_where_it_is_not_known(tmp_path: Path) -> None:
    cubin = compiled(LOOP.replace("BODY", ""), tmp_path)
    assert instructions_in_loops(cubin, "other") is None
    assert instructions_in_loops(b"no cubin", "k") is None
    assert instructions_in_loops(cubin[: len(cubin) // 2], "k") is None
    straight = LOOP.replace("@%p1 bra $again;", "").replace("BODY", "")
    assert instructions_in_loops(compiled(straight, tmp_path), "k") == 0
