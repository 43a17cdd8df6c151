"""Launches matched with a build, their occupancy, and what contradicts."""

from __future__ import annotations

import pytest
from msgspec import structs

from spillscan import scan
from spillscan.advice.profile.exports import read_all
from spillscan.advice.profile.judged import JudgedLaunch, issues, judge, worst_first
from spillscan.advice.profile.matching import Kernels, parsed
from spillscan.advice.profile.model import Measured, Profile, ProfiledLaunch
from spillscan.model import Build, Kernel, KernelKey, Origin, Usage
from spillscan.reading.inputs.source import expand
from tests.conftest import FIXTURES, manifest

NCU = FIXTURES / "ncu"
FILES = [
    path.removeprefix("ncu/")
    for path in (entry["file"] for entry in manifest() if entry["format"] == "ncu")
    if "ncu/" in path
]
AMBIGUOUS = {"report-raw-function.csv.zst": 6}
"""Launches of ``scale`` and ``each``, of which each has two instantiations with 16 registers to the profiler."""


def build_of(file: str) -> Build:
    program = file.partition(".")[0]
    log = program if program.startswith(("gemm", "stencil")) else "demo" if program.startswith("demo") else "launches"
    return scan(str(NCU / f"{log}-13.0.log"))


def judged_of(file: str, build: Build | None = None) -> tuple[JudgedLaunch, ...]:
    return judge(read_all(expand([str(NCU / file)])), build or build_of(file))


def launched(kernel: str = "f(int)", **figures: object) -> ProfiledLaunch:
    known = {"capability": (9, 0), "block": (128, 1, 1)} | {
        name: figures.pop(name) for name in ("capability", "block") if name in figures
    }
    return ProfiledLaunch(
        number="0", kernel=kernel, process="1", context="1", stream="7", device="0", grid=(1, 1, 1),
        measured=Measured(figures), origin=Origin(input="p.csv", line=7), **known,  # type: ignore[arg-type]
    )  # fmt: skip


def kernel(symbol: str = "_Z1fi", arch: str | None = "sm_90", unit: str = "", **usage: int) -> Kernel:
    return Kernel(key=KernelKey(symbol=symbol, arch=arch, unit=unit), role="entry", usage=Usage(**usage))


# ---- the real files -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", FILES)
def test_every_launch_is_matched_and_nothing_contradicts(file: str) -> None:
    judged = judged_of(file)
    unmatched = [each for each in judged if each.match.kernel is None]
    assert len(unmatched) == AMBIGUOUS.get(file, 0)
    assert all("kernels of that name differ" in each.match.reason for each in unmatched)
    assert {issue.code for issue in issues(judged, against_build=True)} <= {"profile-unmatched"}


@pytest.mark.parametrize("file", FILES)
def test_our_occupancy_is_nsights(file: str) -> None:
    for each in judged_of(file):
        theirs = each.measured.figure("theoretical_percent")
        if each.occupancy is not None and theirs is not None:
            assert 100 * each.occupancy.fraction == pytest.approx(theirs, abs=0.01)
        elif theirs is not None:
            assert "rounded" in each.unknown


def test_every_form_of_a_name_finds_the_same_kernel() -> None:
    forms = ["live-raw", "log-file", "report-raw", "report-raw-mangled", "report-details-names"]
    found = {
        tuple(each.match.kernel.key.symbol for each in judged_of(f"{form}.csv.zst") if each.match.kernel)
        for form in forms
    }
    assert len(found) == 1
    assert len(found.pop()) == 11


def test_another_build_is_noticed() -> None:
    said = [issue.message for issue in issues(judged_of("gemm-32.csv.zst", build_of("gemm-64.csv.zst")), True)]
    assert said == ["gemm: launched with 32 registers, compiled with 64: another build?"]


def test_the_worst_come_first() -> None:
    names = [each.name for each in worst_first(judged_of("demo-sections.csv.zst"))]
    assert names[:4] == ["gemm88_min8_spill", "gemm88_min6_spill", "gemm88_min3", "matmul_tiled"]


# ---- names --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("theirs", "symbol"),
    [
        ("void outer::scale<float, (int)4>(T1 *, const T1 *, int)", "_ZN5outer5scaleIfLi4EEEvPT_PKS1_i"),
        ("void k<(bool)1, (unsigned long)7>(int)", "_Z1kILb1ELm7EEvi"),
        ("void k<float const*>(T1)", "_Z1kIPKfEvT_"),
        ("f(unsigned int, const volatile float *)", "_Z1fjPVKf"),
        ("f(void)", "_Z1fv"),
        ("void each<main::[lambda(float) (instance 2)]>(float *, int, T1)", "_Z4eachIZ4mainEUlfE0_EvPfiT_"),
        ("outer::<unnamed>::hidden(float *, int)", "_ZN5outer12_GLOBAL__N_16hiddenEPfi"),
        ("f", "f"),
    ],
)
def test_two_demanglers_one_name(theirs: str, symbol: str) -> None:
    assert [found.key.symbol for found in Kernels([kernel(symbol)]).named(theirs)] == [symbol]


