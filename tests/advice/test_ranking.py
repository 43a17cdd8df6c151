"""Families in the order of their spill cost."""

from __future__ import annotations

import pytest

from spillscan import scan
from spillscan.advice.profile.launches import read_profiles
from spillscan.advice.profile.matching import matched
from spillscan.advice.ranking import ranked
from spillscan.model.code import SassStats
from spillscan.model.local import Group, LocalTraffic
from spillscan.naming import Names
from spillscan.occupancy.launches import LaunchMap, parse_launch
from spillscan.reading.inputs.paths import expand
from tests.conftest import FIXTURES
from tests.reporting import kernel

MAPPED = LaunchMap((parse_launch("*=256"),))
NCU = FIXTURES / "ncu"


def code(spilled: dict[int, int], **more: object) -> SassStats:
    """Machine code that spills: bytes by loop depth."""
    groups = tuple((Group("spill", True, size, depth, False), 1) for depth, size in spilled.items())
    return SassStats(instructions=8, code_bytes=128, opcodes=(("STL", 8),), local=LocalTraffic(kept=groups), **more)  # type: ignore[arg-type]


def names(*kernels: object) -> Names:
    return Names([each.named_by for each in kernels])  # type: ignore[attr-defined]


def test_a_loop_costs_more_than_many_bytes() -> None:
    plain = kernel("plain", 96, sass=code({0: 192}))
    looped = kernel("looped", 12, sass=code({2: 24}))
    logged = kernel("logged", 150)
    clean = kernel("clean")
    found = ranked([plain, clean, looped, logged], names(plain, clean, looped, logged), LaunchMap())
    assert [(each.family, each.cost) for each in found] == [("looped", 2400), ("logged", 300), ("plain", 192)]
    assert sum(each.share for each in found) == pytest.approx(1)


def test_families_are_ranked_as_one() -> None:
    two = [kernel(f"_Z4gemmILi{size}EEvPf", 40, sass=code({1: 80})) for size in (4, 8)]
    one = kernel("other", 60, sass=code({1: 120}))
    first, second = ranked([one, *two], names(one, *two), LaunchMap())
    assert (first.family, len(first.kernels), first.cost) == ("gemm", 2, 1600)
    assert second.family == "other"


def test_low_occupancy_comes_last_and_kernels_without_a_fix_are_omitted() -> None:
    spills = kernel("spills", 8, registers=32)
    wide, wider, full = (kernel(f"k{n}", registers=n) for n in (72, 128, 32))
    every = [full, wide, wider, spills]
    assert [each.family for each in ranked(every, names(*every), MAPPED)] == ["spills", "k128", "k72"]
    assert [each.about for each in ranked(every, names(*every), LaunchMap())] == ["spills"], "no launch, no advice"


def test_a_profile_ranks_by_time() -> None:
    build = scan(str(NCU / "demo-13.0.log"))
    profile = matched(read_profiles(expand([str(NCU / "demo-sections.csv.zst")]))[0], build)
    entries = Names([each.named_by for each in build.kernels])
    found = [each for each in ranked(build.kernels, entries, LaunchMap(), profile) if each.about == "spills"]
    spent = [each.spill_ns or 0 for each in found]
    assert spent == sorted(spent, reverse=True)
    assert found[0].family == "gemm88_min8_spill"
    assert 1.0e6 < (found[0].spill_ns or 0) < (found[0].time_ns or 0) < 1.8e6
