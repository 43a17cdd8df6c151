"""Kernels of profiled launches, and contradictions between profile and build."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from spillscan import scan
from spillscan.advice.profile.launches import ProfiledLaunch, read_profiles
from spillscan.advice.profile.matching import Kernels, Matched, contradictions, matched
from spillscan.advice.profile.table import worst_first
from spillscan.model import Build, Kernel, KernelKey, Origin, Usage
from spillscan.occupancy.launches import settled
from spillscan.occupancy.summary import summarise
from spillscan.reading.inputs.paths import expand
from tests.advice.profile import naive
from tests.conftest import FIXTURES, manifest

NCU = FIXTURES / "ncu"
FILES = [
    file.removeprefix("ncu/") for each in manifest() if each["format"] == "ncu" and "ncu/" in (file := each["file"])
]
AMBIGUOUS = {"report-raw-function.csv.zst": 6}
"""Launches of ``scale`` and ``each``: both have two instantiations for which the profile shows 16 registers."""


def matched_of(file: str, log: str = "") -> tuple[Matched, ...]:
    program = file.partition(".")[0]
    own = program if program.startswith(("gemm", "stencil")) else "demo" if program.startswith("demo") else "launches"
    launches, _ = read_profiles(expand([str(NCU / file)]))
    return matched(launches, scan(str(NCU / f"{log or own}-13.0.log")))


@pytest.mark.parametrize("file", FILES)
def test_each_launch_of_a_fixture_has_a_kernel_with_the_occupancy_that_nsight_shows(file: str) -> None:
    found = matched_of(file)
    assert sum(each.kernel is None for each in found) == AMBIGUOUS.get(file, 0)
    assert {issue.code for issue in contradictions(found)} <= {"profile-unmatched"}
    truth = naive.by_number(NCU / file)
    for each in found:
        theirs = truth[each.launch.number, each.launch.kernel].get("theoretical_percent")
        if each.kernel and each.launch.launch and theirs is not None:
            ours = summarise(each.kernel.usage, each.launch.arch, settled(each.kernel, each.launch.launch)).occupancy
            assert ours is not None
            assert 100 * ours.fraction == pytest.approx(theirs, abs=0.01)


def test_each_spelling_of_a_name_finds_the_same_kernel() -> None:
    spellings = ["live-raw", "log-file", "report-raw", "report-raw-mangled", "report-details-names"]
    found = {
        tuple(each.kernel and each.kernel.key.symbol for each in matched_of(f"{one}.csv.zst")) for one in spellings
    }
    assert len(found) == 1
    assert None not in (symbols := found.pop())
    assert len(symbols) == 11


def test_launches_with_the_largest_share_of_spills_come_first() -> None:
    names = [each.name for each in worst_first(matched_of("demo-sections.csv.zst"))]
    assert names[:4] == ["gemm88_min8_spill", "gemm88_min6_spill", "gemm88_min3", "matmul_tiled"]


def launched(kernel: str = "f(int)", arch: str = "sm_90", **metrics: float) -> ProfiledLaunch:
    return ProfiledLaunch(kernel=kernel, arch=arch, metrics=metrics, origin=Origin(input="p.csv", line=7))


def kernel(symbol: str = "_Z1fi", arch: str | None = "sm_90", unit: str = "", **usage: int) -> Kernel:
    return Kernel(key=KernelKey(symbol=symbol, arch=arch, unit=unit), role="entry", usage=Usage(**usage))


@pytest.mark.parametrize(
    ("printed", "symbol", "same"),
    [
        ("void outer::scale<float, (int)4>(T1 *, const T1 *, int)", "_ZN5outer5scaleIfLi4EEEvPT_PKS1_i", True),
        ("void outer::scale<float, 8>(T1 *, const T1 *, int)", "_ZN5outer5scaleIfLi4EEEvPT_PKS1_i", False),
        ("scale<float, 4>", "_ZN5outer5scaleIfLi4EEEvPT_PKS1_i", False),
        ("scale", "_ZN5outer5scaleIfLi4EEEvPT_PKS1_i", True),
        ("void k<(bool)1, (unsigned long)7>(int)", "_Z1kILb1ELm7EEvi", True),
        ("void k<float const*>(T1)", "_Z1kIPKfEvT_", True),
        ("f(unsigned int, const volatile float *)", "_Z1fjPVKf", True),
        ("f(void)", "_Z1fv", True),
        ("f(float)", "_Z1fi", False),
        ("other::f(int)", "_Z1fi", False),
        ("void each<main::[lambda(float) (instance 2)]>(float *, int, T1)", "_Z4eachIZ4mainEUlfE0_EvPfiT_", True),
        ("void each<main::[lambda(float) (instance 1)]>(float *, int, T1)", "_Z4eachIZ4mainEUlfE0_EvPfiT_", False),
        ("outer::<unnamed>::hidden(float *, int)", "_ZN5outer12_GLOBAL__N_16hiddenEPfi", True),
        ("f", "f", True),
    ],
)
def test_a_name_of_nsight_compute_fits_a_symbol(printed: str, symbol: str, same: bool) -> None:
    assert [found.key.symbol for found in Kernels([kernel(symbol)]).named(printed)] == [symbol] * same


@pytest.mark.parametrize(
    ("device", "taken"),
    [
        ("sm_80", "sm_80"),
        ("sm_89", "sm_86"),
        ("sm_90", "sm_90a"),
        ("sm_103", "sm_100"),
        ("sm_75", None),
        ("sm_999", None),
    ],
)
def test_a_device_loads_the_nearest_arch_that_it_runs(device: str, taken: str | None) -> None:
    found = Kernels([kernel(arch=arch) for arch in ("sm_80", "sm_86", "sm_90", "sm_90a", "sm_100")])
    match = found.match(launched(arch=device))
    assert (match.kernel.key.arch if match.kernel else None) == taken
    assert bool(match.kernel) != (f"not for {device}" in match.unmatched)


@pytest.mark.parametrize(
    ("compiled", "seen", "registers", "why"),
    [
        ((40, 64), 64, 64, ""),
        ((40, 64), None, None, "2 different kernels have this name"),
        ((40, 64), 32, None, "none has the launch's register count"),
        ((10, 12), 16, None, "2 different kernels have this name"),
        ((40, 40), None, 40, ""),
    ],
)
def test_registers_tell_kernels_of_one_name_apart(
    compiled: tuple[int, int], seen: int | None, registers: int | None, why: str
) -> None:
    kernels = Kernels([kernel(unit=f"{at}.o", registers=count) for at, count in enumerate(compiled)])
    match = kernels.match(launched(**({} if seen is None else {"registers": seen})))
    assert (match.kernel.usage.registers if match.kernel else None) == registers
    assert why in match.unmatched


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, []),
        ({"registers": 18}, ["f: 18 registers in the profile, 10 in the build; pass the profiled build"]),
    ],
)
def test_values_that_differ_contradict_the_build(changed: dict[str, float], said: list[str]) -> None:
    seen = {"registers": 16} | changed
    compiled = kernel(registers=10)
    assert [issue.message for issue in contradictions(matched([launched(**seen)], Build(kernels=(compiled,))))] == said
    linked_later = replace(compiled, final=False)
    found = contradictions(matched([launched(registers=40)], Build(kernels=(linked_later,))))
    assert found == [], "registers before the link are not final"


def test_another_build_is_noticed_once_per_kernel() -> None:
    said = [issue.message for issue in contradictions(matched_of("gemm-32.csv.zst", "gemm-64"))]
    assert said == ["gemm: 32 registers in the profile, 64 in the build; pass the profiled build"]
