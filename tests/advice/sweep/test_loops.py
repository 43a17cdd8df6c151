"""What the loops of the first point without spills hold more than those of the next."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from spillscan.advice.sweep import toolkits
from spillscan.advice.sweep.loops import Loops, grown, loops_of, spill_free
from spillscan.advice.sweep.model import AS_IS, Setting
from tests.advice.sweep.support import RELEASE, point

IT = "cap 48, the first without spills, has 147 instructions in loops, 4 more than cap 56"
WAITS = "need a result of the 4 before"


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
    loops = {cap: Loops(number, 0) for cap, number in counts.items()}
    assert grown(points, lambda each: loops.get(each.registers or 0)) == said


@pytest.mark.parametrize(
    ("here", "there", "said"),
    [
        ((147, 103), (143, 77), f"{IT}; 103 of them {WAITS}, 26 more"),
        ((147, 80), (143, 77), IT),
        (
            (143, 103),
            (143, 77),
            "cap 48, the first without spills, has"
            f" 103 of 143 instructions in loops that {WAITS}, 26 more than at cap 56",
        ),
        ((143, 70), (143, 77), ""),
        ((0, 0), (0, 0), ""),
    ],
)
def test_how_many_more_wait(here: tuple[int, int], there: tuple[int, int], said: str) -> None:
    points = [point(40, 8, spills=80), point(48, 8, spills=0), point(56, 8, spills=0)]
    loops = {48: Loops(*here), 56: Loops(*there)}
    assert grown(points, lambda each: loops.get(each.registers or 0)) == said


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
        loops_of(compiled(text, tmp_path), "k")
        for text in (
            LOOP.replace("BODY", store),
            LOOP.replace("BODY", store * 4),
            LOOP.replace("BODY", store).replace("  ret;", f"{store * 3} ret;"),
        )
    ]
    numbers = [each.instructions for each in found if each is not None]
    assert numbers[0] > 1
    assert numbers == [numbers[0], numbers[0] + 3, numbers[0]]


def test_instructions_that_need_one_of_the_four_before(tmp_path: Path) -> None:
    """Each of a chain of eight but the first, which takes what the last turn left."""
    chain = (
        "".join(f"mad.lo.u32 %r3, %r3, %r3, {number};" for number in range(1, 9)) + "st.volatile.global.u32 [%d1], %r3;"
    )
    own = "st.volatile.global.u32 [%d1], %r2;"
    some, none = (loops_of(compiled(LOOP.replace("BODY", body), tmp_path), "k") for body in (chain, own))
    assert some is not None
    assert none is not None
    assert some.waiting == none.waiting + 7


def compiled(text: str, folder: Path) -> bytes:
    (folder / "k.ptx").write_text(text)
    (found,) = toolkits.choose([RELEASE])
    subprocess.run([found.ptxas, "-arch=sm_90", "k.ptx", "-o", "k.cubin"], cwd=folder, check=True)
    return (folder / "k.cubin").read_bytes()


def test_where_it_is_not_known(tmp_path: Path) -> None:
    cubin = compiled(LOOP.replace("BODY", ""), tmp_path)
    assert loops_of(cubin, "other") is None
    assert loops_of(b"no cubin", "k") is None
    assert loops_of(cubin[: len(cubin) // 2], "k") is None
    straight = LOOP.replace("@%p1 bra $again;", "").replace("BODY", "")
    assert loops_of(compiled(straight, tmp_path), "k") == Loops(0, 0)
