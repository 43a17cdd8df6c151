"""Fixes of one kernel: what is a fix, an option or a try, and what each names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from spillscan import scan
from spillscan.advice.fixes import FEWER, Goal, Need, fixes, of_occupancy, registers_needed, wanted_by
from spillscan.advice.sweep.curves import Curve, Point
from spillscan.advice.sweep.proposals import refusal
from spillscan.advice.sweep.settings import AS_IS, SHARED_SPILLS, Setting
from spillscan.advice.sweep.trials import Effects, Trial
from spillscan.judging.rules import all_rules
from spillscan.model import Kernel, Launch, LaunchBounds
from spillscan.model.code import Maker, SassStats, WarpRole
from spillscan.model.local import Group, LocalTraffic, Traffic
from spillscan.naming import Names
from spillscan.occupancy import occupancy
from spillscan.occupancy.summary import summarise
from spillscan.reading.binary.fetch import pressures_of
from spillscan.reports.sweep import title
from tests.reading.binary.support import stored
from tests.reporting import kernel


def launch(threads: int, source: Any = "policy", dynamic: int | None = 0) -> Launch:
    return Launch(threads_per_block=threads, source=source, dynamic_shared_bytes=dynamic)


def compiled(options: str = "", version: str = "13.0.88", threads: int | None = None, **more: Any) -> Kernel:
    """A kernel of a binary that spills."""
    registers, role = more.pop("registers", 40), more.pop("role", "entry")
    code = SassStats(
        instructions=8,
        code_bytes=128,
        opcodes=(("STL", 8),),
        local=LocalTraffic(kept=((Group("spill", True, 8, 0, False), 1),)),
        maker=Maker(tool="ptxas", version=version, options=options),
        **more,
    )
    bounds = None if threads is None else LaunchBounds(max_threads=threads)
    return replace(
        kernel("k", 8, registers=registers, sass=code, launch_bounds=bounds, dynamic_shared=False), role=role
    )


ROLE = WarpRole(address=16, registers=216, follows=False, spill=Traffic(stores=2, store_bytes=8), local=Traffic())
IDLE, SPARE = (replace(ROLE, address=32, registers=registers, spill=Traffic()) for registers in (32, 40))


@pytest.mark.parametrize(
    ("found", "launched", "kind", "text"),
    [
        (kernel("k", 160, registers=64), launch(256), "try", "__launch_bounds__(256, 3): up to 80 registers, 4 →"),
        (kernel("k", 160, registers=64), launch(256, dynamic=None), "try", "__launch_bounds__(256, 3): up to 80"),
        (kernel("k", 160, registers=64, final=True), launch(256), "try", FEWER),  # relocatable, callees unknown
        (kernel("k", 160, registers=64), launch(1024), "try", "at most 896 threads per block: up to 72 registers"),
        (kernel("k", 160, registers=40), None, "try", "__maxnreg__(48) or higher in place of launch bounds; --launch"),
        (kernel("k", 160, registers=63, arch="sm_30"), None, "try", FEWER),
        (kernel("k", 160, registers=60, arch="sm_30"), None, "try", "__maxnreg__(63) in place of launch bounds"),
        (kernel("k", 160, registers=255), launch(128), "try", FEWER),
        (compiled("-arch sm_90", register_limit=40), None, "try", "__maxnreg__(48) or higher; --launch"),
        (compiled("-arch sm_90", version="12.3.107"), None, "try", "-maxrregcount=48 or higher for its source file"),
        (compiled(threads=256, register_limit=40), None, "try", "__maxnreg__(48) or higher in place of launch"),
        (compiled("-arch sm_90", register_limit=40), launch(256), "try", "__launch_bounds__(256, 5) in place of __max"),
        (compiled(register_limit=40), launch(256), "try", "__launch_bounds__(256, 5) in place of any __maxnreg__: up"),
        (compiled("-maxrregcount=40"), launch(256), "try", "__launch_bounds__(256, 5): up to 48 registers, 6 →"),
        (compiled("-v -g"), launch(256), "fix", "check a build without -G"),
        (compiled(roles=(ROLE, SPARE)), launch(384), "try", "more registers for the warps that spill (setmaxnreg)"),
        (compiled(roles=(ROLE, SPARE)), None, "try", FEWER),  # how many warpgroups share them?
        (compiled(roles=(ROLE, replace(SPARE, follows=True))), launch(384), "try", FEWER),
        (compiled(roles=(ROLE, IDLE)), launch(384), "try", FEWER),
        (compiled(threads=512, registers=64), launch(512, dynamic=300_000), "fix", "at most 232,448 B of shared"),
        (compiled(role="function"), launch(256), "try", FEWER),
        (compiled("-maxrregcount=40", role="function"), None, "try", "-maxrregcount above 40 for its source file"),
    ],
)  # fmt: skip
def test_spills(found: Kernel, launched: Launch | None, kind: str, text: str) -> None:
    first = fixes(found, launched)[0]
    assert first.kind == kind
    assert first.text.startswith(text)
    assert (kind == "try") == first.text.endswith("(not tried)")


def test_a_limit_that_buys_no_block_is_lifted() -> None:
    """Shared memory allows one block with any number of registers."""
    found = compiled(threads=256, register_limit=40)
    found = replace(found, usage=replace(found.usage, shared_bytes=40_000))
    few = replace(found, usage=replace(found.usage, shared_bytes=130_000))
    text = "__launch_bounds__(256, 1): up to 255 registers at the same 1 block/SM"
    assert fixes(few, launch(256))[0] == ("fix", text)
    assert fixes(found, launch(256))[0].kind == "try"
    assert fixes(few, launch(256, dynamic=None))[0].kind == "try"


def test_callee_saved_registers() -> None:
    traffic = LocalTraffic(kept=((Group("frame", True, 8, 0, False), 1), (Group("frame", False, 8, 0, False), 1)))
    found = compiled(role="function")
    assert found.sass
    found = replace(found, sass=replace(found.sass, local=traffic))
    assert found.saves_for_callers
    assert fixes(found, None)[0].text.startswith("__forceinline__")
    assert not replace(found, role="entry").saves_for_callers
    assert not replace(found, usage=replace(found.usage, spill_load_bytes=16)).saves_for_callers


# ---- what was compiled --------------------------------------------------------------------------------------------


def point(setting: Setting, registers: int, spills: int, blocks: int | None, shared: int = 0) -> Point:
    made = kernel("k", spills, registers=registers, shared_bytes=shared)
    summary = summarise(made.usage, "sm_90", launch(256))
    assert summary.occupancy is not None
    assert blocks is not None
    return Point(
        setting=setting,
        kernel=made,
        summary=structs.replace(summary, occupancy=structs.replace(summary.occupancy, resident_blocks=blocks)),
    )


def trial(
    before: Point,
    *steps: Point,
    direction: Any = "no spills",
    shared: Point | None = None,
    effects: Effects = Effects(),  # noqa: B008
    toolkit: str = "13.0.88",
) -> Trial:
    known = dict.fromkeys([each.setting for each in (*steps, shared) if each is not None], effects)
    return Trial(points=(before, *steps), toolkit=toolkit, direction=direction, shared=shared, effects=known)


BEFORE = point(AS_IS, 64, 80, 4)
CLEAN = point(AS_IS, 56, 0, 4)
LOSES = Effects(("j (sm_90) loses blocks",))
LIMIT = Setting(limit=96)
WIDE, TIGHT = (Setting(threads=256, blocks=blocks) for blocks in (2, 5))


@pytest.mark.parametrize(
    ("made", "goal", "kinds", "text"),
    [
        (trial(BEFORE, point(WIDE, 96, 0, 2)), Goal(), ["fix"], "__launch_bounds__(256, 2): 96 registers, no spills"),
        (trial(BEFORE, point(WIDE, 96, 0, 2)), Goal(min_blocks=4), ["option"], "__launch_bounds__(256, 2)"),
        (trial(BEFORE, point(WIDE, 96, 0, 2)), Goal(max_registers=64), ["option"], "__launch_bounds__(256, 2)"),
        (trial(BEFORE, point(WIDE, 96, 8, 2)), Goal(), ["try"], FEWER),  # blocks lost for fewer spills
        (trial(BEFORE, point(WIDE, 96, 8, 4)), Goal(), ["option", "try"], "__launch_bounds__(256, 2): 96 registers, s"),
        (trial(BEFORE, point(WIDE, 96, 88, 4)), Goal(), ["try"], FEWER),
        (trial(BEFORE, shared=point(SHARED_SPILLS, 64, 0, 4)), Goal(), ["try", "fix"], FEWER),
        (trial(CLEAN, point(TIGHT, 48, 0, 5, 512), direction="more blocks"), Goal("blocks"), ["fix"],
         "__launch_bounds__(256, 5): 48 registers, no spills, 4 → 5 blocks/SM, smem 0 → 512 B"),
        (trial(CLEAN, point(TIGHT, 48, 0, 5), direction="more blocks"), Goal("blocks"), ["fix"], "__launch_bounds__"),
        (trial(CLEAN, point(TIGHT, 48, 8, 5), direction="more blocks", effects=LOSES), Goal("blocks"), ["option"], ""),
        (trial(BEFORE, point(WIDE, 96, 0, 2), effects=LOSES), Goal(), ["option"], "__launch_bounds__(256, 2): 96 reg"),
        (trial(BEFORE, point(WIDE, 96, 0, 2), effects=Effects((), ("j",))), Goal(), ["try"], "__launch_bounds__(256"),
        (trial(BEFORE, point(LIMIT, 96, 0, 2)), Goal(), ["fix"], "__maxnreg__(96): 96 registers"),
        (trial(BEFORE, point(LIMIT, 96, 0, 2), toolkit="12.3.107"), Goal(), ["try"], "-maxrregcount=96: 96 registers"),
        (trial(CLEAN, point(TIGHT, 48, 0, 4), direction="more blocks"), Goal("blocks"), [], ""),
    ],
)  # fmt: skip
def test_trials(made: Trial, goal: Goal, kinds: list[str], text: str) -> None:
    spills = 80 if goal.wanted == "spills" else 0
    found = fixes(kernel("k", spills, registers=56), launch(256), None, made, goal)
    assert [each.kind for each in found] == kinds
    assert not kinds or found[0].text.startswith(text)
    assert all("(tried, ptxas 13.0.88)" in each.text for each in found if each.kind != "try")
    assert not made.effects.get(WIDE, Effects()).worse or found[0].text.endswith("; but j (sm_90) loses blocks")
    assert not made.effects.get(WIDE, Effects()).untried or found[0].text.endswith("; not tried for j")


@pytest.mark.parametrize("name", ["sass-sm_90a-13.5.cubin", "sass-sm_80-12.3.cubin"])
def test_registers_that_end_spills_are_live_values(name: str, tmp_path: Path) -> None:
    (tmp_path / "k.cubin").write_bytes(stored(name))
    build = scan(str(tmp_path / "k.cubin"))
    held = pressures_of(build.kernels)
    spilling = [each for each in build.kernels if id(each) in held and sum(each.spills or ())]
    for each in spilling:
        pressure = held[id(each)]
        assert pressure
        assert each.sass
        assert registers_needed(each, pressure) == Need(pressure.demand(each.sass.local) or 0, "estimate")
    assert len(spilling) == 3
    assert registers_needed(kernel("k", 40), None) is None
    assert registers_needed(kernel("k", 40), None, trial(BEFORE, point(WIDE, 96, 0, 2))) == Need(96, "tried")


# ---- launches, blocks, roles --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"registers": 41, "threads_per_block": 256},
         [("try", "__launch_bounds__(256, 6): at most 40 registers, 5 → 6 blocks/SM; may spill (not tried)")]),
        ({"registers": 16, "threads_per_block": 256, "static_shared_bytes": 40_000},
         [("try", "2,112 B less shared memory per block: 5 → 6 blocks/SM; smaller tiles or fewer stages (not tried)")]),
        ({"registers": 16, "threads_per_block": 32}, [("fix", "1,024 threads per block: 64 of 64 warps resident")]),
        ({"registers": 16, "threads_per_block": 704}, [("fix", "1,024 threads per block: 64 of 64 warps resident")]),
        ({"registers": 16, "threads_per_block": 1024}, []),
        ({"registers": 16, "threads_per_block": 64, "barriers": 16},
         [("try", "at most 12 named barriers: 4 → 5 blocks/SM (not tried)")]),
        ({"registers": 153, "threads_per_block": 512},
         [("try", "at most 128 registers: __launch_bounds__(512, 1) (not tried)"),
          ("fix", "at most 384 threads per block")]),
        ({"registers": 16, "threads_per_block": 64, "dynamic_shared_bytes": 100_000},
         [("fix", "set MaxDynamicSharedMemorySize to 100,000 B")]),
        ({"registers": 16, "threads_per_block": 64, "dynamic_shared_bytes": 300_000},
         [("fix", "at most 232,448 B of shared memory per block (opt in: MaxDynamicSharedMemorySize)")]),
    ],
)  # fmt: skip
def test_blocks_and_launches(figures: dict[str, int], expected: list[tuple[str, str]]) -> None:
    assert of_occupancy(occupancy("sm_90", **figures)) == expected


def test_a_block_is_not_larger_than_launch_bounds_allow() -> None:
    small = occupancy("sm_90", registers=16, threads_per_block=32)
    assert of_occupancy(small, launch(32, "bounds")) == of_occupancy(small, launch(32, "required")) == []


def test_each_rule_gets_a_fix_of_its_own_kind() -> None:
    found = compiled(roles=(ROLE,), registers=160)
    wanted = {rule: wanted_by(rule) for rule in all_rules()}
    assert wanted["spill"] == "spills"
    assert wanted["role-registers"] == "roles"
    (of_roles,) = fixes(found, launch(384), goal=Goal("roles"))
    assert of_roles.text == "setmaxnreg values of at most 480, summed over the warpgroups (3 × 160)"
    assert fixes(found, launch(384), goal=Goal("blocks")) == fixes(found, None, goal=Goal("none")) == []
    for most, text in ((36, "__maxnreg__(32); may spill (not tried)"), (23, FEWER)):  # ptxas takes at least 24
        assert fixes(compiled(), None, goal=Goal("registers", max_registers=most)) == [("try", text)]


@pytest.mark.parametrize(("final", "tool"), [(False, "ptxas"), (None, "nvlink")])
def test_no_bounds_are_proposed_if_functions_of_other_units_are_called(final: bool | None, tool: str) -> None:
    found = replace(compiled(threads=256, register_limit=40), final=final)
    assert found.sass
    code = replace(found.sass, opcodes=(("CALL", 1),), maker=Maker(tool=tool, version="13.5.37", options=""))
    calling = replace(found, sass=code)
    assert fixes(found, launch(256))[0].text != fixes(calling, launch(256))[0].text == FEWER
    assert fixes(found, launch(256), goal=Goal("blocks")) != fixes(calling, launch(256), goal=Goal("blocks")) == []
    assert fixes(calling, None, goal=Goal("registers", max_registers=36)) == [("try", FEWER)]
    assert "functions of other units" in refusal(calling, "nvcc -c k.cu")
    points = (Point(setting=AS_IS, kernel=calling),)
    curve = Curve(input="k.cu", symbol="k", arch="sm_90", toolkit="13.5.37", launch=None, points=points)
    assert ("before the link" in title(curve, Names(["k"]))) is (final is False)
