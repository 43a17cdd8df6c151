"""Loads and stores of local memory that were executed, held against those of the code; and launches without spills."""

from __future__ import annotations

import json

import pytest
from msgspec import structs

from spillscan.advice.profile.executed import executed, without_spills
from spillscan.advice.profile.exports import read_all
from spillscan.advice.profile.judged import issues, judge
from spillscan.advice.profile.matching import Match
from spillscan.advice.profile.model import Measured, Profile, ProfiledLaunch
from spillscan.cli import main
from spillscan.model import Build, Kernel
from spillscan.model.code import LocalTraffic, SassStats
from spillscan.model.local import Group
from spillscan.reading.inputs.source import expand
from tests.advice.profile.test_judging import NCU, kernel, launched

WARPS = 2 * 3 * 4
"""Of 2 x 3 blocks of 100 threads."""


def compiled(
    *groups: tuple[str, int | None, int], flow: str = "followed", calls: str = "BRA", inner: bool = False
) -> Kernel:
    """A kernel with so many (loads or stores, under so many loops, instructions)."""
    kept = tuple(
        (Group(kind="spill", store=way == "store", bytes=4, depth=depth, inner=inner), number)
        for way, depth, number in groups
    )
    sass = SassStats(
        instructions=100,
        code_bytes=1600,
        opcodes=((calls, 1),),
        local=LocalTraffic(kept=kept, flow=flow),  # type: ignore[arg-type]
    )
    return structs.replace(kernel(registers=40), sass=sass)


def launch(loads: float | None = None, stores: float | None = None, **more: object) -> ProfiledLaunch:
    counts = {"local_load_instructions": loads, "local_store_instructions": stores, "registers": 40} | more
    made = launched(block=(50, 2, 1), **counts)
    return ProfiledLaunch(**{name: getattr(made, name) for name in made.__slots__} | {"grid": (2, 3, 1)})


TWO = (("load", 0, 5), ("load", 1, 10), ("load", 2, 3))


@pytest.mark.parametrize(
    ("groups", "loads", "trips", "said", "within"),
    [
        ((("load", 0, 5),), 5 * WARPS, (), "a warp executed 5 local loads, each of its code once", True),
        ((("load", 0, 5),), 2 * WARPS, (),
         "a warp executed 2 local loads, its code has 5 outside of loops: some are skipped", True),
        ((("load", 0, 5),), 6 * WARPS, (), "a warp executed 6 local loads, its code has 5 outside of loops", False),
        (TWO[:2], 1285 * WARPS, (),
         "a warp executed 1,285 local loads: 5 outside of loops, 10 in loops, 128 times each on average", True),
        (TWO[:2], 1285 * WARPS, (128,),
         "a warp executed 1,285 local loads: 5 outside of loops, 10 in loops, 128 times each on average; at most 1,285"
         " with the trips given", True),
        (TWO[:2], 1286 * WARPS, (128,),
         "a warp executed 1,286 local loads: 5 outside of loops, 10 in loops, 128.1 times each on average; at most"
         " 1,285 with the trips given", False),
        (TWO, (5 + 40 + 3 * 4 * 8) * WARPS, (4, 8),
         "a warp executed 141 local loads: 5 outside of loops, 13 in loops, 10.462 times each on average; at most 141"
         " with the trips given", True),
        (TWO, 141 * WARPS, (4,),
         "a warp executed 141 local loads: 5 outside of loops, 13 in loops, 10.462 times each on average", True),
        (TWO[:2], 3 * WARPS, (),
         "a warp executed 3 local loads, its code has 5 outside of loops: some are skipped", True),
        ((("load", 1, 10),), 0, (0,),
         "a warp executed 0 local loads: 0 outside of loops, 10 in loops, 0 times each on average; at most 0 with the"
         " trips given", True),
    ],
)  # fmt: skip
def test_each_access_and_how_often_it_ran(
    groups: tuple[tuple[str, int, int], ...], loads: float, trips: tuple[int, ...], said: str, within: bool
) -> None:
    (found,) = executed(Match(launch=launch(loads), kernel=compiled(*groups)), trips)
    assert (found.text, found.within) == (said, within)


def test_loads_and_stores_are_held_apart() -> None:
    code = compiled(("load", 1, 10), ("store", 0, 2), ("store", 1, 4))
    loads, stores = executed(Match(launch=launch(640 * WARPS, 34 * WARPS), kernel=code))
    assert (loads.way, loads.outside, loads.inside, loads.trips) == ("load", 0, 10, 64)
    assert (stores.way, stores.outside, stores.inside, stores.trips) == ("store", 2, 4, 8)


LOADS = launch(640 * WARPS)