@pytest.mark.parametrize(
    ("theirs", "symbol"),
    [
        ("void outer::scale<float, 8>(T1 *, const T1 *, int)", "_ZN5outer5scaleIfLi4EEEvPT_PKS1_i"),
        ("f(float)", "_Z1fi"),
        ("other::f(int)", "_Z1fi"),
        ("void each<main::[lambda(float) (instance 1)]>(float *, int, T1)", "_Z4eachIZ4mainEUlfE0_EvPfiT_"),
        ("scale<float, 4>", "_ZN5outer5scaleIfLi4EEEvPT_PKS1_i"),
    ],
)
def test_other_kernels_are_not_taken(theirs: str, symbol: str) -> None:
    assert not Kernels([kernel(symbol)]).named(theirs)


def test_parts_of_names() -> None:
    assert parsed("void a::b<int, 3>(int, float (*)(int))").qualified == "a::b<int,3>"
    assert parsed("f(int (*)(float))").parameters == "(int(*)(float))"
    assert parsed("outer::(anonymous namespace)::f").parameters is None


# ---- matching -----------------------------------------------------------------------------------------------------


def test_the_device_loads_the_nearest_arch_that_it_runs() -> None:
    archs = ["sm_80", "sm_86", "sm_90", "sm_90a", "sm_100"]
    found = Kernels([kernel(arch=arch) for arch in archs])
    taken = {
        capability: found.match(launched(capability=capability)).kernel
        for capability in ((8, 0), (8, 9), (9, 0), (10, 3), (7, 5))
    }
    assert {at: None if it is None else it.key.arch for at, it in taken.items()} == {
        (8, 0): "sm_80", (8, 9): "sm_86", (9, 0): "sm_90a", (10, 3): "sm_100", (7, 5): None,
    }  # fmt: skip
    assert "not for sm_75" in found.match(launched(capability=(7, 5))).reason


def test_registers_tell_two_apart_or_leave_it_open() -> None:
    twins = [kernel(unit="a.o", registers=40), kernel(unit="b.o", registers=64)]
    found = Kernels(twins)
    assert found.match(launched(registers=64)).kernel == twins[1]
    assert "2 kernels of that name differ: objects, registers" in found.match(launched()).reason
    assert "none has the launch's registers" in found.match(launched(registers=32)).reason
    small = Kernels([kernel(unit="a.o", registers=10), kernel(unit="b.o", registers=12)])
    assert small.match(launched(registers=16)).kernel is None, "both show 16"


def test_copies_that_are_alike_are_one() -> None:
    match = Kernels([kernel(unit="a.o", registers=40), kernel(unit="b.o", registers=40)]).match(launched())
    assert match.kernel is not None
    assert match.copies == 2


def said(launch: ProfiledLaunch, *kernels: Kernel) -> list[str]:
    judged = judge(Profile(launches=(launch,)), Build(kernels=kernels))
    return [issue.message for issue in issues(judged, against_build=True)]


def test_conventions_are_no_contradictions() -> None:
    compiled = kernel(registers=10, shared_bytes=4096, barriers=1)
    known = {
        "registers": 16, "static_shared_bytes": 4096, "driver_shared_bytes": 1024, "dynamic_shared_bytes": 0,
        "barriers": 1, "theoretical_percent": 100.0, "limit_shared_memory": 6, "shared_config_bytes": 32768,
    }  # fmt: skip
    assert said(launched(**known), compiled) == []
    assert said(launched(**known | {"registers": 18}), compiled) == [
        "f: launched with 18 registers, compiled with 10: another build?"
    ]
    assert said(launched(**known | {"static_shared_bytes": 5120}), compiled) == [
        "f: launched with 5,120 B static shared memory, compiled with 4,096 B: another build?"
    ]
    assert said(launched(**known | {"theoretical_percent": 50.0}), compiled) == [
        "f: theoretical occupancy is 50 % to Nsight Compute, 100 % to this tool"
    ]


def test_registers_that_are_not_final_are_no_contradiction() -> None:
    assert said(launched(registers=40), structs.replace(kernel(registers=24), final=False)) == []


def test_an_unknown_device_or_an_impossible_launch_is_unknown() -> None:
    for odd in (
        launched(capability=(99, 9), dynamic_shared_bytes=0),
        launched(block=(4096, 1, 1), dynamic_shared_bytes=0),
    ):
        judged = judge(Profile(launches=(odd,)), None)[0]
        assert judged.occupancy is None or not judged.occupancy.can_launch
        assert judged.unknown or not judged.occupancy


def test_no_traffic_has_no_share() -> None:
    nothing = Measured({f"{space}_{way}_bytes": 0.0 for space in ("local", "global") for way in ("load", "store")})
    assert nothing.local_share is None