@pytest.mark.parametrize(
    ("match", "why"),
    [
        (Match(launch=LOADS), "no kernel"),
        (Match(launch=LOADS, kernel=kernel(registers=40)), "its code was not read"),
        (Match(launch=LOADS, kernel=compiled()), "its code has none"),
        (Match(launch=launch(), kernel=compiled(*TWO)), "nothing was measured"),
        (Match(launch=LOADS, kernel=compiled(("load", None, 4))), "its control is not known"),
        (Match(launch=LOADS, kernel=compiled(*TWO, flow="guessed")), "its control is guessed"),
        (Match(launch=LOADS, kernel=compiled(*TWO, calls="CALL")), "it calls"),
        (Match(launch=LOADS, kernel=compiled(*TWO, inner=True)), "callees access it"),
        (Match(launch=launch(640 * WARPS, registers=64), kernel=compiled(*TWO)), "another build"),
        (
            Match(launch=launched(block=None, local_load_instructions=9), kernel=compiled(*TWO)),
            "its block is not known",
        ),
    ],
)
def test_where_nothing_is_said(match: Match, why: str) -> None:
    assert executed(match) == (), why


def test_a_rounded_count_is_none() -> None:
    figures = Measured({"local_load_instructions": 1e9, "registers": 40}, frozenset({"local_load_instructions"}))
    made = ProfiledLaunch(**{name: getattr(LOADS, name) for name in LOADS.__slots__} | {"measured": figures})
    assert executed(Match(launch=made, kernel=compiled(*TWO))) == ()


def test_more_than_the_code_can_is_a_contradiction() -> None:
    judged = judge(Profile(launches=(launch(6 * WARPS),)), Build(kernels=(compiled(("load", 0, 5)),)))
    assert [issue.message for issue in issues(judged, against_build=True)] == [
        "f: a warp executed 6 local loads, its code at most 5: another build?"
    ]


def test_trips_are_given_by_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    csv = str(NCU / "gemm-64.csv.zst")
    assert main(["profile", csv, "--trips", "gemm*=64", "--trips", "gemm=128,2", "-f", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["launches"][0]["local"] == [], "no code, nothing to hold them against"
    for text, said in (("gemm*", "says no trips"), ("gemm=x", "says no trips"), ("other=4", "no launch matches")):
        assert main(["profile", csv, "--trips", text]) == 2
        assert said in capsys.readouterr().err


# ---- with spills and without ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("figures", "found"),
    [
        # (registers, spills executed, time) of alike launches; the place of that without spills
        ([(32, 9, 10.0), (64, 0, 4.0)], {0: 1}),
        ([(32, 9, 10.0), (128, 0, 3.0), (64, 0, 4.0), (48, 2, 5.0)], {0: 2, 3: 2}),
        ([(32, 9, 10.0), (48, 2, 5.0)], {}),
        ([(32, 0, 10.0), (48, 0, 5.0)], {}),
        ([(32, 9, 10.0), (64, None, 4.0)], {}),
        ([(32, 9, 10.0), (64, 0, None)], {}),
        ([(32, 9, None), (64, 0, 4.0)], {}),
    ],
)
def test_the_same_launch_without_spills(
    figures: list[tuple[int, float | None, float | None]], found: dict[int, int]
) -> None:
    launches = [
        launched(registers=registers, spill_instructions=spills, duration_ns=time)
        for registers, spills, time in figures
    ]
    place = {id(each): at for at, each in enumerate(launches)}
    assert {place[own]: place[id(other)] for own, other in without_spills(launches).items()} == found


def test_other_launches_are_not_the_same() -> None:
    own = launched(spill_instructions=9, duration_ns=9.0)
    for other in (
        launched("g(int)", spill_instructions=0, duration_ns=4.0),
        launched(block=(64, 1, 1), spill_instructions=0, duration_ns=4.0),
        launched(capability=(8, 0), spill_instructions=0, duration_ns=4.0),
        launched(dynamic_shared_bytes=64, spill_instructions=0, duration_ns=4.0),
    ):
        assert without_spills([own, other]) == {}
    silent = launched(local_load_instructions=0, local_store_instructions=0, duration_ns=4.0)
    assert list(without_spills([own, silent]).values()) == [silent]


def test_what_ended_with_the_spills_of_a_real_kernel() -> None:
    """A matrix product on an H200 at five caps: the one without spills took 472 us."""
    launches = read_all(expand([str(NCU / "gemm-*.csv.zst")]))
    judged = judge(launches, None)
    took = {
        each.measured.figure("registers"): each.clean and each.clean.measured.figure("duration_ns") for each in judged
    }
    clean = [each for each in judged if each.measured.figure("spill_instructions") == 0]
    (time,) = (each.measured.figure("duration_ns") for each in clean)
    assert took == {32: time, 64: time, 96: time, 128: time, clean[0].measured.figure("registers"): None}
